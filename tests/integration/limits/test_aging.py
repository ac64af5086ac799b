"""Aging: jobs that have waited long move up, one priority at a time, and nothing else about their order changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.refusing import refusing
from harness.waiting import eventually
from mainspring import Job, JobContext, Scheduler
from mainspring.clock import ManualClock
from mainspring.engine.chores.jobs.age_waiting import AgeWaiting
from mainspring.store import Store
from mainspring.store.codec import document_id

Make = Callable[..., Scheduler]
MINUTE = 60.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def still(make_scheduler: Make, clock: ManualClock) -> Scheduler:
    """A scheduler whose clock stands still."""
    return await make_scheduler(clock=clock).connect()


@pytest.fixture
def store(still: Scheduler) -> Store:
    return inside(still).open_store


async def age(store: Store, queue: str | None, after: float, limit: int) -> int:
    """How many jobs one sweep moves, so many at a time."""
    moved, place = await store.aging.age(queue, after, limit)
    while place is not None:
        more, place = await store.aging.age(queue, after, limit, place)
        moved += more
    return moved


async def priority(scheduler: Scheduler, job_id: str) -> tuple[int, int | None]:
    job = await scheduler.get_job(job_id)
    return job.priority, job.asked_priority


async def test_a_job_that_waits_moves_up_once_for_each_stretch_until_it_is_the_most_urgent(
    still: Scheduler, store: Store, clock: ManualClock
) -> None:
    job = await still.schedule("work", priority=3)
    assert job.asked_priority is None
    seen = []
    for _ in range(7):
        clock.advance(30)
        await age(store, "default", MINUTE, 100)
        seen.append(await priority(still, job.id))
    assert seen == [(3, None), (2, 3), (2, 3), (1, 3), (1, 3), (1, 3), (1, 3)]


async def test_one_that_has_waited_for_many_stretches_unseen_moves_up_one_at_a_time(
    still: Scheduler, store: Store, clock: ManualClock
) -> None:
    job = await still.schedule("work", priority=9)
    clock.advance(20 * MINUTE)
    assert [await age(store, "default", MINUTE, 100) for _ in range(3)] == [1, 0, 0]
    assert await priority(still, job.id) == (8, 9)


async def test_waiting_counts_from_when_a_job_is_due_and_was_made(
    still: Scheduler, store: Store, clock: ManualClock
) -> None:
    later = await still.schedule("work", delay=MINUTE)
    old = await still.schedule("work", run_at=datetime(2020, 1, 1, tzinfo=UTC))
    clock.advance(59)
    assert await age(store, "default", MINUTE, 100) == 0
    clock.advance(1)
    assert await age(store, "default", MINUTE, 100) == 1
    assert (await priority(still, old.id), await priority(still, later.id)) == ((4, 5), (5, None))


@pytest.mark.parametrize("state", ["running", "cancelled"])
async def test_what_runs_or_has_ended_does_not_age(
    still: Scheduler, store: Store, clock: ManualClock, state: str
) -> None:
    job = await still.schedule("work")
    if state == "running":
        found = await store.claims.candidates("default", 1)
        await store.claims.claim(found, "worker", 3600, lambda _: 3)
    else:
        await still.cancel(job.id)
    clock.advance(10 * MINUTE)
    assert await age(store, "default", MINUTE, 100) == 0
    assert await priority(still, job.id) == (5, None)


async def test_a_job_in_the_line_of_a_limit_ages_too(still: Scheduler, store: Store, clock: ManualClock) -> None:
    job = await still.schedule("work")
    await store.gates.add_to_wait_lists({"c:name:work": [document_id(job.id)]}, {"c:name:work": "full"}, {})
    clock.advance(MINUTE)
    assert await age(store, "default", MINUTE, 100) == 0
    assert await age(store, None, MINUTE, 100) == 1
    assert await priority(still, job.id) == (4, 5)


async def test_a_sweep_goes_on_in_bounded_passes_and_reads_nothing_twice(
    still: Scheduler, store: Store, clock: ManualClock
) -> None:
    jobs = await still.schedule_bulk([{"name": "work", "priority": 3 + n % 3} for n in range(7)])
    clock.advance(MINUTE)
    place, moved, read = None, [], 0
    while read == 0 or place is not None:
        number, place = await store.aging.age("default", MINUTE, 2, place)
        moved.append(number)
        read += 2
    assert moved == [2, 2, 2, 1]
    assert sorted([await priority(still, job.id) for job in jobs]) == [(2, 3)] * 3 + [(3, 4)] * 2 + [(4, 5)] * 2


async def test_jobs_that_were_moved_up_lately_do_not_keep_a_pass_from_those_behind_them(
    still: Scheduler, store: Store, clock: ManualClock
) -> None:
    await still.schedule_bulk([{"name": "work", "priority": 3}] * 5)
    clock.advance(MINUTE)
    assert await age(store, "default", MINUTE, 2) == 5
    behind = await still.schedule("work", priority=9, run_at=clock.now() - timedelta(hours=1))
    clock.advance(MINUTE - 1)
    assert await age(store, "default", MINUTE, 2) == 0
    clock.advance(1)
    assert await age(store, "default", MINUTE, 2) == 6
    assert await priority(still, behind.id) == (8, 9)


async def test_jobs_in_many_lines_age_in_bounded_passes(still: Scheduler, store: Store, clock: ManualClock) -> None:
    jobs = await still.schedule_bulk([{"name": "work"}] * 7)
    lines = {f"c:name:work:tenant={n}": [document_id(job.id)] for n, job in enumerate(jobs)}
    await store.gates.add_to_wait_lists(lines, dict.fromkeys(lines, "full"), {})
    clock.advance(MINUTE)
    assert (await store.aging.age(None, MINUTE, 3))[0] == 3
    assert await age(store, None, MINUTE, 3) == 4
    assert {await priority(still, job.id) for job in jobs} == {(4, 5)}


async def test_several_workers_that_do_it_at_once_move_a_job_once(
    make_scheduler: Make, still: Scheduler, store: Store, clock: ManualClock
) -> None:
    other = inside(await make_scheduler(clock=clock).connect()).open_store
    jobs = await still.schedule_bulk([{"name": "work"}] * 20)
    clock.advance(MINUTE)
    moved = await asyncio.gather(*(age((store, other)[n % 2], "default", MINUTE, 100) for n in range(10)))
    assert sum(moved) == 20
    assert {await priority(still, job.id) for job in jobs} == {(4, 5)}


async def test_a_worker_that_read_a_job_before_it_moved_does_not_get_it_as_it_was(
    still: Scheduler, store: Store, clock: ManualClock
) -> None:
    await still.schedule("work")
    clock.advance(MINUTE)
    seen = await store.claims.candidates("default", 1)
    await age(store, "default", MINUTE, 100)
    assert (await store.claims.claim(seen, "worker", 60, lambda _: 3)).jobs == []


# -- what becomes of it --------------------------------------------------------------------------------------------


async def aged(scheduler: Scheduler, clock: ManualClock, **options: Any) -> str:
    """A job that has moved up from 5 to 4."""
    job: Job = await scheduler.schedule("work", **options)
    clock.advance(MINUTE)
    assert await age(inside(scheduler).open_store, "default", MINUTE, 100) == 1
    return job.id


async def test_a_job_that_is_run_again_by_hand_has_the_priority_it_was_scheduled_with(
    still: Scheduler, clock: ManualClock, db: Database
) -> None:
    job_id = await aged(still, clock)
    await still.cancel(job_id)
    job = await still.retry(job_id)
    assert (job.priority, job.asked_priority) == (5, None)
    assert await db.jobs.count_documents({"_id": document_id(job_id), "aged_at": {"$exists": True}}) == 0


async def test_a_priority_that_is_given_counts_from_then_on(still: Scheduler, store: Store, clock: ManualClock) -> None:
    job = await still.update(await aged(still, clock), priority=7)
    assert (job.priority, job.asked_priority) == (7, None)
    job = await still.schedule("work", debounce=5, dedupe_key="k")
    clock.advance(MINUTE + 5)
    await age(store, "default", MINUTE, 100)
    job = await still.schedule("work", debounce=5, dedupe_key="k")
    assert (job.priority, job.asked_priority) == (4, 5)
    job = await still.schedule("work", debounce=5, dedupe_key="k", priority=8)
    assert (job.priority, job.asked_priority) == (8, None)


async def test_another_change_leaves_the_priority_as_it_is(still: Scheduler, clock: ManualClock) -> None:
    job = await still.update(await aged(still, clock), data={"n": 1})
    assert (job.priority, job.asked_priority) == (4, 5)


async def test_a_retry_keeps_the_priority_that_waiting_has_given_it_and_begins_to_wait_anew(
    make_scheduler: Make, clock: ManualClock
) -> None:
    scheduler = make_scheduler(clock=clock)

    @scheduler.job("work", retry=3)
    async def work(ctx: JobContext) -> None:
        raise RuntimeError("no")

    job_id = await aged(scheduler, clock)
    await scheduler.start()

    async def tried() -> bool:
        return len((await scheduler.get_job(job_id)).attempts) == 1

    await eventually(tried)
    assert await priority(scheduler, job_id) == (4, 5)
    clock.advance((await scheduler.get_job(job_id)).run_at - clock.now() + timedelta(seconds=MINUTE - 1))
    assert await age(inside(scheduler).open_store, "default", MINUTE, 100) == 0


# -- by a worker ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_worker_ages_what_waits_in_any_queue_when_it_is_asked_to(make_scheduler: Make) -> None:
    scheduler = make_scheduler(aging=0.1, queues=["served"])
    job = await scheduler.schedule("work", queue="elsewhere", priority=10)
    await scheduler.start()

    async def is_most_urgent() -> bool:
        return await priority(scheduler, job.id) == (1, 10)

    await eventually(is_most_urgent)


@pytest.mark.slow
async def test_an_aged_job_runs_before_those_that_were_more_urgent(make_scheduler: Make) -> None:
    ageing = make_scheduler(aging=0.1, queues=["none"])
    old = await ageing.schedule("work", {"which": "old"}, priority=10)
    await ageing.start()

    async def is_most_urgent() -> bool:
        return await priority(ageing, old.id) == (1, 10)

    await eventually(is_most_urgent)
    await ageing.stop()
    worker = make_scheduler(concurrency=1)
    ran: list[str] = []

    @worker.job("work")
    async def work(which: str) -> None:
        ran.append(which)

    for _ in range(3):
        await worker.schedule("work", {"which": "new"}, priority=2)
    await worker.start()
    await eventually(lambda: len(ran) == 4)
    assert ran == ["old", "new", "new", "new"]


@pytest.mark.slow
async def test_a_worker_that_is_asked_to_ages_also_where_another_one_does_the_other_chores(
    make_scheduler: Make, db: Database
) -> None:
    first, ageing = make_scheduler(queues=["none"]), make_scheduler(aging=0.1, queues=["none"])
    await first.start()

    async def has_the_lock() -> bool:
        lock = await db["jobs.locks"].find_one({"_id": "chores"})
        return lock is not None and first.running and lock["owner"] == first.workers.own_id

    await eventually(has_the_lock)
    job = await first.schedule("work", priority=10)
    await ageing.start()

    async def is_most_urgent() -> bool:
        return await priority(first, job.id) == (1, 10)

    await eventually(is_most_urgent)


async def test_nothing_ages_unless_it_is_asked_for(make_scheduler: Make, clock: ManualClock) -> None:
    scheduler = make_scheduler(clock=clock, queues=["none"])
    job = await scheduler.schedule("work")
    clock.advance(timedelta(days=30))
    await scheduler.start()
    (chore,) = [chore for chore in inside(scheduler).worker.chores if isinstance(chore, AgeWaiting)]
    assert await chore.run_once() is False
    assert await priority(scheduler, job.id) == (5, None)


async def test_a_job_that_the_server_refuses_to_change_keeps_no_other_job_from_moving_up(
    still: Scheduler, store: Store, clock: ManualClock, db: Database
) -> None:
    first, bad, *others = await still.schedule_bulk([{"name": "work"}] * 5)
    clock.advance(MINUTE)
    async with refusing(db, "jobs", {"_id": document_id(bad.id)}):
        assert await age(store, "default", MINUTE, 2) == 4
    assert {await priority(still, job.id) for job in (first, *others)} == {(4, 5)}
