"""Jobs that a worker claims before a limit has room for them: none runs too early, and none is kept for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database, count_jobs
from harness.slots import lapse
from harness.waiting import eventually
from mainspring import Job, Limit, Scheduler
from mainspring.clock import monotonic
from mainspring.engine.limits.limiter import Limiter
from mainspring.engine.limits.parking import Parking

Make = Callable[..., Scheduler]
LIMIT = 2


class Crossing:
    """Jobs that are over at once while the door is open; knows how many there are at a time."""

    def __init__(self) -> None:
        self.running = self.most = self.started = 0
        self.door = asyncio.Event()
        self.door.set()

    async def pass_through(self) -> None:
        self.running += 1
        self.started += 1
        self.most = max(self.most, self.running)
        try:
            await self.door.wait()
        finally:
            self.running -= 1


@pytest.fixture
def crossing() -> Crossing:
    return Crossing()


def serving(scheduler: Scheduler, crossing: Crossing, **options: Any) -> Scheduler:
    @scheduler.job("x", concurrency=Limit(LIMIT, key="tenant"), **options)
    async def x(tenant: str = "") -> None:
        await crossing.pass_through()

    return scheduler


def keeper(scheduler: Scheduler) -> Limiter:
    return inside(scheduler).worker.limiter


def parking(scheduler: Scheduler) -> Parking:
    return keeper(scheduler).parking


async def schedule(scheduler: Scheduler, number: int, **data: Any) -> list[Job]:
    jobs = await scheduler.schedule_bulk([{"name": "x", "data": data} for _ in range(number)])
    return [job for job in jobs if isinstance(job, Job)]


async def with_parked(scheduler: Scheduler, crossing: Crossing, number: int = 10) -> list[Job]:
    """Two jobs that run, and others of theirs that are parked behind them."""
    await scheduler.start()
    await scheduler.wait((await scheduler.schedule("x")).id, timeout=60)  # how long they take is known from here on
    crossing.door.clear()
    jobs = await schedule(scheduler, number)
    await eventually(lambda: crossing.running == LIMIT and len(parking(scheduler)) > 0)
    return jobs


async def ended(scheduler: Scheduler, jobs: list[Job]) -> list[Job]:
    return [await scheduler.wait(job.id, timeout=60) for job in jobs]


@pytest.mark.slow
async def test_short_jobs_are_claimed_ahead_and_never_run_beyond_their_limit(
    make_scheduler: Make, crossing: Crossing
) -> None:
    scheduler = serving(make_scheduler(), crossing)
    jobs = await with_parked(scheduler, crossing, 200)
    crossing.door.set()
    assert {job.state for job in await ended(scheduler, jobs)} == {"completed"}
    assert crossing.most == LIMIT
    assert crossing.started == len(jobs) + 1
    assert len(parking(scheduler)) == 0


async def test_what_is_parked_is_known_not_to_have_been_started(
    make_scheduler: Make, crossing: Crossing, db: Database
) -> None:
    scheduler = serving(make_scheduler(), crossing)
    await with_parked(scheduler, crossing)
    await eventually(lambda: _agree(scheduler, db))
    crossing.door.set()


async def _agree(scheduler: Scheduler, db: Database) -> bool:
    return await count_jobs(db, state="running", ahead=True) == len(parking(scheduler)) > 0


async def test_what_is_parked_is_given_back_by_a_worker_that_stops_and_costs_no_attempt(
    make_scheduler: Make, crossing: Crossing, db: Database
) -> None:
    scheduler, other = serving(make_scheduler(), crossing), make_scheduler()
    jobs = await with_parked(scheduler, crossing)
    stopping = asyncio.create_task(scheduler.stop())
    await eventually(lambda: count_jobs(db, state="running"), timeout=60)
    crossing.door.set()
    await stopping
    found = [await other.get_job(job.id) for job in jobs]
    assert sum(job.state == "completed" for job in found) == LIMIT == crossing.most
    assert {(job.state, job.tries, len(job.attempts)) for job in found if job.state != "completed"} == {
        ("pending", 0, 0)
    }


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
async def test_every_guarantee_holds_for_what_was_parked(
    make_scheduler: Make, crossing: Crossing, guarantee: str
) -> None:
    scheduler = serving(make_scheduler(), crossing, guarantee=guarantee)
    jobs = await with_parked(scheduler, crossing, 30)
    crossing.door.set()
    assert {(job.state, len(job.attempts)) for job in await ended(scheduler, jobs)} == {("completed", 1)}
    assert (crossing.most, crossing.started) == (LIMIT, len(jobs) + 1)


async def test_a_limit_that_is_lowered_counts_for_what_was_parked(make_scheduler: Make, crossing: Crossing) -> None:
    scheduler = serving(make_scheduler(), crossing)
    jobs = await with_parked(scheduler, crossing)
    await scheduler.limits.set(name="x", concurrency=Limit(1, key="tenant"))
    await eventually(lambda: not parking(scheduler))
    started = crossing.started
    crossing.door.set()
    await eventually(lambda: crossing.running == 0 and crossing.started > started)
    crossing.most = 0
    assert {job.state for job in await ended(scheduler, jobs)} == {"completed"}
    assert crossing.most <= 1


async def test_what_is_parked_does_not_run_during_a_pause(make_scheduler: Make, crossing: Crossing) -> None:
    scheduler = serving(make_scheduler(), crossing)
    jobs = await with_parked(scheduler, crossing)
    await scheduler.limits.pause("x")
    await eventually(lambda: not parking(scheduler))
    crossing.door.set()
    await eventually(lambda: crossing.running == 0)
    assert crossing.started == LIMIT + 1
    await scheduler.limits.resume("x")
    assert {job.state for job in await ended(scheduler, jobs)} == {"completed"}


async def test_a_job_that_is_cancelled_while_it_is_parked_does_not_run(
    make_scheduler: Make, crossing: Crossing
) -> None:
    scheduler = serving(make_scheduler(), crossing)
    jobs = await with_parked(scheduler, crossing)
    parked = next(iter(parking(scheduler)._lots.values()))[0]
    await scheduler.cancel(str(parked.id))
    await eventually(lambda: parked.cancelled)
    crossing.door.set()
    states = [job.state for job in await ended(scheduler, jobs)]
    assert sorted(states) == ["cancelled"] + ["completed"] * (len(jobs) - 1)
    assert crossing.started == len(jobs)


async def test_without_prefetch_nothing_is_parked(make_scheduler: Make, crossing: Crossing) -> None:
    scheduler = serving(make_scheduler(prefetch=0), crossing)
    await scheduler.start()
    await scheduler.wait((await scheduler.schedule("x")).id, timeout=60)
    crossing.door.clear()
    jobs = await schedule(scheduler, 10)
    await eventually(lambda: crossing.running == LIMIT)
    assert len(parking(scheduler)) == 0
    crossing.door.set()
    await ended(scheduler, jobs)
    assert crossing.most == LIMIT


async def test_keys_do_not_wait_for_each_other_where_they_are_parked(make_scheduler: Make, crossing: Crossing) -> None:
    scheduler = serving(make_scheduler(), crossing)
    jobs = await with_parked(scheduler, crossing)
    jobs += await schedule(scheduler, 1, tenant="acme")
    await eventually(lambda: crossing.running == LIMIT + 1)
    crossing.door.set()
    assert {job.state for job in await ended(scheduler, jobs)} == {"completed"}


async def test_a_lease_that_runs_out_leaves_nothing_to_be_used_by_what_was_parked_or_admitted(
    make_scheduler: Make, crossing: Crossing
) -> None:
    scheduler = serving(make_scheduler(queues=["mine"]), crossing)
    await scheduler.start()
    await schedule(scheduler, 3)
    limiter, store = keeper(scheduler), await inside(scheduler).store()
    candidates = await store.claims.candidates("default", 10)
    admitted = await limiter.admit(candidates, 10)
    assert (len(admitted.now), admitted.behind) == (LIMIT, [])
    first, second = admitted.now
    assert [gate.rule for gate in limiter.taken(first) or ()] == [Limit(LIMIT, key="tenant")]
    stranded: list[bool] = []
    limiter._release_parked = lambda: stranded.append(True)
    lapse(limiter)
    limiter.extend(monotonic())
    assert limiter.taken(second) is None
    assert stranded == [True]


async def test_what_is_parked_does_not_start_on_slots_of_a_lease_that_has_run_out(
    make_scheduler: Make, crossing: Crossing
) -> None:
    scheduler = serving(make_scheduler(), crossing)
    await with_parked(scheduler, crossing)
    limiter = keeper(scheduler)
    started: list[Any] = []
    limiter.parking._start = started.extend
    lapse(limiter)
    limiter.extend(monotonic())
    (name,) = limiter.parking._lots
    limiter.shares.open(name).used = 0
    limiter.parking.unpark(name)
    assert (started, len(limiter.parking)) == ([], 0)
    crossing.door.set()
