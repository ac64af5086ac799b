"""The eager mode: `schedule()` runs the handler at once, in the process of the test, and no database is needed.

The data is checked, the middleware runs and the handler is called as in a worker. Everything that needs a database is
left out: retries, limits, deduplication, delays and transactions. Schedules and declared flows are stored as ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

from mainspring.client.core import Core
from mainspring.client.drafting import Drafts
from mainspring.client.job_functions import name_of
from mainspring.client.scheduler import core_of, drafts_of, scheduling_of
from mainspring.engine.flows.verbs import Heard, SignalAsked
from mainspring.engine.handler import Handler, check_data, refuse_coroutine
from mainspring.engine.handlers import Named
from mainspring.engine.run.context import BlockingJobContext, JobContext
from mainspring.engine.run.error_details import describe
from mainspring.engine.run.sync_bridge import Portal
from mainspring.errors import Cancel, ConfigurationError, Continue, HandlerError, RetryAfter, Snooze, Suspension
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.job import BLOCKED, CANCELLED, COMPLETED, FAILED, PENDING, Job, JobVerbs, bind
from mainspring.spelling import suggestion
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.jobs.transactions import Transaction
from mainspring.testing.either import AnyScheduler, inner_of
from mainspring.testing.recording import BEGINNING, Recorder, Scheduled
from mainspring.testing.runs import Run, Runs

_MOST_ROUNDS = 1000
_OUTCOMES = {PENDING: "retried", BLOCKED: "suspended"}


class Eager:
    """The eager mode of one Scheduler. `runs` lists the jobs that have run, in the order in which they ended."""

    def __init__(self, core: Core, drafts: Drafts, propagate: bool) -> None:
        self._core = core
        self._drafts = drafts
        self._propagate = propagate
        self._ran: list[Run] = []
        self._numbers = 0

    @property
    def runs(self) -> Runs:
        return Runs(self._ran)

    async def run(self, draft: Draft) -> Job:
        """Run a job to its end, and return it as it is then."""
        return await self._run(draft, self._propagate)

    async def _run(self, draft: Draft, propagate: bool) -> Job:
        handler = self._handler(draft.name)
        self._numbers += 1
        job = Job(
            id=draft.job_id or f"{self._numbers:024x}",
            name=draft.name,
            data=draft.data or {},
            state=PENDING,
            queue=draft.queue,
            priority=draft.priority,
            run_at=draft.run_at or BEGINNING,
            created_at=BEGINNING,
            tries=1,
            token=1,
            parent_id=draft.parent_id,
            tags=tuple(draft.tags or ()),
        )
        ended, error = await self._to_the_end(job, handler)
        bind(ended, cast("JobVerbs", _VerbsOfEnded(ended)))
        self._ran.append(Run(_OUTCOMES.get(ended.state, ended.state), ended, error))
        if propagate and ended.state == FAILED and error is not None:
            raise error
        return ended

    async def _to_the_end(self, job: Job, handler: Handler) -> tuple[Job, BaseException | None]:
        for _ in range(_MOST_ROUNDS):
            try:
                result = await self._attempt(job, handler)
                return replace(job, state=COMPLETED, result=result), None
            except Continue as again:
                job = replace(job, data=check_data(handler, again.data))
            except (Snooze, RetryAfter) as later:
                return replace(job, state=PENDING), later
            except Suspension as suspended:
                return replace(job, state=BLOCKED), suspended
            except Cancel as cancel:
                return replace(job, state=CANCELLED), cancel
            except Exception as error:
                return replace(job, state=FAILED, error=describe(error)), error
        raise AssertionError(f"{job.name!r} has begun anew {_MOST_ROUNDS} times.")

    async def _attempt(self, job: Job, handler: Handler) -> Any:
        document = {"_id": job.id, "name": job.name, "data": job.data, "queue": job.queue, "priority": job.priority}
        document |= {"tags": list(job.tags), "run_at": job.run_at, "tries": 1, "token": 1}
        stored = StoredJob(document)
        recorder = _EagerRecorder(stored, self)
        middleware = self._core.registry.middleware
        context = JobContext(stored, recorder)

        def step(index: int) -> Awaitable[Any]:
            if index == len(middleware):
                return _call(handler, stored, recorder)
            return middleware[index](context, partial(step, index + 1))

        return await step(0)

    def _handler(self, name: str) -> Handler:
        handler = self._core.handlers.get(name)
        if handler is None:
            known = sorted(self._core.handlers.own_names)
            hint = suggestion(name, known) if known else " It has no handlers: import the module with them."
            raise HandlerError(f"The eager mode runs each job, and this scheduler has no handler for {name!r}.{hint}")
        return handler

    async def child(self, asked: Scheduled, parent: str, *, waited_for: bool = False) -> Job:
        """Run a job that a handler schedules, or that it waits for: then the wait judges how it ended."""
        draft = self._drafts.draft(asked.name, asked.data, {"parent_id": parent, **asked.options})
        return await self._run(draft, propagate=self._propagate and not waited_for)


class _VerbsOfEnded:
    """The verbs of a job that has run and is stored nowhere."""

    def __init__(self, job: Job) -> None:
        self._job = job

    async def get_job(self, job_id: str) -> Job:
        return self._job

    async def wait(self, job_id: str, timeout: object = None) -> Job:
        return self._job

    def __getattr__(self, verb: str) -> Any:
        raise ConfigurationError(f"{verb}() needs a stored job, and the eager mode stores none; use drain().")


class _EagerRecorder(Recorder):
    """Runs the jobs of a handler at once."""

    def __init__(self, job: StoredJob, eager: Eager) -> None:
        super().__init__(job, {})
        self._eager = eager

    async def schedule(self, name: Named, data: Any, options: dict[str, Any]) -> Job:
        self.steps.refuse_suspended()
        return await self._eager.child(Scheduled(name_of(name), dict(data or {}), options), str(self.job.id))

    async def child(self, asked: Scheduled, single: bool) -> Job:
        return await self._eager.child(asked, str(self.job.id), waited_for=True)

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        raise ConfigurationError("The eager mode has no transactions; run the job in a database with drain().")

    async def listen(self, asked: SignalAsked, taken: Sequence[str]) -> Heard:
        return Heard(open=True)


async def _call(handler: Handler, job: StoredJob, recorder: Recorder) -> Any:
    """Call a handler as a worker does: on the event loop, or in a thread."""
    arguments = handler.bind(job.data)
    if handler.is_async:
        if handler.context_parameter is not None:
            arguments[handler.context_parameter] = JobContext(job, recorder)
        return await handler.function(**arguments)
    if handler.context_parameter is not None:
        portal = Portal(asyncio.get_running_loop())
        arguments[handler.context_parameter] = BlockingJobContext(job, recorder, portal)
    result = await asyncio.to_thread(handler.function, **arguments)
    refuse_coroutine(result)
    return result


@contextmanager
def eager(scheduler: AnyScheduler, *, propagate: bool = True) -> Iterator[Eager]:
    """Inside the block, `schedule()` runs each job at once, in this process, and returns the ended job. Jobs that the
    handler schedules or waits for also run at once. The block's value lists all of them in `runs`.

    With `propagate`, the exception of a handler is raised by `schedule()`; otherwise the job has failed, and has the
    error. A handler that snoozes, waits for a signal or asks for a retry is not run again.
    """
    inner = inner_of(scheduler, "eager()")
    scheduling = scheduling_of(inner)
    if scheduling.at_once is not None:
        raise ConfigurationError("This scheduler is in eager mode already.")
    mode = Eager(core_of(inner), drafts_of(inner), propagate)
    scheduling.at_once = mode
    try:
        yield mode
    finally:
        scheduling.at_once = None
