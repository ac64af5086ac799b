"""OpenTelemetry: spans from `schedule()` to each attempt, and the messaging metrics; needs the extra `otel`.

    from mainspring.observability.otel import instrument
    instrument(scheduler)                    # before scheduler.start(), in every process that stores or runs jobs

It uses the API only: without an SDK that the program sets up, all of it does nothing. The names follow the semantic
conventions of messaging. `schedule()` makes a span `send QUEUE`, whose context is stored with the job; each attempt
makes a span `process QUEUE`, linked to it. It is no child by default: a job may run days later, and backends cut such
traces; `same_trace=True` makes it a child. Spans hold no data of jobs, and errors as they are stored: redacted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.client.blocking import Scheduler as BlockingScheduler
from mainspring.client.scheduler import Scheduler, core_of
from mainspring.clock import monotonic
from mainspring.engine.callbacks import JudgedBy, Observer, Storing
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.outcome import Failed, Outcome, Retried
from mainspring.observability.extras import needs_extra

try:
    from opentelemetry import context as contexts
    from opentelemetry import metrics, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise needs_extra("otel", error) from None

SYSTEM = "mainspring"
SCHEMA = "https://opentelemetry.io/schemas/1.44.0"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_W3C = TraceContextTextMapPropagator()
_STORED = ("traceparent", "tracestate")


def instrument(
    scheduler: Scheduler | BlockingScheduler,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
    same_trace: bool = False,
) -> None:
    """Trace the jobs that a Scheduler stores and runs. With `same_trace`, attempts are children of the span that has
    stored their job, instead of being linked to it."""
    inner = scheduler.inner if isinstance(scheduler, BlockingScheduler) else scheduler
    tracer = trace.get_tracer(__name__, tracer_provider=tracer_provider, schema_url=SCHEMA)
    meter = metrics.get_meter(__name__, meter_provider=meter_provider, schema_url=SCHEMA)
    core_of(inner).observers.add(Tracing(tracer, Instruments(meter), same_trace=same_trace))


class Instruments:
    """The metrics of the conventions."""

    def __init__(self, meter: metrics.Meter) -> None:
        self._sent = meter.create_counter("messaging.client.sent.messages", "{message}")
        self._consumed = meter.create_counter("messaging.client.consumed.messages", "{message}")
        self._send = meter.create_histogram(
            "messaging.client.operation.duration", "s", explicit_bucket_boundaries_advisory=BUCKETS
        )
        self._process = meter.create_histogram(
            "messaging.process.duration", "s", explicit_bucket_boundaries_advisory=BUCKETS
        )

    def sent(self, attributes: Mapping[str, Any], number: int, seconds: float) -> None:
        self._send.record(seconds, attributes)
        if number:
            self._sent.add(number, attributes)

    def processed(self, attributes: Mapping[str, Any], seconds: float) -> None:
        self._process.record(seconds, attributes)
        self._consumed.add(1, attributes)


class Tracing(Observer):
    """The spans of one Scheduler."""

    def __init__(self, tracer: trace.Tracer, instruments: Instruments, *, same_trace: bool) -> None:
        self._tracer = tracer
        self._instruments = instruments
        self._same_trace = same_trace

    @property
    def lacks_sdk(self) -> bool:
        """Whether it does nothing, since the process has not set up an SDK so far."""
        later = isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        return later and isinstance(self._tracer, trace.ProxyTracer)

    def storing(self, name: str | None, queue: str | None) -> Storing:
        return _Send(self._tracer, self._instruments, name, queue)

    def carrier(self) -> Mapping[str, str]:
        return _carrier()

    def running(self, claimed: ClaimedJob, worker: str) -> JudgedBy:
        created = _W3C.extract(claimed.job.trace)
        link = trace.get_current_span(created).get_span_context()
        parent = created if self._same_trace else contexts.Context()
        span = self._tracer.start_span(
            f"process {claimed.job.queue}",
            context=parent,
            kind=trace.SpanKind.CONSUMER,
            links=[trace.Link(link)] if link.is_valid and not self._same_trace else [],
            attributes=_of_attempt(claimed, worker),
        )
        token = contexts.attach(trace.set_span_in_context(span))
        started = monotonic()

        def judged(ending: Outcome) -> None:
            contexts.detach(token)
            kind = _error_type(ending)
            span.set_attribute("mainspring.outcome", ending.outcome)
            if kind is not None:
                span.set_attribute("error.type", kind)
                span.set_status(trace.StatusCode.ERROR, _message(ending))
            span.end()
            common = _common("process", claimed.job.queue)
            self._instruments.processed(
                common if kind is None else {**common, "error.type": kind}, monotonic() - started
            )

        return judged


class _Send(Storing):
    """The span of one call that stores jobs."""

    def __init__(self, tracer: trace.Tracer, instruments: Instruments, name: str | None, queue: str | None) -> None:
        self._instruments = instruments
        self._common = _common("send", queue)
        attributes = dict(self._common) if name is None else {**self._common, "mainspring.job.name": name}
        self._span = tracer.start_span(
            "send" if queue is None else f"send {queue}", kind=trace.SpanKind.PRODUCER, attributes=attributes
        )
        self._token = contexts.attach(trace.set_span_in_context(self._span))
        self._started = monotonic()
        self.carrier = _carrier()

    def done(self, jobs: Sequence[Job], error: BaseException | None) -> None:
        contexts.detach(self._token)
        span, common = self._span, self._common
        if len(jobs) == 1 and "messaging.destination.name" in common:
            span.set_attribute("messaging.message.id", jobs[0].id)
            span.set_attribute("mainspring.job.deduplicated", jobs[0].deduplicated)
        else:
            span.set_attribute("messaging.batch.message_count", len(jobs))
        if error is not None:
            kind = type(error).__qualname__
            span.set_attribute("error.type", kind)
            span.set_status(trace.StatusCode.ERROR)
            common = {**common, "error.type": kind}
        span.end()
        stored = sum(not job.deduplicated for job in jobs)
        self._instruments.sent(common, stored, monotonic() - self._started)


def _carrier() -> dict[str, str]:
    """The current trace context. Baggage is left out: it may hold anything, and would be stored with the job."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return {key: carrier[key] for key in _STORED if key in carrier}


def _common(operation: str, queue: str | None) -> dict[str, str]:
    found = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    return found if queue is None else {**found, "messaging.destination.name": queue}


def _of_attempt(claimed: ClaimedJob, worker: str) -> dict[str, str | int]:
    job = claimed.job
    found: dict[str, str | int] = {
        **_common("process", job.queue),
        "messaging.message.id": str(job.id),
        "messaging.client.id": worker,
        "mainspring.job.name": job.name,
        "mainspring.attempt": job.tries,
        "mainspring.token": job.token,
    }
    if (flow := job.document.get("flow")) is not None:
        found["messaging.message.conversation_id"] = str(flow)
    if job.schedule_id is not None:
        found["mainspring.schedule.id"] = job.schedule_id
    return found


def _error_type(ending: Outcome) -> str | None:
    return ending.error.type if isinstance(ending, Failed | Retried) else None


def _message(ending: Outcome) -> str | None:
    return ending.error.message if isinstance(ending, Failed | Retried) else None
