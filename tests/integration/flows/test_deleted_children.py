"""Children that are deleted by hand while a job waits for them: they count as failed, and nothing waits for ever."""

from __future__ import annotations

from typing import Any

import pytest

from harness.looking import Database
from harness.waiting import eventually
from mainspring import JobContext, Scheduler
from mainspring.store.flows import waiters

SOON = 30


@pytest.fixture
def later(scheduler: Scheduler) -> dict[str, Any]:
    """The options of jobs that do not come to their turn."""

    @scheduler.job("leaf")
    async def leaf(n: int) -> int:
        return n

    return {"delay": 600}


async def test_a_deleted_child_ends_a_wait_that_fails_fast_although_another_child_does_not_stop(
    scheduler: Scheduler, db: Database, later: dict[str, Any]
) -> None:
    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> int:
        return len(await ctx.map("m", "leaf", [{"n": 1}, {"n": 2}], fail_fast=True, **later))

    await scheduler.start()
    job = await scheduler.schedule("parent")

    async def waits() -> bool:
        return (await scheduler.get_job(job.id)).state == "blocked"

    await eventually(waits)
    held = {"state": "running", "worker": "another", "claim": "c", "token": 1}
    held["lease_until"] = scheduler.now().replace(year=scheduler.now().year + 1)
    await db.jobs.update_one({"_id": f"{job.id}.m.00000000"}, {"$set": held, "$unset": {"ready": 1}})
    await scheduler.delete(f"{job.id}.m.00000001")
    failed = await scheduler.wait(job.id, SOON)
    assert failed.state == "failed" and failed.error is not None and "1 of the 2" in failed.error.message
    running = await scheduler.get_job(f"{job.id}.m.00000000")
    assert running.cancel_requested


async def test_jobs_of_a_batch_count_as_failed_although_more_were_deleted_than_are_noted(
    scheduler: Scheduler, later: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "_DELETED_KEPT", 2)
    batch = await scheduler.batch(({"name": "leaf", "data": {"n": n}, **later} for n in range(5)), tolerate=3)
    ids = sorted([job.id async for job in scheduler.jobs(name="leaf")])
    for one in ids[:4]:
        await scheduler.delete(one)
    await scheduler.start()
    await scheduler.run_now(ids[4])
    ended = await batch.wait(SOON)
    assert ended.state == "failed" and "4" in (ended.error or "")
