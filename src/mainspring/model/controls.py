"""What people set at run time to steer the flow of jobs: pauses, and limits in place of the declared ones. Pure.

Each is stored as one document, a *control*, and is in force in every process within a second or two. What keeps jobs
back altogether, a pause or an open breaker, is a gate in their way like a limit's; its name is made of what it is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mainspring.config import check_name
from mainspring.errors import ConfigurationError
from mainspring.model.breaker import HALF_OPEN, BreakerStatus
from mainspring.model.breaker import OPEN as BREAKER_OPEN
from mainspring.model.limits import NAME, QUEUE, Allowance, Gate, Limit, Rate, Shut
from mainspring.model.paths import value_at, value_text

PAUSE, LIMIT, BREAKER = "pause", "limit", "breaker"
PAUSED, BROKEN = "p", "b"


@dataclass(frozen=True, slots=True)
class Target:
    """What a control is for: a queue or a job name, or those of its jobs that have a value at a key."""

    scope: str
    target: str
    key: str | None = None
    value: Any = None

    @property
    def path(self) -> str:
        """What is meant, in a form that ids and the names of gates are made of."""
        whole = f"{self.scope}:{self.target}"
        return whole if self.key is None else f"{whole}:{self.key}={value_text(self.value)}"

    @property
    def words(self) -> str:
        """What is meant, in words."""
        whole = f"{'queue' if self.scope == QUEUE else 'job'} {self.target!r}"
        return whole if self.key is None else f"{whole} with {self.key} {value_text(self.value)!r}"

    @property
    def where(self) -> dict[str, Any]:
        """What its jobs have in common, as fields of their documents."""
        fields: dict[str, Any] = {self.scope: self.target}
        return fields if self.key is None else {**fields, f"data.{self.key}": self.value}

    def applies(self, data: Mapping[str, Any]) -> bool:
        """Whether a job of this name or queue with this data is meant."""
        return self.key is None or value_text(value_at(data, self.key)) == value_text(self.value)


@dataclass(frozen=True, slots=True)
class Paused:
    """Something that is paused: a queue, a job name, or those jobs of either that have a `value` at a `key`."""

    scope: str
    target: str
    key: str | None
    value: Any
    at: datetime
    reason: str = ""
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class LimitOverride:
    """A limit that was set at run time. What it gives counts instead of what the code declares."""

    scope: str
    target: str
    concurrency: Limit | None
    rate: Rate | None
    at: datetime
    reason: str = ""
    actor: str | None = None

    @property
    def allowance(self) -> Allowance:
        return Allowance(self.concurrency, self.rate)


@dataclass(frozen=True, slots=True)
class GateUse:
    """How one limit is used now; with a key, for one value of it. `waiting` is counted up to 1,000."""

    gate: str
    taken: int
    waiting: int


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """The limits of a queue or a job name: what counts, what the code of this process declares, what overrides it."""

    scope: str
    target: str
    concurrency: Limit | None
    rate: Rate | None
    declared: Allowance
    override: LimitOverride | None
    uses: tuple[GateUse, ...] = ()
    """The gates that are in use or waited for; the first hundred of them."""


@dataclass(frozen=True, slots=True)
class Probe(Limit):
    """What a half-open breaker is as a limit: one job at a time, to see how it ends."""

    limit: int = 1
    of: Target | None = field(default=None, compare=False)
    """Whose breaker it is."""


@dataclass(frozen=True, slots=True)
class Closure:
    """A gate in the way of all jobs of a target, put there at run time. It is shut, or lets single probes through."""

    target: Target
    gate: Gate

    @property
    def shut(self) -> bool:
        return isinstance(self.gate.rule, Shut)


def pause_closure(pause: Paused) -> Closure:
    """The gate that a pause is."""
    target = Target(pause.scope, pause.target, pause.key, pause.value)
    by = f" by {pause.actor}" if pause.actor else ""
    why = f": {pause.reason}" if pause.reason else "."
    return Closure(target, Gate(pause_gate(target), Shut(f"The {target.words} is paused{by}{why}")))


def breaker_closure(breaker: BreakerStatus) -> Closure | None:
    """The gate that a breaker is: shut while it is open, for one at a time while it is half open."""
    target = breaker_target(breaker)
    name = breaker_gate(target)
    if breaker.state == BREAKER_OPEN:
        why = f": {breaker.reason}" if breaker.reason else "."
        return Closure(target, Gate(name, Shut(f"The breaker of the {target.words} is open{why}")))
    return Closure(target, Gate(name, Probe(of=target))) if breaker.state == HALF_OPEN else None


def pause_gate(target: Target) -> str:
    return f"{PAUSED}:{target.path}"


def breaker_gate(target: Target) -> str:
    return f"{BROKEN}:{target.path}"


def breaker_target(breaker: BreakerStatus) -> Target:
    """What a breaker is for."""
    return Target(breaker.scope, breaker.target, breaker.key, breaker.value)


def make_target(name: object, queue: object, key: object = None) -> Target:
    """What a user means by `name=…`, `queue=…` and `key={…: …}`."""
    if (name is None) == (queue is None):
        raise ConfigurationError("Say what is meant: either name=… (of a job) or queue=…, and not both.")
    if name is not None:
        scope, target = NAME, check_name(name, "a job's name")
    else:
        scope, target = QUEUE, check_name(queue, "a queue's name")
    if key is None:
        return Target(scope, target)
    if not isinstance(key, Mapping) or len(key) != 1:
        raise ConfigurationError(f'key is one value in the data, such as key={{"tenant": "acme"}}, not {key!r}.')
    ((path, value),) = key.items()
    Limit(1, key=path)  # refuses what is no path
    if path is None or "$" in path or not isinstance(value, str | int | float | bool | None):
        raise ConfigurationError(f'key is a path and a plain value, such as key={{"tenant": "acme"}}, not {key!r}.')
    return Target(scope, target, path, value)
