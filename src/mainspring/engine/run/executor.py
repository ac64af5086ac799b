"""Runs one claimed job, from its document to its outcome.

The steps: find the arguments, announce the start, call the handler in its place (event loop, thread or process) within
its timeout, and decide on one outcome, in one place (`_judge`). The executor writes no outcome to the database, and no
value or exception of a handler escapes from it: an outcome holds plain values only.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from mainspring.clock import monotonic
from mainspring.config.settings import Settings
from mainspring.engine.callbacks import Callbacks
from mainspring.engine.flows.predecessors import read_predecessors
from mainspring.engine.handlers import check_data, refuse_coroutine, stored_version
from mainspring.engine.observers import Observers
from mainspring.engine.privacy import Privacy, conceal
from mainspring.engine.run.claimed_jobs import ClaimedJob, StopReason
from mainspring.engine.run.context import BlockingJobContext, JobContext
from mainspring.engine.run.context_backend import ChildScheduling, ContextBackend
from mainspring.engine.run.error_details import HandlerTimeout, RemoteError, describe, details_of, told
from mainspring.engine.run.payload import unpack
from mainspring.engine.run.policy import Policies
from mainspring.engine.run.processes import Processes
from mainspring.engine.run.stacks import HandlerPlace
from mainspring.engine.run.sync_bridge import Portal
from mainspring.engine.run.threads import Threads
from mainspring.errors import (
    BadArguments,
    Cancel,
    ChildrenFailed,
    ClaimLost,
    Continue,
    Fail,
    FlowFailed,
    InvalidFlow,
    InvalidJob,
    MissingResult,
    RetryAfter,
    Signal,
    Snooze,
    StepError,
    Suspension,
)
from mainspring.model.flows.waits import Waits
from mainspring.model.jobs.guarantee import AT_MOST_ONCE, EXACTLY_ONCE, may_have_run, not_committed
from mainspring.model.jobs.job import JobError
from mainspring.model.jobs.outcome import (
    PROCESS_DIED,
    Cancelled,
    Committed,
    Completed,
    Continued,
    Failed,
    Lost,
    Outcome,
    Released,
    Retried,
    Snoozed,
    Suspended,
)
from mainspring.model.jobs.reserved_names import FLOW_NAMES
from mainspring.model.jobs.retry import LONGEST
from mainspring.store import Store
from mainspring.store.bounded_values import MAX_MESSAGE, cut, encode_data, encode_result
from mainspring.store.jobs.transactions import is_transient
from mainspring.store.privacy.cipher import KeyMissing, Undecryptable

logger = logging.getLogger("mainspring")

Middleware = Callable[[JobContext, Callable[[], Awaitable[Any]]], Awaitable[Any]]

_FINAL = (BadArguments, StepError, ChildrenFailed, FlowFailed, InvalidFlow, MissingResult, Undecryptable)
"""The errors that the next attempt would meet again."""
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
                unpack(claimed, self._secrecy, before)
                result = await self._attempt(claimed, agent, timeout)
            except BaseException as error:
                ending = self._judge_raised(claimed, agent, error)
                if isinstance(ending, Continued):
                    await agent.forget_signals()
                return conceal(claimed, ending)
            return conceal(claimed, self._judge_return(claimed, agent, result))
        except BaseException as error:
            # Reading the handler's result or exception runs code of the handler's own, which has raised.
            logger.error(
                "The end of the attempt at job %s raised %s; the job fails",
                claimed.id,
                type(error).__name__,
                extra=self._of(claimed),
            )
            return Failed(JobError(type(error).__qualname__, "The attempt's result or exception cannot be read."))

    def _of(self, claimed: ClaimedJob) -> dict[str, Any]:
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
        ending = self._judge(claimed, agent, error)
        if self._observers and isinstance(ending, Failed | Retried):
            self._observers.raised(claimed, _cause(error), ending)
        if isinstance(error, KeyboardInterrupt | SystemExit) and not isinstance(ending, Failed | Retried):
            said = claimed.redactor.text(told(error))
            logger.warning(
                "The handler of job %s raised %s; the worker goes on", claimed.id, said, extra=self._of(claimed)
            )
        return ending

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
        """Call the handler; call it again, within the same attempt, if its transaction met a transient conflict."""
        rerun = 0
        while True:
            try:
                if self._needs_process(claimed):
                    await self.processes.prepare(claimed, alone=claimed.job.suspect_runner)
                return await self._within(claimed, timeout, self._through_middleware(claimed, agent))
            except Exception as error:
                passing = agent.used_transaction and is_transient(_cause(error))
                once = claimed.guarantee == AT_MOST_ONCE
                if once or not passing or rerun >= _RERUNS or claimed.stopping:
                    raise
            finally:
                self.processes.give_back(claimed)
            rerun += 1
            agent.begin_again()
            await asyncio.sleep(random.uniform(0.5, 1.5) * min(0.02 * 2**rerun, 2.0))

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
        if claimed.process is not None:
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
                if claimed.cancelled and not (claimed.lost or claimed.released):
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

    async def _within(self, claimed: ClaimedJob, timeout: float | None, call: Awaitable[Any]) -> Any:
        """Wait for the call, and end it when the timeout has passed."""
        if timeout is None:
            return await call
        task = asyncio.ensure_future(_outcome(call))
        claimed.runs_in(HandlerPlace(task, task.get_loop()))
        try:
            done, _ = await asyncio.wait({task}, timeout=timeout)
            if done:
                return _settled(task)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=None if claimed.cancelled else _STOP_GRACE)
            if task.done() and not task.cancelled() and task.exception() is None:
                return _settled(task)
            raise
        claimed.ask_to_stop(StopReason.TIMED_OUT)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=_STOP_GRACE + 1)
        if not done:
            logger.error(
                "The handler of job %s ignores its cancellation; it is left behind", claimed.id, extra=self._of(claimed)
            )
        elif not task.cancelled():
            task.exception()  # mark it as retrieved: the timeout decides, not the exception
        raise HandlerTimeout(f"The attempt took longer than its timeout of {timeout:g} s.")

    def _judge_return(self, claimed: ClaimedJob, agent: ContextBackend, result: Any) -> Outcome:
        if agent.committed is not None:
            return Committed(agent.committed.result)
        if claimed.lost:
            return Lost()
        if claimed.cancelled:
            return Cancelled(claimed.cancel_reason)
        if agent.suspended is not None:
            logger.warning(
                "The handler of job %s caught its Suspension and returned; it is suspended",
                claimed.id,
                extra=self._of(claimed),
            )
            return self._suspension(agent.suspended)
        if claimed.released and agent.told_to_stop:
            return Released(started=True)  # the handler returned because it was told to stop, before it was done
        if claimed.guarantee == EXACTLY_ONCE:
            return Failed(not_committed())
        result, note = encode_result(result, self._settings.max_result)
        return Completed(result, note or (agent.result_note if result is None else None))

    def _judge(self, claimed: ClaimedJob, agent: ContextBackend, error: BaseException) -> Outcome:
        """The outcome of an attempt whose handler raised."""
        if agent.committed is not None:
            said = claimed.redactor.text(told(error))
            logger.error(
                "The handler of job %s raised after its transaction had completed the job: %s",
                claimed.id,
                said,
                extra=self._of(claimed),
            )
            return Committed(agent.committed.result)
        if claimed.lost:
            return Lost()
        if claimed.cancelled:
            return Cancelled(claimed.cancel_reason)
        if agent.suspended is not None:
            if not _is_suspension(error):
                said = claimed.redactor.text(told(error))
                logger.warning(
                    "The handler of job %s raised after its Suspension: %s; it is suspended",
                    claimed.id,
                    said,
                    extra=self._of(claimed),
                )
            return self._suspension(agent.suspended)
        if isinstance(error, ClaimLost):
            return Released(started=True)  # the fence decides: lost, or a cancellation that was not noticed yet
        if claimed.released and (agent.told_to_stop or _was_stopped(error)):
            return Released(started=True)
        if isinstance(error, asyncio.CancelledError) and _cancelled_from_outside():
            return Released(started=True)
        if isinstance(error, KeyMissing):
            return Released()  # the key is gone since the claim: the job waits for a worker that has it
        if isinstance(error, Signal):
            return self._signal(claimed, error)
        return self._failure(claimed, error)

    def _suspension(self, waits: Waits) -> Outcome:
        """The outcome of a handler that waits. One that only sleeps goes back to the queue until then."""
        if waits.on or waits.signals or waits.until is None:
            return Suspended(waits)
        left = (waits.until - self._store.clock.now()).total_seconds()
        name = waits.timers[0][0] if waits.timers else ""
        return Snoozed(max(0.0, left), f"The handler sleeps: {name}")

    def _signal(self, claimed: ClaimedJob, signal: Signal) -> Outcome:
        if isinstance(signal, Snooze):
            return Snoozed(_bounded(signal.delay), signal.reason)
        if isinstance(signal, Continue):
            return self._continued(claimed, signal)
        if isinstance(signal, Cancel):
            return Cancelled(cut(claimed.redactor.text(signal.reason), MAX_MESSAGE))
        if isinstance(signal, RetryAfter):
            said = signal.reason or "the handler asked to be tried again"
            error = JobError("RetryAfter", said, details=details_of(signal))
            return self._again_or_failed(claimed, error, signal, _bounded(signal.delay))
        reason = signal.reason if isinstance(signal, Fail) else str(signal)
        error = JobError("Fail", reason or "the handler gave the job up", details=details_of(signal))
        return Failed(error, _outage(signal))

    def _continued(self, claimed: ClaimedJob, signal: Continue) -> Outcome:
        """The outcome of a handler that begins anew; data that does not fit the handler fails the job."""
        handler = claimed.handler
        if claimed.guarantee == AT_MOST_ONCE:
            return Failed(describe(StepError("A job that runs at most once cannot begin anew.")), None)
        try:
            data = encode_data(check_data(handler, signal.data), self._settings.max_data)
        except InvalidJob as error:
            return Failed(describe(error), None)
        fields = self._secrecy.seal_like(claimed.job.document, data)
        return Continued({**fields, "data_v": stored_version(handler)})

    def _failure(self, claimed: ClaimedJob, error: BaseException) -> Outcome:
        described, cause = describe(error), _cause(error)
        if isinstance(cause, _FINAL):
            # A retry would be refused for the same reason, after the same step has been run again.
            return Failed(described, _outage(cause))
        if claimed.guarantee == AT_MOST_ONCE and described.type == PROCESS_DIED:
            return Failed(may_have_run(described.message, claimed.id))
        return self._again_or_failed(claimed, described, cause, None)

    def _again_or_failed(
        self, claimed: ClaimedJob, described: JobError, error: BaseException, delay: float | None
    ) -> Outcome:
        policy = self._policies.retry(claimed.job, claimed.handler, error)
        tries = claimed.job.tries
        if tries >= policy.attempts:
            return Failed(described, _outage(error))
        if delay is None:
            try:
                delay = policy.delay_before(tries, random.random())
            except Exception as broken:
                logger.error(
                    "The retry delay of job %s cannot be computed (%s); 5 s is used",
                    claimed.id,
                    told(broken),
                    extra=self._of(claimed),
                )
                delay = 5.0
        return Retried(delay, described, _outage(error))


class JobTask(asyncio.Task[Outcome]):
    """The task of one attempt. It counts the cancellations that come from its own handler."""

    __slots__ = ("_by_itself",)

    @property
    def by_itself(self) -> int:
        return getattr(self, "_by_itself", 0)

    def cancel(self, msg: Any | None = None) -> bool:
        self._by_itself = self.by_itself + (asyncio.current_task(self.get_loop()) is self)
        return super().cancel(msg)


def _cancelled_from_outside() -> bool:
    """Whether the current task itself was cancelled (the event loop is ending), and not by its own handler, nor only an
    awaitable of the handler."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > (task.by_itself if isinstance(task, JobTask) else 0)


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


def _bounded(delay: timedelta) -> float:
    """A delay in seconds that the calendar can hold."""
    return min(max(0.0, delay.total_seconds()), LONGEST)


def _cause(error: BaseException) -> BaseException:
    """The exception that the handler itself has raised, in this process or in its own."""
    return error.cause if isinstance(error, RemoteError) and error.cause is not None else error


def _is_suspension(error: BaseException) -> bool:
    """Whether a handler was ended by its suspension, which may be part of a group or come from its own process."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(Suspension)[1] is None
    return isinstance(_cause(error), Suspension)


def _outage(error: BaseException) -> bool | None:
    """Whether an error means an outage of the job's dependency; None if it says nothing about that."""
    said = getattr(error, "outage", True)
    return said if said is None or isinstance(said, bool) else True


def _was_stopped(error: BaseException) -> bool:
    """Whether an error is that of a handler which the worker has interrupted: cancelled, or its process killed."""
    return isinstance(error, asyncio.CancelledError) or (isinstance(error, RemoteError) and error.type == PROCESS_DIED)
