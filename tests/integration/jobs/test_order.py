"""Which job runs next: priorities, times, queues, expiry, and nothing early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.waiting import eventually
from mainspring import Job, JobContext, Scheduler

Make = Callable[..., Scheduler]


def record(scheduler: Scheduler, *names: str) -> list[str]:
    """Handlers that write their job's `which` into a list, in the order in which they run."""
    ran: list[str] = []
    for name in names or ("note",):

        @scheduler.job(name)
        async def note(ctx: JobContext) -> None:
            ran.append(ctx.data["which"])

        del note
    return ran


async def all_ended(scheduler: Scheduler, jobs: list[Job]) -> list[Job]:
    return [await scheduler.wait(job.id, timeout=60) for job in jobs]


async def test_the_more_urgent_job_runs_first_and_the_earlier_one_among_equals(make_scheduler: Make) -> None:
    scheduler = make_scheduler(concurrency=1)
    ran = record(scheduler)
    early, late = datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 1, 1, tzinfo=UTC)
    order = [("e", 10, early), ("d", 5, late), ("c", 5, early), ("b", 2, late), ("a", 1, late)]
    jobs = [
        await scheduler.schedule("note", {"which": which}, priority=priority, run_at=run_at)
        for which, priority, run_at in order
    ]
    await scheduler.start()
    await all_ended(scheduler, jobs)
    assert ran == ["a", "b", "c", "d", "e"]


async def test_jobs_of_one_instant_run_in_the_order_in_which_they_were_made(make_scheduler: Make) -> None:
    scheduler = make_scheduler(concurrency=1)
    ran = record(scheduler)
    at = datetime(2020, 1, 1, tzinfo=UTC)
    jobs = await scheduler.schedule_bulk([{"name": "note", "data": {"which": str(i)}, "run_at": at} for i in range(20)])
    await scheduler.start()
    await all_ended(scheduler, jobs)
    assert ran == [str(i) for i in range(20)]


async def test_a_handlers_queue_and_priority_are_the_defaults_of_its_jobs(scheduler: Scheduler) -> None:
    @scheduler.job("mail", queue="mail", priority=2)
    async def mail() -> None: ...

    job = await scheduler.schedule("mail")
    assert (job.queue, job.priority) == ("mail", 2)
    job = await scheduler.schedule("mail", queue="other", priority=7)
    assert (job.queue, job.priority) == ("other", 7)
    (job,) = await scheduler.schedule_bulk([{"name": "mail"}])
    assert (job.queue, job.priority) == ("mail", 2)


async def test_a_worker_takes_jobs_of_its_own_queues_only(make_scheduler: Make) -> None:
    scheduler = make_scheduler(queues=["a", "b"])
    ran = record(scheduler)
    jobs = [await scheduler.schedule("note", {"which": queue}, queue=queue) for queue in ("c", "b", "a", "default")]
    await scheduler.start()
    await all_ended(scheduler, [jobs[1], jobs[2]])
    assert sorted(ran) == ["a", "b"]
    assert {(await scheduler.get_job(jobs[i].id)).state for i in (0, 3)} == {"pending"}


async def test_a_worker_takes_jobs_of_all_queues_when_none_are_named(scheduler: Scheduler) -> None:
    ran = record(scheduler)
    await scheduler.start()
    jobs = [await scheduler.schedule("note", {"which": queue}, queue=queue) for queue in ("c", "b", "a", "default")]
    await all_ended(scheduler, jobs)
    assert sorted(ran) == ["a", "b", "c", "default"]


async def test_queues_are_served_in_turn_beginning_with_the_one_that_waits_longest(make_scheduler: Make) -> None:
    scheduler = make_scheduler(concurrency=2)
    ran = record(scheduler)
    old = datetime(2020, 1, 1, tzinfo=UTC)
    crowd = [
        {"name": "note", "data": {"which": "big"}, "queue": "big", "run_at": old + timedelta(seconds=i)}
        for i in range(40)
    ]
    few = [
        {"name": "note", "data": {"which": f"small{i}"}, "queue": f"s{i}", "run_at": old - timedelta(days=1)}
        for i in range(2)
    ]
    jobs = await scheduler.schedule_bulk([*crowd, *few])
    await scheduler.start()
    await all_ended(scheduler, jobs)
    assert sorted(ran[:2]) == ["small0", "small1"]


@pytest.mark.slow
async def test_a_crowded_queue_does_not_starve_the_others(make_scheduler: Make) -> None:
    scheduler = make_scheduler(concurrency=2, prefetch=0)
    ran = record(scheduler)
    old = datetime(2020, 1, 1, tzinfo=UTC)
    crowd = [
        {"name": "note", "data": {"which": "big"}, "queue": "big", "priority": 1, "run_at": old + timedelta(seconds=i)}
        for i in range(30)
    ]
    few = [
        {"name": "note", "data": {"which": "small"}, "queue": "small", "run_at": old + timedelta(days=1)}
        for i in range(10)
    ]
    jobs = await scheduler.schedule_bulk([*crowd, *few])
    await scheduler.start()
    await all_ended(scheduler, jobs)
    assert ran[:24].count("small") >= 8


