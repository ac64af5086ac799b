"""Waits for jobs to end: all waits of a process share one query, sent often at first and less often later.

A long wait logs once what the job is waiting for: a worker may be missing, or its handler.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable

from mainspring.clock import monotonic
from mainspring.errors import JobNotFound, MainspringError, Unavailable
from mainspring.model.explain.explanation import HANDLER, KEY, VERSION, WORKER, Explanation
from mainspring.model.jobs.job import RUNNING, Job
from mainspring.model.printable import printable
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.jobs.stored_job import stored_jobs

logger = logging.getLogger("mainspring")

_SOONEST, _LATEST = 0.01, 0.5
# The seconds after which a wait logs its reason, and the most that asking for the reason may take.
PATIENCE = 5.0
_ASKING = 5.0
# Gates that do not open by themselves as time passes or other jobs end.
_ALARMING = (WORKER, HANDLER, VERSION, KEY)


class Waiting:
    """The waits of one Scheduler."""

    def __init__(self, store: Store, explain: Callable[[str], Awaitable[Explanation]]) -> None:
        self.store = store
        self._explain = explain
        self._futures: dict[DocumentId, set[asyncio.Future[Job]]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def wait(self, job_id: DocumentId) -> Job:
        """Wait until a job has ended, with any outcome, and return it."""
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
        """End all waits that are under way with an error that says why."""
        if self._task is not None:
            self._task.cancel()
        for futures in self._futures.values():
            _settle(futures, MainspringError("The scheduler was stopped while it waited for the job; the job goes on."))

    async def why(self, job_id: str) -> str:
        """The reason why a job has not ended, in words; empty if it cannot be found out."""
        explanation = await self._ask(job_id)
        return "" if explanation is None else explanation.text

    async def _ask(self, job_id: str) -> Explanation | None:
        try:
            async with asyncio.timeout(_ASKING):
                return await self._explain(job_id)
        except (MainspringError, TimeoutError):
            return None

    async def _tell(self) -> None:
        """Log what the job of the oldest wait is waiting for."""
        job_id = str(next(iter(self._futures)))
        explanation = await self._ask(job_id)
        if explanation is None or explanation.holding is None or explanation.job.state == RUNNING:
            return
        job, more = explanation.job, len(self._futures) - 1
        others = f" ({more} more jobs are waited for)" if more else ""
        logger.log(
            logging.WARNING if explanation.holding.kind in _ALARMING else logging.INFO,
            "Still waiting for job %s (%s): %s%s",
            *(printable(job.id), printable(job.name), printable(explanation.text), others),
            extra={"job_id": job.id, "job_name": job.name, "queue": job.queue},
        )

    async def _look(self) -> None:
        pause = _SOONEST
        began, told = monotonic(), False
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
            if not told and monotonic() - began >= PATIENCE and self._futures:
                told = True
                await self._tell()
            try:
                async with asyncio.timeout(pause):
                    await self._news.wait()
            except TimeoutError:
                pause = min(pause * 1.3, _LATEST)

    async def run_once(self) -> None:
        """Read all awaited jobs at once, and settle the waits for jobs that have ended or are gone."""
        asked = list(self._futures)
        ended = {job.id: job for job in stored_jobs(await self.store.jobs.finished_among(asked))}
        rest = [job_id for job_id in asked if job_id not in ended]
        there = await self.store.jobs.existing_among(rest) if rest else set()
        for job_id in asked:
            if job_id in ended:
                _settle(self._futures.get(job_id, set()), self.store.cipher.decode(ended[job_id].document))
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
