"""Running one claimed job, from its document to its ending.

The steps: find the arguments, announce the start, call the handler where it belongs (event loop, thread or process)
within its timeout, and decide on one ending, in one place (`_judge`). Nothing here writes to the database, and nothing
a handler does escapes from here.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from mainspring.clock import monotonic
from mainspring.config import Settings
from mainspring.engine.agent import Enqueuer, LocalAgent
from mainspring.engine.context import BlockingJobContext, JobContext
from mainspring.engine.events import Events
from mainspring.engine.failure import HandlerTimeout, RemoteError, describe, details_of
from mainspring.engine.holdings import Holding
from mainspring.engine.payload import unpack
from mainspring.engine.policy import Policies
from mainspring.engine.portal import Portal
from mainspring.engine.processes import Processes
from mainspring.engine.secrecy import Secrecy, conceal
from mainspring.engine.threads import Threads
from mainspring.errors import Cancel, ClaimLost, Fail, RetryAfter, Signal, Snooze, StepError
from mainspring.handlers import BadArguments
from mainspring.model.ending import (
    PROCESS_DIED,
    Cancelled,
    Committed,
    Completed,
    Ending,
    Failed,
    Lost,
    Released,
    Retried,
    Snoozed,
)
from mainspring.model.guarantee import AT_MOST_ONCE, EXACTLY_ONCE, may_have_run, not_committed
from mainspring.model.job import JobError
from mainspring.model.retry import LONGEST
from mainspring.store import Store
from mainspring.store.codec import MAX_MESSAGE, cut, decode_job, encode_result
from mainspring.store.sealing import KeyMissing, Unopenable
from mainspring.store.transaction import is_transient

logger = logging.getLogger("mainspring")

Middleware = Callable[[JobContext, Callable[[], Awaitable[Any]]], Awaitable[Any]]

_RERUNS = 20
# How long a handler that was told to stop may take to do so before it is left behind.
_STOP_GRACE = 5.0


class Executor:
    """Runs claimed jobs. Given all it needs; knows nothing of the scheduler."""

    def __init__(
        self,
        *,
        store: Store,
        settings: Settings,
        events: Events,
        policies: Policies,
        worker: str,
        enqueuer: Enqueuer,
        secrecy: Secrecy,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self._store = store
        self._secrecy = secrecy
        self._settings = settings
        self._events = events
        self._policies = policies
        self._worker = worker
        self._enqueuer = enqueuer
        self._middleware = tuple(middleware)
        self.began: Callable[[Holding], None] = lambda holding: None
        """Told of each attempt when it begins."""
        self._threads = Threads("mainspring-handler")
        self.processes = Processes(store, settings)

    async def run(self, holding: Holding) -> Ending:
        """Run a job to its ending. Never raises."""
        if holding.ahead and holding.executes == AT_MOST_ONCE and not await self._begin(holding):
            return Released()  # the fence, or the cancellation, decides what it becomes
        holding.started = monotonic()
        holding.started_at = self._store.clock.at(holding.started)
        self.began(holding)
        timeout = self._policies.timeout(holding.document, holding.handler)
        if timeout is not None:
            holding.renew_until = holding.started + timeout + 2 * _STOP_GRACE
        agent = LocalAgent(holding, self._store, self._settings, self._events, self._worker, self._enqueuer)
        try:
            if self._events.wanted("job:start"):
                self._events.emit("job:start", decode_job({**holding.document, "claimed_at": holding.started_at}))
            unpack(holding, self._secrecy)
            result = await self._attempt(holding, agent, timeout)
        except BaseException as error:
            ending = self._judge(holding, agent, error)
            if isinstance(error, KeyboardInterrupt | SystemExit) and not isinstance(ending, Failed | Retried):
                told = holding.veil.text(repr(error))
                logger.warning("The handler of job %s raised %s; the worker goes on", holding.id, told)
            return conceal(holding, ending)
        return conceal(holding, self._judge_return(holding, agent, result))

    async def _begin(self, holding: Holding) -> bool:
        """Let it be known that a job that may be started once only is started now: from here on, nobody gives it to
        another worker. Whether it may be."""
        try:
            begun = await self._store.claims.begin(holding.id, holding.token)
        except (asyncio.CancelledError, Exception):
            return False  # it has not been started, whatever is known of that
        holding.ahead = False
        return begun and not holding.stopping and monotonic() < holding.valid_until

    async def close(self) -> None:
        self._threads.close()
        await self.processes.close()

    async def _attempt(self, holding: Holding, agent: LocalAgent, timeout: float | None) -> Any:
        """Call the handler; again, without costing an attempt, when its transaction met a passing conflict."""
        rerun = 0
        while True:
            try:
                if self._needs_process(holding):
                    await self.processes.prepare(holding, alone=holding.document.get("suspect") is True)
                return await self._within(holding, timeout, self._through_middleware(holding, agent))
            except Exception as error:
                passing = agent.used_transaction and is_transient(_cause(error))
                once = holding.executes == AT_MOST_ONCE
                if once or not passing or rerun >= _RERUNS or holding.stopping:
                    raise
            finally:
                self.processes.give_back(holding)
            rerun += 1
            agent.begin_again()
            await asyncio.sleep(random.uniform(0.5, 1.5) * min(0.02 * 2**rerun, 2.0))

    @staticmethod
    def _needs_process(holding: Holding) -> bool:
        return holding.handler.isolation == "process" or bool(
            holding.document.get("suspect") and holding.handler.importable
        )

    def _through_middleware(self, holding: Holding, agent: LocalAgent) -> Awaitable[Any]:
        if not self._middleware:
            return self._call(holding, agent)
        context = JobContext(holding.document, agent)

        def step(index: int) -> Awaitable[Any]:
            if index == len(self._middleware):
                return self._call(holding, agent)
            return self._middleware[index](context, lambda: step(index + 1))

        return step(0)

    async def _call(self, holding: Holding, agent: LocalAgent) -> Any:
        handler = holding.handler
        if holding.process is not None:
            return await self.processes.run(holding, agent)
        arguments = handler.bind(holding.document.get("data") or {})
        if handler.is_async:
            if handler.context_parameter is not None:
                arguments[handler.context_parameter] = JobContext(holding.document, agent)
            return await handler.function(**arguments)
        if handler.context_parameter is not None:
            portal = Portal(asyncio.get_running_loop())
            arguments[handler.context_parameter] = BlockingJobContext(holding.document, agent, portal)
        return await self._in_thread(holding, lambda: handler.function(**arguments))

    async def _in_thread(self, holding: Holding, function: Callable[[], Any]) -> Any:
        """Wait for a thread; leave it behind when its claim is lost, or when it ignores that it should stop."""
        future = self._threads.run(function)
        while not future.done():
            try:
                await asyncio.wait({future})
            except asyncio.CancelledError:
                if holding.cancelled and not (holding.lost or holding.released):
                    continue  # it sees is_cancelled and ends when it can
                if not holding.lost:
                    await asyncio.wait({future}, timeout=_STOP_GRACE if holding.timed_out else 0.2)
                if not future.done():
                    logger.error(
                        "The thread of job %s (%s) does not stop; it is left behind and its slot replaced. "
                        "Check ctx.is_cancelled in the handler, or use isolation='process'.",
                        holding.id,
                        holding.document["name"],
                    )
                    raise
        return future.result()

    async def _within(self, holding: Holding, timeout: float | None, call: Awaitable[Any]) -> Any:
        """Wait for the call, and end it when the timeout has passed."""
        if timeout is None:
            return await call
        task = asyncio.ensure_future(call)
        try:
            done, _ = await asyncio.wait({task}, timeout=timeout)
            if done:
                return task.result()
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task}, timeout=None if holding.cancelled else _STOP_GRACE)
            if task.done() and not task.cancelled() and task.exception() is None:
                return task.result()
            raise
        holding.timed_out = True
        if holding.process is not None:
            holding.process.kill()
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=_STOP_GRACE + 1)
        if not done:
            logger.error("The handler of job %s ignores its cancellation; it is left behind", holding.id)
        elif not task.cancelled():
            task.exception()  # whatever it was, the timeout is what counts
        raise HandlerTimeout(f"The attempt took longer than its timeout of {timeout:g} s.")

    def _judge_return(self, holding: Holding, agent: LocalAgent, result: Any) -> Ending:
        if agent.committed is not None:
            return Committed(agent.committed.result)
        if holding.lost:
            return Lost()
        if holding.cancelled:
            return Cancelled(holding.cancel_reason)
        if holding.released and agent.told_to_stop:
            return Released(started=True)  # it has come back because it was asked to, not because it was done
        if holding.executes == EXACTLY_ONCE:
            return Failed(not_committed())
        result, note = encode_result(result, self._settings.max_result)
        return Completed(result, note or (agent.result_note if result is None else None))

    def _judge(self, holding: Holding, agent: LocalAgent, error: BaseException) -> Ending:
        """How an attempt ends that did not return."""
        if agent.committed is not None:
            told = holding.veil.text(repr(error))
            logger.error(
                "The handler of job %s raised after its transaction had completed the job: %s", holding.id, told
            )
            return Committed(agent.committed.result)
        if holding.lost:
            return Lost()
        if holding.cancelled:
            return Cancelled(holding.cancel_reason)
        if isinstance(error, ClaimLost):
            return Released(started=True)  # the fence decides: lost, or a cancellation nobody had noticed yet
        if holding.released and (agent.told_to_stop or _was_stopped(error)):
            return Released(started=True)
        if isinstance(error, asyncio.CancelledError) and _cancelled_from_outside():
            return Released(started=True)
        if isinstance(error, KeyMissing):
            return Released()  # it was there when the job was claimed; now the job waits for whoever has it
        if isinstance(error, Signal):
            return self._signal(holding, error)
        return self._failure(holding, error)

    def _signal(self, holding: Holding, signal: Signal) -> Ending:
        if isinstance(signal, Snooze):
            return Snoozed(_bounded(signal.delay), signal.reason)
        if isinstance(signal, Cancel):
            return Cancelled(cut(holding.veil.text(signal.reason), MAX_MESSAGE))
        if isinstance(signal, RetryAfter):
            said = signal.reason or "the handler asked to be tried again"
            error = JobError("RetryAfter", said, details=details_of(signal))
            return self._again_or_failed(holding, error, signal, _bounded(signal.delay))
        reason = signal.reason if isinstance(signal, Fail) else str(signal)
        error = JobError("Fail", reason or "the handler gave the job up", details=details_of(signal))
        return Failed(error, _outage(signal))

    def _failure(self, holding: Holding, error: BaseException) -> Ending:
        described, cause = describe(error), _cause(error)
        if isinstance(cause, BadArguments | StepError | Unopenable):
            # The same would be refused again, after the same step has been run again.
            return Failed(described, _outage(cause))
        if holding.executes == AT_MOST_ONCE and described.type == PROCESS_DIED:
            return Failed(may_have_run(described.message, holding.id))
        return self._again_or_failed(holding, described, cause, None)

    def _again_or_failed(
        self, holding: Holding, described: JobError, error: BaseException, delay: float | None
    ) -> Ending:
        policy = self._policies.retry(holding.document, holding.handler, error)
        tries: int = holding.document["tries"]
        if tries >= policy.attempts:
            return Failed(described, _outage(error))
        if delay is None:
            try:
                delay = policy.delay_before(tries, random.random())
            except Exception as broken:
                logger.error("The retry delay of job %s cannot be computed (%r); 5 s it is", holding.id, broken)
                delay = 5.0
        return Retried(delay, described, _outage(error))


def _cancelled_from_outside() -> bool:
    """Whether this very task was cancelled (the event loop is ending), and not something that the handler awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _bounded(delay: timedelta) -> float:
    """A delay in seconds that the calendar can hold."""
    return min(max(0.0, delay.total_seconds()), LONGEST)


def _cause(error: BaseException) -> BaseException:
    """What the handler itself has raised, in whichever process it ran."""
    return error.cause if isinstance(error, RemoteError) and error.cause is not None else error


def _outage(error: BaseException) -> bool | None:
    """What an error says of an outage of what the job needs."""
    said = getattr(error, "outage", True)
    return said if said is None or isinstance(said, bool) else True


def _was_stopped(error: BaseException) -> bool:
    """Whether this is how a handler ends that the worker has interrupted: cancelled, or its process killed."""
    return isinstance(error, asyncio.CancelledError) or (isinstance(error, RemoteError) and error.type == PROCESS_DIED)
