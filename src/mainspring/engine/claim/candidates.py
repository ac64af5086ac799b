"""The candidates of a claim: read ahead while another claim is under way, and in one order with wait lists."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from mainspring.clock import monotonic
from mainspring.engine.service import cancel_task
from mainspring.model.limits.limits import FAIR
from mainspring.store.codec import DocumentId
from mainspring.store.jobs.stored_job import StoredJob

_FRESH_FOR = 0.5


@dataclass(slots=True)
class ReadAhead:
    """Candidates read while the claim before them was under way."""

    queue: str
    task: asyncio.Task[list[StoredJob]]
    claiming: set[DocumentId]
    started: float

    async def take(self, queue: str) -> list[StoredJob]:
        """The candidates read, without the jobs of the claim that was under way; none if they are stale."""
        if queue != self.queue or monotonic() - self.started > _FRESH_FOR:
            await self.drop()
            return []
        return [job for job in await self.task if job.id not in self.claiming]

    async def drop(self) -> None:
        """Cancel the read."""
        await cancel_task(self.task)


def in_order(ready: list[StoredJob], lined: list[StoredJob]) -> list[StoredJob]:
    """Ready jobs and jobs from wait lists as one list: by priority and time, and mixed evenly with the jobs of keys in
    round robin, which keep the order in which they were read."""
    fair: list[StoredJob] = []
    others: list[StoredJob] = []
    known = set()
    for job in lined:
        known.add(job.id)
        (fair if job.line is not None and job.line.startswith(f"{FAIR}:") else others).append(job)
    others = [job for job in ready if job.id not in known] + others
    others.sort(key=lambda job: (job.priority, job.run_at))
    placed = [(job.priority, place / len(those), job) for those in (others, fair) for place, job in enumerate(those)]
    return [job for *_, job in sorted(placed, key=lambda one: one[:2])]
