"""Jobs that no worker here has a handler for: they wait, say why, and run where one is registered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from harness.looking import Database, count_jobs
from harness.waiting import eventually
from mainspring import Job, JobContext, Scheduler

Make = Callable[..., Scheduler]


def serve(scheduler: Scheduler, *names: str) -> list[str]:
    """Register handlers of these names that write down what they run."""
    ran: list[str] = []

    async def run(ctx: JobContext) -> None:
        ran.append(ctx.name)

    for name in names:
        scheduler.job(name)(run)
    return ran


async def held(scheduler: Scheduler, job: Job) -> Job:
    async def look() -> Job | None:
        now = await scheduler.get_job(job.id)
        return now if now.waiting_for is not None else None

    found: Job = await eventually(look)
    return found


async def test_a_job_nobody_can_run_is_held_and_says_why(scheduler: Scheduler) -> None:
    serve(scheduler, "known")
    await scheduler.start()
    job = await held(scheduler, await scheduler.schedule("unknown", queue="mail"))
    assert job.waiting_for is not None
    assert (job.state, job.waiting_for.by, job.tries) == ("pending", "handler", 0)
    assert job.waiting_for.note == "No live worker that serves the queue 'mail' has a handler for 'unknown'."
    assert job.waiting_for.since is not None
    assert [one.id async for one in scheduler.jobs(state="pending")] == [job.id]
    assert [one.id async for one in scheduler.jobs(name="unknown")] == [job.id]


@pytest.mark.slow
async def test_it_does_not_stand_in_the_way_of_those_behind_it(scheduler: Scheduler) -> None:
    ran = serve(scheduler, "known")
    await scheduler.schedule_bulk([{"name": f"unknown-{n % 7}", "priority": 1} for n in range(1500)])
    jobs = await scheduler.schedule_bulk([{"name": "known", "priority": 9}] * 20)
    await scheduler.start()
    await asyncio.gather(*(scheduler.wait(job.id, timeout=60) for job in jobs))
    assert len(ran) == 20


async def test_it_can_be_cancelled_changed_and_deleted(scheduler: Scheduler) -> None:
    serve(scheduler, "known")
    await scheduler.start()
    jobs = [await held(scheduler, await scheduler.schedule("unknown")) for _ in range(3)]
    cancelled = await scheduler.cancel(jobs[0].id)
    assert (cancelled.state, cancelled.waiting_for) == ("cancelled", None)
    changed = await scheduler.update(jobs[1].id, priority=2)
    assert (changed.state, changed.priority, changed.waiting_for is not None) == ("pending", 2, True)
    await scheduler.delete(jobs[2].id)
    assert [job.id async for job in scheduler.jobs(state="pending")] == [jobs[1].id]


async def test_it_runs_as_soon_as_a_worker_with_its_handler_starts(make_scheduler: Make) -> None:
    first, second = make_scheduler(), make_scheduler()
    serve(first, "known")
    ran = serve(second, "unknown")
    await first.start()
    job = await held(first, await first.schedule("unknown"))
    later = await held(first, await first.schedule("unknown"))
    await second.start()
    done = [await first.wait(one.id, timeout=60) for one in (job, later)]
    assert [one.state for one in done] == ["completed"] * 2
    assert all(one.waiting_for is None and len(one.attempts) == 1 for one in done)
    assert ran == ["unknown"] * 2


async def test_only_the_jobs_that_can_run_now_are_released(make_scheduler: Make, db: Database) -> None:
    first, second = make_scheduler(), make_scheduler()
    serve(first, "known")
    serve(second, "one")
    await first.start()
    jobs = {name: await held(first, await first.schedule(name)) for name in ("one", "other")}
    await second.start()
    assert (await first.wait(jobs["one"].id, timeout=60)).state == "completed"
    other = await first.get_job(jobs["other"].id)
    assert other.state == "pending" and other.waiting_for is not None
    assert await count_jobs(db, **{"waiting_for.by": "handler"}) == 1


async def test_a_handler_for_another_queue_does_not_count(make_scheduler: Make) -> None:
    here, elsewhere = make_scheduler(), make_scheduler(queues=["elsewhere"])
    serve(here, "known")
    serve(elsewhere, "work")
    await elsewhere.start()
    await here.start()
    job = await held(here, await here.schedule("work", queue="mail"))
    assert job.waiting_for is not None and "'mail'" in job.waiting_for.note
    there = await here.schedule("work", queue="elsewhere")
    assert (await here.wait(there.id, timeout=60)).state == "completed"


@pytest.mark.slow
async def test_when_two_workers_know_different_jobs_each_runs_its_own(make_scheduler: Make, db: Database) -> None:
    workers = [make_scheduler(concurrency=5), make_scheduler(concurrency=5)]
    ran = [serve(workers[0], "red", "both"), serve(workers[1], "blue", "both")]
    looker = make_scheduler()
    names = ["red", "blue", "blue", "red", "both"]
    jobs = await looker.schedule_bulk([{"name": names[n % 5]} for n in range(200)])
    for worker in workers:
        await worker.start()
    jobs += await looker.schedule_bulk([{"name": names[n % 5]} for n in range(200)])
    done = await asyncio.gather(*(looker.wait(job.id, timeout=60) for job in jobs))
    assert Counter(job.state for job in done) == {"completed": 400}
    assert all(len(job.attempts) == 1 for job in done)
    assert Counter(ran[0] + ran[1]) == {"red": 160, "blue": 160, "both": 80}
    assert "blue" not in ran[0] and "red" not in ran[1]
    assert await count_jobs(db, waiting_for={"$exists": True}) == 0


async def test_a_single_job_of_the_others_is_left_to_them(make_scheduler: Make) -> None:
    red, blue = make_scheduler(), make_scheduler()
    serve(red, "red")
    ran = serve(blue, "blue")
    await red.start()
    await blue.start()
    for _ in range(5):
        job = await red.schedule("blue")
        assert (await red.wait(job.id, timeout=60)).state == "completed"
    assert ran == ["blue"] * 5


async def test_a_job_is_held_once_the_worker_that_knew_it_is_gone(make_scheduler: Make) -> None:
    staying, going = make_scheduler(), make_scheduler()
    serve(staying, "known")
    serve(going, "unknown")
    await staying.start()
    await going.start()
    await going.stop()
    job = await held(staying, await staying.schedule("unknown"))
    assert job.state == "pending"


@pytest.mark.slow
async def test_a_worker_that_has_stopped_is_not_taken_for_a_live_one(make_scheduler: Make, db: Database) -> None:
    for _ in range(20):  # its last beat may come late
        worker = make_scheduler()
        await worker.start()
        await worker.stop()
        assert await db["jobs.workers"].find_one({}, hint="_id_") is None


async def test_a_catch_all_takes_every_job_that_has_no_handler_of_its_own(make_scheduler: Make) -> None:
    caught: list[str] = []

    async def catch(ctx: JobContext) -> str:
        caught.append(ctx.name)
        return f"caught {ctx.name} with {ctx.data}"

    scheduler = make_scheduler(handler=catch)
    ran = serve(scheduler, "known")
    await scheduler.start()
    jobs = [await scheduler.schedule(name, {"n": 1}) for name in ("anything", "known", "os:system")]
    done = [await scheduler.wait(job.id, timeout=60) for job in jobs]
    assert [job.result for job in done] == ["caught anything with {'n': 1}", None, "caught os:system with {'n': 1}"]
    assert (caught, ran) == (["anything", "os:system"], ["known"])


async def test_a_catch_all_takes_what_was_held_before_it_came(make_scheduler: Make) -> None:
    first = make_scheduler()
    serve(first, "known")
    await first.start()
    jobs = [await held(first, await first.schedule(f"unknown-{n}")) for n in range(3)]
    caught: list[str] = []
    second = make_scheduler(handler=lambda ctx: caught.append(ctx.name))
    await second.start()
    for job in jobs:
        await first.wait(job.id, timeout=60)
    assert sorted(caught) == ["unknown-0", "unknown-1", "unknown-2"]


@pytest.mark.slow
async def test_a_worker_without_any_handler_does_no_harm(make_scheduler: Make) -> None:
    idle, busy = make_scheduler(), make_scheduler()
    ran = serve(busy, "work")
    await idle.start()
    await busy.start()
    jobs = await idle.schedule_bulk([{"name": "work"}] * 50)
    for job in jobs:
        await busy.wait(job.id, timeout=60)
    assert len(ran) == 50
