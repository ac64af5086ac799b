"""Webhook jobs by target: each server has its own limit, rate and breaker, from settings or set at run time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from harness.inside import inside
from harness.sinks import Received, Sink, reply
from harness.waiting import eventually
from mainspring import Breaker, BreakerStatus, ConfigurationError, Job, Limit, Rate, Scheduler
from mainspring.api.settings import ServiceSettings, service_settings
from mainspring.client.outgoing.builtin_jobs import add_builtin_handlers, webhook_data
from mainspring.jobtypes.http.webhook import parse_request, target_of

Make = Callable[..., Scheduler]
HTTP = "mainspring:http"


def with_webhooks(scheduler: Scheduler, **settings: Any) -> Scheduler:
    add_builtin_handlers(scheduler, ServiceSettings(http_allow="127.0.0.1", **settings))
    return scheduler


async def order(scheduler: Scheduler, sink: Sink, times: int = 1) -> list[Job]:
    data = webhook_data(parse_request({"url": sink.url}), None, target_of(sink.url))
    return await scheduler.schedule_bulk([{"name": HTTP, "data": data, "retry": 1} for _ in range(times)])


async def ended(scheduler: Scheduler, jobs: list[Job]) -> list[str]:
    return [(await scheduler.wait(job.id, 60)).state for job in jobs]


@pytest.fixture
async def sinks() -> AsyncIterator[list[Sink]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Sink()) for _ in range(2)]


class Crowd:
    """Holds answers back, and counts how many wait for one at once."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.here = self.most = 0

    async def answer(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.here += 1
        self.most = max(self.most, self.here)
        await self.go.wait()
        self.here -= 1
        writer.write(reply())


@pytest.mark.slow
async def test_a_slow_target_gets_so_many_requests_at_once_and_keeps_no_other_waiting(
    make_scheduler: Make, sinks: list[Sink]
) -> None:
    slow, quick = sinks
    crowd = Crowd()
    slow.answers = [crowd.answer]
    scheduler = with_webhooks(make_scheduler(concurrency=20), target_concurrency=3)
    await scheduler.start()
    held = await order(scheduler, slow, 12)
    await eventually(lambda: crowd.here == 3)
    assert await ended(scheduler, await order(scheduler, quick, 12)) == ["completed"] * 12
    assert crowd.most == 3
    crowd.go.set()
    assert await ended(scheduler, held) == ["completed"] * 12
    assert crowd.most == 3


async def test_the_limit_of_targets_is_overridden_at_run_time(make_scheduler: Make, sinks: list[Sink]) -> None:
    crowd = Crowd()
    sinks[0].answers = [crowd.answer]
    scheduler = with_webhooks(make_scheduler(), target_concurrency=5)
    await scheduler.start()
    await scheduler.limits.set(name=HTTP, concurrency=Limit(1, key="target"))
    await eventually(lambda: inside(scheduler).limits.overrides)
    held = await order(scheduler, sinks[0], 4)
    await eventually(lambda: crowd.here == 1)
    crowd.go.set()
    assert await ended(scheduler, held) == ["completed"] * 4
    assert crowd.most == 1


@pytest.mark.slow
async def test_the_breaker_of_a_target_that_is_down_keeps_back_its_jobs_alone(
    make_scheduler: Make, sinks: list[Sink]
) -> None:
    down, up = sinks
    down.answers, up.answers = [reply(503)], [reply(404)]
    scheduler = with_webhooks(make_scheduler())
    await scheduler.start()
    assert await ended(scheduler, await order(scheduler, up, 12)) == ["failed"] * 12
    assert await ended(scheduler, await order(scheduler, down, 12)) == ["failed"] * 12

    async def opened() -> list[BreakerStatus]:
        return [one for one in await scheduler.limits.breakers() if one.state == "open"]

    (broken,) = await eventually(opened)
    assert (broken.target, broken.queue, broken.key, broken.value) == (HTTP, "http", "target", target_of(down.url))
    await eventually(lambda: inside(scheduler).limits.closures)
    before = down.connections
    (waits,) = await order(scheduler, down)
    assert await ended(scheduler, await order(scheduler, up, 5)) == ["failed"] * 5
    assert down.connections == before
    told = next(gate for gate in (await scheduler.explain(waits.id)).gates if gate.kind == "breaker")
    assert not told.open and f"with target={target_of(down.url)} is open" in told.text
    down.answers = [reply()]
    await scheduler.limits.close_breaker(name=HTTP, queue="http", key={"target": target_of(down.url)})
    assert await ended(scheduler, [waits]) == ["completed"]


async def test_the_settings_say_what_counts_for_each_target(make_scheduler: Make) -> None:
    usual = with_webhooks(make_scheduler())
    chosen = with_webhooks(make_scheduler(), target_concurrency=2, target_rate="5/s", target_breaker=False)
    nothing = with_webhooks(make_scheduler(), target_concurrency=0, target_breaker=False)
    (status,) = await usual.limits.all()
    assert (status.concurrency, status.rate) == (Limit(20, key="target", each_queue=True), None)
    assert [one.rule for one in await usual.limits.breakers()] == [Breaker(key="target", each_queue=True)]
    (status,) = await chosen.limits.all()
    by_target: dict[str, Any] = {"key": "target", "each_queue": True}
    assert (status.concurrency, status.rate) == (Limit(2, **by_target), Rate("5/s", **by_target))
    assert await chosen.limits.breakers() == []
    assert not await nothing.limits.all() and not await nothing.limits.breakers()


def test_a_rate_that_is_none_is_refused_when_the_service_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_TARGET_RATE", "often")
    with pytest.raises(
        ConfigurationError, match='MAINSPRING_TARGET_RATE is wrong: A rate is text such as "100/minute"'
    ):
        service_settings()
