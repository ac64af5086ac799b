"""Where a job stands: the facts that an explanation is made from. Pure.

`store/explaining.py` reads them; `model/reasons.py` and `model/room.py` turn them into sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mainspring.model.controls import Target
from mainspring.model.job import Job
from mainspring.model.limits import Allowance, Gate, Limit, Rate
from mainspring.model.versions import takes

Scope = tuple[str, str]
"""What a limit, a pause or a breaker belongs to: "name" or "queue", and which."""


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

    def to_document(self) -> dict[str, Any]:
        return {"count": self.number, "over": self.over}


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A live worker, as its last beat described it. None for queues or handlers means any, for limits: not told."""

    id: str
    version: str = ""
    queues: frozenset[str] | None = None
    handlers: frozenset[str] | None = None
    concurrency: int = 0
    limits: Mapping[Scope, Allowance] | None = None
    versions: Mapping[str, int] = field(default_factory=dict)

    def serves(self, queue: str) -> bool:
        return self.queues is None or queue in self.queues

    def handles(self, name: str) -> bool:
        return self.handlers is None or name in self.handlers

    keys: frozenset[str] = frozenset()
    """The ids of the keys that it has for encrypted jobs."""

    def opens(self, kids: Sequence[str]) -> bool:
        return self.keys.issuperset(kids)

    def takes(self, name: str, version: int) -> bool:
        return takes(self.versions, name, version, any_name=self.handlers is None)


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


@dataclass(frozen=True, slots=True)
class GateState:
    """What is stored of a gate: who has taken how many slots, or which starts were left at which instant."""

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
        """What it is for."""
        return Target(self.scope, self.target, self.document.get("key"), self.document.get("value"))

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
    """How many jobs of a queue have ended in the last `seconds`."""

    jobs: int
    seconds: float

    @property
    def a_second(self) -> float:
        return self.jobs / self.seconds


@dataclass(frozen=True, slots=True)
class KnownLimit:
    """A limit that counts for the job, and who says so.

    Where workers disagree, `gate` has the most generous rule of those that could run the job, `others` the other
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


@dataclass(frozen=True, slots=True)
class InSequence:
    """The sequence that a job belongs to: what is first in it, and how many of its jobs are before this one."""

    name: str
    source: str
    blocks: bool
    first: Before | None = None
    before: Count = Count(0)


@dataclass(frozen=True, slots=True)
class TakingTurns:
    """The keys of a queue that take turns: the job's own line, how many keys wait, and who has been served least."""

    gate: str
    value: str
    source: str
    keys: Count = Count(0)
    least: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """All that is known of where one pending or blocked job stands at the instant `now` of the server's clock."""

    job: Job
    now: datetime
    ready: bool = True
    adopted: bool = True
    line: str | None = None
    start_by: datetime | None = None
    waits_for: tuple[str, ...] = ()
    """The runs of its schedule that are before it."""
    controls: tuple[Control, ...] = ()
    """The pauses, overrides and breakers that concern it."""
    workers: tuple[LiveWorker, ...] = ()
    sequence: InSequence | None = None
    turns: TakingTurns | None = None
    limits: tuple[KnownLimit, ...] = ()
    gates: Mapping[str, GateState] = field(default_factory=dict)
    places: Mapping[str, Count] = field(default_factory=dict)
    """How many jobs are before this one in the line of each gate that has one."""
    running: tuple[RunningJob, ...] = ()
    running_over: bool = False
    """Whether more jobs run than were read."""
    before: Count = Count(0)
    drain: Drain | None = None

    @property
    def able(self) -> list[LiveWorker]:
        """The live workers that could run the job."""
        return able(self.workers, self.job)

    def control(self, kind: str, scope: str, target: str) -> Control | None:
        """The control of this kind for a whole name or queue."""
        return find_control(self.controls, kind, scope, target)

    def place(self, gate: str) -> Count:
        return self.places.get(gate, Count(0))

    def gate(self, name: str) -> GateState:
        return self.gates.get(name, GateState())


def able(workers: Iterable[LiveWorker], job: Job) -> list[LiveWorker]:
    """Those of these workers that serve the job's queue, have a handler for its name that takes its data, and the keys
    that it is encrypted with."""
    return [
        worker
        for worker in workers
        if worker.serves(job.queue) and worker.handles(job.name) and worker.takes(job.name, job.data_version)
        if worker.opens(job.key_ids)
    ]


def find_control(controls: Iterable[Control], kind: str, scope: str, target: str) -> Control | None:
    """The control of this kind for a whole name or queue."""
    for control in controls:
        if (control.kind, control.scope, control.target) == (kind, scope, target) and "key" not in control.document:
            return control
    return None
