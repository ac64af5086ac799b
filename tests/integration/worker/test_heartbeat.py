"""What keeps claims: renewals come first, nothing else stands in their way, and what keeps them does not die unseen."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from pymongo import MongoClient

from harness.inside import inside
from harness.waiting import eventually
from mainspring import Job, JobContext, Scheduler
from mainspring.engine.worker import Worker
from mainspring.errors import Unavailable
from mainspring.store.jobs.claim import Claims
from mainspring.store.jobs.leases import Renewals
from mainspring.store.jobs.transactions import Transactions

Make = Callable[..., Scheduler]

LEASE = 2.0


def worker_of(scheduler: Scheduler) -> Worker:
    worker = inside(scheduler).worker
    assert worker is not None
    return worker


def one_run(job: Job) -> tuple[str, int, list[str]]:
    return job.state, job.token, [attempt.outcome for attempt in job.attempts]


ONE_RUN = ("completed", 1, ["completed"])


@pytest.fixture
def claimed_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every job is claimed as one for which no slot is free yet."""
    claim = Claims.claim

    async def ahead(self: Claims, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(claim).bind(self, *args, **kwargs)
        given.arguments["free"] = 0
        return await claim(*given.args, **given.kwargs)

    monkeypatch.setattr(Claims, "claim", ahead)


# -- a blocked event loop ------------------------------------------------------------------------------------------


async def test_a_job_in_a_transaction_keeps_its_lease_while_a_neighbour_blocks_the_event_loop(
    make_scheduler: Make, db: Any
) -> None:
    scheduler = make_scheduler(lease=LEASE)
    opened = asyncio.Event()
    runs: list[int] = []
    await db.create_collection("effects")

    @scheduler.job("tx", retry=1)
    async def tx(ctx: JobContext) -> None:
        runs.append(ctx.token)
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"token": ctx.token}, session=tx.session)
            opened.set()
            await asyncio.sleep(0.05)

    @scheduler.job("block")
    async def block() -> None:
        await opened.wait()
        time.sleep(2 * LEASE)

    await scheduler.start()
    await scheduler.schedule("block")
    job = await scheduler.schedule("tx")
    assert one_run(await scheduler.wait(job.id, timeout=60)) == ONE_RUN
    assert runs == [1, 1]  # the renewal met its transaction, which was run again
    assert [one["token"] for one in await db.effects.find({}, hint="_id_").to_list()] == [1]


