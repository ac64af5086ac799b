"""Sentry with a transport in memory: errors, queue spans, and check-ins of schedules."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from harness.waiting import eventually
from mainspring import Cancel, Every, Retry, Scheduler
from mainspring.clock import ManualClock
from mainspring.observability.sentry import instrument
from mainspring.observability.sentry_checkins import CheckIns, check_in_id_of
from mainspring.testing import crash_worker, travel

Make = Callable[..., Scheduler]


class Kept(Transport):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[tuple[str, dict[str, Any]]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        for item in envelope.items:
            if item.payload.json is not None:
                self.items.append((str(item.headers["type"]), item.payload.json))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [payload for found, payload in self.items if found == kind]


@pytest.fixture
def kept() -> Iterator[Kept]:
    """The client of this test alone."""
    transport = Kept()
    sentry_sdk.init(
        dsn="https://key@localhost/1",
        transport=transport,
        traces_sample_rate=1.0,
        default_integrations=False,
        integrations=[LoggingIntegration()],  # as by default: log lines are breadcrumbs, and errors among them events
        auto_enabling_integrations=False,
    )
    yield transport
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.Scope.get_global_scope().set_client(None)


async def test_a_job_that_fails_for_good_is_reported_with_its_context_and_its_trace(
    kept: Kept, make_scheduler: Make
) -> None:
    scheduler = make_scheduler(retry=Retry(2, delay=0))
    instrument(scheduler)

    @scheduler.job("charge", queue="billing")
    async def charge(order: int) -> None:
        raise ValueError(f"order {order} is refused")

    await scheduler.start()
    with sentry_sdk.start_transaction(op="test", name="checkout") as transaction:
        job = await scheduler.schedule("charge", {"order": 7}, run_at=scheduler.now() - timedelta(hours=1))
    await job.wait(60)
    (event,) = kept.of("event")  # the first attempt is retried, and not reported
    (error,) = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("ValueError", "order 7 is refused")
    about = event["contexts"]["mainspring"]
    assert (about["job_id"], about["attempt"], about["queue"]) == (job.id, 2, "billing")
    checkout, *attempts = kept.of("transaction")
    (publish,) = checkout["spans"]
    assert (publish["op"], publish["data"]["messaging.message.id"]) == ("queue.publish", job.id)
    assert publish["data"]["messaging.destination.name"] == "billing"
    assert [one["transaction"] for one in attempts] == ["charge", "charge"]
    assert {one["contexts"]["trace"]["trace_id"] for one in attempts} == {transaction.trace_id}
    process = attempts[1]["spans"][0]
    assert (process["op"], process["status"]) == ("queue.process", "internal_error")
    assert process["data"]["messaging.message.retry.count"] == 1
    assert attempts[0]["spans"][0]["data"]["messaging.message.receive.latency"] >= 3_600_000, "in milliseconds"
    assert event["contexts"]["trace"]["trace_id"] == transaction.trace_id


async def test_retried_attempts_are_reported_if_that_is_asked_for(kept: Kept, make_scheduler: Make) -> None:
    scheduler = make_scheduler(retry=Retry(2, delay=0))
    instrument(scheduler, retried_attempts=True)

    @scheduler.job("bad")
    async def bad() -> None:
        raise ValueError("no")

    await scheduler.start()
    await (await scheduler.schedule("bad")).wait(60)
    assert len(kept.of("event")) == 2


async def test_redacted_values_are_in_no_report(kept: Kept, make_scheduler: Make) -> None:
    scheduler = make_scheduler(retry=Retry(1))
    instrument(scheduler)

    @scheduler.job("pay", redact=["card"])
    async def pay(card: str) -> None:
        local = card
        raise ValueError(f"the card {local} is refused")

    await scheduler.start()
    await (await scheduler.schedule("pay", {"card": "4111-1111-1111"})).wait(60)
    (event,) = kept.of("event")
    assert "is refused" in str(event)
    assert "4111" not in str(kept.items)


@pytest.mark.parametrize("options", [{"redact": ["card"]}, {"encrypt": True}], ids=["redacted", "encrypted"])
async def test_hidden_values_are_in_nothing_that_an_attempt_sends(
    kept: Kept, make_scheduler: Make, options: dict[str, Any]
) -> None:
    scheduler = make_scheduler(retry=Retry(1), keys={"a": b"k" * 32})
    instrument(scheduler)

    @scheduler.job("pay", **options)
    async def pay(card: str) -> None:
        half = card[:10]
        logging.getLogger("shop").info("charging %s", card)
        with sentry_sdk.start_span(op="http", name=f"POST /cards/{card}"):
            sentry_sdk.capture_message(f"an odd card: {card}")
        assert half
        raise ValueError(f"the card {card} is refused")

    logging.getLogger("shop").setLevel(logging.INFO)
    await scheduler.start()
    await (await scheduler.schedule("pay", {"card": "hidden-card-number"})).wait(60)
    message, event = kept.of("event")
    assert "an odd card: [redacted]" in str(message) and "charging [redacted]" in str(event["breadcrumbs"])
    assert "POST /cards/[redacted]" in str(kept.of("transaction")) and "is refused" in str(event["exception"])
    assert "hidden-car" not in str(kept.items), "not even a part of it, in a local variable"


async def test_a_hidden_value_that_is_too_short_to_search_for_is_in_no_local_variable(
    kept: Kept, make_scheduler: Make
) -> None:
    scheduler = make_scheduler(retry=Retry(1))
    instrument(scheduler)

    @scheduler.job("open", redact=["pin"])
    async def open_door(pin: str) -> None:
        raise ValueError("no such door")

    await scheduler.start()
    pin = "-".join("zqx")[:3]  # not written out: a report shows the lines of the source around the error
    await (await scheduler.schedule("open", {"pin": pin})).wait(60)
    assert "no such door" in str(kept.of("event")) and pin not in str(kept.items)


async def test_a_report_has_nothing_of_other_attempts_in_the_same_process(kept: Kept, make_scheduler: Make) -> None:
    scheduler = make_scheduler(retry=Retry(1), concurrency=1)
    instrument(scheduler)

    @scheduler.job("first")
    async def first() -> None:
        sentry_sdk.set_tag("of", "the first job")
        sentry_sdk.add_breadcrumb(message="a crumb of the first job")

    @scheduler.job("second")
    async def second() -> None:
        sentry_sdk.add_breadcrumb(message="a crumb of the second job")
        raise ValueError("no")

    sentry_sdk.get_isolation_scope().add_breadcrumb(message="a crumb of the program")
    await scheduler.start()
    await (await scheduler.schedule("first")).wait(60)
    await (await scheduler.schedule("second")).wait(60)
    (event,) = kept.of("event")
    assert [one["message"] for one in event["breadcrumbs"]["values"]] == ["a crumb of the second job"]
    assert event["tags"] == {"mainspring.job": "second", "mainspring.queue": "default"}


def _hourly(scheduler: Scheduler) -> Every:
    """Every hour, for the first time in a moment."""
    return Every("1h", anchor=scheduler.now() + timedelta(seconds=0.3))


async def test_a_run_of_a_schedule_checks_in_with_its_rule_and_then_with_its_end(
    kept: Kept, make_scheduler: Make
) -> None:
    scheduler = make_scheduler(retry=Retry(1))
    instrument(scheduler)
    ran: list[bool] = []

    @scheduler.job("report")
    async def report(fail: bool = False) -> None:
        ran.append(fail)
        if fail:
            raise ValueError("no")

    await scheduler.start()
    await scheduler.schedule("report", repeat=_hourly(scheduler), schedule_id="hourly")
    await eventually(lambda: len(kept.of("check_in")) == 2)
    first, last = kept.of("check_in")
    assert ran == [False]
    assert (first["monitor_slug"], first["status"], last["status"]) == ("hourly", "in_progress", "ok")
    assert first["check_in_id"] == last["check_in_id"]
    assert first["monitor_config"] == {"schedule": {"type": "interval", "value": 1, "unit": "hour"}}
    assert last["duration"] > 0
    (job,) = [job async for job in scheduler.jobs(name="report")]
    assert first["check_in_id"] == check_in_id_of(job.id)
    await scheduler.schedule("report", {"fail": True}, repeat=_hourly(scheduler), schedule_id="failing")
    await eventually(lambda: len(kept.of("check_in")) == 4)
    assert [one["status"] for one in kept.of("check_in")[2:]] == ["in_progress", "error"]


async def test_a_worker_that_stops_waits_for_its_last_check_ins_but_not_for_ever(
    kept: Kept, make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, may_look = asyncio.Event(), asyncio.Event()
    config = CheckIns._config

    async def slow(self: CheckIns, schedule_id: str) -> Any:
        looked.set()
        await may_look.wait()
        return await config(self, schedule_id)

    monkeypatch.setattr(CheckIns, "_config", slow)
    scheduler = make_scheduler()
    instrument(scheduler)

    @scheduler.job("report")
    async def report() -> None: ...

    await scheduler.start()
    await scheduler.schedule("report", repeat=_hourly(scheduler), schedule_id="hourly")
    await asyncio.wait_for(looked.wait(), 60)
    asyncio.get_running_loop().call_later(1, may_look.set)
    await scheduler.stop()
    assert [one["status"] for one in kept.of("check_in")] == ["in_progress", "ok"]
    assert kept.of("check_in")[0]["monitor_config"], "read before the connection was closed"

    looked.clear()
    may_look.clear()
    monkeypatch.setattr("mainspring.observability.sentry_checkins._LAST_CHECK_INS", 0.1)
    await scheduler.start()
    await scheduler.schedule("report", repeat=_hourly(scheduler), schedule_id="second")
    await asyncio.wait_for(looked.wait(), 60)
    await asyncio.wait_for(scheduler.stop(), 60)
    await eventually(lambda: not [task for task in asyncio.all_tasks() if "CheckIns" in repr(task.get_coro())])
    assert len(kept.of("check_in")) == 2, "those that took too long are given up"


async def test_a_run_whose_worker_died_checks_in_as_an_error_once_it_is_given_up(
    kept: Kept, make_scheduler: Make, clock: ManualClock
) -> None:
    scheduler = make_scheduler(retry=Retry(1), clock=clock)
    instrument(scheduler)

    @scheduler.job("report")
    async def report() -> None:
        await eventually(lambda: kept.of("check_in"))

    await scheduler.schedule("report", repeat=Every("1h"), schedule_id="hourly", max_runs=1)
    with crash_worker(scheduler, "report"):
        await travel(scheduler, by="1h")
    await travel(scheduler, by="10m")
    await eventually(lambda: len(kept.of("check_in")) == 2)
    assert [one["status"] for one in kept.of("check_in")] == ["in_progress", "error"]


async def test_a_run_whose_worker_died_and_that_is_tried_again_checks_in_with_its_real_end(
    kept: Kept, make_scheduler: Make, clock: ManualClock
) -> None:
    scheduler = make_scheduler(retry=Retry(2, delay=0), clock=clock)
    instrument(scheduler)

    @scheduler.job("report")
    async def report() -> None: ...

    await scheduler.schedule("report", repeat=Every("1h"), schedule_id="hourly", max_runs=1)
    with crash_worker(scheduler, "report"):
        await travel(scheduler, by="1h")
    await travel(scheduler, by="10m")
    await eventually(lambda: len(kept.of("check_in")) == 2)
    assert [one["status"] for one in kept.of("check_in")] == ["in_progress", "ok"]


async def test_a_run_of_a_schedule_that_is_deleted_checks_in_without_its_rule(kept: Kept, make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    instrument(scheduler)
    scheduler.job("report")(_nothing)
    await scheduler.schedule("report", repeat=Every("1h"), schedule_id="hourly")
    await scheduler.schedules.trigger("hourly")
    await scheduler.schedules.delete("hourly")
    await scheduler.start()
    await eventually(lambda: len(kept.of("check_in")) == 2)
    assert [(one["status"], one.get("monitor_config")) for one in kept.of("check_in")] == [
        ("in_progress", None),
        ("ok", None),
    ]


async def test_a_run_with_several_attempts_checks_in_once_and_a_deleted_schedule_checks_in_without_its_rule(
    kept: Kept, make_scheduler: Make
) -> None:
    scheduler = make_scheduler(retry=Retry(3, delay=0))
    instrument(scheduler)

    @scheduler.job("report")
    async def report() -> None:
        await scheduler.schedules.delete("hourly")
        raise ValueError("no")

    await scheduler.schedule("report", repeat=Every("1h"), schedule_id="hourly")
    await scheduler.schedules.trigger("hourly")
    await scheduler.start()
    await eventually(lambda: len(kept.of("check_in")) == 2)
    assert [one["status"] for one in kept.of("check_in")] == ["in_progress", "error"]


async def test_the_end_of_a_run_is_sent_after_its_beginning_and_a_cancelled_run_is_an_error(
    kept: Kept, make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, reads, known = make_scheduler(), list[str](), asyncio.Event()
    instrument(scheduler)

    async def slow_at_first(self: CheckIns, schedule_id: str) -> None:
        reads.append(schedule_id)
        if len(reads) == 1:
            await known.wait()

    monkeypatch.setattr(CheckIns, "_config", slow_at_first)

    @scheduler.job("report")
    async def report() -> None:
        raise Cancel("not today")

    await scheduler.schedule("report", repeat=Every("1h"), schedule_id="hourly")
    run = await scheduler.schedules.trigger("hourly")
    await scheduler.start()
    await scheduler.wait(run.id, 60)
    known.set()
    await scheduler.stop()
    await eventually(lambda: len(kept.of("check_in")) == 2)
    assert [one["status"] for one in kept.of("check_in")] == ["in_progress", "error"]


async def test_check_ins_can_be_switched_off_and_a_job_without_a_schedule_has_none(
    kept: Kept, make_scheduler: Make
) -> None:
    scheduler, silent = make_scheduler(queues=["default"]), make_scheduler(queues=["silent"])
    instrument(scheduler)
    instrument(silent, check_ins=False)
    for one, queue in ((scheduler, "default"), (silent, "silent")):
        one.job("report", queue=queue)(_nothing)
        await one.start()
    await (await scheduler.schedule("report")).wait(60)
    await silent.schedule("report", repeat=_hourly(silent), schedule_id="hourly", queue="silent")
    await eventually(lambda: len(kept.of("transaction")) == 2)
    assert kept.of("check_in") == []


async def _nothing() -> None: ...
