"""A job that the server refuses to let be claimed: those beside it and behind it run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pymongo.errors import BulkWriteError, OperationFailure

from harness.inside import inside
from harness.looking import Database
from harness.refusing import refusing
from harness.waiting import eventually
from mainspring import Job, Scheduler
from mainspring.store import refusals
from mainspring.store.codec import document_id
from mainspring.store.collection import Collection
from mainspring.store.refusals import Refused

Make = Callable[..., Scheduler]


async def waiting(scheduler: Scheduler, number: int) -> list[Job]:
    @scheduler.job("work")
    async def work(number: int) -> int:
        return number

    return await scheduler.schedule_bulk([{"name": "work", "data": {"number": one}} for one in range(number)])


async def test_a_job_that_is_too_large_to_be_claimed_fails_and_those_behind_it_run(
    make_scheduler: Make, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler(concurrency=3)
    bad, *others = await waiting(scheduler, 10)
    async with refusing(db, "jobs", {"_id": document_id(bad.id), "state": "running"}):
        await scheduler.start()
        done = [await scheduler.wait(job.id, timeout=60) for job in others]
        failed = await scheduler.wait(bad.id, timeout=60)
    assert {(job.state, job.tries) for job in done} == {("completed", 1)}
    assert (failed.state, failed.tries) == ("failed", 0)
    assert failed.error is not None and failed.error.type == "ClaimRefused"
    assert "MongoDB refuses its claim: Document failed validation" in failed.error.message
    assert f"Job {bad.id} cannot be claimed: MongoDB refuses to change it" in caplog.text


async def test_a_job_that_has_no_room_for_the_reason_fails_without_it(scheduler: Scheduler, db: Database) -> None:
    (bad,) = await waiting(scheduler, 1)
    unsaid = {"state": "failed", "error": {"$exists": True}}
    async with refusing(db, "jobs", {"$or": [{"state": "running"}, unsaid]}):
        await scheduler.start()
        failed = await scheduler.wait(bad.id, timeout=60)
    assert (failed.state, failed.error) == ("failed", None) and failed.finished_at is not None


async def test_a_job_that_cannot_be_changed_at_all_keeps_nobody_from_being_claimed(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(concurrency=1)
    bad, *others = await waiting(scheduler, 5)
    async with refusing(db, "jobs", {"_id": document_id(bad.id)}):
        await scheduler.start()
        done = [await scheduler.wait(job.id, timeout=60) for job in others]
        assert (await scheduler.get_job(bad.id)).state == "pending"
    assert {job.state for job in done} == {"completed"}


async def test_a_refusal_that_is_not_for_the_job_does_not_fail_it(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = await make_scheduler().connect()
    await waiting(scheduler, 2)
    store = await inside(scheduler).store()
    candidates = await store.claims.candidates("default", 10)

    async def refuse(*args: object, **options: object) -> None:
        raise BulkWriteError({"writeErrors": [{"index": 0, "code": 8000}], "writeConcernErrors": []})

    monkeypatch.setattr(type(store.connection.jobs), "bulk_write", refuse)
    batch = await store.claims.claim(candidates, "A", 60, lambda job: 3)
    assert (batch.jobs, batch.lost) == ([], 2)
    assert [job.state async for job in scheduler.jobs()] == ["pending", "pending"]


async def test_an_error_of_all_claims_leaves_their_jobs_out_for_moments_only(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses every claim for a while, with an error that is not known to pass."""
    jobs = await waiting(scheduler, 8)
    bulk_write = Collection.bulk_write
    refused: list[Any] = []

    async def refuse(collection: Collection, statements: Any, *args: Any, **options: Any) -> Any:
        if "claimed_at" in str(statements):
            refused.append(statements)
            raise OperationFailure("injected", 8000)
        return await bulk_write(collection, statements, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Collection, "bulk_write", refuse)
        await scheduler.start()
        await eventually(lambda: len(refused) > len(jobs))
    assert {(await scheduler.wait(job.id, timeout=20)).state for job in jobs} == {"completed"}


def test_a_job_that_is_refused_again_and_again_is_left_out_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(refusals, "monotonic", lambda: now)
    left_out = Refused[str]()
    times = []
    for _ in range(5):
        left_out.add("job", OperationFailure("an error of the server", 8))
        began = now
        while "job" in left_out:
            assert left_out.filter == {"_id": {"$nin": ["job"]}}
            now += 1.0
        times.append(now - began)
        assert left_out.filter == {}
    assert times == [2, 6, 18, 54, 60]
    now += 60.0
    assert left_out.filter == {}
    left_out.add("job", OperationFailure("an error of the server", 8))
    now += 2.0
    assert "job" not in left_out
