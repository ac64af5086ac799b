"""Limits on real workers: how many run, who waits and why, and that slots come back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from harness.looking import Database
from harness.waiting import eventually
from mainspring import ConfigurationError, JobContext, Limit, Rate, Retry, Scheduler, Sequence

Make = Callable[..., Scheduler]


class Meter:
    """Counts how many handlers run at once, for each key."""

    def __init__(self) -> None:
        self.running: Counter[Any] = Counter()
        self.most: Counter[Any] = Counter()
        self.order: list[Any] = []
        self.door = asyncio.Event()
        self.door.set()

    @asynccontextmanager
    async def inside(self, key: Any) -> AsyncIterator[None]:
        self.running[key] += 1
        self.most[key] = max(self.most[key], self.running[key])
        self.order.append(key)
        try:
            await self.door.wait()
            yield
        finally:
            self.running[key] -= 1


@pytest.fixture
def meter() -> Meter:
    return Meter()


def with_limit(scheduler: Scheduler, meter: Meter, name: str = "report", **options: Any) -> Scheduler:
    @scheduler.job(name, **options)
    async def handler(ctx: JobContext, n: int = 0, tenant: str = "") -> int:
        async with meter.inside(tenant):
            return n

    return scheduler


async def gates(db: Database) -> dict[str, Any]:
    return {gate["_id"]: gate async for gate in db["jobs.gates"].find({}, hint="_id_")}


@pytest.mark.slow
async def test_of_ten_reports_under_a_limit_of_two_two_run_and_eight_wait_and_say_why(
    make_scheduler: Make, meter: Meter
) -> None:
    scheduler = with_limit(make_scheduler(), meter, concurrency=2)
    meter.door.clear()
    await scheduler.start()
    jobs = [await scheduler.schedule("report", {"n": n}) for n in range(10)]

    async def two_run_and_eight_wait() -> bool:
        found = [await scheduler.get_job(job.id) for job in jobs]
        return Counter((job.state, job.waiting_for.by if job.waiting_for else None) for job in found) == {
            ("running", None): 2,
            ("pending", "limit"): 8,
        }

    await eventually(two_run_and_eight_wait)
    last = await scheduler.get_job(jobs[-1].id)
    assert last.waiting_for is not None
    assert last.waiting_for.note == "At most 2 jobs of 'report' run at once, and as many are running."
    meter.door.set()
    ended = [await scheduler.wait(job.id, timeout=60) for job in jobs]
    assert {job.state for job in ended} == {"completed"}
    assert meter.most[""] == 2


async def test_a_limit_holds_across_schedulers_and_each_key_has_its_own(make_scheduler: Make, meter: Meter) -> None:
    schedulers = [with_limit(make_scheduler(), meter, concurrency=Limit(2, key="tenant")) for _ in range(3)]
    for scheduler in schedulers:
        await scheduler.start()
    jobs = await schedulers[0].schedule_bulk(
        [{"name": "report", "data": {"n": n, "tenant": f"t{n % 4}"}} for n in range(80)]
    )
    for job in jobs:
        assert (await schedulers[0].wait(job.id, timeout=60)).state == "completed"
    assert max(meter.most.values()) <= 2
    assert len(meter.most) == 4


async def test_a_queue_is_limited_whatever_the_names_in_it(make_scheduler: Make, meter: Meter) -> None:
    scheduler = make_scheduler()
    scheduler.queues.limit("slow", concurrency=1)
    with_limit(scheduler, meter, "a", queue="slow")
    with_limit(scheduler, meter, "b", queue="slow")
    await scheduler.start()
    jobs = await scheduler.schedule_bulk([{"name": "ab"[n % 2], "data": {"n": n}} for n in range(12)])
    for job in jobs:
        await scheduler.wait(job.id, timeout=60)
    assert meter.most[""] == 1


async def test_a_job_that_waits_blocks_none_behind_it_and_the_most_urgent_is_next(
    make_scheduler: Make, meter: Meter, db: Database
) -> None:
    scheduler = with_limit(make_scheduler(concurrency=4), meter, concurrency=1)
    free: list[int] = []

    @scheduler.job("free")
    async def unlimited(n: int) -> None:
        free.append(n)

    meter.door.clear()
    await scheduler.start()
    await scheduler.schedule("report", {"tenant": "first"})
    await eventually(lambda: meter.running["first"] == 1)
    for n, priority in enumerate((7, 3, 5)):
        await scheduler.schedule("report", {"tenant": f"p{priority}", "n": n}, priority=priority)
    await scheduler.schedule_bulk([{"name": "free", "data": {"n": n}, "priority": 9} for n in range(20)])
    await eventually(lambda: len(free) == 20)
    assert await db["jobs"].count_documents({"line": "c:name:report"}, hint="line") == 3
    meter.door.set()
    await eventually(lambda: len(meter.order) == 4)
    assert meter.order == ["first", "p3", "p5", "p7"]


async def test_a_job_in_line_can_be_cancelled_and_edited_at_once(make_scheduler: Make, meter: Meter) -> None:
    scheduler = with_limit(make_scheduler(), meter, concurrency=1)
    meter.door.clear()
    await scheduler.start()
    await scheduler.schedule("report", {"n": 0})
    await eventually(lambda: meter.running.total() == 1)
    first, second = [await scheduler.schedule("report", {"n": n}) for n in (1, 2)]

    async def in_line() -> bool:
        return all([(await scheduler.get_job(job.id)).waiting_for for job in (first, second)])

    await eventually(in_line)
    assert (await scheduler.cancel(first.id)).state == "cancelled"
    assert (await scheduler.update(second.id, data={"n": 7})).data == {"n": 7}
    meter.door.set()
    assert (await scheduler.wait(second.id, timeout=60)).result == 7


@pytest.mark.slow
async def test_slots_are_given_back_when_nobody_needs_them_and_when_a_worker_stops(
    make_scheduler: Make, meter: Meter, db: Database
) -> None:
    scheduler = with_limit(make_scheduler(), meter, concurrency=3)
    await scheduler.start()
    job = await scheduler.schedule("report")
    await scheduler.wait(job.id, timeout=60)

    async def nothing_held() -> bool:
        return all(not gate["grants"] for gate in (await gates(db)).values())

    await eventually(nothing_held)
    meter.door.clear()
    await scheduler.schedule("report")
    await eventually(lambda: meter.running.total() == 1)
    await scheduler.stop(graceful=False)
    assert await nothing_held()


async def test_slots_of_a_worker_that_is_gone_are_taken_back(make_scheduler: Make, meter: Meter, db: Database) -> None:
    await db["jobs.gates"].insert_one(
        {"_id": "c:name:report", "grants": [{"w": "dead", "n": 1}], "limit": 1, "full": True, "rev": 0}
    )
    scheduler = with_limit(make_scheduler(lease=1.5), meter, concurrency=1)
    await scheduler.start()
    job = await scheduler.schedule("report")
    assert (await scheduler.wait(job.id, timeout=60)).state == "completed"


async def test_a_retry_gives_its_slot_to_others_while_it_waits(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    ran: list[int] = []

    @scheduler.job("report", concurrency=1, retry=Retry(attempts=2, delay=3600))
    async def handler(n: int) -> None:
        ran.append(n)
        if n == 0:
            raise ValueError("not yet")

    await scheduler.start()
    await scheduler.schedule("report", {"n": 0})
    await eventually(lambda: ran == [0])
    await scheduler.wait((await scheduler.schedule("report", {"n": 1})).id, timeout=60)
    assert ran == [0, 1]


async def test_jobs_of_a_sequence_run_in_the_order_in_which_they_were_scheduled(make_scheduler: Make) -> None:
    schedulers = [make_scheduler(), make_scheduler()]
    done: list[tuple[int, int]] = []
    going: Counter[int] = Counter()
    for scheduler in schedulers:

        @scheduler.job("ship", sequence="order", retry=Retry(attempts=3, delay=0.05))
        async def ship(ctx: JobContext, order: int, step: int) -> None:
            going[order] += 1
            assert going[order] == 1
            await asyncio.sleep(0.002)
            going[order] -= 1
            if step == 2 and ctx.attempt == 1:
                raise ValueError("once more")
            done.append((order, step))

        await scheduler.start()
    jobs = await schedulers[0].schedule_bulk(
        [{"name": "ship", "data": {"order": order, "step": step}} for step in range(6) for order in range(5)]
    )
    for job in jobs:
        assert (await schedulers[0].wait(job.id, timeout=60)).state == "completed"
    for order in range(5):
        assert [step for one, step in done if one == order] == list(range(6))


@pytest.mark.parametrize("on_failure", ["block", "pass"])
async def test_a_failed_job_of_a_sequence_blocks_or_lets_pass(make_scheduler: Make, on_failure: Any) -> None:
    scheduler = make_scheduler()
    ran: list[int] = []
    broken = True

    @scheduler.job("ship", sequence=Sequence("order", on_failure=on_failure), retry=1)
    async def ship(order: int, step: int) -> None:
        ran.append(step)
        if step == 1 and broken:
            raise ValueError("broken")

    await scheduler.start()
    jobs = [await scheduler.schedule("ship", {"order": 1, "step": step}) for step in range(3)]
    assert (await scheduler.wait(jobs[1].id, timeout=60)).state == "failed"
    if on_failure == "pass":
        assert (await scheduler.wait(jobs[2].id, timeout=60)).state == "completed"
        return

    async def waits() -> bool:
        held = (await scheduler.get_job(jobs[2].id)).waiting_for
        return held is not None and "turn" in held.note

    await eventually(waits)
    assert ran == [0, 1]
    broken = False
    await scheduler.retry(jobs[1].id)
    assert (await scheduler.wait(jobs[2].id, timeout=60)).state == "completed"
    assert ran == [0, 1, 1, 2]


@pytest.mark.slow
async def test_a_job_scheduled_by_a_process_that_does_not_know_of_the_sequence_joins_it(
    make_scheduler: Make, meter: Meter
) -> None:
    stranger, worker = make_scheduler(), make_scheduler()
    done: list[int] = []

    @worker.job("ship", sequence="order")
    async def ship(order: int, step: int) -> None:
        done.append(step)

    jobs = [await stranger.schedule("ship", {"order": 1, "step": step}) for step in range(5)]
    await worker.start()
    for job in jobs:
        await stranger.wait(job.id, timeout=60)
    assert done == list(range(5))


async def test_a_job_that_joins_its_sequence_at_the_worker_runs_without_another_poll(make_scheduler: Make) -> None:
    stranger, worker = make_scheduler(), make_scheduler(poll_interval=600)

    @worker.job("ship", sequence="order")
    async def ship(order: int) -> None: ...

    await worker.start()
    job = await stranger.schedule("ship", {"order": 1})

    assert (await stranger.wait(job.id, timeout=20)).state == "completed"


@pytest.mark.slow
async def test_keys_with_very_different_backlogs_get_equal_shares_while_all_have_work(make_scheduler: Make) -> None:
    scheduler = make_scheduler(concurrency=5)
    done: list[str] = []

    @scheduler.job("import", fair="tenant")
    async def handler(tenant: str, n: int) -> None:
        done.append(tenant)
        await asyncio.sleep(0.001)

    least, keys = 100, 10
    for key in range(keys):
        await scheduler.schedule_bulk(
            [{"name": "import", "data": {"tenant": f"t{key}", "n": n}} for n in range(least * (1 + key))]
        )
    await scheduler.start()
    await eventually(lambda: len(done) >= least * keys, timeout=60)
    # As soon as the first key runs dry the others share its part: look at the time before that.
    first_dry = next(place for place, key in enumerate(done) if done[: place + 1].count(key) == least)
    shares = Counter(done[: min(first_dry, int(0.9 * least * keys))])
    assert len(shares) == keys
    mean = sum(shares.values()) / keys
    assert all(abs(share - mean) <= max(0.1 * mean, 5) for share in shares.values()), shares


@pytest.mark.slow
async def test_a_more_urgent_job_goes_first_however_often_its_key_was_served(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(concurrency=1)
    done: list[str] = []

    @scheduler.job("import", fair="tenant")
    async def handler(tenant: str) -> None:
        done.append(tenant)

    await scheduler.schedule_bulk([{"name": "import", "data": {"tenant": f"t{n % 40}"}} for n in range(80)])
    await scheduler.schedule("import", {"tenant": "urgent"}, priority=1)
    await db["jobs.gates"].update_one({"_id": {"$regex": "urgent"}}, {"$set": {"served": 1000}})
    await scheduler.start()
    await eventually(lambda: len(done) == 81, timeout=60)
    assert done[0] == "urgent"


@pytest.mark.slow
async def test_a_rate_lets_a_burst_start_and_then_so_many_a_second(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler()
    started: list[float] = []

    @scheduler.job("call", rate=Rate("20/second", burst=5))
    async def handler(n: int) -> None:
        started.append(asyncio.get_running_loop().time())

    await scheduler.start()
    jobs = await scheduler.schedule_bulk([{"name": "call", "data": {"n": n}} for n in range(30)])
    for job in jobs:
        await scheduler.wait(job.id, timeout=60)
    assert started[-1] - started[0] >= (30 - 5 - 3) / 20
    assert "r:name:call" in await gates(db)


async def test_a_heavy_job_waits_until_there_is_enough_for_it_and_is_not_passed_by_lighter_ones(
    make_scheduler: Make,
) -> None:
    scheduler = make_scheduler()
    done: list[int] = []

    @scheduler.job("fetch", rate=Rate("40/second", burst=10, weight="pages"))
    async def handler(n: int, pages: int) -> None:
        done.append(n)

    weights = [10, 10, 1, 1]
    jobs = await scheduler.schedule_bulk(
        [{"name": "fetch", "data": {"n": n, "pages": pages}} for n, pages in enumerate(weights)]
    )
    await scheduler.start()
    for job in jobs:
        await scheduler.wait(job.id, timeout=60)
    assert done[:2] == [0, 1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"concurrency": 0}, "from 1 to"),
        ({"concurrency": "2"}, "a number or a Limit"),
        ({"rate": "fast"}, "100/minute"),
        ({"rate": "10/fortnight"}, "100/minute"),
        ({"rate": 5}, "100/minute"),
        ({"sequence": 5}, "path of a key"),
        ({"fair": 5}, "path of a key"),
    ],
)
def test_a_limit_that_cannot_be_is_refused_with_what_to_write(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Scheduler("mongodb://localhost").job("x", **options)(lambda: None)


def test_a_rate_is_read_in_the_ways_people_write_it() -> None:
    assert [(rate.count, rate.per) for rate in map(Rate, ("5/s", "100/minute", "1000/10 minutes", "3 per hour"))] == [
        (5, 1.0),
        (100, 60.0),
        (1000, 600.0),
        (3, 3600.0),
    ]
    assert Rate("100/minute", smooth=True).burst == 5
    assert timedelta(seconds=Rate("7/day").per) == timedelta(days=1)


@pytest.mark.slow
async def test_a_job_that_another_gate_keeps_back_does_not_keep_those_behind_it_from_a_free_slot(
    make_scheduler: Make,
) -> None:
    scheduler = make_scheduler()
    scheduler.queues.limit("default", concurrency=2)
    doors = {tenant: asyncio.Event() for tenant in ("acme", "bravo", "charlie", "delta")}
    ran: list[str] = []

    @scheduler.job("x", concurrency=Limit(1, key="tenant"))
    async def handler(tenant: str) -> None:
        ran.append(tenant)
        await doors[tenant].wait()

    await scheduler.start()
    await scheduler.schedule_bulk([{"name": "x", "data": {"tenant": tenant}} for tenant in ("acme", "bravo")])
    await eventually(lambda: sorted(ran) == ["acme", "bravo"])
    for tenant in ["charlie"] * 10 + ["delta"]:
        await scheduler.schedule("x", {"tenant": tenant})
    doors["acme"].set()
    doors["bravo"].set()
    await eventually(lambda: sorted(ran) == ["acme", "bravo", "charlie", "delta"])
    doors["charlie"].set()
    await eventually(lambda: ran.count("charlie") == 10)
    doors["delta"].set()
