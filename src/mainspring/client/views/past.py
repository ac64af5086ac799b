"""The verbs of a Scheduler that write a past, for the demonstration of `mainspring up` only.

`PastBackend(scheduler)` stores ended jobs together with the counts of their attempts, so that charts and lists agree.
It is not part of the public interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.client.scheduler import Scheduler, core_of
from mainspring.model.jobs.job import Job
from mainspring.model.schedules.ledger import Row
from mainspring.model.views.statistics import Counts, Kind, Tally
from mainspring.store.views.past import WRITER, Past

_AT_ONCE = 400
"""Attempts that are counted before the counts are stored: a tally has a bounded number of kinds."""


class PastBackend:
    """The internal verbs of a Scheduler that write a past."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._core = core_of(scheduler)

    async def is_empty(self) -> bool:
        """Whether the database has neither a job nor a schedule."""
        return await (await self._past()).is_empty()

    async def add_jobs(self, jobs: Sequence[Job]) -> None:
        """Store jobs that have ended, and count their attempts."""
        await (await self._past()).add_jobs(jobs)
        await self.add_counts(_counted(jobs))

    async def add_counts(self, counted: Sequence[tuple[Kind, Counts]]) -> None:
        """Count attempts of jobs that are not kept."""
        await (await self._core.store()).statistics.add(WRITER, counted)

    async def backdate_schedule(self, schedule_id: str, since: datetime) -> None:
        """Let a schedule be as old as `since`."""
        await (await self._past()).backdate_schedule(schedule_id, since)

    async def add_runs(self, schedule_id: str, runs: int, last: tuple[datetime, str], rows: Sequence[Row]) -> None:
        """Count the runs that a schedule has had, name the last one, and store rows of its ledger."""
        await (await self._past()).add_runs(schedule_id, runs, last, rows)

    async def _past(self) -> Past:
        return Past((await self._core.store()).connection)


def _counted(jobs: Sequence[Job]) -> list[tuple[Kind, Counts]]:
    """The counts of all attempts, by minute, queue and name."""
    found: list[tuple[Kind, Counts]] = []
    tally = Tally()
    for job in jobs:
        for attempt in job.attempts:
            if attempt.started_at is None or attempt.ended_at is None:
                continue
            due = attempt.run_at or job.run_at
            tally.began(attempt.started_at, job.queue, job.name, attempt.started_at - due)
            seconds = (attempt.ended_at - attempt.started_at).total_seconds()
            tally.ended(attempt.ended_at, job.queue, job.name, attempt.outcome, seconds)
        if len(tally) >= _AT_ONCE:
            found += tally.take()
    return found + tally.take()
