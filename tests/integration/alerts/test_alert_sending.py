"""Which process sends the messages of alerts: a worker that can, and the service where no live worker can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.alerting import look
from harness.looking import Database
from harness.mail import smtp_sink
from harness.sinks import Sink
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.api.settings import ServiceSettings
from mainspring.client.alerts import watch as watching
from mainspring.client.alerts.watch import AlertWatch
from mainspring.client.outgoing.builtin_jobs import add_builtin_handlers
from mainspring.clock import ManualClock

Make = Callable[..., Scheduler]
LOCAL: dict[str, Any] = {"http_allow": "127.0.0.1"}


async def broken(scheduler: Scheduler, to: list[dict[str, Any]], **options: Any) -> None:
    """A rule whose condition holds."""
    await scheduler.alerts.create("ops", "breaker_open", to, group_window=0, **options)
    await scheduler.limits.open_breaker(name="report")


async def test_a_worker_evaluates_the_rules_by_itself_and_sends_once(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    add_builtin_handlers(scheduler, ServiceSettings(**LOCAL))
    async with Sink() as sink:
        await broken(scheduler, [{"type": "chat", "url": sink.url}])
        await scheduler.start()
        watch = AlertWatch(scheduler, ServiceSettings(**LOCAL))
        await eventually(lambda: len(sink.received) == 1)
        assert await watch.look() is False, "a service beside a worker in one process leaves the rules to it"
        assert len(sink.received) == 1


async def test_a_service_without_a_worker_evaluates_the_rules_by_itself_and_goes_on_after_an_error(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "EVERY", 0.01)
    monkeypatch.setattr(watching, "SELDOM", 0.01)
    scheduler = await make_scheduler().connect()
    watch, look_once, looks = AlertWatch(scheduler, ServiceSettings(**LOCAL)), AlertWatch.look, list[int]()

    async def first_fails(self: AlertWatch) -> bool:
        looks.append(1)
        if len(looks) == 1:
            raise ValueError("the first look fails")
        return await look_once(self)

    monkeypatch.setattr(AlertWatch, "look", first_fails)
    async with Sink() as sink, watch.kept():
        await broken(scheduler, [{"type": "chat", "url": sink.url}])
        await eventually(lambda: len(sink.received) == 1)


@pytest.mark.parametrize(
    ("queues", "handlers", "sends"),
    [
        (None, ["mainspring:http"], False),
        (["mail"], ["mainspring:http"], True),
        (None, ["report"], True),
    ],
)
async def test_the_service_sends_what_no_live_worker_can_send_and_leaves_the_rest_to_it(
    timed: Scheduler, clock: ManualClock, db: Database, queues: list[str] | None, handlers: list[str], sends: bool
) -> None:
    alive = {"_id": "w", "beat_at": clock.now(), "queues": queues, "handlers": handlers}
    await db["jobs.workers"].insert_one(alive)
    watch = AlertWatch(timed, ServiceSettings(**LOCAL))
    async with Sink() as sink:
        await broken(timed, [{"type": "chat", "url": sink.url}])
        await watch.look()
        assert (len(sink.received) == 1) is sends
    await watch._courier.close()


async def test_the_service_sends_what_a_worker_without_the_handler_has_set_aside(
    make_scheduler: Make, db: Database
) -> None:
    worker, service = make_scheduler(), await make_scheduler().connect()
    await worker.start()
    async with Sink() as sink:
        await broken(service, [{"type": "chat", "url": sink.url}, {"type": "email", "to": ["ops@example.com"]}])
        await look(service)

        async def are_set_aside() -> bool:
            return await db.jobs.count_documents({"waiting_for.by": "handler"}, hint="_id_") == 2

        await eventually(are_set_aside)
        watch = AlertWatch(service, ServiceSettings(**LOCAL))
        await eventually(watch.look)
        await eventually(lambda: len(sink.received) == 1)
        await watch.close()
    (left,) = [job async for job in service.jobs(state="pending")]
    assert left.name == "mainspring:email" and left.waiting_for is not None, "it has no mail server either"


async def test_the_service_sends_mails_of_alerts_too(timed: Scheduler, db: Database) -> None:
    async with smtp_sink() as sink:
        url = f"smtp://127.0.0.1:{sink.port}?starttls=off"
        smtp: dict[str, Any] = {"smtp_url": url, "smtp_from": "us@example.com"}
        watch = AlertWatch(timed, ServiceSettings(**smtp))
        await broken(timed, [{"type": "email", "to": ["ops@example.com"]}])
        await look(timed)
        await watch.look()
        await watch._courier.close()
    (mail,) = sink.received
    assert mail.recipients == ["ops@example.com"] and mail.message["Subject"] == "[Mainspring] FIRING: ops"
