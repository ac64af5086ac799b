"""Controls that operators set at run time: pauses, and limits in place of the declared ones. Pure.

Each is stored as one document, a *control*, and is in force in every process within a second or two. A control that
holds all jobs of its target, a pause or an open breaker, is a gate like that of a limit; its name contains the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job, WaitingFor
from mainspring.model.limits.breaker import HALF_OPEN, BreakerStatus
from mainspring.model.limits.breaker import OPEN as BREAKER_OPEN
from mainspring.model.limits.data_paths import name_part, value_at, value_text
from mainspring.model.limits.limits import NAME, QUEUE, Closed, Gate, JobLimits, Limit, Rate

PAUSE, LIMIT, BREAKER = "pause", "limit", "breaker"
PAUSED, BROKEN = "p", "b"


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a control: a queue or a job name, or only its jobs that have a value at a key. Of a name, also only
    its jobs in one queue."""

    scope: str
    target: str
    key: str | None = None
    value: Any = None
    queue: str | None = None

    @property
    def path(self) -> str:
        """The target in the form that ids and names of gates contain."""
        whole = f"{self.scope}:{name_part(self.target)}"
        whole += "" if self.queue is None else f"::{name_part(self.queue)}"
        return whole if self.key is None else f"{whole}:{name_part(self.key)}={value_text(self.value)}"

    @property
    def words(self) -> str:
        """The target in words."""
        whole = f"{'queue' if self.scope == QUEUE else 'job'} {self.target!r}"
        whole += "" if self.queue is None else f" in the queue {self.queue!r}"
        return whole if self.key is None else f"{whole} with {self.key} {value_text(self.value)!r}"

    @property
    def where(self) -> Fields:
        """The fields that the documents of its jobs share."""
        fields: Fields = {self.scope: self.target} | ({} if self.queue is None else {"queue": self.queue})
        return fields if self.key is None else {**fields, f"data.{self.key}": self.value}

    def applies(self, queue: str, data: Mapping[str, Any]) -> bool:
        """Whether the target covers a job of its name or queue, which is in this queue and has this data."""
        if self.queue not in (None, queue):
            return False
        return self.key is None or value_text(value_at(data, self.key)) == value_text(self.value)


@dataclass(frozen=True, slots=True)
class Paused:
    """A pause of a queue, of a job name, or of only those jobs of either that have a `value` at a `key`."""

    scope: str
    target: str
    key: str | None
    value: Any
    at: datetime
    reason: str = ""
    actor: str | None = None
    note: str | None = None
    """A hint for the caller that made it, such as that no job or handler has this name yet."""


@dataclass(frozen=True, slots=True)
class LimitOverride:
    """A limit that was set at run time. It replaces the limit that the code declares."""

    scope: str
    target: str
    concurrency: Limit | None
    rate: Rate | None
    at: datetime
    reason: str = ""
    actor: str | None = None
    note: str | None = None
    """A hint for the caller that made it, such as that no job or handler has this name yet."""

    @property
    def allowance(self) -> JobLimits:
        return JobLimits(self.concurrency, self.rate)


@dataclass(frozen=True, slots=True)
class Holder:
    """A running job that holds a slot of a limit."""

    job_id: str
    name: str
    worker: str | None
    since: datetime | None


@dataclass(frozen=True, slots=True)
class GateUse:
    """The current use of one limit or, with a key, of one value of the key. `waiting` is counted up to `counted`."""

    gate: str
    taken: int
    waiting: int
    counted: int = 1000
    value: str | None = None
    """The value of the key, or the queue, that the gate is for; None for a limit without a key."""
    full: bool = False
    """Whether nothing was left at the last look: all slots are taken, or no start is saved."""
    opens_at: datetime | None = None
    """Of a rate: when the next start is, if none is saved."""
    holders: tuple[Holder, ...] = ()
    """Jobs that hold its slots, by the workers' last heartbeats: the five that have run for longest."""

    @property
    def saturated(self) -> bool:
        """Whether it holds jobs back."""
        return self.full or self.waiting > 0


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """The limits of a queue or a job name: those in force, those declared in this process's code, and the override."""

    scope: str
    target: str
    concurrency: Limit | None
    rate: Rate | None
    declared: JobLimits
    override: LimitOverride | None
    uses: tuple[GateUse, ...] = ()
    """The gates that are in use or have a wait list, those that hold jobs back first; about eighty at most."""


