"""Sentry with a transport in memory: errors, queue spans, and check-ins of schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from harness.waiting import eventually
from mainspring import Every, Retry, Scheduler
from mainspring.observability.sentry import instrument
from mainspring.observability.sentry_checkins import check_in_id_of

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
        job = await scheduler.schedule("charge", {"order": 7})
    await job.wait(10)
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
    assert event["contexts"]["trace"]["trace_id"] == transaction.trace_id


async def test_retried_attempts_are_reported_if_that_is_asked_for(kept: Kept, make_scheduler: Make) -> None:
    scheduler = make_scheduler(retry=Retry(2, delay=0))
    instrument(scheduler, retried_attempts=True)

    @scheduler.job("bad")
    async def bad() -> None:
        raise ValueError("no")

    await scheduler.start()
    await (await scheduler.schedule("bad")).wait(10)
    assert len(kept.of("event")) == 2


async def test_redacted_values_are_in_no_report(kept: Kept, make_scheduler: Make) -> None:
    scheduler = make_scheduler(retry=Retry(1))
    instrument(scheduler)

    @scheduler.job("pay", redact=["card"])
    async def pay(card: str) -> None:
        local = card
        raise ValueError(f"the card {local} is refused")

    await scheduler.start()
    await (await scheduler.schedule("pay", {"card": "4111-1111-1111"})).wait(10)
    (event,) = kept.of("event")
    assert "is refused" in str(event)
    assert "4111" not in str(kept.items)


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
