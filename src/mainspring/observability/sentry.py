"""Sentry: errors with the context of their job, queue spans, and check-ins of schedules; needs the extra `sentry`.

    from mainspring.observability.sentry import instrument
    sentry_sdk.init(dsn, …)
    instrument(scheduler)                    # before scheduler.start(), in every process that stores or runs jobs

`schedule()` is a span `queue.publish`; its trace is stored with the job, and each attempt is a transaction that
continues it, with a span `queue.process`. A job that fails for good is reported as an error. Where a job has redacted
or encrypted values, all texts that its attempt sends are redacted (breadcrumbs, spans and reports of the handler's own,
too), and the local variables of stacks are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from mainspring.client.blocking import Scheduler as BlockingScheduler
from mainspring.client.scheduler import Scheduler, core_of
from mainspring.engine.callbacks import JudgedBy, Observer, Storing
from mainspring.engine.job_log import LOGGER
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.outcome import Failed, Outcome, Retried
from mainspring.model.privacy.redaction import NO_REDACTION
from mainspring.observability.extras import needs_extra
from mainspring.observability.sentry_checkins import CheckIns

try:
    import sentry_sdk
    from sentry_sdk.integrations.logging import ignore_logger
    from sentry_sdk.utils import event_from_exception
except ModuleNotFoundError as error:
    raise needs_extra("sentry", error) from None

PUBLISH, PROCESS = "queue.publish", "queue.process"
_ORIGIN = "auto.queue.mainspring"


def instrument(
    scheduler: Scheduler | BlockingScheduler, *, retried_attempts: bool = False, check_ins: bool = True
) -> None:
    """Report the errors and trace the jobs of a Scheduler. With `retried_attempts`, failed attempts that are retried
    are reported, too. `check_ins` tells Sentry of each run of a schedule."""
    inner = scheduler.inner if isinstance(scheduler, BlockingScheduler) else scheduler
    ignore_logger(LOGGER)  # the same failures, as lines of the log
    core = core_of(inner)
    core.observers.add(Reporting(retried_attempts))
    if check_ins:
        CheckIns(inner).follow(core)


class Reporting(Observer):
    """The errors and spans of one Scheduler."""

    def __init__(self, retried_attempts: bool) -> None:
        self._retried_attempts = retried_attempts

    def storing(self, name: str | None, queue: str | None) -> Storing:
        return _Publish(name, queue)

    def carrier(self) -> Mapping[str, str]:
        return _carrier()

    def running(self, claimed: ClaimedJob, worker: str) -> JudgedBy:
        job = claimed.job
        stack = ExitStack()
        scope = stack.enter_context(sentry_sdk.isolation_scope())
        scope.clear_breadcrumbs()
        # Breadcrumbs are added to an event when it is sent, after `raised` has concealed it.
        scope.add_event_processor(lambda event, hint: _concealed(claimed, dict(event)))  # type: ignore[arg-type,return-value]
        scope.set_context("mainspring", _of_attempt(claimed, worker))
        scope.set_tag("mainspring.job", job.name)
        scope.set_tag("mainspring.queue", job.queue)
        transaction = sentry_sdk.continue_trace(job.trace, op=PROCESS, name=job.name, source="task", origin=_ORIGIN)
        stack.enter_context(sentry_sdk.start_transaction(transaction))
        span = stack.enter_context(sentry_sdk.start_span(op=PROCESS, name=job.name, origin=_ORIGIN))
        for key, value in _of_message(claimed).items():
            span.set_data(key, value)

        def judged(ending: Outcome) -> None:
            status = "internal_error" if isinstance(ending, Failed | Retried) else "ok"
            span.set_data("mainspring.outcome", ending.outcome)
            span.set_data("messaging.message.receive.latency", _latency(claimed))
            span.set_status(status)
            transaction.set_status(status)
            stack.close()

        return judged

    def raised(self, claimed: ClaimedJob, error: BaseException, ending: Outcome) -> None:
        if isinstance(ending, Failed) or self._retried_attempts:
            event, hint = event_from_exception(
                error,
                client_options=sentry_sdk.get_client().options,
                mechanism={"type": "mainspring", "handled": False},
            )
            sentry_sdk.capture_event(_concealed(claimed, dict(event)), hint=hint)  # type: ignore[arg-type]


class _Publish(Storing):
    """The span of one call that stores jobs."""

    def __init__(self, name: str | None, queue: str | None) -> None:
        self._stack = ExitStack()
        self._span = self._stack.enter_context(
            sentry_sdk.start_span(op=PUBLISH, name=name or "schedule_bulk", origin=_ORIGIN)
        )
        if queue is not None:
            self._span.set_data("messaging.destination.name", queue)
        self.carrier = _carrier()

    def done(self, jobs: Sequence[Job], error: BaseException | None) -> None:
        if len(jobs) == 1:
            self._span.set_data("messaging.message.id", jobs[0].id)
        else:
            self._span.set_data("messaging.batch.message_count", len(jobs))
        self._span.set_status("ok" if error is None else "internal_error")
        self._stack.close()


def _carrier() -> dict[str, str]:
    found = {"sentry-trace": sentry_sdk.get_traceparent(), "baggage": sentry_sdk.get_baggage()}
    return {key: value for key, value in found.items() if value}


def _of_attempt(claimed: ClaimedJob, worker: str) -> Fields:
    job = claimed.job
    return {**job.log_fields(worker), "token": job.token, "schedule_id": job.schedule_id}


def _of_message(claimed: ClaimedJob) -> Fields:
    job = claimed.job
    return {
        "messaging.system": "mainspring",
        "messaging.message.id": str(job.id),
        "messaging.destination.name": job.queue,
        "messaging.message.retry.count": job.tries - 1,
    }


def _latency(claimed: ClaimedJob) -> float | None:
    """The milliseconds for which the job was due when its handler was called; None if it was not."""
    at = claimed.started_at
    return None if at is None else max(0.0, (at - claimed.job.run_at).total_seconds() * 1000)


def _concealed(claimed: ClaimedJob, event: Fields) -> Fields:
    """An event without hidden values of its job: no local variables, and all texts redacted. A redactor of values that
    are too short to search for is empty, and yet the job has hidden values."""
    if claimed.redactor is NO_REDACTION and claimed.cipher is None:
        return event
    for part in ("exception", "threads"):
        for one in (event.get(part) or {}).get("values", ()):
            for frame in (one.get("stacktrace") or {}).get("frames", ()):
                frame.pop("vars", None)
    concealed: Fields = claimed.redactor.value(event)
    return concealed
