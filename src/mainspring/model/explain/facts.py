"""The facts about a job that an explanation is made from. Pure.

`store/views/explain.py` reads them; `reasons/` turns them into sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job
from mainspring.model.limits.controls import Target
from mainspring.model.limits.limits import Gate, Limit, Rate
from mainspring.model.workers import WorkerStatus, able_workers


@dataclass(frozen=True, slots=True)
class Count:
    """A number that was counted up to a bound; `over` when there were more."""

    number: int
    over: bool = False

    def __str__(self) -> str:
        return f"over {self.number:,}" if self.over else f"{self.number:,}"

    def __bool__(self) -> bool:
        return self.number > 0

    def of(self, noun: str) -> str:
        """The number with its noun and its verb: 1 job is, 2 jobs are."""
        return f"{self} {noun} is" if self.number == 1 and not self.over else f"{self} {noun}s are"

    def to_document(self) -> Fields:
        return {"count": self.number, "over": self.over}


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that runs now, as far as limits and slots are concerned. `ahead`: claimed, and not known to be started."""

    id: str
    name: str
    queue: str
    data: Mapping[str, Any]
    worker: str
    since: datetime | None
    ahead: bool = False
    hidden: bool = False
    """Whether it is out of the caller's scope: it is counted and not named."""


@dataclass(frozen=True, slots=True)
class GateState:
    """The stored state of a gate: the slots that each worker has taken, or the tokens left at an instant."""

    grants: Mapping[str, int] = field(default_factory=dict)
    limit: int | None = None
    tokens: float | None = None
    at: datetime | None = None
    line: bool = False
    served: int = 0

    @property
    def taken(self) -> int:
        return sum(self.grants.values())


@dataclass(frozen=True, slots=True)
class Control:
    """A pause, an override or a breaker, as it is stored."""

    id: str
    kind: str
    scope: str
    target: str
    document: Mapping[str, Any]

    @property
    def aim(self) -> Target:
        """Its target."""
        document = self.document
        return Target(self.scope, self.target, document.get("key"), document.get("value"), document.get("queue"))

    @property
    def reason(self) -> str:
        return str(self.document.get("reason") or "")

    @property
    def actor(self) -> str | None:
        actor = self.document.get("actor")
        return None if actor is None else str(actor)

    def instant(self, key: str) -> datetime | None:
        value = self.document.get(key)
        return value if isinstance(value, datetime) else None

    def number(self, key: str) -> int:
        value = self.document.get(key)
        return int(value) if isinstance(value, int | float) else 0


@dataclass(frozen=True, slots=True)
class Drain:
    """The number of jobs of a queue that have ended in the last `seconds`."""

    jobs: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.jobs / self.seconds


@dataclass(frozen=True, slots=True)
class KnownLimit:
    """A limit that applies to the job, and its source.

    Where workers disagree, `gate` has the most generous rule of the workers that could run the job, `others` the other
    rules, and `without` counts the workers that do not have this limit at all.
    """

    scope: str
    target: str
    gate: Gate
    source: str
    override: Control | None = None
    others: tuple[Limit | Rate, ...] = ()
    without: int = 0

    @property
    def rule(self) -> Limit | Rate:
        assert isinstance(self.gate.rule, Limit | Rate)
        return self.gate.rule


@dataclass(frozen=True, slots=True)
class Before:
    """The first job of a sequence, which has to end before the others may run."""

    id: str
    state: str
    run_at: datetime | None = None
    worker: str | None = None
    error: str | None = None
    name: str = ""
    queue: str = ""
    hidden: bool = False
    """Whether it is out of the caller's scope: only its existence is shown."""


@dataclass(frozen=True, slots=True)
class InSequence:
    """The sequence that a job belongs to: its first job, and the number of its jobs before this one."""

    name: str
    source: str
    blocks: bool
    first: Before | None = None
    before: Count = Count(0)


@dataclass(frozen=True, slots=True)
class TakingTurns:
    """Fairness between the keys of a queue: the job's wait list, the number of keys, the count of the least served."""

    gate: str
    value: str
    source: str
    keys: Count = Count(0)
    least: int = 0


@dataclass(frozen=True, slots=True)
class WaitFacts:
    """One wait of a blocked job for others: the name of the wait or of the node before it."""

    name: str
    total: int
    left: Count
    bad: Count = Count(0)
    """How many of them failed, were cancelled or expired."""
    running: int = 0
    oldest: datetime | None = None
    """Since when the one that has run for the longest time runs."""


@dataclass(frozen=True, slots=True)
class WaitingFacts:
    """Everything that a blocked job waits for."""

    on: tuple[WaitFacts, ...] = ()
    signals: tuple[str, ...] = ()
    until: datetime | None = None
    since: datetime | None = None
    when: str | None = None
    sealed: bool = True
    others: int = 0
    """How many nodes it waits for beside those in `on`."""


@dataclass(frozen=True, slots=True)
class ExplainFacts:
    """All facts about one pending or blocked job at the instant `now` of the server's clock."""

    job: Job
    now: datetime
    ready: bool = True
    adopted: bool = True
    line: str | None = None
    start_by: datetime | None = None
    waits_for: tuple[str, ...] = ()
    """The runs of its schedule that are before it."""
    waits: WaitingFacts | None = None
    """The jobs, signals and times that it waits for, of a blocked job."""
    controls: tuple[Control, ...] = ()
    """The pauses, overrides and breakers that concern it."""
    workers: tuple[WorkerStatus, ...] = ()
    sequence: InSequence | None = None
    turns: TakingTurns | None = None
    limits: tuple[KnownLimit, ...] = ()
    gates: Mapping[str, GateState] = field(default_factory=dict)
    places: Mapping[str, Count] = field(default_factory=dict)
    """The number of jobs before this one on the wait list of each gate that has one."""
    running: tuple[RunningJob, ...] = ()
    running_over: bool = False
    """Whether more jobs run than were read."""
    before: Count = Count(0)
    drain: Drain | None = None

    @property
    def able(self) -> list[WorkerStatus]:
        """The live workers that could run the job."""
        return able_workers(self.workers, self.job)

    def control(self, kind: str, scope: str, target: str) -> Control | None:
        """The control of this kind for a whole name or queue."""
        return find_control(self.controls, kind, scope, target)

    def place(self, gate: str) -> Count:
        return self.places.get(gate, Count(0))

    def gate(self, name: str) -> GateState:
        return self.gates.get(name, GateState())


def find_control(controls: Iterable[Control], kind: str, scope: str, target: str) -> Control | None:
    """The control of this kind for a whole name or queue."""
    for control in controls:
        whole = not control.document.keys() & {"key", "queue"}
        if whole and (control.kind, control.scope, control.target) == (kind, scope, target):
            return control
    return None
