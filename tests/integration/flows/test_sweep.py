"""The sweep of blocked jobs: it costs a few statements for thousands of them, and finds what a dead process missed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from harness.inside import inside
from harness.listening import Listener
from harness.looking import Database
from harness.waiters import LONG_AGO, Waiters
from harness.waiting import eventually
from mainspring import JobContext, Scheduler, Unavailable
from mainspring.clock import ManualClock
from mainspring.engine.chores.flows.check_waiting import CheckWaiting
from mainspring.store.flows import checks
from mainspring.store.flows.checks import Checked, Checks

GRID = 5


def asked(listener: Listener) -> list[str]:
    """The commands that were sent, in order."""
    return [next(iter(command)) for command in listener.commands]


async def suspend(db: Database, count: int, children: int = 1, **fields: Any) -> None:
    """Store handlers that wait, and their children, which are due in a day."""
    waiters, below = [], []
    for n in range(count):
        wait = f"w{n}#all"
        waits = {"ids": [wait], "total": [children], "tolerate": [0], "fail_fast": [False], "sealed": True}
        job = {"name": "job", "queue": "default", "data": {}, "priority": 5, "v": 1, "rev": 1, "token": 1, "tries": 1}
        job |= {"created_at": LONG_AGO, "run_at": LONG_AGO}
        waits["since"] = LONG_AGO
        waiters.append({**job, "_id": f"w{n}", "state": "blocked", "waits": waits, "check_at": LONG_AGO} | fields)
        below += [{**job, "_id": f"w{n}.{m}", "state": "pending", "before": [wait]} for m in range(children)]
    await db.jobs.insert_many([*waiters, *below])


# -- what it costs -------------------------------------------------------------------------------------------------


async def test_a_sweep_looks_at_thousands_of_jobs_with_as_many_statements_as_at_one(
    heard: Scheduler, listener: Listener, db: Database
) -> None:
    await suspend(db, 3_000)
    store = await inside(heard).store()
    listener.clear()
    checked, found = await store.checks.sweep()
    assert (checked, found) == (Checked(), 3_000)
    assert asked(listener) == ["find", "update", "find"]


async def test_a_round_over_long_waits_writes_nothing(heard: Scheduler, listener: Listener, db: Database) -> None:
    store = await inside(heard).store()
    await suspend(db, 3_000, check_at=store.clock.now() + timedelta(hours=1))
    listener.clear()
    async for ids in store.checks.long_waiting():
        assert await store.checks.check_jobs(ids) == Checked()
    assert asked(listener) == ["find", "find", "find"]


async def test_waits_for_many_jobs_are_looked_at_in_portions(
    heard: Scheduler, listener: Listener, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "_MOST_READ", 20)
    await suspend(db, 10, children=6)
    ended = [f"w{n}.{m}" for n in (3, 9) for m in range(6)]
    await db.jobs.update_many({"_id": {"$in": ended}}, {"$set": {"state": "completed"}})
    store = await inside(heard).store()
    listener.clear()
    checked, _ = await store.checks.sweep()
    assert asked(listener) == ["find", "update", *["find"] * 4, "update"]  # three waits, of 18 jobs, in each
    assert checked.started == 2
    states = {one["_id"]: one["state"] async for one in db.jobs.find({"_id": {"$in": [f"w{n}" for n in range(10)]}})}
    assert {job for job, state in states.items() if state == "pending"} == {"w3", "w9"}


async def test_jobs_are_looked_at_first_at_an_instant_that_they_share_with_others(
    scheduler: Scheduler, db: Database
) -> None:
    @scheduler.job("waits")
    async def waits(ctx: JobContext) -> None:
        await ctx.call("later", "job", delay=86_400)

    @scheduler.job("job")
    async def job() -> None: ...

    async with scheduler:
        flow = scheduler.flow("declared")
        flow.add("job", after=flow.add("waits"))
        await flow.start()
        await scheduler.batch({"name": "job", "delay": 86_400} for _ in range(3))

        async def looks() -> list[float]:
            found = db.jobs.find({"check_at": {"$exists": True}, "waits.sealed": True}, {"check_at": 1}, hint="check")
            return [one["check_at"].timestamp() % GRID async for one in found]

        # The roots of the flow and of the batch are blocked, too.
        await eventually(lambda: _as_many(looks, 4))
        assert await looks() == [0, 0, 0, 0]


async def _as_many(looks: Callable[[], Awaitable[list[float]]], wanted: int) -> bool:
    return len(await looks()) == wanted


# -- the chore -----------------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def chore(make_scheduler: Callable[..., Scheduler], clock: ManualClock) -> AsyncIterator[CheckWaiting]:
    """The sweep of a worker that does not sweep by itself."""
    async with make_scheduler(clock=clock) as scheduler:
        worker = inside(scheduler).worker
        worker.chores = [one for one in worker.chores if not one.name.startswith("check_")]
        yield CheckWaiting(worker.chores[0]._context)


async def test_a_wait_with_a_short_timeout_ends_without_the_sweep(make_scheduler: Callable[..., Scheduler]) -> None:
    scheduler = make_scheduler()

    @scheduler.job("ask")
    async def ask(ctx: JobContext) -> str:
        return "too late" if await ctx.wait_for("approved", timeout=0.2) is None else "approved"

    await scheduler.start()
    worker = inside(scheduler).worker
    worker.chores = [one for one in worker.chores if not one.name.startswith("check_")]
    job = await scheduler.schedule("ask")
    assert (await job.wait(30)).result == "too late"


def kept(patch: pytest.MonkeyPatch) -> list[str]:
    """The reads of a sweep, in order."""
    calls: list[str] = []

    def keep(verb: str, real: Any) -> Any:
        async def called(*arguments: Any) -> Any:
            calls.append(verb)
            return await real(*arguments)

        return called

    for verb in ("next_look", "sweep"):
        patch.setattr(Checks, verb, keep(verb, getattr(Checks, verb)))
    return calls


async def test_a_look_whose_time_is_known_is_not_asked_for_once_more(
    chore: CheckWaiting, clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = clock.now() + timedelta(seconds=3)
    await suspend(db, 1, check_at=due)
    calls = kept(monkeypatch)
    await chore.run_once()
    clock.advance(2)
    await chore.run_once()
    assert calls == ["next_look"]
    clock.advance(1)
    await chore.run_once()
    assert calls == ["next_look", "sweep"]
    found = await db.jobs.find_one({"_id": "w0"})
    assert found is not None and found["check_at"] > due


async def test_jobs_that_are_blocked_meanwhile_are_asked_for_every_five_seconds(
    chore: CheckWaiting, clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await suspend(db, 1, check_at=clock.now() + timedelta(hours=1))
    calls = kept(monkeypatch)
    for _ in range(6):
        await chore.run_once()
        clock.advance(1)
    assert calls == ["next_look", "next_look"]
    await suspend_again(db, clock)
    clock.advance(5)
    await chore.run_once()
    assert calls == ["next_look", "next_look", "next_look", "sweep"]


async def suspend_again(db: Database, clock: ManualClock) -> None:
    await db.jobs.update_one({"_id": "w0"}, {"$set": {"check_at": clock.now()}})


async def test_a_sweep_that_failed_looks_at_fewer_jobs_until_it_gets_through(
    chore: CheckWaiting, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await suspend(db, 1)
    limits: list[int] = []
    failures = [Unavailable("the server is busy")] * 2

    async def failing(_: Checks, limit: int) -> tuple[Checked, int]:
        limits.append(limit)
        if failures:
            raise failures.pop()
        return Checked(), 0

    monkeypatch.setattr(Checks, "sweep", failing)
    for _ in range(4):
        with suppress(Unavailable):
            await chore.run_once()
    assert limits == [10_000, 2_500, 625, 1_250]


@pytest.mark.parametrize("malformed", [{"cancel_tree": "yes"}, {"retry_tree": "yes"}])
async def test_a_cancellation_that_cannot_be_carried_on_is_logged_once(
    chore: CheckWaiting, clock: ManualClock, db: Database, caplog: pytest.LogCaptureFixture, malformed: dict[str, Any]
) -> None:
    root = {"state": "cancelled", "spawned": True, "root": True, **malformed}
    await suspend(db, 2, **root)

    async def look() -> list[str]:
        """The jobs that one more look has told of, and that it has raised an error for."""
        caplog.clear()
        await db.jobs.update_many({"_id": {"$in": ["w0", "w1"]}}, {"$set": {"check_at": LONG_AGO}})
        clock.advance(60)
        told: list[str] = []
        try:
            await chore.run_once()
        except Exception as error:
            told.append(type(error).__name__)
        lines = [record for record in caplog.records if "cannot be cancelled or retried" in record.getMessage()]
        return [*sorted(str(record.__dict__["job_id"]) for record in lines), *told]

    first = await look()
    assert first[:2] == ["w0", "w1"] and len(first) == 3, "the sweep ends with the error of one of them"
    assert [await look(), await look()] == [[], []]
    await db.jobs.update_one({"_id": "w0"}, {"$unset": malformed})
    await db.jobs.update_one({"_id": "w0"}, {"$set": {"cancel_tree": {"at": clock.now()}}})
    assert await look() == []
    await db.jobs.update_one({"_id": "w0"}, {"$set": malformed})
    assert (await look())[:1] == ["w0"], "another fault after it was mended is told"


async def test_a_worker_finds_a_lost_check_of_a_long_wait_before_its_next_look(
    scheduler: Scheduler, waiters: Waiters
) -> None:
    wait = await waiters.waiter()  # its next look is in an hour
    await waiters.child("c", "completed", wait)
    async with scheduler:
        await eventually(lambda: _is_pending(waiters))


async def _is_pending(waiters: Waiters) -> bool:
    return await waiters.state() == "pending"


@pytest.fixture
async def waiters(db: Database, scheduler: Scheduler) -> Waiters:
    await inside(scheduler).store()
    return Waiters(db)
