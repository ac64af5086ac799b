"""Runs one claimed job, from its document to its outcome.

The steps: find the arguments, announce the start, call the handler in its place (event loop, thread or process) within
its timeout, and decide on one outcome (`engine/run/judge.py`). The executor writes no outcome to the database, and no
value or exception of a handler escapes from it: an outcome holds plain values only.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mainspring.clock import monotonic
from mainspring.config.settings import Settings
from mainspring.engine.callbacks import Callbacks, Observers
from mainspring.engine.flows.predecessors import Predecessors, read_predecessors
from mainspring.engine.handler import refuse_coroutine
from mainspring.engine.privacy import Privacy, conceal
from mainspring.engine.run.claimed_jobs import ClaimedJob, StopReason
from mainspring.engine.run.context import BlockingJobContext, JobContext
from mainspring.engine.run.context_backend import ChildScheduling, ContextBackend
from mainspring.engine.run.error_details import HandlerTimeout, told
from mainspring.engine.run.judge import Judge, Policies, cause_of
from mainspring.engine.run.processes import Processes
from mainspring.engine.run.stacks import HandlerPlace
from mainspring.engine.run.sync_bridge import Portal
from mainspring.engine.run.threads import Threads
from mainspring.model.fields import Fields
from mainspring.model.jobs.guarantee import AT_MOST_ONCE
from mainspring.model.jobs.job import JobError
from mainspring.model.jobs.outcome import (
    Continued,
    Failed,
    Outcome,
    Released,
    Retried,
)
from mainspring.model.jobs.reserved_names import FLOW_NAMES
from mainspring.store import Store
from mainspring.store.jobs.transactions import is_transient

logger = logging.getLogger("mainspring")

Middleware = Callable[[JobContext, Callable[[], Awaitable[Any]]], Awaitable[Any]]

_RERUNS = 20
# The seconds that a handler has to stop after it was told to, before it is left behind.
_STOP_GRACE = 5.0


class Executor:
    """Runs claimed jobs, and calls `began` for each attempt. It receives its collaborators, never the Scheduler."""

    def __init__(
        self,
        *,
        store: Store,
        settings: Settings,
        events: Callbacks,
        policies: Policies,
        worker: str,
        enqueuer: ChildScheduling,
        secrecy: Privacy,
        began: Callable[[ClaimedJob], None],
        middleware: Sequence[Middleware] = (),
        observers: Observers | None = None,
    ) -> None:
        self._store = store
        self._secrecy = secrecy
        self._settings = settings
        self._events = events
        self._policies = policies
        self._worker = worker
        self._enqueuer = enqueuer
        self._middleware = tuple(middleware)
        self._began = began
        self._observers = Observers() if observers is None else observers
        self._judge = Judge(store, settings, policies, secrecy, worker)
        self._threads = Threads("mainspring-handler")
        self.processes = Processes(store, settings)

    async def run(self, claimed: ClaimedJob) -> Outcome:
        """Run a job to its outcome. Never raises."""
        if not self._observers:
            return await self._run(claimed)
        judged = self._observers.running(claimed, self._worker)
        ending = await self._run(claimed)
        if judged is not None:
            judged(ending)
        return ending

    async def _run(self, claimed: ClaimedJob) -> Outcome:
        try:
            if claimed.ahead and self._counts_from_its_start(claimed) and not await self._begin(claimed):
                return Released()  # the fence, or the cancellation, decides the outcome
            timeout = self._start(claimed)
            agent = ContextBackend(claimed, self._store, self._settings, self._events, self._worker, self._enqueuer)
            try:
                if self._events.wanted("job:start"):
                    self._events.emit("job:start", claimed.job.decode(claimed_at=claimed.started_at))
                before = await read_predecessors(claimed, self._store) if claimed.job.is_node else None
                self._unpack(claimed, before)
                result = await self._attempt(claimed, agent, timeout)
            except BaseException as error:
                ending = self._judge_raised(claimed, agent, error)
                if isinstance(ending, Continued):
                    await agent.forget_signals()
                return conceal(claimed, ending)
            return conceal(claimed, self._judge.returned(claimed, agent, result))
        except BaseException as error:
            # Reading the handler's result or exception runs code of the handler's own, which has raised.
            logger.error(
                "The end of the attempt at job %s raised %s; the job fails",
                claimed.id,
                type(error).__name__,
                extra=self._of(claimed),
            )
            return Failed(JobError(type(error).__qualname__, "The attempt's result or exception cannot be read."))

    def _of(self, claimed: ClaimedJob) -> Fields:
        """The fields of a log record about a job."""
        return claimed.job.log_fields(self._worker)

    def _start(self, claimed: ClaimedJob) -> float | None:
        """Note that the handler is about to be called; return its timeout."""
        started = monotonic()
        claimed.begin(started, self._store.clock.at(started))
        self._began(claimed)
        timeout = self._policies.timeout(claimed.job, claimed.handler)
        if timeout is not None:
            claimed.renew_for(timeout + 2 * _STOP_GRACE)
        return timeout

    def _judge_raised(self, claimed: ClaimedJob, agent: ContextBackend, error: BaseException) -> Outcome:
        """The outcome of an attempt whose handler raised; the worker goes on whatever it was."""
        ending = self._judge.raised(claimed, agent, error)
        if self._observers and isinstance(ending, Failed | Retried):
            self._observers.raised(claimed, cause_of(error), ending)
        if isinstance(error, KeyboardInterrupt | SystemExit) and not isinstance(ending, Failed | Retried):
            said = claimed.redactor.text(told(error))
            logger.warning(
                "The handler of job %s raised %s; the worker goes on", claimed.id, said, extra=self._of(claimed)
            )
        return ending

    def _unpack(self, claimed: ClaimedJob, predecessors: Predecessors | None) -> None:
        """Show the handler its job's data in the form that it takes: decrypt it, fill in results of predecessors, then
        upgrade older data. An error raised here ends the attempt.

        Arguments, `ctx.data` and the document that goes to a process are then the same. The stored data is not changed:
        another attempt starts from it anew.
        """
        hidden = self._secrecy.open(claimed)
        if predecessors is not None:
            claimed.show(predecessors.fill(claimed.shown.data))
            claimed.show_predecessors(predecessors.by_node)
            hidden = self._secrecy.redact(claimed, hidden)
        version = claimed.job.data_version
        if version < claimed.handler.version:
            claimed.show(claimed.handler.upgrade(claimed.shown.data, version))
            self._secrecy.redact(claimed, hidden)  # the new form may have values under other names

    @staticmethod
    def _counts_from_its_start(claimed: ClaimedJob) -> bool:
        """Whether the start must be stored before it happens: the job may be started once only, or was claimed by a
        worker that died, so that another crash must use an attempt, however soon it comes."""
        return claimed.guarantee == AT_MOST_ONCE or claimed.job.suspect

    async def _begin(self, claimed: ClaimedJob) -> bool:
        """Store that a job that was claimed ahead is started now; return whether it may be."""
        try:
            begun = await self._store.claims.begin(claimed.id, claimed.token)
        except (asyncio.CancelledError, Exception):
            return False  # the job has not been started, whether that write went through or not
        claimed.start_noted()
        return begun and not claimed.stopping and monotonic() < claimed.valid_until

    async def close(self) -> None:
        self._threads.close()
        await self.processes.close()

    async def _attempt(self, claimed: ClaimedJob, agent: ContextBackend, timeout: float | None) -> Any:
        """Call the handler; call it again, within the same attempt, if its transaction met a transient conflict. All
        these calls, and the pauses between them, have one timeout."""
        rerun, left = 0, timeout
        while True:
            try:
                if self._needs_process(claimed):
                    await self._prepare_process(claimed)
                began = monotonic()
                return await self._within(claimed, timeout, left, self._through_middleware(claimed, agent))
            except Exception as error:
                passing = agent.used_transaction and is_transient(cause_of(error))
                once = claimed.guarantee == AT_MOST_ONCE
                if once or not passing or rerun >= _RERUNS or claimed.stopping:
                    raise
            finally:
                self.processes.give_back(claimed)
            rerun += 1
            agent.begin_again()
            await asyncio.sleep(random.uniform(0.5, 1.5) * min(0.02 * 2**rerun, 2.0))
            if timeout is not None and left is not None:
                left -= monotonic() - began
                if left <= 0:
                    raise _too_long(timeout)

    async def _prepare_process(self, claimed: ClaimedJob) -> None:
        await self.processes.prepare(claimed, alone=claimed.job.suspect_runner)

    def _needs_process(self, claimed: ClaimedJob) -> bool:
        """Whether the handler runs in another process. The handlers of flows never do: they kill no worker, and they
        need its store."""
        if claimed.job.name in FLOW_NAMES:
            return False
        suspect = claimed.job.suspect and claimed.handler.importable and self._policies.isolates_suspects
        return claimed.handler.isolation == "process" or suspect

    def _through_middleware(self, claimed: ClaimedJob, agent: ContextBackend) -> Awaitable[Any]:
        if not self._middleware:
            return self._call(claimed, agent)
        context = JobContext(claimed.shown, agent)

        def step(index: int) -> Awaitable[Any]:
            if index == len(self._middleware):
                return self._call(claimed, agent)
            return self._middleware[index](context, lambda: step(index + 1))

        return step(0)

    async def _call(self, claimed: ClaimedJob, agent: ContextBackend) -> Any:
        handler = claimed.handler
        if self._needs_process(claimed):
            if claimed.process is None:  # middleware calls the handler again
                await self._prepare_process(claimed)
            return await self.processes.run(claimed, agent)
        arguments = handler.bind(claimed.shown.data)
        if handler.is_async:
            if handler.context_parameter is not None:
                arguments[handler.context_parameter] = JobContext(claimed.shown, agent)
            return await handler.function(**arguments)
        if handler.context_parameter is not None:
            portal = Portal(asyncio.get_running_loop())
            arguments[handler.context_parameter] = BlockingJobContext(claimed.shown, agent, portal)
        result = await self._in_thread(claimed, lambda: handler.function(**arguments))
        refuse_coroutine(result)
        return result

    async def _in_thread(self, claimed: ClaimedJob, function: Callable[[], Any]) -> Any:
        """Wait for a handler's thread; leave it behind if its claim is lost, or if it ignores that it should stop."""
        place = claimed.place or HandlerPlace(asyncio.current_task(), asyncio.get_running_loop())
        claimed.runs_in(place)
        future = self._threads.run(place.in_thread(function))
        while not future.done():
            try:
                await asyncio.wait({future})
            except asyncio.CancelledError:
                if claimed.only_cancelled:
                    continue  # the handler sees is_cancelled and ends when it can
                if not claimed.lost:
                    await asyncio.wait({future}, timeout=_STOP_GRACE if claimed.timed_out else 0.2)
                if not future.done():
                    logger.error(
                        "The thread of job %s (%s) does not stop; it is left behind and its slot replaced. "
                        "Check ctx.is_cancelled in the handler, or use isolation='process'.",
                        claimed.id,
                        claimed.job.name,
                        extra=self._of(claimed),
                    )
                    raise
        return future.result()

    async def _within(
        self, claimed: ClaimedJob, timeout: float | None, left: float | None, call: Awaitable[Any]
    ) -> Any:
        """Wait for the call, and end it when the time that is `left` of the timeout has passed."""
        if timeout is None or left is None:
            return await call
        task = asyncio.ensure_future(_outcome(call))
        claimed.runs_in(HandlerPlace(task, task.get_loop()))
        until = monotonic() + left
        while True:
            try:
                await asyncio.wait({task}, timeout=until - monotonic())
                break
            except asyncio.CancelledError:
                task.cancel()
                if claimed.only_cancelled:
                    continue  # the handler ends when it can, or when its time is over
                await asyncio.wait({task}, timeout=_STOP_GRACE)
                if task.done() and not task.cancelled() and task.exception() is None:
                    return _settled(task)
                raise
        if task.done():
            return _settled(task)
        claimed.ask_to_stop(StopReason.TIMED_OUT)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=_STOP_GRACE + 1)
        if not done:
            logger.error(
                "The handler of job %s ignores its cancellation; it is left behind", claimed.id, extra=self._of(claimed)
            )
        elif not task.cancelled():
            task.exception()  # mark it as retrieved: the timeout decides, not the exception
        raise _too_long(timeout)


def _too_long(timeout: float) -> HandlerTimeout:
    return HandlerTimeout(f"The attempt took longer than its timeout of {timeout:g} s.")


async def _outcome(call: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """The result of a call, or the KeyboardInterrupt or SystemExit that it raised: a task that raised one would end the
    event loop."""
    try:
        return await call, None
    except (KeyboardInterrupt, SystemExit) as error:
        return None, error


def _settled(task: asyncio.Task[tuple[Any, BaseException | None]]) -> Any:
    result, error = task.result()
    if error is not None:
        raise error
    return result
