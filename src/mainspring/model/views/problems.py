"""The overview: problems in sentences, each with its target and its cures, and the facts that they follow from. Pure.

`store/views/problem_facts.py` reads the facts, each with a bound; `model/views/judging.py` makes problems of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from mainspring.model.limits.breaker import BreakerStatus
from mainspring.model.limits.controls import Paused
from mainspring.model.schedules.schedule import Pause
from mainspring.model.views.statistics import Counts
from mainspring.model.workers import WorkerStatus

Severity = Literal["critical", "warning", "notice"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "notice")
"""From the worst on: jobs do not get done; jobs fail, or are late; an operator or a rule holds jobs back on purpose."""
ProblemKind = Literal["unserved", "failing", "stuck", "broken", "late", "schedule", "limited", "paused", "versions"]
KINDS: tuple[ProblemKind, ...] = (
    "unserved",
    "stuck",
    "failing",
    "broken",
    "late",
    "schedule",
    "limited",
    "paused",
    "versions",
)
"""The order of problems of the same severity."""
TargetKind = Literal["queue", "name", "schedule", "limit", "breaker", "error", "job", "workers"]
CureVerb = Literal["resume", "close_breaker", "retry_dead_letters", "start_worker", "set_limit"]
RECENT = timedelta(minutes=15)
"""The time in which failures count as recent."""


@dataclass(frozen=True, slots=True)
class ProblemTarget:
    """The object of a problem or a cure. `id` is its name or id; for an error, the fingerprint.

    For a limit or a breaker, `scope` is "queue" or "name". For a pause or a breaker, `key` and `value` restrict it to
    jobs that have this value in their data, and `queue` restricts it to jobs in this queue.
    """

    kind: TargetKind
    id: str
    scope: str | None = None
    key: str | None = None
    value: Any = None
    queue: str | None = None
    name: str | None = None
    """Of an error or a job: the job's name."""


@dataclass(frozen=True, slots=True)
class Cure:
    """A verb that may solve a problem, with its target. `command` is for a terminal, if no HTTP request can do it."""

    verb: CureVerb
    target: ProblemTarget
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem. `count` is the number of jobs or attempts that it affects; if `capped`, there are at least that
    many."""

    kind: ProblemKind
    severity: Severity
    text: str
    target: ProblemTarget
    count: int | None = None
    capped: bool = False
    since: datetime | None = None
    reason: str = ""
    actor: str | None = None
    """Of a pause or a breaker: the actor that set it, and the reason."""
    cures: tuple[Cure, ...] = ()


@dataclass(frozen=True, slots=True)
class NextFiring:
    """The next firing of a schedule: its nominal time, and when its job is made."""

    schedule_id: str
    name: str
    queue: str
    at: datetime
    due: datetime


@dataclass(frozen=True, slots=True)
class OverviewReport:
    """The problems, the worst first; the checks that were made; the schedules that fire next."""

    at: datetime
    problems: tuple[Problem, ...]
    checks: tuple[str, ...]
    """What was looked at and found, in sentences: the proof where there is no problem."""
    next_firings: tuple[NextFiring, ...]


# -- facts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Due:
    """The job of a queue that has been due for longest. The name and id are None where only the instant was read.
    `gate` is the one on whose wait list it is, if any."""

    queue: str
    since: datetime
    name: str | None
    job_id: str | None = None
    gate: str | None = None


@dataclass(frozen=True, slots=True)
class LostLease:
    """A running job whose lease has run out."""

    job_id: str
    queue: str
    name: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Held:
    """The jobs of a name that wait for one kind of gate, counted up to a bound."""

    by: str
    """"limit", "handler", "version" or "key": see the field waiting_for of jobs."""
    name: str
    count: int
    capped: bool
    gate: str = ""
    """The first gate that they wait for, where it is a limit or a rate."""


@dataclass(frozen=True, slots=True)
class RecentFailure:
    """A failed attempt. `fingerprint` is that of a dead letter; None where the job will be retried."""

    name: str
    queue: str
    error: str
    at: datetime
    fingerprint: str | None = None
    schedule_id: str | None = None


@dataclass(frozen=True, slots=True)
class FailureCause:
    """The dead letters with one fingerprint since some instant; the name, queue and error are those of the latest."""

    fingerprint: str
    count: int
    since: datetime
    """When the first of them failed."""
    name: str
    queue: str
    error: str
    message: str


@dataclass(frozen=True, slots=True)
class ScheduleFact:
    """A schedule that is paused or about to fire; `pause` of a paused one, `at` and `due` of one that fires."""

    id: str
    name: str
    queue: str
    at: datetime | None = None
    due: datetime | None = None
    pause: Pause | None = None


@dataclass(frozen=True, slots=True)
class ProblemFacts:
    """What was read for an overview. Everything is within the caller's scope."""

    at: datetime
    workers: tuple[WorkerStatus, ...]
    due: tuple[Due, ...] = ()
    leases: tuple[LostLease, ...] = ()
    held: tuple[Held, ...] = ()
    pauses: tuple[Paused, ...] = ()
    breakers: tuple[BreakerStatus, ...] = ()
    behind: Mapping[str, int] = field(default_factory=dict)
    """By the gate of a pause or a breaker: how many jobs wait there, counted up to `counted`."""
    counted: int = 0
    recent: Mapping[str, Counts] = field(default_factory=dict)
    """The counts of each job name in the last quarter of an hour."""
    failures: tuple[RecentFailure, ...] = ()
    causes: tuple[FailureCause, ...] = ()
    """Of an alert rule about dead letters: their causes."""
    paused_schedules: tuple[ScheduleFact, ...] = ()
    firing: tuple[ScheduleFact, ...] = ()
    """The schedules that fire next, overdue ones first."""
    everything: bool = True
    """Whether the caller reaches everything: only then problems of the installation itself are its concern."""
