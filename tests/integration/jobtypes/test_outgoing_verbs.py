"""`scheduler.webhook` and `scheduler.email`: two names, and nothing to import."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from harness import mail
from harness.inside import inside
from harness.sinks import Sink
from mainspring import ConfigurationError, Every, InvalidJob, Scheduler
from mainspring.sync import Scheduler as BlockingScheduler


async def test_a_webhook_is_sent_by_the_worker_of_the_process_that_made_it(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSPRING_HTTP_ALLOW", "127.0.0.1")
    async with Sink() as sink, scheduler:
        job = await scheduler.webhook(
            sink.url + "/orders/{{data.order}}",
            name="billing",
            headers={"X-From": "shop"},
            body={"order": "{{data.order}}"},
            data={"order": 7},
            timeout="5s",
            tags=["a"],
        )
        done = await job.wait(60)
        assert (done.state, done.label, done.queue, done.tags) == ("completed", "billing", "http", ("a",))
        (request,) = sink.received
        assert (request.path, request.header("x-from"), request.body) == ("/orders/7", "shop", b'{"order":7}')
        assert done.data["request"]["timeout"] == 5.0 and done.timeout is None
        assert [one.id async for one in scheduler.jobs(label="billing")] == [job.id]
        assert [one.id async for one in scheduler.jobs(label="other")] == []


async def test_a_worker_declares_that_it_sends_webhooks(scheduler: Scheduler) -> None:
    assert scheduler.outgoing(http_allow="127.0.0.1") is scheduler
    assert inside(scheduler).handlers.own_names == ["mainspring:http"]
    with pytest.raises(ConfigurationError, match="Did you mean 'http_allow'"):
        scheduler.outgoing(http_alow="x")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="target_concurrency is wrong"):
        scheduler.outgoing(target_concurrency=-1)


async def test_a_webhook_on_a_schedule_has_its_name_on_every_job(scheduler: Scheduler) -> None:
    schedule = await scheduler.webhook(
        "https://example.com", name="ping", method="GET", repeat=Every("1h"), schedule_id="s"
    )
    assert (schedule.id, schedule.policy.overlap) == ("s", "skip")
    await schedule.edit(repeat=Every("2h"))
    job = await schedule.trigger()
    assert (job.label, job.schedule_id, job.data["request"]["method"]) == ("ping", "s", "GET")


@pytest.mark.parametrize(
    "given",
    [
        {"url": "ftp://example.com"},
        {"url": "https://example.com", "method": "FETCH"},
        {"url": "https://example.com", "hedaers": {}},
        {"url": "https://example.com/{{data.missing}}"},
        {"url": "https://example.com", "guarantee": "exactly_once"},
    ],
)
async def test_a_webhook_that_could_not_be_sent_is_refused(scheduler: Scheduler, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidJob):
        await scheduler.webhook(**given)


async def test_a_mail_is_sent(scheduler: Scheduler) -> None:
    async with mail.smtp_sink() as sink:
        scheduler.outgoing(smtp_url=f"smtp://127.0.0.1:{sink.port}", smtp_from="shop@example.com")
        async with scheduler:
            job = await scheduler.email(
                ("ann@example.com", "ben@example.com"), "Your report", "It is ready.", html="<p>", name="report"
            )
            done = await job.wait(60)
        assert (done.state, done.label, done.queue) == ("completed", "report", "email")
        assert sink.received[0].recipients == ["ann@example.com", "ben@example.com"]
        assert sink.received[0].message["subject"] == "Your report"


async def test_a_mail_that_could_not_be_sent_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidJob, match="The mail is not valid"):
        await scheduler.email("nobody", "x\ny")
    waiting = await scheduler.email("ann@example.com", "later", "x", delay=60)
    assert (waiting.state, waiting.data["to"]) == ("pending", "ann@example.com")


async def test_the_blocking_face_has_both_verbs(uri: str) -> None:
    scheduler = BlockingScheduler(uri)
    try:
        job = await asyncio.to_thread(scheduler.webhook, "https://example.com", name="a", delay=60)
        other = await asyncio.to_thread(scheduler.email, "ann@example.com", "x", "y", delay=60)
        assert (job.label, other.name) == ("a", "mainspring:email")
    finally:
        await asyncio.to_thread(scheduler.stop)


async def test_a_worker_of_webhooks_without_the_extra_names_it(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.outgoing()
    for module in ("webhook", "connector"):
        monkeypatch.delitem(sys.modules, f"mainspring.jobtypes.http.{module}", raising=False)
        monkeypatch.delattr(f"mainspring.jobtypes.http.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(ConfigurationError, match=r"mainspring\[http,email\]"):
        await scheduler.start()
