"""The audit of slots: what a worker has, what its jobs need and what the database counts are brought together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database, count_jobs
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.engine.chores.limits.audit_slots import AuditSlots
from mainspring.engine.worker import Worker
from mainspring.errors import Unavailable
from mainspring.model.limits.limits import Gate, Limit
from mainspring.store.jobs.stored_job import StoredJob

Make = Callable[..., Scheduler]
GATE = "c:name:x"


class Door:
    """Keeps handlers inside until it is opened."""

    def __init__(self) -> None:
        self.inside = 0
        self.opened = asyncio.Event()

    async def pass_through(self) -> None:
        self.inside += 1
        await self.opened.wait()
        self.inside -= 1


@pytest.fixture
def door() -> Door:
    return Door()


async def started(scheduler: Scheduler, door: Door, concurrency: int = 2) -> Worker:
    @scheduler.job("x", concurrency=concurrency)
    async def x() -> None:
        await door.pass_through()

    await scheduler.start()
    return inside(scheduler).worker


def audit_of(worker: Worker) -> AuditSlots:
    """An audit of the test's own, beside the worker's, which is a minute away."""
    return AuditSlots(worker.chores[0]._context)


async def granted(db: Database) -> dict[str, int]:
    """How many slots the database counts, by worker."""
    gate = await db["jobs.gates"].find_one({"_id": GATE}) or {}
    return {grant["w"]: grant["n"] for grant in gate.get("grants", ())}


async def granting(db: Database, worker: str, number: int, limit: int = 2) -> None:
    """Let the database count slots for a worker that it has not asked for."""
    grants = [{"w": worker, "n": number}]
    await db["jobs.gates"].update_one(
        {"_id": GATE}, {"$set": {"grants": grants, "limit": limit, "rev": 0}}, upsert=True
    )


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_slots_that_the_database_counts_for_a_worker_that_has_none_are_given_back_and_it_is_logged(
    make_scheduler: Make, db: Database, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await started(make_scheduler(), door)
    await granting(db, worker.id, 2)
    await audit_of(worker).run_once()
    assert await granted(db) == {}
    (said,) = warnings(caplog)
    assert GATE in said and worker.id in said and "counted 2" in said and "both count 0" in said


async def test_slots_of_jobs_that_the_database_does_not_count_are_counted_again(
    make_scheduler: Make, db: Database, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler()
    worker = await started(scheduler, door)
    job = await scheduler.schedule("x")
    await eventually(lambda: door.inside == 1)
    await db["jobs.gates"].update_one({"_id": GATE}, {"$set": {"grants": []}})
    await audit_of(worker).run_once()
    assert (await granted(db))[worker.id] == 1
    assert len(warnings(caplog)) == 1
    door.opened.set()
    assert (await scheduler.wait(job.id, timeout=60)).state == "completed"


async def test_the_audit_changes_nothing_where_the_books_balance(
    make_scheduler: Make, db: Database, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler()
    worker = await started(scheduler, door)
    jobs = [await scheduler.schedule("x") for _ in range(5)]
    await eventually(lambda: door.inside == 2)
    await eventually(lambda: _waiting(db, 3))
    audit = audit_of(worker)
    for _ in range(3):
        await audit.run_once()
    assert (await granted(db), warnings(caplog)) == ({worker.id: 2}, [])
    door.opened.set()
    assert {(await scheduler.wait(job.id, timeout=60)).state for job in jobs} == {"completed"}


async def _waiting(db: Database, number: int) -> bool:
    return await count_jobs(db, state="pending", line=GATE) == number


async def test_a_slot_that_no_job_has_is_free_again_after_two_passes(
    make_scheduler: Make, db: Database, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler()
    worker = await started(scheduler, door, concurrency=1)
    shares = worker.limiter.shares
    shares.check_lease()  # the term of the lease begins
    await granting(db, worker.id, 1, limit=1)
    shares.open(GATE).mine = 1
    shares.use([Gate(GATE, Limit(1))])
    audit = audit_of(worker)
    await audit.run_once()
    assert (len(shares.slots_out), warnings(caplog)) == (1, [])
    await audit.run_once()
    assert shares.slots_out == []
    (said,) = warnings(caplog)
    assert GATE in said and worker.id in said
    door.opened.set()
    assert (await scheduler.wait((await scheduler.schedule("x")).id, timeout=60)).state == "completed"


async def test_a_claim_that_came_to_nothing_gives_its_slots_up(
    make_scheduler: Make, db: Database, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler(queues=["elsewhere"])
    worker = await started(scheduler, door, concurrency=1)
    limiter, store = worker.limiter, await inside(scheduler).store()
    await scheduler.schedule("x")
    found = await eventually(lambda: store.claims.candidates("default", 1))
    await limiter.admit(found, 1)
    audit = audit_of(worker)
    await audit.run_once()
    assert (len(limiter.admitted), warnings(caplog)) == (1, [])
    await audit.run_once()
    assert (limiter.admitted, limiter.shares.slots_out) == ({}, [])
    assert len(warnings(caplog)) == 1


async def test_a_claim_that_the_database_knows_of_keeps_its_slots(
    make_scheduler: Make, door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler(queues=["elsewhere"])
    worker = await started(scheduler, door, concurrency=1)
    limiter, store = worker.limiter, await inside(scheduler).store()
    await scheduler.schedule("x")
    found = await eventually(lambda: store.claims.candidates("default", 1))
    await limiter.admit(found, 1)
    await store.claims.claim([StoredJob(dict(job.document)) for job in found], worker.id, 60, lambda _: 3)
    audit = audit_of(worker)
    for _ in range(3):
        await audit.run_once()
    assert (len(limiter.admitted), len(limiter.shares.slots_out), warnings(caplog)) == (1, 1, [])


async def test_a_correction_that_was_not_heard_of_is_made_by_what_gives_slots_back(
    make_scheduler: Make, db: Database, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await started(make_scheduler(), door)
    await granting(db, worker.id, 2)

    async def correct(*args: Any) -> bool:
        raise Unavailable("injected")

    monkeypatch.setattr(worker._store.gates, "correct", correct)
    with pytest.raises(Unavailable):
        await audit_of(worker).run_once()
    await eventually(lambda: _nothing_granted(db))


async def _nothing_granted(db: Database) -> bool:
    return await granted(db) == {}