async def test_a_job_whose_transaction_has_written_its_end_keeps_it_while_the_event_loop_is_blocked(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(lease=LEASE)
    complete_in = Transactions.complete_in
    told_to_stop: list[bool] = []

    async def held_up(self: Transactions, *args: Any) -> None:
        await complete_in(self, *args)
        time.sleep(2 * LEASE)

    monkeypatch.setattr(Transactions, "complete_in", held_up)

    @scheduler.job("tx", retry=1)
    async def tx(ctx: JobContext) -> None:
        async with ctx.transaction():
            pass
        await asyncio.sleep(0.5)
        told_to_stop.append(ctx.is_cancelled)

    await scheduler.start()
    job = await scheduler.schedule("tx")
    assert one_run(await scheduler.wait(job.id, timeout=60)) == ONE_RUN
    await eventually(lambda: told_to_stop)  # the job has ended with its transaction, and its handler goes on
    assert told_to_stop == [False]


async def test_a_renewal_that_comes_after_the_commit_does_not_take_the_job_for_lost(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(lease=LEASE)
    renew = Renewals.renew
    renewing, committed, gone = threading.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    went_on: list[bool] = []

    def held_up(self: Renewals, *args: Any) -> Any:
        renewing.set()
        assert committed.wait(60)
        lost = renew(self, *args)
        if lost:
            loop.call_soon_threadsafe(gone.set)
        return lost

    monkeypatch.setattr(Renewals, "renew", held_up)

    @scheduler.job("tx", retry=1)
    async def tx(ctx: JobContext) -> None:
        await asyncio.to_thread(renewing.wait, 60)
        async with ctx.transaction():
            pass
        committed.set()
        await gone.wait()
        await asyncio.sleep(0.2)
        went_on.append(not ctx.is_cancelled)

    await scheduler.start()
    job = await scheduler.schedule("tx")
    assert one_run(await scheduler.wait(job.id, timeout=60)) == ONE_RUN
    assert await eventually(lambda: went_on) == [True]


# -- what is not urgent --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["beat", "cancellations", "started"])
@pytest.mark.slow
async def test_claims_are_renewed_whatever_else_the_heartbeat_cannot_do(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch, claimed_ahead: None, verb: str
) -> None:
    scheduler = make_scheduler(lease=LEASE)
    tried = threading.Event()

    @scheduler.job("long", retry=1)
    async def long() -> None:
        await asyncio.sleep(2.5 * LEASE)

    await scheduler.start()

    def out_of_reach(*args: Any, **kwargs: Any) -> None:
        tried.set()
        raise Unavailable("out of reach")

    monkeypatch.setattr(Renewals, verb, out_of_reach)
    monkeypatch.setattr("mainspring.engine.heartbeat.BEAT_EVERY", 0.0)
    job = await scheduler.schedule("long")
    assert one_run(await scheduler.wait(job.id, timeout=60)) == ONE_RUN
    assert tried.is_set()


@pytest.mark.slow
async def test_a_claim_that_is_about_to_be_fenced_leaves_the_renewal_of_the_others_its_time(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = 3 * LEASE  # a busy server needs a third of a second for a renewal
    scheduler = make_scheduler(lease=lease)
    started: list[str] = []
    renew = Renewals.renew

    def slow(self: Renewals, *args: Any) -> Any:
        time.sleep(lease / 15)
        return renew(self, *args)

    @scheduler.job("x")
    async def x(ctx: JobContext, seconds: float) -> None:
        started.append(ctx.id)
        await asyncio.sleep(seconds)

    await scheduler.start()
    late, other = [await scheduler.schedule("x", {"seconds": seconds}, retry=1) for seconds in (30, 2 * lease)]
    await eventually(lambda: len(started) == 2)
    holding = next(one for one in worker_of(scheduler).claimed_jobs.all() if str(one.id) == late.id)
    monkeypatch.setattr(Renewals, "renew", slow)

    async def near_its_fence() -> None:
        while not holding.lost:
            holding.renewed_at, holding.valid_until = time.monotonic() + 60, time.monotonic() + 0.02
            await asyncio.sleep(0)

    near = asyncio.create_task(near_its_fence())
    try:
        assert one_run(await scheduler.wait(other.id, timeout=60)) == ONE_RUN
    finally:
        near.cancel()


# -- threads -------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.slow
async def test_a_heartbeat_whose_thread_has_died_goes_on_in_another_one(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(lease=LEASE)
    renew = Renewals.renew
    died: list[str] = []

    def deadly(self: Renewals, *args: Any) -> Any:
        if not died:
            died.append(threading.current_thread().name)
            raise SystemExit
        return renew(self, *args)

    monkeypatch.setattr(Renewals, "renew", deadly)

    @scheduler.job("long", retry=1)
    async def long() -> None:
        await asyncio.sleep(2 * LEASE)

    await scheduler.start()
    job = await scheduler.schedule("long")
    assert one_run(await scheduler.wait(job.id, timeout=60)) == ONE_RUN
    assert died == ["mainspring-heartbeat"]


async def test_an_error_while_one_job_is_fenced_leaves_the_fence_of_the_others(make_scheduler: Make) -> None:
    class Outcome:
        """A child process that ends at the very moment at which it is killed."""

        def stack(self) -> str:
            return ""

        def kill(self) -> None:
            raise AttributeError("it has just ended")

    scheduler = make_scheduler(lease=30)
    cancelled: list[str] = []

    @scheduler.job("x")
    async def x(ctx: JobContext) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(ctx.id)
            raise

    await scheduler.start()
    jobs = [await scheduler.schedule("x") for _ in range(3)]
    holdings = worker_of(scheduler).claimed_jobs
    await eventually(lambda: sum(holding.started is not None for holding in holdings.all()) == 3)
    first, *others = holdings.all()
    first.process = Outcome()
    for holding in (first, *others):
        holding.valid_until = 0.0
    await eventually(lambda: set(cancelled) == {str(holding.id) for holding in others})
    assert first.lost and len(jobs) == 3
    first.process = None


# -- a machine that was suspended ----------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no clock that counts it")
async def test_the_handlers_of_a_machine_that_was_suspended_for_a_lease_are_cancelled_when_it_wakes_up(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(lease=30)
    started, cancelled = asyncio.Event(), asyncio.Event()

    @scheduler.job("x")
    async def x() -> None:
        started.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    await scheduler.start()
    await scheduler.schedule("x")
    await started.wait()
    clock_gettime = time.clock_gettime
    slept = {time.CLOCK_BOOTTIME: 30.0}
    monkeypatch.setattr(time, "clock_gettime", lambda clock: clock_gettime(clock) + slept.get(clock, 0.0))
    async with asyncio.timeout(120):  # the heartbeat looks every ten seconds
        await cancelled.wait()


# -- starts that count ---------------------------------------------------------------------------------------------


async def test_the_start_of_a_suspect_is_written_before_it_runs(
    make_scheduler: Make, db: Any, claimed_ahead: None
) -> None:
    scheduler = make_scheduler()
    seen: list[dict[str, Any]] = []

    @scheduler.job("x")
    async def x(ctx: JobContext) -> None:
        seen.append(await db.jobs.find_one({"token": 1}, hint="_id_"))

    job = await scheduler.schedule("x")
    await db.jobs.update_one({}, {"$set": {"suspect": "ahead"}}, hint="_id_")
    await scheduler.start()
    await scheduler.wait(job.id, timeout=60)
    assert [("ahead" in document, document["suspect"]) for document in seen] == [(False, "ahead")]


async def test_the_start_of_a_job_that_blocks_the_event_loop_is_written_all_the_same(
    make_scheduler: Make, uri: str, claimed_ahead: None
) -> None:
    scheduler = make_scheduler()
    noted: list[bool] = []
    with MongoClient[dict[str, Any]](uri) as client:
        jobs = client.get_default_database()["jobs"]

        @scheduler.job("x")
        async def x() -> None:
            until = time.monotonic() + 60
            while not noted and time.monotonic() < until:
                document = jobs.find_one({}, hint="_id_")
                if document is not None and "ahead" not in document:
                    noted.append(True)

        await scheduler.start()
        job = await scheduler.schedule("x")
        await scheduler.wait(job.id, timeout=60)
    assert noted == [True]


async def test_the_start_of_a_job_is_written_before_its_transaction_begins(
    make_scheduler: Make, db: Any, claimed_ahead: None
) -> None:
    scheduler = make_scheduler()
    seen: list[bool] = []

    @scheduler.job("x")
    async def x(ctx: JobContext) -> None:
        async with ctx.transaction():
            seen.append("ahead" in await db.jobs.find_one({}, hint="_id_"))

    await scheduler.start()
    job = await scheduler.schedule("x")
    await scheduler.wait(job.id, timeout=60)
    assert seen == [False]
