"""Counts the jobs and attempts of this process, with bounded labels.

The event loop counts, with one lookup in a dictionary for each beginning and end; any thread may read. Reading copies
the dictionaries first, each in one step of the interpreter, and needs no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mainspring.client.core import Core
from mainspring.engine.callbacks import Observer, Storing
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.model.jobs.job import CANCELLED, FAILED, Job
from mainspring.model.jobs.outcome import Lost, Outcome
from mainspring.model.schedules.ledger import Notice
from mainspring.observability.metrics.catalogue import (
    MOST_KINDS,
    MOST_NAMES,
    MOST_QUEUES,
    MOST_SCHEDULES,
    OTHER,
    RUN_BUCKETS,
    WAIT_BUCKETS,
)

_FINISHED = ("completed", "failed", "cancelled")


class Bounded:
    """The values of one label: the first ones keep their names, the others are `OTHER`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def shown(self, value: str) -> str:
        if value in self._known:
            return value
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(value)
        return value


class Histogram:
    """The counts of one histogram: by bucket, not summed up yet, and in sum."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    def buckets(self) -> list[tuple[str, int]]:
        """The bounds and the number of values up to each, as Prometheus wants them."""
        counts, total, found = list(self.counts), 0, []
        for bound, count in zip((*self._bounds, float("inf")), counts, strict=True):
            total += count
            found.append((f"{bound:g}" if bound != float("inf") else "+Inf", total))
        return found


@dataclass(slots=True)
class Kind:
    """The counts of the jobs of one queue and name."""

    scheduled: int = 0
    attempts: Counter[str] = field(default_factory=Counter)
    finished: Counter[str] = field(default_factory=Counter)
    run: Histogram = field(default_factory=lambda: Histogram(RUN_BUCKETS))


@dataclass(slots=True)
class QueueTally:
    """The counts of the jobs of one queue."""

    wait: Histogram = field(default_factory=lambda: Histogram(WAIT_BUCKETS))
    lost: int = 0
    rescued: int = 0


class Tallies(Observer):
    """The counts of one process."""

    def __init__(self, most_names: int = MOST_NAMES, most_queues: int = MOST_QUEUES) -> None:
        self._names = Bounded(most_names)
        self._queues = Bounded(most_queues)
        self._schedules = Bounded(MOST_SCHEDULES)
        self.kinds: dict[tuple[str, str], Kind] = {}
        self.queues: dict[str, QueueTally] = {}
        self.late: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.errors = 0

    def follow(self, core: Core) -> None:
        """Count the jobs of a Scheduler, and its rarer events."""
        core.observers.add(self)
        events = core.events
        events.on("job:expire", lambda job: self._finish(job, "expired"))
        events.on("job:rescue", self._rescued)
        events.on("schedule:late", lambda notice: self._fired(self.late, notice))
        events.on("schedule:missed", lambda notice: self._fired(self.missed, notice))
        events.on("schedule:skipped", lambda notice: self._fired(self.skipped, notice))
        events.on("scheduler:error", self._failed)

    # -- as an observer --------------------------------------------------------------------------------------------

    def storing(self, name: str | None, queue: str | None) -> Storing:
        return _Scheduled(self)

    def began(self, claimed: ClaimedJob) -> None:
        job, at = claimed.job, claimed.started_at
        if at is not None:
            self._queue(job.queue).wait.add(max(0.0, (at - job.run_at).total_seconds()))

    def ended(self, claimed: ClaimedJob, ending: Outcome) -> None:
        job, outcome = claimed.job, ending.outcome
        kind = self._kind(job.queue, job.name)
        kind.attempts[outcome] += 1
        if claimed.took is not None:
            kind.run.add(claimed.took)
        if outcome in _FINISHED:
            kind.finished[outcome] += 1
        elif isinstance(ending, Lost):
            self._queue(job.queue).lost += 1

    def scheduled(self, job: Job) -> None:
        """Count a job that this process has stored."""
        if not job.deduplicated:
            self._kind(job.queue, job.name).scheduled += 1

    # -- events ----------------------------------------------------------------------------------------------------

    def _rescued(self, job: Job) -> None:
        self._queue(job.queue).rescued += 1
        if job.state in (FAILED, CANCELLED):
            self._finish(job, job.state)

    def _finish(self, job: Job, outcome: str) -> None:
        self._kind(job.queue, job.name).finished[outcome] += 1

    def _fired(self, counter: Counter[str], notice: Notice) -> None:
        counter[self._schedules.shown(notice.schedule_id)] += notice.count

    def _failed(self, _: Exception) -> None:
        self.errors += 1

    # -- labels ----------------------------------------------------------------------------------------------------

    def _kind(self, queue: str, name: str) -> Kind:
        found = self.kinds.get((queue, name))
        if found is not None:
            return found
        shown = self._queues.shown(queue), self._names.shown(name)
        if shown not in self.kinds and len(self.kinds) >= MOST_KINDS:
            shown = OTHER, OTHER
        return self.kinds.setdefault(shown, Kind())

    def _queue(self, queue: str) -> QueueTally:
        found = self.queues.get(queue)
        if found is not None:
            return found
        return self.queues.setdefault(self._queues.shown(queue), QueueTally())


class _Scheduled(Storing):
    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies

    def done(self, jobs: Sequence[Job], error: BaseException | None) -> None:
        for job in jobs:
            self._tallies.scheduled(job)
