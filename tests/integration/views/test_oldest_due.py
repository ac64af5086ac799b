"""The job of a queue that has been due for longest is found on wait lists too, at a bounded cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from harness.inside import inside
from harness.looking import Database
from harness.profiling import profiled
from harness.waiting import eventually
from mainspring import Limit, Scheduler
from mainspring.clock import ManualClock
from mainspring.model.views.queues import QueueStatus

Make = Callable[..., Scheduler]
MINUTE = timedelta(minutes=1)
MANY = 6_000


async def wait_at(timed: Scheduler, db: Database, gate: str, queue: str = "bank", by: str = "limit") -> str:
    """Schedule a job, and put it on the wait list of a gate, or make it wait for another reason."""
    job = await timed.schedule("charge", queue=queue)
    waiting: dict[str, Any] = {"waiting_for": {"by": by, "note": "", "since": timed.now()}}
    await db.jobs.update_one(
        {"_id": ObjectId(job.id)}, {"$set": waiting | ({"line": gate} if gate else {}), "$unset": {"ready": ""}}
    )
    return job.id


async def status(timed: Scheduler, queue: str = "bank") -> QueueStatus:
    return (await timed.queues.get(queue)).status


async def serve(db: Database, timed: Scheduler) -> None:
    alive = {"beat_at": timed.now(), "handlers": ["charge"], "concurrency": 1, "running": 1}
    await db["jobs.workers"].replace_one({"_id": "w"}, {"queues": ["bank"], **alive}, upsert=True)


@pytest.mark.parametrize(
    ("gate", "place"),
    [
        ("c:name:charge:tenant=acme", ", at a limit"),
        ("r:name:charge", ", at a rate"),
        ("s:orders", ", for its turn in a sequence"),
        ("f:bank:acme", ", for the turn of its key"),
    ],
)
async def test_a_queue_whose_jobs_all_wait_at_a_gate_is_late(
    timed: Scheduler, clock: ManualClock, db: Database, gate: str, place: str
) -> None:
    due = clock.now()
    await wait_at(timed, db, gate)
    clock.advance(5 * MINUTE)
    await wait_at(timed, db, gate)
    found = await status(timed)
    assert (found.due, found.waiting, found.oldest_due, found.oldest_ready) == (0, 2, due, None)
    await serve(db, timed)
    [late] = [one for one in (await timed.monitor.overview()).problems if one.kind == "late"]
    assert late.text == f"The oldest due job of the queue 'bank' has waited for 5 minutes{place}."


async def test_jobs_at_a_gate_without_a_worker_for_their_queue_are_unserved(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await wait_at(timed, db, "f:bank:acme")
    clock.advance(MINUTE)
    assert (await status(timed)).lacks_worker
    await db["jobs.workers"].insert_one({"_id": "w", "beat_at": clock.now(), "queues": ["mail"], "concurrency": 1})
    [problem] = [one for one in (await timed.monitor.overview()).problems if one.kind == "unserved"]
    assert problem.text == "No live worker serves the queue 'bank'; its oldest job has been due for 1 minute."


@pytest.mark.parametrize("gate", ["p:name:charge", "b:name:charge"])
async def test_jobs_behind_a_pause_or_a_breaker_wait_but_do_not_make_their_queue_late(
    timed: Scheduler, clock: ManualClock, db: Database, gate: str
) -> None:
    due = clock.now()
    await wait_at(timed, db, gate)
    clock.advance(5 * MINUTE)
    await serve(db, timed)
    assert (await status(timed)).oldest_due == due
    assert [one.kind for one in (await timed.monitor.overview()).problems] == []
    await wait_at(timed, db, "c:name:charge")
    clock.advance(2 * MINUTE)
    await serve(db, timed)
    [late] = [one for one in (await timed.monitor.overview()).problems if one.kind == "late"]
    assert "for 2 minutes, at a limit" in late.text


@pytest.mark.parametrize("by", ["handler", "version", "key", "overlap"])
async def test_a_job_that_waits_for_something_else_counts_in_its_queue_alone(
    timed: Scheduler, clock: ManualClock, db: Database, by: str
) -> None:
    due = clock.now()
    await wait_at(timed, db, "", by=by)
    clock.advance(5 * MINUTE)
    await serve(db, timed)
    assert (await status(timed)).oldest_due == due
    assert "late" not in [one.kind for one in (await timed.monitor.overview()).problems]


async def test_a_waiting_job_that_is_not_due_yet_does_not_count(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    job = await wait_at(timed, db, "f:bank:acme")
    await db.jobs.update_one({"_id": ObjectId(job)}, {"$set": {"run_at": clock.now() + MINUTE}})
    found = await status(timed)
    assert (found.waiting, found.oldest_due, found.lacks_worker) == (1, None, False)


async def test_the_ages_that_charts_show_are_those_of_waiting_jobs_too(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await wait_at(timed, db, "c:queue:bank")
    await wait_at(timed, db, "p:queue:mail", queue="mail")
    clock.advance(5 * MINUTE)
    await timed.schedule("charge", queue="bank")
    store = await inside(timed).store()
    found = await store.oldest_due.by_queue(held=True)
    assert {one.queue: clock.now() - one.since for one in found} == {"bank": 5 * MINUTE, "mail": 5 * MINUTE}
    assert [one.queue for one in await store.oldest_due.by_queue(["bank"])] == ["bank"]


async def test_a_real_limit_shows_how_long_its_jobs_have_waited(make_scheduler: Make) -> None:
    scheduler, going = make_scheduler(), asyncio.Event()

    @scheduler.job("charge", concurrency=Limit(1), queue="bank")
    async def charge() -> None:
        await going.wait()

    await scheduler.start()
    jobs = [await scheduler.schedule("charge") for _ in range(3)]

    async def told() -> bool:
        found = (await scheduler.queues.get("bank")).status
        return (found.due, found.waiting) == (0, 2) and found.oldest_due == jobs[1].run_at

    await eventually(told)
    going.set()


@pytest.mark.fresh_database
@pytest.mark.slow
async def test_the_oldest_of_many_waiting_jobs_is_found_by_few_keys(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await timed.connect()
    now = clock.now()
    reasons = ("limit", "handler", "version", "key", "overlap")
    await db.jobs.insert_many(
        [
            {
                "v": 1,
                "state": "pending",
                "name": "x",
                "data": {},
                "rev": 0,
                "token": 0,
                "tries": 0,
                "queue": f"queue-{n % 60:02}",
                "priority": n % 10 + 1,
                "created_at": now - timedelta(days=1),
                "run_at": now - timedelta(seconds=n),
                "waiting_for": {"by": reasons[n // 60 % 5], "note": "", "since": now},
                "line": f"{'p' if n // 300 % 2 else 'c'}:name:x:tenant={n}",
            }
            for n in range(MANY)
        ],
        ordered=False,
    )
    store = await inside(timed).store()
    for held, most in ((False, 500), (True, 400)):
        async with profiled(db) as spent:
            found = await store.oldest_due.by_queue(held=held)
        assert len(found) == 40
        assert spent.keys <= most and spent.documents <= most and not spent.scans, vars(spent)
    async with profiled(db) as spent:
        one = await store.oldest_due.waiting("queue-00")
    assert one is not None and one.since == now - timedelta(seconds=MANY - 60)
    assert spent.keys <= 12, vars(spent)
