"""What a supervisor needs of a Scheduler: changing settings beforehand, and giving back what a dead worker held."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from harness.waiting import eventually
from mainspring import ConfigurationError, Job, Scheduler, Unavailable
from mainspring.cli.supervision.supervisor import Supervisor


async def test_settings_and_place_can_be_changed_before_the_first_connection(uri: str) -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:9", concurrency=3, lease=30)
    assert scheduler.configure(uri, queues=["mail"], timeout=7) is scheduler
    assert (scheduler.settings.queues, scheduler.settings.concurrency, scheduler.settings.lease) == (("mail",), 3, 30)
    await scheduler.connect()
    assert scheduler.uri == uri
    with pytest.raises(ConfigurationError, match="before its first use"):
        scheduler.configure(concurrency=4)
    await scheduler.stop()


def test_settings_are_checked_when_they_are_changed() -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:9")
    with pytest.raises(ConfigurationError, match="concurrency must be"):
        scheduler.configure(concurrency=0)
    with pytest.raises(ConfigurationError, match="Did you mean 'lease'"):
        scheduler.configure(leese=1)  # type: ignore[call-arg]
    assert scheduler.settings.concurrency == 10


async def test_a_scheduler_tells_what_it_can_run() -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:9")
    assert scheduler.workers.handler_names == []
    scheduler.job("b")(lambda: None)
    scheduler.job("a")(lambda: None)
    assert scheduler.workers.handler_names == ["a", "b"]
    assert Scheduler("mongodb://127.0.0.1:9", handler=lambda ctx: None).workers.handler_names is None


async def test_what_a_worker_held_is_given_back_without_waiting_for_its_lease(
    make_scheduler: Callable[..., Scheduler],
) -> None:
    going, told = asyncio.Event(), list[Job]()
    lost, rescuer = make_scheduler(), make_scheduler()

    @lost.job("wait")
    async def wait() -> None:
        await going.wait()

    await lost.start()
    job = await lost.schedule("wait")

    async def runs() -> Job | None:
        now = await rescuer.get_job(job.id)
        return now if now.state == "running" else None

    held: Job = await eventually(runs)
    assert held.worker is not None
    rescuer.on("job:rescue", told.append)
    assert [rescued.id for rescued in await rescuer.workers.rescue(held.worker)] == [job.id]
    (rescued,) = told
    assert (rescued.state, rescued.suspect, rescued.attempts[-1].outcome) == ("pending", True, "lost")
    assert await rescuer.workers.rescue("nobody") == []
    going.set()


async def test_a_stop_that_was_hurried_before_it_began_does_not_wait(
    make_scheduler: Callable[..., Scheduler],
) -> None:
    scheduler, looker = make_scheduler(), make_scheduler()
    begun = asyncio.Event()

    @scheduler.job("wait")
    async def wait() -> None:
        begun.set()
        await asyncio.sleep(100)

    await scheduler.start()
    job = await scheduler.schedule("wait")
    await begun.wait()
    scheduler.stop_now()
    await asyncio.wait_for(scheduler.stop(timeout=100), 30)
    given_back = await looker.get_job(job.id)
    assert (given_back.state, given_back.tries) == ("pending", 0)


async def test_a_supervisor_waits_for_a_database_that_is_not_up_yet(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outages = [Unavailable("no primary"), Unavailable("no primary")]
    connect = scheduler.connect

    async def later() -> Scheduler:
        if outages:
            raise outages.pop()
        return await connect()

    monkeypatch.setattr(scheduler, "connect", later)
    supervisor = Supervisor(scheduler, "app:scheduler", {}, 1)
    assert await supervisor._connect()
    waits = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert waits == [f"Waiting for MongoDB at {scheduler.uri}, which cannot be reached: no primary"] * 2
