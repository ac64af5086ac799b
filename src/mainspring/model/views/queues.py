"""Queues as they are listed: backlog, workers that serve them, recent activity, and what waits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.model.limits.controls import Paused
from mainspring.model.views.statistics import Counts
from mainspring.model.views.windows import MINUTE
from mainspring.model.workers import WorkerStatus

_RATE_OVER = 5 * MINUTE


@dataclass(frozen=True, slots=True)
class Activity:
    """The attempts of a queue that ended in each of the last minutes, the current one last."""

    start: datetime
    """The beginning of the first minute."""
    ended: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    """Those of them that failed, were lost, or are retried."""
    left: tuple[int, ...] = ()
    """The jobs that have left the queue for good: completed, failed and cancelled ones."""

    def per_second(self, now: datetime) -> float | None:
        """The rate at which jobs have left the queue in the last five minutes; None if none has."""
        first = max(self.start, self.start + len(self.left) * MINUTE - _RATE_OVER)
        gone = sum(self.left[(first - self.start) // MINUTE :])
        length = (now - first).total_seconds()
        return gone / length if gone and length > 0 else None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue as it is now. Its pending jobs are counted up to `counted`; a number that reaches it means "or more"."""

    name: str
    ready: int
    """Pending jobs that may be started as soon as they are due."""
    waiting: int
    """Pending jobs that wait for a gate: a limit, a pause, a missing handler."""
    running: int
    counted: int
    paused: Paused | None = None
    """The pause of the whole queue, where there is one."""
    due: int = 0
    """The ready jobs that are due."""
    scheduled: int = 0
    """The ready jobs that are due later."""
    oldest_due: datetime | None = None
    """Since when the job that has waited for longest is due, a ready one or one that waits for a gate."""
    workers: int = 0
    """The live workers that serve the queue."""
    slots: int = 0
    """The jobs that these workers run at once; they may serve other queues with the same slots."""
    served: bool = False
    """Whether a live worker names the queue among those that it serves."""
    activity: Activity | None = None
    per_second: float | None = None
    """The rate at which jobs have left the queue lately; None if none has."""
    oldest_ready: datetime | None = None
    """Since when the ready job that has waited for longest is due."""

    @property
    def backlog(self) -> int:
        """The pending jobs that would run now if there were room."""
        return self.due + self.waiting

    @property
    def capped(self) -> bool:
        """Whether the backlog is larger than it was counted."""
        return self.due >= self.counted or self.waiting >= self.counted

    @property
    def utilisation(self) -> float | None:
        """The share of the slots that run jobs of this queue; None without a worker."""
        return self.running / self.slots if self.slots else None

    @property
    def lacks_worker(self) -> bool:
        """Whether jobs are due and no live worker serves the queue."""
        return self.oldest_due is not None and not self.workers

    @property
    def drain_time(self) -> timedelta | None:
        """How long the backlog takes at the rate of the last minutes; longer if the backlog is capped. None if the rate
        is unknown."""
        if not self.backlog:
            return timedelta(0)
        return None if not self.per_second else timedelta(seconds=self.backlog / self.per_second)

    @property
    def exists(self) -> bool:
        """Whether the queue has jobs or a pause, a worker names it, or attempts have ended in it lately."""
        active = self.activity is not None and any(self.activity.ended)
        return bool(self.ready or self.waiting or self.running or self.paused or self.served or active)


@dataclass(frozen=True, slots=True)
class WaitingAt:
    """Jobs of a queue that wait for the same gate or the same reason, among the jobs that were looked at."""

    by: str
    gate: str | None
    """The gate; None where jobs wait for something else, such as a handler."""
    note: str
    count: int
    since: datetime | None
    """Since when the first of them has waited."""


@dataclass(frozen=True, slots=True)
class QueueDetail:
    """A queue in detail. `waits` is about the first waiting jobs, `names` about the jobs that are due next."""

    status: QueueStatus
    waits: tuple[WaitingAt, ...] = ()
    looked_at: int = 0
    """How many waiting jobs were looked at."""
    names: Mapping[str, int] = field(default_factory=dict)
    """The number of jobs by name among those that are due next."""
    sampled: int = 0
    """How many jobs that are due next were looked at."""


@dataclass(frozen=True, slots=True)
class Recent:
    """The counts of the last minutes by queue. `start` is later than asked for where there is too much to read."""

    start: datetime
    end: datetime
    counts: Mapping[str, Mapping[datetime, Counts]]

    def of(self, queue: str) -> Activity:
        minutes = [self.start + place * MINUTE for place in range((self.end - self.start) // MINUTE)]
        found = self.counts.get(queue, {})
        rows = [found.get(minute, Counts()) for minute in minutes]
        return Activity(
            self.start,
            tuple(row.executions for row in rows),
            tuple(row.unsuccessful for row in rows),
            tuple(row.completed + row.failed + row.cancelled for row in rows),
        )


def serving(workers: Iterable[WorkerStatus], queue: str) -> list[WorkerStatus]:
    """The workers that claim jobs of a queue."""
    return [worker for worker in workers if worker.serves(queue)]