@dataclass(frozen=True, slots=True)
class Probe(Limit):
    """A half-open breaker as a limit: one probe at a time."""

    limit: int = 1
    of: Target | None = field(default=None, compare=False)
    """The target of the breaker."""


@dataclass(frozen=True, slots=True)
class ClosedGate:
    """A gate before all jobs of a target, set at run time. It is closed, or lets single probes through."""

    target: Target
    gate: Gate

    @property
    def shut(self) -> bool:
        return isinstance(self.gate.rule, Closed)


def pause_closure(pause: Paused) -> ClosedGate:
    """The gate of a pause."""
    target = Target(pause.scope, pause.target, pause.key, pause.value)
    by = f" by {pause.actor}" if pause.actor else ""
    why = f": {pause.reason}" if pause.reason else "."
    return ClosedGate(target, Gate(pause_gate(target), Closed(f"The {target.words} is paused{by}{why}")))


def breaker_closure(breaker: BreakerStatus) -> ClosedGate | None:
    """The gate of a breaker: closed while the breaker is open, one job at a time while it is half open."""
    target = breaker_target(breaker)
    name = breaker_gate(target)
    if breaker.state == BREAKER_OPEN:
        why = f": {breaker.reason}" if breaker.reason else "."
        return ClosedGate(target, Gate(name, Closed(f"The breaker of the {target.words} is open{why}")))
    return ClosedGate(target, Gate(name, Probe(of=target))) if breaker.state == HALF_OPEN else None


def held_by_pause(pauses: Sequence[Paused], job: Job, by: str) -> WaitingFor | None:
    """The reason why a pending job waits, where its queue or its name is paused; `by` is the kind of a pause."""
    for pause in pauses:
        closure = pause_closure(pause)
        target = closure.target
        mine = job.queue if target.scope == QUEUE else job.name
        if target.target == mine and target.applies(job.queue, job.data) and isinstance(closure.gate.rule, Closed):
            return WaitingFor(by, closure.gate.rule.note, pause.at)
    return None


def pause_gate(target: Target) -> str:
    return f"{PAUSED}:{target.path}"


def breaker_gate(target: Target) -> str:
    return f"{BROKEN}:{target.path}"


def breaker_target(breaker: BreakerStatus) -> Target:
    """The target of a breaker."""
    return Target(breaker.scope, breaker.target, breaker.key, breaker.value, breaker.queue)


def make_target(name: object, queue: object, key: object = None) -> Target:
    """The target that `name=…`, `queue=…` and `key={…: …}` describe."""
    if (name is None) == (queue is None):
        raise ConfigurationError("The target is unclear: give either name=… (of a job) or queue=…, not both.")
    if name is not None:
        scope, target = NAME, check_name(name, "a job's name")
    else:
        scope, target = QUEUE, check_name(queue, "a queue's name")
    if key is None:
        return Target(scope, target)
    if not isinstance(key, Mapping) or len(key) != 1:
        raise ConfigurationError(f'key is one value in the data, such as key={{"tenant": "acme"}}, not {key!r}.')
    ((path, value),) = key.items()
    Limit(1, key=path)  # refuses an invalid path
    if path is None or "$" in path or not isinstance(value, str | int | float | bool | None):
        raise ConfigurationError(f'key is a path and a plain value, such as key={{"tenant": "acme"}}, not {key!r}.')
    return Target(scope, target, path, value)
