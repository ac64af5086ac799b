"""Jobs scheduled all the time while something else happens, with a note of what was acknowledged."""

from __future__ import annotations

import asyncio
import random
from types import TracebackType
from typing import Any, Self

from pymongo.errors import PyMongoError

from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.errors import BulkError, MainspringError


class Load:
    """Schedules jobs from entering to leaving its block, one by one and in bulk."""

    def __init__(self, scheduler: Scheduler, *, every: float = 0.02, longest: float = 0.05) -> None:
        self._scheduler = scheduler
        self._every = every
        self._longest = longest
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.acknowledged: set[str] = set()
        self.refused = 0
        """Calls that raised: what they wanted may or may not be stored."""

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._singly()) for _ in range(3)]
        self._tasks.append(asyncio.create_task(self._in_bulk()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def goes_on(self) -> None:
        """Return when a few more calls were acknowledged."""
        before = len(self.acknowledged)
        await eventually(lambda: len(self.acknowledged) > before + 20, 60)

    async def _singly(self) -> None:
        while not self._stopping:
            try:
                job = await self._scheduler.schedule("work", self._data())
                self.acknowledged.add(job.id)
            except (MainspringError, PyMongoError):
                self.refused += 1
            await asyncio.sleep(self._every * random.uniform(0.5, 1.5))

    async def _in_bulk(self) -> None:
        while not self._stopping:
            drafts = [{"name": "work", "data": self._data()} for _ in range(10)]
            try:
                jobs: list[Any] = await self._scheduler.schedule_bulk(drafts)
            except BulkError as error:
                jobs = [job for job in error.jobs if job is not None]
                self.refused += 1
            except (MainspringError, PyMongoError):
                jobs = []
                self.refused += 1
            self.acknowledged |= {job.id for job in jobs}
            await asyncio.sleep(self._every * 10)

    def _data(self) -> dict[str, float]:
        return {"seconds": random.choice([0.0, random.uniform(0, self._longest)])}
