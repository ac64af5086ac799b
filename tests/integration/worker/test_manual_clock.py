"""A clock that is moved by hand drives a running worker: schedules, delayed jobs, retries, expiry."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import mainspring.sync
from harness.inside import inside
from harness.waiting import eventually
from mainspring import ConfigurationError, Cron, Job, JobContext, Retry, Scheduler
from mainspring.clock import ManualClock
from mainspring.engine.chores.jobs.expire_late import ExpireLate
from mainspring.engine.services import timekeeper
from mainspring.store.jobs.leases import Renewals

DAY = timedelta(days=1)


class Diary:
    """A handler that notes the firings it has run for."""

    def __init__(self, scheduler: Scheduler, name: str = "report") -> None:
        self.entries: list[datetime | None] = []
        scheduler.job(name)(self.note)

    async def note(self, ctx: JobContext) -> None:
        self.entries.append(ctx.scheduled_for)


async def start_long_job(scheduler: Scheduler) -> tuple[Job, asyncio.Event]:
    """Start the worker and a job that runs until the event is set."""
    running, go_on = asyncio.Event(), asyncio.Event()

    @scheduler.job("long")
    async def long() -> None:
        running.set()
        await go_on.wait()

    await scheduler.start()
    job = await scheduler.schedule("long")
    await running.wait()
    return job, go_on


@pytest.mark.slow
async def test_a_daily_schedule_fires_once_on_each_of_many_days(
    make_scheduler: Callable[..., Scheduler], clock: ManualClock
) -> None:
    scheduler = make_scheduler(clock=clock, keep_finished=None)  # retention goes by the clock as well
    diary = Diary(scheduler)
    await scheduler.start()
    schedule = await scheduler.schedule("report", repeat=Cron("30 2 * * *"), schedule_id="nightly")
    for day in range(30):
        assert await clock.advance(DAY) == clock.now()
        jobs = [job async for job in scheduler.jobs(schedule_id=schedule.id)]
        assert len(jobs) == day + 1  # made by the time that advance() is back
        await scheduler.wait(jobs[0].id, timeout=60)
    assert diary.entries == [datetime(2030, 1, 1, 2, 30, tzinfo=UTC) + DAY * day for day in range(30)]


async def test_a_plain_advance_wakes_the_worker(
    make_scheduler: Callable[..., Scheduler], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timekeeper, "_SAFETY_NET", 3600.0)
    scheduler = make_scheduler(clock=clock, poll_interval=3600)
    diary = Diary(scheduler)
    await scheduler.start()
    await scheduler.schedule("report", repeat=Cron("30 2 * * *"))
    for day in range(1, 4):
        assert clock.advance(DAY) == clock.now() == datetime(2030, 1, 1 + day, tzinfo=UTC)
        await eventually(lambda day=day: len(diary.entries) == day, timeout=60)  # type: ignore[misc]


async def test_delayed_jobs_and_retries_are_run_when_the_clock_says_so(
    make_scheduler: Callable[..., Scheduler], clock: ManualClock
) -> None:
    scheduler = make_scheduler(clock=clock, poll_interval=3600)
    tried: list[int] = []

    @scheduler.job("flaky", retry=Retry(attempts=3, delay=3600, backoff="fixed", jitter=0))
    async def flaky(ctx: JobContext) -> None:
        tried.append(ctx.attempt)
        if ctx.attempt < 3:
            raise ValueError("not yet")

    await scheduler.start()
    job = await scheduler.schedule("flaky", delay=DAY)
    for attempt, step in ((1, DAY), (2, timedelta(hours=1)), (3, timedelta(hours=1))):
        await clock.advance(step)

        async def settled(attempt: int = attempt) -> bool:
            return len((await scheduler.get_job(job.id)).attempts) == attempt

        await eventually(settled, timeout=60)
    assert tried == [1, 2, 3] and (await scheduler.get_job(job.id)).state == "completed"


async def test_a_job_that_runs_while_days_pass_is_not_taken_from_its_worker(
    make_scheduler: Callable[..., Scheduler], clock: ManualClock
) -> None:
    scheduler = make_scheduler(clock=clock)
    job, go_on = await start_long_job(scheduler)
    for _ in range(3):
        await clock.advance(DAY)
        lease = (await scheduler.get_job(job.id)).lease_until
        assert lease is not None and lease > clock.now()
    go_on.set()
    done = await scheduler.wait(job.id, timeout=60)
    assert (done.state, len(done.attempts)) == ("completed", 1)


async def test_a_renewal_that_is_under_way_when_the_clock_is_moved_is_followed_by_another(
    make_scheduler: Callable[..., Scheduler], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(clock=clock)
    written, moved = threading.Event(), threading.Event()
    renew = Renewals.renew

    def renew_and_wait(self: Renewals, *args: Any) -> Any:
        gone = renew(self, *args)
        written.set()
        moved.wait(60)
        return gone

    job, go_on = await start_long_job(scheduler)
    heartbeat = inside(scheduler).worker.heartbeat
    monkeypatch.setattr(Renewals, "renew", renew_and_wait)
    heartbeat.clock_moved()
    await eventually(written.is_set)
    advanced = asyncio.ensure_future(_advance(clock))
    await eventually(lambda: clock.now() > datetime(2030, 1, 1, tzinfo=UTC))
    await asyncio.sleep(0)
    moved.set()
    await advanced
    lease = (await scheduler.get_job(job.id)).lease_until
    assert lease is not None and lease > clock.now()
    go_on.set()
    await scheduler.wait(job.id, timeout=60)


async def test_a_job_that_is_too_late_expires_when_the_clock_says_so(
    make_scheduler: Callable[..., Scheduler], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ExpireLate, "every", 3600.0)
    scheduler = make_scheduler(clock=clock)
    Diary(scheduler)
    await scheduler.start()
    await scheduler.queues.pause("default")
    job = await scheduler.schedule("report", start_within=60)
    await clock.advance(DAY)
    assert (await scheduler.wait(job.id, timeout=60)).state == "expired"


async def test_a_scheduler_that_is_there_already_is_given_a_clock(uri: str, clock: ManualClock) -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:9")
    diary = Diary(scheduler)
    scheduler.configure(uri, clock=clock, poll_interval=0.2)
    assert scheduler.now() == clock.now()
    for round in range(2):  # as the tests of an application do it, one after the other
        await scheduler.start()
        with pytest.raises(ConfigurationError, match="before its first use"):
            scheduler.configure(clock=ManualClock())
        job = await scheduler.schedule("report", delay=DAY)
        await clock.advance(DAY)
        assert (await scheduler.wait(job.id, timeout=60)).state == "completed"
        assert len(diary.entries) == round + 1
        await scheduler.stop()
        scheduler.configure(clock=clock)


def test_the_blocking_face_goes_by_the_clock_too(uri: str, clock: ManualClock) -> None:
    ran: list[Any] = []
    with mainspring.sync.Scheduler(uri, clock=clock, poll_interval=3600) as scheduler:
        scheduler.job("report")(lambda: ran.append(clock.now()))
        job = scheduler.schedule("report", delay=DAY)
        clock.advance(DAY)
        assert scheduler.wait(job.id, timeout=60).state == "completed"
        scheduler.schedule("report", repeat=Cron("30 2 * * *"), schedule_id="nightly")
        asyncio.run(_advance(clock))
        assert [one.schedule_id for one in scheduler.jobs(schedule_id="nightly")] == ["nightly"]


async def _advance(clock: ManualClock) -> None:
    await clock.advance(DAY)
