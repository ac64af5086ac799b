"""The health of a scheduler: not just that it is up, but that due jobs get done. Pure.

`healthy`: all jobs make progress. `degraded`: a job waits longer than it should, or a new job could not run.
`unhealthy`: no job can run now, since MongoDB is not reachable, or jobs are due and no worker is alive.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.model.workers import WorkerStatus

HEALTHY, DEGRADED, UNHEALTHY = "healthy", "degraded", "unhealthy"
LATE = timedelta(seconds=60)
"""The time that a job or firing may be due before it counts as late."""
UNRENEWED = timedelta(seconds=30)
"""The time that a lease may be over before the chore that rescues its job counts as missing."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a scheduler. The instants are those of the oldest overdue job, lease and firing; None if none is
    overdue."""

    status: str
    at: datetime
    reasons: tuple[str, ...] = ()
    workers: tuple[WorkerStatus, ...] = ()
    clock_known: bool = True
    oldest_due: datetime | None = None
    oldest_due_queue: str | None = None
    oldest_lease: datetime | None = None
    oldest_firing: datetime | None = None

    @property
    def running(self) -> int:
        return sum(worker.running for worker in self.workers)

    @property
    def concurrency(self) -> int:
        return sum(worker.concurrency for worker in self.workers)


def unreachable(at: datetime, why: str) -> Health:
    """The health while MongoDB is not reachable."""
    return Health(UNHEALTHY, at, (why,), clock_known=False)


def judge(
    at: datetime,
    workers: tuple[WorkerStatus, ...],
    due: tuple[datetime, str] | None,
    lease: datetime | None,
    firing: datetime | None,
) -> Health:
    """The health that follows from the facts."""
    late = due is not None and at - due[0] > LATE
    unrenewed = lease is not None and at - lease > UNRENEWED
    overdue = firing is not None and at - firing > LATE
    reasons = _reasons(bool(workers), late, unrenewed, overdue)
    stuck = not workers and (late or unrenewed or overdue)
    return Health(
        UNHEALTHY if stuck else DEGRADED if reasons else HEALTHY,
        at,
        tuple(reasons),
        workers,
        oldest_due=due[0] if due is not None and due[0] <= at else None,
        oldest_due_queue=due[1] if due is not None and due[0] <= at else None,
        oldest_lease=lease if lease is not None and lease <= at else None,
        oldest_firing=firing if firing is not None and firing <= at else None,
    )


def _reasons(alive: bool, late: bool, unrenewed: bool, overdue: bool) -> list[str]:
    """The reasons in words. They name no job, queue or worker: callers with a scope read them too."""
    told = (
        (not alive, "No worker is alive; start one with: mainspring worker, or mainspring up."),
        (late, f"A job has been due for more than {LATE.seconds} s and no worker has taken it."),
        (unrenewed, f"A lease ran out more than {UNRENEWED.seconds} s ago and no worker has given its job back."),
        (overdue, f"A schedule should have fired more than {LATE.seconds} s ago."),
    )
    return [text for counts, text in told if counts]
