"""`scheduler.workers`: the list of workers, draining one, and the rescue of a dead worker's jobs."""

from __future__ import annotations

from datetime import datetime

from mainspring.client.core import Core
from mainspring.client.jobs import Jobs
from mainspring.config.settings import check_actor, check_name, check_reason
from mainspring.engine.chores.jobs.rescue_lost import announce_rescues
from mainspring.engine.services.counting import Counting
from mainspring.errors import ConfigurationError, WorkerNotFound, WorkerStateError
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.handler_status import HandlerStatus
from mainspring.model.jobs.job import Job
from mainspring.model.workers import WorkerStatus
from mainspring.spelling import spelled_verbs
from mainspring.store.codec import document_id


@spelled_verbs
class Workers:
    """The verbs for workers."""

    def __init__(self, core: Core, jobs: Jobs) -> None:
        self._core = core
        self._jobs = jobs

    @property
    def own_id(self) -> str | None:
        """The id of this scheduler's worker, as jobs and their attempts name it; None if it is not started."""
        return self._core.worker.id

    @property
    def handler_names(self) -> list[str] | None:
        """The job names that this process can run. None means every name, since there is a catch-all handler."""
        return self._core.handlers.names

    async def all(self) -> list[WorkerStatus]:
        """List the live workers, and those that ended within about the last hour, ordered by their latest heartbeat."""
        return await (await self._core.store()).workers.latest()

    async def drain(self, worker_id: str, *, reason: str = "", actor: str | None = None) -> WorkerStatus:
        """Ask a worker to claim no more jobs, finish its running jobs, and end. Return the worker as it is now.

        The worker reacts within a few seconds, or at once if it runs in this process. Its jobs may take as long as they
        need. A process of `mainspring worker` ends with its worker and is not replaced; in other processes the
        Scheduler continues without a worker. A second call changes nothing. Raise WorkerNotFound if no live worker has
        this id.
        """
        reason, actor = check_reason(reason), check_actor(actor)
        found = await (await self._core.store()).workers.drain(_checked(worker_id), reason, actor)
        if found is None:
            raise WorkerNotFound(worker_id)
        self._core.worker.drain(worker_id)
        return found

    async def cancel_drain(self, worker_id: str) -> WorkerStatus:
        """Cancel a drain that has not finished yet: the worker claims jobs again. Return the worker as it is now.

        Raise WorkerNotFound if no live worker has this id, and WorkerStateError if it is not draining, or has finished.
        """
        store = await self._core.store()
        found = await store.workers.cancel_drain(_checked(worker_id))
        if found is not None:
            return found
        there = await store.workers.get(worker_id)
        if there is None:
            raise WorkerNotFound(worker_id)
        state = "does not drain" if there.drain is None else "has finished its jobs and ends"
        raise WorkerStateError(f"The worker {worker_id!r:.300} {state}, so there is no drain to cancel.")

    async def handlers(self, name: str | None = None, *, scope: Scope = EVERYTHING) -> list[HandlerStatus]:
        """List the handlers of live workers by name, without Mainspring's own: each with the JSON Schema of its data,
        the defaults of its jobs, its payload versions, and the number of workers that have it. With `name`, list only
        this handler. Handlers outside the `scope` are left out."""
        store = await self._core.store()
        found = await store.workers.handlers(None if name is None else check_name(name, "a job's name"))
        return [one.within(scope) for one in found if scope.allows(one.queue, one.name)]

    async def ask_stack(self, job_id: str) -> datetime:
        """Ask the worker of a running job for the stack of its handler, and return the time of the request. The worker
        stores the calls, without values, in `job.stack` within about two seconds. Raise JobStateError if the job is not
        running."""
        return await (await self._core.store()).stacks.ask(document_id(job_id))

    async def rescue(self, worker_id: str) -> list[Job]:
        """Rescue a worker's jobs now instead of when their leases run out, and return them.

        Call this only if the worker's process is certainly dead: a job of a live worker would run twice.
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


def _checked(worker_id: object) -> str:
    if not isinstance(worker_id, str) or not worker_id:
        raise ConfigurationError(f"A worker's id is a non-empty text, not {worker_id!r:.100}.")
    return worker_id
