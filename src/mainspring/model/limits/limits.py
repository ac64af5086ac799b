"""Limits: how many jobs may run at once, and how many may start in a span of time. Pure.

A limit belongs to a job name or to a queue. With a key, a path into the job's data such as "tenant", each value of it
is limited on its own; with `each_queue`, so is each queue that the jobs of a name are in. Every limit that applies to
a job is one *gate* between the job and its run; a gate has a name that is the same in every process, under which its
slots and tokens are stored (`store/limits/semaphore.py`, `store/limits/token_bucket.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from mainspring.config.checks import check_whole
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.model.limits.breaker import Breaker
from mainspring.model.limits.data_paths import check_key, name_part, value_at, value_text
from mainspring.spelling import spelled_class

CONCURRENCY, RATE, SEQUENCE, FAIR = "c", "r", "s", "f"
NAME, QUEUE = "name", "queue"
OnFailure = Literal["block", "pass"]
_LARGEST = 1_000_000
_EACH_QUEUE = ":"
"""Stands for the queue among the keys of a gate; a key has no colon there."""
_UNITS = {
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
}
_RATE = re.compile(r"\s*([0-9]{1,9})\s*(?:/|per)\s*([0-9]{0,7})\s*([a-z]+)\s*", re.ASCII)


@spelled_class
@dataclass(frozen=True, slots=True)
class Limit:
    """At most `limit` jobs at once (a semaphore). With `key`, the limit applies to each value at this path in the data;
    with `each_queue`, to each queue separately."""

    limit: int
    key: str | None = None
    each_queue: bool = False

    def __post_init__(self) -> None:
        check_whole(self.limit, "A limit", 1, _LARGEST)
        check_key(self.key)

    def to_document(self) -> dict[str, Any]:
        return {"limit": self.limit, **({} if self.key is None else {"key": self.key}), **_by_queue(self)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Limit:
        return cls(document["limit"], document.get("key"), document.get("each_queue") is True)


@spelled_class
@dataclass(frozen=True, slots=True, init=False)
class Rate:
    """At most `count` starts in `per` seconds (a token bucket): `Rate("100/minute")`. With `key`, the rate applies to
    each value of the key; with `each_queue`, to each queue separately.

    Unused starts are saved up to `burst`. The default is one full span or, with `smooth`, a twentieth of it, which
    spreads the starts evenly. A job costs `weight`: a number, or the path of a number in its data.
    """

    count: int
    per: float
    key: str | None
    burst: int
    weight: int | str
    each_queue: bool

    def __init__(
        self,
        rate: str,
        *,
        key: str | None = None,
        each_queue: bool = False,
        burst: int | None = None,
        smooth: bool = False,
        weight: int | str = 1,
    ) -> None:
        count, per = _parse_rate(rate)
        if burst is not None and smooth:
            raise ConfigurationError("Give a rate burst or smooth, not both: smooth is a burst of a twentieth.")
        chosen = burst if burst is not None else max(1, count // 20) if smooth else count
        check_whole(chosen, "A rate's burst", 1, _LARGEST)
        check_key(key)
        if not isinstance(weight, str):
            check_whole(weight, "A rate's weight", 1, _LARGEST)
            if weight > chosen:
                raise ConfigurationError(f"A job that costs {weight} never fits into a burst of {chosen}; raise burst.")
        else:
            check_key(weight)
        values = {"count": count, "per": per, "key": key, "burst": chosen, "weight": weight, "each_queue": each_queue}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def per_second(self) -> float:
        """The tokens that are earned each second."""
        return self.count / self.per

    def cost(self, data: Mapping[str, Any]) -> int:
        """The cost of a job with this data; at least 1, and never more than fits into the burst."""
        if isinstance(self.weight, int):
            return self.weight
        value = value_at(data, self.weight)
        cost = int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value == value else 1
        return min(max(1, cost), self.burst)

    def to_document(self) -> dict[str, Any]:
        rule = {"rate": f"{self.count}/{self.per:.0f}s", "key": self.key, "burst": self.burst, "weight": self.weight}
        return rule | _by_queue(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Rate:
        return cls(
            document["rate"],
            key=document.get("key"),
            burst=document.get("burst"),
            weight=document.get("weight", 1),
            each_queue=document.get("each_queue") is True,
        )


def check_concurrency(value: object) -> Limit | None:
    """A limit as users write it: a number, or a `Limit`."""
    if value is None or isinstance(value, Limit):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Limit(value)
    raise ConfigurationError(f'concurrency must be a number or a Limit, such as Limit(5, key="tenant"), not {value!r}.')


def check_rate(value: object) -> Rate | None:
    """A rate as users write it: text such as "100/minute", or a `Rate`."""
    if value is None or isinstance(value, Rate):
        return value
    if isinstance(value, str):
        return Rate(value)
    raise ConfigurationError(f'rate must be text such as "100/minute", or a Rate, not {value!r}.')


def _parse_rate(text: object) -> tuple[int, float]:
    match = _RATE.fullmatch(text.lower()) if isinstance(text, str) else None
    unit = None if match is None else _UNITS.get(match[3].removesuffix("s") or "s", _UNITS.get(match[3]))
    if match is None or unit is None:
        raise ConfigurationError(f'A rate is text such as "100/minute", "5/s" or "1000/10 minutes", not {text!r}.')
    count, per = int(match[1]), (int(match[2]) if match[2] else 1) * unit
    check_whole(count, "A rate", 1, _LARGEST)
    if not 0 < per <= timedelta(days=31).total_seconds():
        raise ConfigurationError(f"A rate counts over at most 31 days, not {text!r}.")
    return count, per


def _by_queue(rule: Limit | Rate) -> dict[str, Any]:
    return {"each_queue": True} if rule.each_queue else {}


def gate_name(kind: str, scope: str, target: str, rule: Limit | Rate, queue: str, data: Mapping[str, Any]) -> str:
    """The name of the gate that a job of this queue and with this data has to pass, the same in every process."""
    values = [name_part(queue)] if rule.each_queue else []
    values += [] if rule.key is None else [value_text(value_at(data, rule.key))]
    return gate_form(kind, scope, target, rule) + ":".join(values)


def gate_form(kind: str, scope: str, target: str, rule: Limit | Rate) -> str:
    """The name of a gate; where there are several, by key or by queue, the prefix of their names, up to the =."""
    name = f"{kind}:{scope}:{name_part(target)}"
    parts = [_EACH_QUEUE] if rule.each_queue else []
    parts += [] if rule.key is None else [name_part(rule.key)]
    return f"{name}:{':'.join(parts)}=" if parts else name


@spelled_class
@dataclass(frozen=True, slots=True)
class Sequence:
    """Jobs whose data has the same value at `key` run strictly in the order in which they were scheduled, one at a
    time. A dead letter blocks the jobs behind it, or lets them pass."""

    key: str
    on_failure: OnFailure = "block"

    def __post_init__(self) -> None:
        if self.key is None:
            raise ConfigurationError('A sequence needs the path of its key in the data, such as "order_id".')
        check_key(self.key)
        if self.on_failure not in get_args(OnFailure):
            raise ConfigurationError(f'on_failure must be "block" or "pass", not {self.on_failure!r}.')

    def of(self, name: str, data: Mapping[str, Any]) -> str:
        """The sequence that a job with this data belongs to."""
        return sequence_name(name, value_text(value_at(data, self.key)))


@dataclass(frozen=True, slots=True)
class SequenceGate:
    """A gate that lets through only the first job of a sequence that has not ended."""

    sequence: str
    blocks: bool


@dataclass(frozen=True, slots=True)
class FairGate:
    """A gate for fairness: the wait lists of a group, one for each key, are served in round robin."""

    group: str


@dataclass(frozen=True, slots=True)
class Closed:
    """A gate that lets no job through for now: a pause, or an open circuit breaker."""

    note: str


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate between a job and its run, and the slots or tokens that the job needs."""

    name: str
    rule: Limit | Rate | Closed | SequenceGate | FairGate
    cost: int = 1


