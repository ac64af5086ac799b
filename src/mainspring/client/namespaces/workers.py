"""`scheduler.workers`: the worker processes, and giving back what a dead one held."""

from __future__ import annotations

from mainspring.client.core import Core
from mainspring.client.jobs import Jobs
from mainspring.engine.chores.jobs.rescue_lost import announce_rescues
from mainspring.engine.services.counting import Counting
from mainspring.model.jobs.job import Job
from mainspring.model.workers import WorkerStatus
from mainspring.spelling import spelled_verbs


@spelled_verbs
class Workers:
    """The verbs for workers."""

    def __init__(self, core: Core, jobs: Jobs) -> None:
        self._core = core
        self._jobs = jobs

    @property
    def own_id(self) -> str | None:
        """The id of this scheduler's worker, as jobs and their attempts name it; None where it is not started."""
        return self._core.worker.id

    @property
    def handler_names(self) -> list[str] | None:
        """The names of the jobs that this process can run; None means any, since there is a catch-all handler."""
        return self._core.handlers.names

    async def all(self) -> list[WorkerStatus]:
        """The worker processes that are there, and those that were lately, by when they were heard of last."""
        return await (await self._core.store()).overview.workers()

    async def rescue(self, worker_id: str) -> list[Job]:
        """Give back at once what a worker held, instead of when its leases run out. Returns these jobs.

        Only where the caller knows for sure that the worker's process is dead: a job of a living one would run twice.
        """
        store = await self._core.store()
        rescued = await store.rescues.rescue_from(worker_id)
        counting = Counting(store, worker_id)
        announce_rescues(self._core.events, rescued)
        for one in rescued:
            counting.rescued(one)
        await counting.store()
        await store.workers.leave(worker_id)
        await store.gates.take_back(worker_id)
        return [self._jobs.decode(one.document) for one in rescued]