@pytest.mark.slow
async def test_a_job_for_later_is_not_run_early(scheduler: Scheduler) -> None:
    started: list[datetime] = []

    @scheduler.job("later")
    async def later() -> None:
        started.append(datetime.now(UTC))

    await scheduler.start()
    soon = await scheduler.schedule("later", delay=0.4)
    far = await scheduler.schedule("later", run_at=datetime.now(UTC) + timedelta(hours=1))
    assert (soon.state, (await scheduler.get_job(soon.id)).state) == ("pending", "pending")
    done = await scheduler.wait(soon.id, 60)
    assert done.attempts[0].started_at is not None
    assert done.attempts[0].started_at >= done.run_at - timedelta(milliseconds=5)
    assert (await scheduler.get_job(far.id)).token == 0


async def test_no_more_jobs_run_at_once_than_the_worker_has_slots(make_scheduler: Make) -> None:
    scheduler = make_scheduler(concurrency=3)
    at_once: list[int] = []
    running = 0

    @scheduler.job("busy")
    async def busy() -> None:
        nonlocal running
        running += 1
        at_once.append(running)
        await asyncio.sleep(0.01)
        running -= 1

    jobs = await scheduler.schedule_bulk([{"name": "busy"}] * 20)
    await scheduler.start()
    await all_ended(scheduler, jobs)
    assert max(at_once) == 3


# -- expiry --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [
        {"start_within": 60, "run_at": timedelta(hours=-1)},
        {"expires_at": timedelta(hours=-1)},
        {"expires_at": timedelta(hours=-1), "start_within": 10**6, "run_at": timedelta(hours=-2)},
    ],
    ids=["start_within", "expires_at", "both"],
)
async def test_a_job_found_too_late_is_expired_and_not_run(scheduler: Scheduler, limits: dict[str, Any]) -> None:
    now = datetime.now(UTC)
    options: dict[str, Any] = {
        key: now + value if isinstance(value, timedelta) else value for key, value in limits.items()
    }
    ran = record(scheduler)
    expired: list[Job] = []
    scheduler.on("job:expire", expired.append)
    job = await scheduler.schedule("note", {"which": "late"}, **options)
    await scheduler.start()
    done = await scheduler.wait(job.id, 60)
    assert (done.state, done.token, done.attempts, ran) == ("expired", 0, (), [])
    assert done.finished_at is not None
    (announced,) = await eventually(lambda: expired)
    assert (announced.id, announced.state, announced.finished_at) == (job.id, "expired", done.finished_at)


async def test_a_job_in_time_runs_in_spite_of_its_limits(scheduler: Scheduler) -> None:
    ran = record(scheduler)
    await scheduler.start()
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    job = await scheduler.schedule("note", {"which": "x"}, start_within=1800, expires_at=expires_at)
    done = await scheduler.wait(job.id, 60)
    assert (done.state, ran) == ("completed", ["x"])
    assert done.start_within == timedelta(minutes=30)
    assert done.expires_at is not None and abs(done.expires_at - expires_at) < timedelta(milliseconds=1)


async def test_jobs_expire_in_queues_that_nobody_serves_too(make_scheduler: Make) -> None:
    scheduler = make_scheduler(queues=["served"], poll_interval=0.02)
    old = datetime.now(UTC) - timedelta(hours=1)
    late = await scheduler.schedule("note", queue="elsewhere", start_within=60, run_at=old)
    later = await scheduler.schedule("note", queue="elsewhere", start_within=60)
    await scheduler.start()
    assert (await scheduler.wait(late.id, 60)).state == "expired"
    assert (await scheduler.get_job(later.id)).state == "pending"


async def test_a_held_job_expires_too(make_scheduler: Make) -> None:
    scheduler = make_scheduler(poll_interval=0.02)
    await scheduler.start()
    job = await scheduler.schedule("nobody-knows", start_within=0.2)
    assert (await scheduler.wait(job.id, 60)).state == "expired"


async def test_the_limit_for_the_start_moves_with_the_time_of_the_job(scheduler: Scheduler) -> None:
    ran = record(scheduler)
    old = datetime.now(UTC) - timedelta(hours=1)
    job = await scheduler.schedule("note", {"which": "x"}, start_within=60, run_at=old)
    await scheduler.run_now(job.id)
    await scheduler.start()
    assert (await scheduler.wait(job.id, 60)).state == "completed" and ran == ["x"]
