"""Traces with the SDK of OpenTelemetry: from schedule() to the attempt, to its children, and into the webhook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bson import ObjectId
from opentelemetry import baggage, trace
from opentelemetry import context as contexts
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from harness.inside import inside
from harness.waiting import eventually
from mainspring import BulkError, Every, Fail, JobContext, Retry, Scheduler
from mainspring.client.outgoing.builtin_jobs import add_builtin_handlers, webhook_data
from mainspring.engine.callbacks import LONGEST_VALUE, JudgedBy, Observer, Storing
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.jobtypes.http.request import parse_request
from mainspring.model.jobs.reserved_names import HTTP
from mainspring.observability.otel import instrument

Make = Callable[..., Scheduler]


class Traced:
    """A Scheduler whose spans and metrics stay in memory."""

    def __init__(self, scheduler: Scheduler, **options: Any) -> None:
        self.scheduler = scheduler
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.reader = InMemoryMetricReader()
        meters = MeterProvider([self.reader])
        instrument(scheduler, tracer_provider=self.provider, meter_provider=meters, **options)

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def span(self, name: str) -> ReadableSpan:
        (found,) = self.spans(name)
        return found

    def metrics(self) -> dict[str, Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        return {metric.name: metric.data.data_points for scope in scopes for metric in scope.metrics}


@pytest.fixture
def traced(make_scheduler: Make) -> Traced:
    return Traced(make_scheduler(retry=Retry(1)))


def _context(span: ReadableSpan) -> trace.SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def _traceparent(span: ReadableSpan) -> str:
    context = _context(span)
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


async def _stored(scheduler: Scheduler, job_id: str) -> dict[str, Any]:
    document = await (await inside(scheduler).store()).connection.jobs.find_one({"_id": ObjectId(job_id)})
    assert document is not None
    return dict(document)


async def test_an_attempt_is_a_span_that_is_linked_to_the_one_that_stored_its_job(traced: Traced) -> None:
    scheduler = traced.scheduler

    @scheduler.job("good", queue="mail")
    async def good() -> None: ...

    await scheduler.start()
    job = await (await scheduler.schedule("good")).wait(60)
    send, process = traced.span("send mail"), traced.span("process mail")
    assert (send.kind, process.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
    assert [link.context.span_id for link in process.links] == [_context(send).span_id]
    assert process.parent is None and _context(process).trace_id != _context(send).trace_id
    assert dict(send.attributes or {}) == {
        "messaging.system": "mainspring",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "mainspring.job.name": "good",
        "mainspring.job.deduplicated": False,
    }
    assert dict(process.attributes or {}) == {
        "messaging.system": "mainspring",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "messaging.client.id": scheduler.workers.own_id,
        "mainspring.job.name": "good",
        "mainspring.attempt": 1,
        "mainspring.token": 1,
        "mainspring.outcome": "completed",
    }
    assert (await _stored(scheduler, job.id))["trace"] == {"traceparent": _traceparent(send)}


async def test_the_state_of_the_trace_is_stored_with_the_job_and_baggage_is_not(traced: Traced) -> None:
    state = trace.TraceState([("vendor", "x")])
    remote = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(1), trace_state=state)
    parent = trace.set_span_in_context(trace.NonRecordingSpan(remote))
    token = contexts.attach(baggage.set_baggage("user", "canary", parent))
    try:
        job = await traced.scheduler.schedule("later", delay=3600)
    finally:
        contexts.detach(token)
    stored = await _stored(traced.scheduler, job.id)
    assert stored["trace"] == {"traceparent": _traceparent(traced.span("send default")), "tracestate": "vendor=x"}
    assert "canary" not in str(stored)


async def test_with_the_same_trace_an_attempt_is_a_child(make_scheduler: Make) -> None:
    traced = Traced(make_scheduler(), same_trace=True)
    traced.scheduler.job("good")(lambda: None)
    await traced.scheduler.start()
    await (await traced.scheduler.schedule("good")).wait(60)
    send, process = traced.span("send default"), traced.span("process default")
    assert process.parent is not None and process.parent.span_id == _context(send).span_id
    assert not process.links


async def test_an_attempt_is_no_child_of_the_span_in_which_the_worker_was_started(traced: Traced) -> None:
    scheduler = traced.scheduler
    scheduler.job("good")(lambda: None)
    with traced.provider.get_tracer("program").start_as_current_span("startup"):
        await scheduler.start()
    await (await scheduler.schedule("good")).wait(60)
    assert traced.span("process default").parent is None


async def test_the_span_of_a_failed_attempt_has_the_redacted_error(traced: Traced) -> None:
    scheduler = traced.scheduler

    @scheduler.job("bad", redact=["card"])
    async def bad(card: str) -> None:
        raise ValueError(f"the card {card} is refused")

    await scheduler.start()
    await (await scheduler.schedule("bad", {"card": "4111-1111-1111"})).wait(60)
    process = traced.span("process default")
    assert process.status.status_code is trace.StatusCode.ERROR
    assert (process.attributes or {})["error.type"] == "ValueError"
    assert "4111" not in process.to_json() and "is refused" in str(process.status.description)


async def test_jobs_that_a_handler_schedules_and_waits_for_are_in_its_trace(traced: Traced) -> None:
    scheduler = traced.scheduler

    @scheduler.job("parent", queue="parents")
    async def parent(ctx: JobContext) -> None:
        await ctx.schedule("child", queue="one")
        await ctx.call("wait", "child", queue="two")

    scheduler.job("child")(lambda: None)
    await scheduler.start()
    job = await (await scheduler.schedule("parent")).wait(60)
    await eventually(lambda: traced.spans("process one"))
    first = traced.spans("process parents")[0]
    send = traced.spans("send one")[0]
    assert send.parent is not None and send.parent.span_id == _context(first).span_id
    waited = traced.span("process two")
    assert (waited.attributes or {})["messaging.message.conversation_id"] == job.id
    assert [link.context.span_id for link in waited.links] == [_context(first).span_id]


async def test_a_bulk_is_one_span_and_all_its_jobs_are_linked_to_it(traced: Traced) -> None:
    scheduler = traced.scheduler
    scheduler.job("good")(lambda: None)
    await scheduler.start()
    with pytest.raises(BulkError):
        await scheduler.schedule_bulk([{"name": "good"}, {"name": "good"}, {"name": ""}])
    await eventually(lambda: len(traced.spans("process default")) == 2)
    send = traced.span("send")
    assert (send.attributes or {})["messaging.batch.message_count"] == 2
    assert (send.attributes or {})["error.type"] == "BulkError" and send.status.status_code is trace.StatusCode.ERROR
    linked = {span.links[0].context.span_id for span in traced.spans("process default")}
    assert linked == {_context(send).span_id}


async def test_spans_end_where_their_calls_end(traced: Traced) -> None:
    scheduler = traced.scheduler
    inside_job: list[trace.SpanContext] = []

    @scheduler.job("good")
    async def good() -> None:
        inside_job.append(trace.get_current_span().get_span_context())

    before = contexts.get_current()
    jobs = [await scheduler.schedule("good") for _ in range(2)]
    assert contexts.get_current() == before
    assert [span.parent for span in traced.spans("send default")] == [None, None]
    await scheduler.start()
    for job in jobs:
        await job.wait(60)
    await eventually(lambda: len(traced.spans("process default")) == 2)
    assert {one.span_id for one in inside_job} == {_context(span).span_id for span in traced.spans("process default")}


class _Outer(Observer):
    """Keeps the trace contexts before and after an attempt, outside the spans of observers that are added later."""

    def __init__(self) -> None:
        self.seen: list[contexts.Context] = []

    def running(self, claimed: ClaimedJob, worker: str) -> JudgedBy:
        self.seen.append(contexts.get_current())
        return lambda _: self.seen.append(contexts.get_current())


async def test_the_span_of_an_attempt_is_the_current_one_until_the_attempt_ends_and_no_longer(
    make_scheduler: Make,
) -> None:
    scheduler, outer = make_scheduler(), _Outer()
    inside(scheduler).core.observers.add(outer)
    traced = Traced(scheduler)
    scheduler.job("good")(lambda: None)
    await scheduler.start()
    await (await scheduler.schedule("good")).wait(60)
    assert traced.span("process default")
    before, after = outer.seen
    assert after == before


async def test_the_metrics_of_the_conventions_count_jobs_sent_and_processed(traced: Traced) -> None:
    scheduler = traced.scheduler

    @scheduler.job("bad")
    async def bad() -> None:
        raise Fail("no")

    job = await scheduler.schedule("bad", dedupe_key="once")
    await scheduler.schedule("bad", dedupe_key="once")  # none is stored, and none counts
    await scheduler.start()
    await job.wait(60)
    found = traced.metrics()
    assert sum(point.value for point in found["messaging.client.sent.messages"]) == 1
    (consumed,) = found["messaging.client.consumed.messages"]
    assert (consumed.value, consumed.attributes["messaging.destination.name"]) == (1, "default")
    assert consumed.attributes["error.type"] == "Fail"
    assert found["messaging.process.duration"][0].count == 1
    assert found["messaging.client.operation.duration"][0].count == 2


async def test_the_firings_of_a_schedule_begin_traces_of_their_own_and_name_it(traced: Traced) -> None:
    scheduler = traced.scheduler
    scheduler.job("report")(lambda: None)
    await scheduler.schedule("report", repeat=Every("1h"), schedule_id="hourly")
    await scheduler.schedules.trigger("hourly")
    await scheduler.start()
    await eventually(lambda: traced.spans("process default"))
    process = traced.span("process default")
    assert (process.attributes or {})["mainspring.schedule.id"] == "hourly" and not process.links


async def test_a_webhook_carries_the_trace_of_its_attempt(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str | None] = []

    async def send(session: Any, request: Any, facts: Any, *others: Any) -> Any:
        sent.append(facts.traceparent)
        raise Fail("not sent")

    monkeypatch.setattr("mainspring.jobtypes.http.webhook.send", send)
    scheduler = traced.scheduler
    add_builtin_handlers(scheduler, _Builtins())
    await scheduler.start()
    request = parse_request({"url": "https://example.com/hook"})
    data = webhook_data(request, None, "https://example.com", "00-" + 32 * "1" + "-" + 16 * "2" + "-01")
    await (await scheduler.schedule(HTTP, data)).wait(60)
    assert sent == [_traceparent(traced.span("process http"))]


class _Builtins:
    http_allow, target_concurrency, target_rate, target_breaker = "", 0, "", False
    smtp_url, smtp_from, smtp_senders = None, None, ""


class _Broken(Observer):
    def storing(self, name: str | None, queue: str | None) -> Storing | None:
        raise RuntimeError("broken")

    def running(self, claimed: ClaimedJob, worker: str) -> Any:
        def judged(_: object) -> None:
            raise RuntimeError("broken too")

        return judged


class _Chatty(Observer):
    def carrier(self) -> dict[str, str]:
        return {"short": "x", "long": "x" * (LONGEST_VALUE + 1)}


async def test_an_observer_that_raises_affects_no_job(scheduler: Scheduler, caplog: pytest.LogCaptureFixture) -> None:
    inside(scheduler).core.observers.add(_Broken())
    scheduler.job("good")(lambda: 7)
    await scheduler.start()
    assert (await (await scheduler.schedule("good")).wait(60)).result == 7
    assert caplog.text.count("An observer of jobs raised") == 2


def test_a_value_that_is_too_long_is_not_stored_with_jobs(scheduler: Scheduler) -> None:
    inside(scheduler).core.observers.add(_Chatty())
    assert inside(scheduler).core.observers.carrier() == {"short": "x"}


async def test_a_trace_that_another_program_wrote_wrongly_harms_no_job(traced: Traced) -> None:
    scheduler = traced.scheduler
    scheduler.job("good")(lambda: None)
    job = await scheduler.schedule("good", delay=3600)
    jobs = (await inside(scheduler).store()).connection.jobs
    wrong = {"traceparent": 7, "tracestate": "∞", "x": [1]}
    await jobs.update_one({"_id": ObjectId(job.id)}, {"$set": {"trace": wrong}})
    await scheduler.start()
    await job.run_now()
    assert (await job.wait(60)).state == "completed"
    assert traced.span("process default").links == ()
