"""The tests of the shop. `pytest examples/testing` runs them: a MongoDB is started for the run."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import shop
from mainspring import Scheduler
from mainspring.clock import ManualClock
from mainspring.testing import (
    assert_not_scheduled,
    assert_scheduled,
    crash_worker,
    drain,
    eager,
    fail_job,
    make_context,
    run_until_idle,
    travel,
)

BERLIN = ZoneInfo("Europe/Berlin")


async def test_an_order_is_paid_and_shipped(mainspring_scheduler: Scheduler) -> None:
    job = await shop.order.schedule(order_id="A-1", to="ann@example.com")
    runs = await drain(mainspring_scheduler, raise_errors=True)
    assert runs.names == ["order", "ship", "order", "mail"]
    assert (await job.refresh()).result == "receipt of A-1"
    assert shop.mails == ["ann@example.com: shipped in parcel A-1"]


async def test_the_customer_gets_mail_on_the_queue_for_mail(mainspring_scheduler: Scheduler) -> None:
    await shop.order.schedule(order_id="A-1", to="ann@example.com")
    await drain(mainspring_scheduler)
    await assert_scheduled(mainspring_scheduler, "mail", matching={"to": "ann@example.com"}, queue="mail", count=1)
    await assert_not_scheduled(mainspring_scheduler, "report")


async def test_the_handler_alone() -> None:
    ctx = make_context(answers={"ship": "a box"}, steps={"pay": "paid yesterday"})
    with eager(shop.scheduler) as mode:
        assert await shop.order(ctx, order_id="A-1", to="ann@example.com") == "paid yesterday"
    assert (shop.payments, [one.percent for one in ctx.record.progress]) == ([], [50])
    assert_scheduled(mode, "mail", {"to": "ann@example.com", "text": "shipped in a box"})


async def test_a_customer_pays_once_although_shipping_fails_twice(
    mainspring_scheduler: Scheduler, mainspring_clock: ManualClock
) -> None:
    await shop.order.schedule(order_id="A-1", to="ann@example.com")
    with fail_job(mainspring_scheduler, "order", ConnectionError("no van"), times=2, after=True):
        runs = await run_until_idle(mainspring_scheduler)
    assert [run.outcome for run in runs.named("order")] == ["suspended", "retried", "retried", "completed"]
    assert (shop.payments, len(shop.mails)) == (["A-1"], 1)


async def test_a_customer_pays_once_although_the_worker_dies(
    mainspring_scheduler: Scheduler, mainspring_clock: ManualClock
) -> None:
    job = await shop.order.schedule(order_id="A-1", to="ann@example.com")
    with crash_worker(mainspring_scheduler, "order", after_step="pay"):
        await drain(mainspring_scheduler)
    assert (await job.refresh()).state == "running"
    await travel(mainspring_scheduler, by="5m")
    assert (await job.refresh()).state == "completed"
    assert shop.payments == ["A-1"]


async def test_the_report_is_made_every_night_also_when_the_clocks_change(
    mainspring_scheduler: Scheduler, mainspring_clock: ManualClock
) -> None:
    await travel(mainspring_scheduler, to=datetime(2030, 3, 30, tzinfo=BERLIN), jump=True)
    shop.reports.clear()
    journey = await travel(mainspring_scheduler, to=datetime(2030, 4, 2, tzinfo=BERLIN))
    assert shop.reports == ["2030-03-30", "2030-03-31", "2030-04-01"]
    nights = [instant.astimezone(BERLIN).strftime("%H:%M") for instant in journey.instants]
    assert nights == ["02:30", "03:00", "02:30"]  # 02:30 does not exist on the night of March 31
    assert journey.arrived - journey.instants[0] > timedelta(days=2)
