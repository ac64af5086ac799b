"""Decides how an attempt ends: each return value and each exception of a handler becomes exactly one `Outcome`.

The executor (`engine/run/executor.py`) calls it, and the completer stores the outcome. Nothing is written here, and an
outcome holds plain values only. `model/jobs/outcome.py` lists the outcomes, `model/jobs/retry.py` computes delays.
`Policies` finds the policy in force for a job: its own, its handler's, or the scheduler's default, in that order.
"""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import timedelta
from typing import Any

from mainspring.config.settings import Settings
from mainspring.engine.handler import Handler, check_data, stored_version
from mainspring.engine.handlers import Handlers
from mainspring.engine.privacy import Privacy
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.engine.run.context_backend import ContextBackend
from mainspring.engine.run.error_details import RemoteError, describe, details_of, told
from mainspring.errors import (
    BadArguments,
    Cancel,
    ChildrenFailed,
    ClaimLost,
    ConfigurationError,
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
from mainspring.model.fields import Fields
from mainspring.model.flows.waits import Waits
from mainspring.model.jobs.guarantee import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, may_have_run, not_committed
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
from mainspring.model.jobs.retry import LONGEST, Retry
from mainspring.store import Store
from mainspring.store.bounded_values import MAX_MESSAGE, cut, encode_data, encode_result
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.privacy.cipher import KeyMissing, Undecryptable

logger = logging.getLogger("mainspring")

_FINAL = (BadArguments, StepError, ChildrenFailed, FlowFailed, InvalidFlow, MissingResult, Undecryptable)
"""The errors that the next attempt would meet again."""
_ONE_ATTEMPT = Retry(attempts=1)


class Policies:
    """The guarantee, the retry policy and the timeout of any job."""

    def __init__(self, handlers: Handlers, retry: Retry, timeout: float | None) -> None:
        self._handlers = handlers
        self._retry = retry
        self._timeout = timeout

    def retry(self, job: StoredJob, handler: Handler | None, error: BaseException | None = None) -> Retry:
        """The policy for a job; the handler's rules by exception type come before the job's own numbers."""
        if self.guarantee(job, handler) == AT_MOST_ONCE:
            return _ONE_ATTEMPT
        declared = (handler and handler.retry) or self._retry
        ruled = declared.rule_for(error)
        if ruled is not declared:
            return ruled
        stored = job.retry
        if stored:
            try:
                return Retry.from_document(stored)
            except (ConfigurationError, TypeError):
                return declared  # another program wrote a document that is no policy
        return declared

    def guarantee(self, job: StoredJob, handler: Handler | None) -> str:
        """The guarantee in force for a job."""
        return job.guarantee or (handler.guarantee if handler is not None else None) or AT_LEAST_ONCE

    def once(self, job: StoredJob) -> bool:
        """Whether a job may be started once only."""
        return self.guarantee(job, self._handlers.get(job.name)) == AT_MOST_ONCE

    @property
    def isolates_suspects(self) -> bool:
        """Whether a job whose worker has died runs in a process of its own."""
        return self._handlers.isolate_suspects

    def attempts(self, job: StoredJob) -> int:
        """The number of attempts that a job may have."""
        handler = self._handlers.get(job.name)
        if self.guarantee(job, handler) == AT_MOST_ONCE:
            return 1
        if job.retry is None:
            return ((handler and handler.retry) or self._retry).attempts
        return self.retry(job, handler).attempts

    def timeout(self, job: StoredJob, handler: Handler) -> float | None:
        """The seconds that an attempt may take; None for no limit."""
        if job.timeout is not None:
            return job.timeout
        return handler.timeout if handler.timeout is not None else self._timeout


class Judge:
    """Decides the outcomes of the attempts of one worker."""

    def __init__(self, store: Store, settings: Settings, policies: Policies, secrecy: Privacy, worker: str) -> None:
        self._store = store
        self._settings = settings
        self._policies = policies
        self._secrecy = secrecy
        self._worker = worker

    def returned(self, claimed: ClaimedJob, agent: ContextBackend, result: Any) -> Outcome:
        """The outcome of an attempt whose handler returned."""
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

    def raised(self, claimed: ClaimedJob, agent: ContextBackend, error: BaseException) -> Outcome:
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
        described, cause = describe(error), cause_of(error)
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

    def _of(self, claimed: ClaimedJob) -> Fields:
        """The fields of a log record about a job."""
        return claimed.job.log_fields(self._worker)


class JobTask(asyncio.Task[Outcome]):
    """The task of one attempt. It counts the cancellations that come from its own handler."""

    __slots__ = ("_by_itself",)

    @property
    def by_itself(self) -> int:
        return getattr(self, "_by_itself", 0)

    def cancel(self, msg: Any | None = None) -> bool:
        self._by_itself = self.by_itself + (asyncio.current_task(self.get_loop()) is self)
        return super().cancel(msg)


def cause_of(error: BaseException) -> BaseException:
    """The exception that the handler itself has raised, in this process or in its own."""
    return error.cause if isinstance(error, RemoteError) and error.cause is not None else error


def _cancelled_from_outside() -> bool:
    """Whether the current task itself was cancelled (the event loop is ending), and not by its own handler, nor only an
    awaitable of the handler."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > (task.by_itself if isinstance(task, JobTask) else 0)


def _bounded(delay: timedelta) -> float:
    """A delay in seconds that the calendar can hold."""
    return min(max(0.0, delay.total_seconds()), LONGEST)


def _is_suspension(error: BaseException) -> bool:
    """Whether a handler was ended by its suspension, which may be part of a group or come from its own process."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(Suspension)[1] is None
    return isinstance(cause_of(error), Suspension)


def _outage(error: BaseException) -> bool | None:
    """Whether an error means an outage of the job's dependency; None if it says nothing about that."""
    said = getattr(error, "outage", True)
    return said if said is None or isinstance(said, bool) else True


def _was_stopped(error: BaseException) -> bool:
    """Whether an error is that of a handler which the worker has interrupted: cancelled, or its process killed."""
    return isinstance(error, asyncio.CancelledError) or (isinstance(error, RemoteError) and error.type == PROCESS_DIED)