@dataclass(frozen=True, slots=True)
class JobLimits:
    """The limits of one name or queue, and its breaker, which is no gate unless it has opened."""

    concurrency: Limit | None = None
    rate: Rate | None = None
    sequence: Sequence | None = None
    fair: str | None = None
    breaker: Breaker | None = None

    def __bool__(self) -> bool:
        return self != JobLimits()

    @property
    def paths(self) -> list[str]:
        """The paths in the data by which jobs are told apart or measured."""
        rate = self.rate
        weight = None if rate is None or isinstance(rate.weight, int) else rate.weight
        limit, sequence = self.concurrency, self.sequence
        breaker = None if self.breaker is None else self.breaker.key
        found = [limit and limit.key, rate and rate.key, weight, sequence and sequence.key, self.fair, breaker]
        return [path for path in found if isinstance(path, str)]

    def gates(self, scope: str, target: str, queue: str, data: Mapping[str, Any]) -> list[Gate]:
        """The gates that a job of this queue and with this data has to pass. Rates are last: a spent token does not
        come back."""
        found = []
        if self.concurrency is not None:
            rule = self.concurrency
            found.append(Gate(gate_name(CONCURRENCY, scope, target, rule, queue, data), rule))
        if self.rate is not None:
            name = gate_name(RATE, scope, target, self.rate, queue, data)
            found.append(Gate(name, self.rate, self.rate.cost(data)))
        return found

    def order_gates(self, name: str, queue: str, data: Mapping[str, Any], sequence: str | None) -> list[Gate]:
        """The gates for the order of jobs, not for their number; `sequence` is the one that the job is stored in."""
        found = []
        if self.fair is not None:
            found.append(fair_gate(queue, value_text(value_at(data, self.fair))))
        named = self.sequence
        sequence = sequence or (None if named is None else named.of(name, data))
        if sequence is not None:
            blocks = named is None or named.on_failure == "block"
            found.append(Gate(f"{SEQUENCE}:{sequence}", SequenceGate(sequence, blocks)))
        return found


def sequence_name(name: str, value: str) -> str:
    return f"{name_part(name)}:{value}"


def fair_gate(queue: str, value: str) -> Gate:
    """The wait list of one key among those of a queue in round robin."""
    return Gate(f"{FAIR}:{name_part(queue)}:{value}", FairGate(queue))


def check_sequence(value: object) -> Sequence | None:
    """A sequence as users write it: the path of its key, or a `Sequence`."""
    if value is None or isinstance(value, Sequence):
        return value
    if isinstance(value, str):
        return Sequence(value)
    raise ConfigurationError(f'sequence must be the path of a key, such as "order_id", or a Sequence, not {value!r}.')


def check_fair(value: object) -> str | None:
    """The path of the key whose values are served in round robin."""
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f'fair must be the path of a key in the data, such as "tenant", not {value!r}.')
    check_key(value)
    return value


def window(value: Seconds, name: str) -> float:
    """A span of time that must not be empty."""
    length = seconds(value, name)
    if length <= 0:
        raise ConfigurationError(f"{name} must be more than 0 seconds.")
    return length
