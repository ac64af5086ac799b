"""A worker whose clock is an hour off runs nothing early and steals nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from bson import ObjectId

from harness.inside import inside
from harness.looking import Database
from harness.waiting import eventually
from mainspring import JobContext, Scheduler
from mainspring.clock import ServerClock

Make = Callable[..., Scheduler]

HOUR = 3600.0
MOMENT = timedelta(seconds=5)
ahead_and_behind = pytest.mark.parametrize("skew", [HOUR, -HOUR])


def skewed(skew: float) -> ServerClock:
    """The clock of a process whose wall clock is wrong: that is all it knows until it has asked the server."""
    clock = ServerClock()
    clock.offset += skew
    return clock


async def server_time(db: Database) -> datetime:
    time: datetime = (await db.client.admin.command("hello"))["localTime"]
    return time.replace(tzinfo=UTC)


@ahead_and_behind
async def test_times_that_are_stored_are_the_servers(make_scheduler: Make, db: Database, skew: float) -> None:
    scheduler = make_scheduler(clock=skewed(skew))
    now = await server_time(db)
    job = await scheduler.schedule("work", delay=60, start_within=30, dedupe_key="k", dedupe_window=600)
    assert abs(job.created_at - now) < MOMENT
    assert job.run_at - job.created_at == timedelta(seconds=60)
    document = await db.jobs.find_one({"_id": ObjectId(job.id)})
    key = await db["jobs.keys"].find_one({"_id": "k"})
    assert document is not None and key is not None
    assert document["start_by"] - job.created_at == timedelta(seconds=90)
    assert key["until"] - job.created_at == timedelta(seconds=600)
    (bulk,) = await scheduler.schedule_bulk([{"name": "work", "delay": 60}])
    assert abs(bulk.run_at - now - timedelta(seconds=60)) < MOMENT


@ahead_and_behind
async def test_nothing_runs_before_its_time_on_the_servers_clock(
    make_scheduler: Make, db: Database, skew: float
) -> None:
    scheduler = make_scheduler(clock=skewed(skew))
    began: dict[str, datetime] = {}

    @scheduler.job("work")
    async def work(ctx: JobContext) -> None:
        began[ctx.id] = await server_time(db)

    await scheduler.start()
    now = await server_time(db)
    jobs = [
        await scheduler.schedule("work", delay=1),
        await scheduler.schedule("work", run_at=now + timedelta(seconds=1)),
    ]
    for job in jobs:
        done = await scheduler.wait(job.id, timeout=60)
        assert began[job.id] >= job.run_at
        assert done.attempts[0].started_at is not None
        assert abs(done.attempts[0].started_at - began[job.id]) < MOMENT
        assert done.finished_at is not None and abs(done.finished_at - began[job.id]) < MOMENT


@ahead_and_behind
async def test_a_due_job_runs_at_once(make_scheduler: Make, skew: float) -> None:
    scheduler = make_scheduler(clock=skewed(skew))

    @scheduler.job("work")
    async def work() -> str:
        return "done"

    await scheduler.start()
    assert (await scheduler.wait((await scheduler.schedule("work")).id, timeout=60)).result == "done"


@ahead_and_behind
async def test_a_lease_is_counted_on_the_servers_clock(make_scheduler: Make, db: Database, skew: float) -> None:
    scheduler = make_scheduler(clock=skewed(skew), lease=30)
    going = asyncio.Event()

    @scheduler.job("work")
    async def work() -> None:
        await going.wait()

    await scheduler.start()
    job = await scheduler.schedule("work")

    async def runs() -> bool:
        return (await scheduler.get_job(job.id)).state == "running"

    await eventually(runs)
    held = await scheduler.get_job(job.id)
    now = await server_time(db)
    assert held.lease_until is not None
    assert timedelta(seconds=30) - MOMENT < held.lease_until - now <= timedelta(seconds=30)
    going.set()


@pytest.mark.slow
async def test_what_others_hold_is_not_stolen(make_scheduler: Make) -> None:
    holder = make_scheduler(lease=3)
    thieves = [make_scheduler(lease=3, clock=skewed(skew)) for skew in (HOUR, -HOUR)]
    begun, told = asyncio.Event(), list[object]()

    async def work(ctx: JobContext) -> int:
        begun.set()
        await asyncio.sleep(5.5)  # longer than the lease and the grace of rescues
        return ctx.token

    holder.job("work")(work)
    for thief in thieves:
        thief.job("work")(work)
        thief.on("job:rescue", told.append)
    job = await holder.schedule("work")
    await holder.start()
    await asyncio.wait_for(begun.wait(), 60)
    for thief in thieves:
        await thief.start()
    done = await holder.wait(job.id, timeout=60)
    assert (done.result, len(done.attempts), told) == (1, 1, [])


@ahead_and_behind
async def test_a_lost_job_is_rescued_all_the_same(make_scheduler: Make, db: Database, skew: float) -> None:
    scheduler = make_scheduler(lease=1, clock=skewed(skew))

    @scheduler.job("work")
    async def work(ctx: JobContext) -> int:
        return ctx.token

    job = await scheduler.schedule("work")
    lost = {"state": "running", "token": 1, "tries": 1, "worker": "gone", "lease_until": await server_time(db)}
    await db.jobs.update_one({"_id": ObjectId(job.id)}, {"$set": lost, "$unset": {"ready": 1}})
    await scheduler.start()
    assert (await scheduler.wait(job.id, timeout=60)).result == 2


async def test_nothing_expires_early_by_a_clock_that_is_ahead(make_scheduler: Make, db: Database) -> None:
    clock = skewed(HOUR)
    scheduler = make_scheduler(clock=clock)

    @scheduler.job("work")
    async def work() -> str:
        return "done"

    job = await scheduler.schedule("work", start_within=60)
    clock.offset += HOUR  # and it goes wrong again after it was set right
    assert await inside(scheduler).open_store.upkeep.expire() == []
    document = await db.jobs.find_one({"_id": ObjectId(job.id)})
    assert document is not None
    assert await inside(scheduler).open_store.upkeep.expire_these([document]) == []
    clock.forget()
    await scheduler.start()
    assert (await scheduler.wait(job.id, timeout=60)).result == "done"


async def test_a_clock_that_jumps_ahead_while_the_worker_runs_makes_nothing_early(
    make_scheduler: Make, db: Database
) -> None:
    clock = ServerClock()
    scheduler = make_scheduler(clock=clock)
    began: list[datetime] = []

    @scheduler.job("work")
    async def work() -> None:
        began.append(await server_time(db))

    await scheduler.start()
    job = await scheduler.schedule("work", run_at=await server_time(db) + timedelta(seconds=1.5))
    clock.offset += HOUR
    assert (await scheduler.wait(job.id, timeout=60)).state == "completed"
    assert began[0] >= job.run_at


async def test_a_clock_that_was_wrong_is_put_right_by_the_next_reading(make_scheduler: Make, db: Database) -> None:
    clock = ServerClock()
    scheduler = make_scheduler(clock=clock)
    await scheduler.connect()
    clock.offset -= HOUR
    clock.forget()
    job = await scheduler.schedule("work")
    assert abs(job.created_at - await server_time(db)) < MOMENT
