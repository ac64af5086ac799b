"""What is kept and for how long: finished jobs, failed ones, and deduplication keys."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from harness.looking import Database, count_jobs
from harness.waiting import eventually
from mainspring import JobNotFound, Scheduler
from mainspring.clock import ManualClock
from mainspring.store import Store
from mainspring.store.tending import keep_times

Make = Callable[..., Scheduler]

DAY = 86400.0
STATES = ("pending", "running", "blocked", "completed", "failed", "cancelled", "expired")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def timed(make_scheduler: Make, clock: ManualClock) -> Scheduler:
    return await make_scheduler(clock=clock).connect()


def store_of(scheduler: Scheduler) -> Store:
    return scheduler._link.open_store()


async def one_in_each_state(scheduler: Scheduler, db: Database, clock: ManualClock) -> None:
    """Jobs of every state, the finished ones as of now."""
    for state in STATES:
        job = await scheduler.schedule(state, delay=3600)
        fields: dict[str, Any] = {"state": state, "lease_until": clock.now() + timedelta(days=365)}
        if state not in ("pending", "running", "blocked"):
            fields["finished_at"] = clock.now()
        await db.jobs.update_one({"_id": ObjectId(job.id)}, {"$set": fields, "$unset": {"ready": 1}})


async def states(db: Database) -> set[str]:
    return {document["state"] async for document in db.jobs.find({}, hint="_id_")}


# -- jobs ----------------------------------------------------------------------------------------------------------


async def test_by_default_finished_jobs_are_kept_for_a_week_and_failed_ones_for_ever(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    await one_in_each_state(timed, db, clock)
    keep = keep_times(timed.settings.keep_finished, timed.settings.keep_failed)
    clock.advance(timedelta(days=7))
    assert await store_of(timed).tending.prune(keep) == 0
    clock.advance(1)
    assert await store_of(timed).tending.prune(keep) == 3
    assert await states(db) == {"pending", "running", "blocked", "failed"}
    clock.advance(timedelta(days=3650))
    assert await store_of(timed).tending.prune(keep) == 0


async def test_failed_jobs_go_when_a_time_was_set_for_them_on_purpose(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    await one_in_each_state(timed, db, clock)
    clock.advance(100)
    assert await store_of(timed).tending.prune(keep_times(keep_finished=1000, keep_failed=99)) == 1
    assert "failed" not in await states(db)


async def test_finished_jobs_can_be_kept_for_ever(timed: Scheduler, db: Database, clock: ManualClock) -> None:
    await one_in_each_state(timed, db, clock)
    clock.advance(timedelta(days=3650))
    assert await store_of(timed).tending.prune(keep_times(None, None)) == 0
    assert await states(db) == set(STATES)


async def test_one_pass_deletes_no_more_than_it_is_told(timed: Scheduler, db: Database, clock: ManualClock) -> None:
    jobs = await timed.schedule_bulk([{"name": "work"}] * 25)
    ids = [ObjectId(job.id) for job in jobs]
    ended = {"$set": {"state": "completed", "finished_at": clock.now()}, "$unset": {"ready": 1}}
    await db.jobs.update_many({"_id": {"$in": ids}}, ended)
    clock.advance(10)
    deleted = [await store_of(timed).tending.prune({"completed": 5.0}, limit=10) for _ in range(4)]
    assert deleted == [10, 10, 5, 0]


async def test_a_job_that_is_run_again_is_not_pruned(timed: Scheduler, db: Database, clock: ManualClock) -> None:
    job = await timed.schedule("work")
    await timed.cancel(job.id)
    clock.advance(100)
    await timed.retry(job.id)
    assert await store_of(timed).tending.prune(keep_times(1, 1)) == 0


async def test_a_running_worker_prunes_by_itself(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(keep_finished=3600)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    jobs = {state: await scheduler.schedule(state) for state in ("completed", "failed")}
    for state, job in jobs.items():
        ended = {"$set": {"state": state, "finished_at": yesterday}, "$unset": {"ready": 1}}
        await db.jobs.update_one({"_id": ObjectId(job.id)}, ended)
    await scheduler.start()

    async def pruned() -> bool:
        return await count_jobs(db) == 1

    await eventually(pruned)
    assert (await scheduler.get_job(jobs["failed"].id)).state == "failed"
    with pytest.raises(JobNotFound):
        await scheduler.get_job(jobs["completed"].id)


# -- keys ----------------------------------------------------------------------------------------------------------


async def keys(db: Database) -> list[str]:
    return sorted([document["_id"] async for document in db["jobs.keys"].find({}, hint="_id_")])


async def test_keys_are_dropped_only_when_they_are_not_in_force_any_more(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    ended = {}
    for key, window in (("live", None), ("over", None), ("window", 2 * DAY), ("window-over", 60), ("deleted", None)):
        job = await timed.schedule("work", dedupe_key=key, dedupe_window=window)
        ended[key] = job.id
    for key in ("over", "window", "window-over"):
        await timed.cancel(ended[key])
    await timed.delete(ended["deleted"])
    assert await store_of(timed).keys.prune(clock.now(), 100) == 0  # nothing is older than now
    clock.advance(timedelta(hours=2))
    assert await store_of(timed).keys.prune(clock.now() - timedelta(hours=1), 100) == 2
    assert await keys(db) == ["live", "window"]
    assert (await timed.schedule("work", dedupe_key="live")).deduplicated
    assert (await timed.schedule("work", dedupe_key="window")).deduplicated
    assert not (await timed.schedule("work", dedupe_key="over")).deduplicated
    clock.advance(timedelta(days=2))
    await timed.cancel(ended["live"])
    await store_of(timed).keys.prune(clock.now(), 100)
    assert await keys(db) == ["over"]


async def test_keys_in_force_do_not_keep_those_behind_them_from_being_pruned(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    await timed.schedule_bulk([{"name": "work", "dedupe_key": f"live-{n}"} for n in range(20)])
    clock.advance(10)
    over = await timed.schedule("work", dedupe_key="over")
    await timed.cancel(over.id)
    clock.advance(timedelta(hours=2))
    for _ in range(3):
        await store_of(timed).keys.prune(clock.now() - timedelta(hours=1), 10)
    assert len(await keys(db)) == 20 and "over" not in await keys(db)


async def test_a_job_is_kept_for_as_long_as_its_window_lasts(timed: Scheduler, clock: ManualClock) -> None:
    keep = keep_times(timed.settings.keep_finished, None)
    first = await timed.schedule("work", dedupe_key="k", dedupe_window=30 * DAY)
    await timed.cancel(first.id)
    clock.advance(timedelta(days=29))
    assert await store_of(timed).tending.prune(keep) == 0
    assert await store_of(timed).keys.prune(clock.now() - timedelta(hours=1), 100) == 0
    assert (await timed.schedule("work", dedupe_key="k")).id == first.id
    clock.advance(timedelta(days=2))
    assert await store_of(timed).tending.prune(keep) == 1
    assert not (await timed.schedule("work", dedupe_key="k")).deduplicated


# -- workers -------------------------------------------------------------------------------------------------------


async def test_workers_that_are_long_gone_are_forgotten(timed: Scheduler, db: Database, clock: ManualClock) -> None:
    await db["jobs.workers"].insert_many(
        [
            {"_id": "gone", "beat_at": clock.now() - timedelta(hours=2)},
            {"_id": "quiet", "beat_at": clock.now() - timedelta(minutes=30)},
            {"_id": "here", "beat_at": clock.now()},
        ]
    )
    assert await store_of(timed).workers.forget_dead() == 1
    assert [peer.id for peer in await store_of(timed).workers.live()] == ["here"]
    assert sorted([document["_id"] async for document in db["jobs.workers"].find({}, hint="_id_")]) == ["here", "quiet"]
