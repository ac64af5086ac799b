"""Waiting for jobs to end: all waits of a process share one query, asked often at first and less often later."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from mainspring.errors import JobNotFound, MainspringError, Unavailable
from mainspring.model.job import Job
from mainspring.store import Store
from mainspring.store.codec import DocumentId

_SOONEST, _LATEST = 0.01, 0.5


class Waiting:
    """The waits of one Scheduler."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._futures: dict[DocumentId, set[asyncio.Future[Job]]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def wait(self, job_id: DocumentId) -> Job:
        """The job, once it has ended in whatever way."""
        future: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        self._futures[job_id].add(future)
        self._news.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look())
        try:
            return await future
        finally:
            self._futures[job_id].discard(future)
            if not self._futures[job_id]:
                del self._futures[job_id]

    def close(self) -> None:
        """End all waits that are under way, saying why."""
        if self._task is not None:
            self._task.cancel()
        for futures in self._futures.values():
            _settle(futures, MainspringError("The scheduler was stopped while it waited for the job; the job goes on."))

    async def _look(self) -> None:
        pause = _SOONEST
        while self._futures:
            if self._news.is_set():
                self._news.clear()
                pause = _SOONEST
            try:
                await self.run_once()
            except Unavailable:
                pause = _LATEST
            except Exception as error:
                for futures in self._futures.values():
                    _settle(futures, error)
                return
            try:
                async with asyncio.timeout(pause):
                    await self._news.wait()
            except TimeoutError:
                pause = min(pause * 1.3, _LATEST)

    async def run_once(self) -> None:
        """Ask for all at once, and settle those that have ended or are gone."""
        asked = list(self._futures)
        ended = {document["_id"]: document for document in await self.store.jobs.finished_among(asked)}
        rest = [job_id for job_id in asked if job_id not in ended]
        there = await self.store.jobs.existing_among(rest) if rest else set()
        for job_id in asked:
            if job_id in ended:
                _settle(self._futures.get(job_id, set()), self.store.sealer.decode(ended[job_id]))
            elif job_id not in there:
                _settle(self._futures.get(job_id, set()), JobNotFound(str(job_id)))


def _settle(futures: set[asyncio.Future[Job]], outcome: Job | Exception) -> None:
    for future in list(futures):
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
