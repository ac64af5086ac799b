"""What is kept and for how long: finished jobs, failed ones, and deduplication keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId
from pymongo.errors import OperationFailure

from harness.inside import inside
from harness.looking import Database, count_jobs
from harness.pruning import prune, pruner_of
from harness.waiting import eventually
from mainspring import JobNotFound, Keep, Scheduler
from mainspring.clock import ManualClock
from mainspring.store import Store

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
    return inside(scheduler).open_store


async def one_in_each_state(scheduler: Scheduler, db: Database, clock: ManualClock) -> None:
    """Jobs of every state, the finished ones as of now."""
    for state in STATES:
        job = await scheduler.schedule(state, delay=3600)
        fields: dict[str, Any] = {"state": state, "lease_until": clock.now() + timedelta(days=365)}
        if state not in ("pending", "running", "blocked"):
            fields["finished_at"] = clock.now()
        await db.jobs.update_one({"_id": ObjectId(job.id)}, {"$set": fields, "$unset": {"ready": 1}})


async def finished(
    scheduler: Scheduler,
    db: Database,
    number: int,
    *,
    at: datetime,
    name: str = "work",
    queue: str = "default",
    state: str = "completed",
    tags: list[str] | None = None,
) -> None:
    """So many jobs that have ended at an instant."""
    item: dict[str, Any] = {"name": name, "queue": queue, "tags": tags or [], "delay": 3600}
    jobs = await scheduler.schedule_bulk([item] * number)
    ended = {"$set": {"state": state, "finished_at": at}, "$unset": {"ready": 1}}
    await db.jobs.update_many({"_id": {"$in": [ObjectId(job.id) for job in jobs]}}, ended)


async def kept(db: Database) -> Counter[tuple[str, str, str]]:
    """What is stored, by name, queue and state."""
    return Counter([(job["name"], job["queue"], job["state"]) async for job in db.jobs.find({}, hint="_id_")])


async def states(db: Database) -> set[str]:
    return {document["state"] async for document in db.jobs.find({}, hint="_id_")}


# -- jobs ----------------------------------------------------------------------------------------------------------


async def test_by_default_finished_jobs_are_kept_for_a_week_and_failed_ones_for_ever(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    await one_in_each_state(timed, db, clock)
    keep: dict[str, Any] = {"keep_finished": timed.settings.keep_finished, "keep_failed": timed.settings.keep_failed}
    clock.advance(timedelta(days=7))
    assert await prune(timed, **keep) == 0
    clock.advance(1)
    assert await prune(timed, **keep) == 3
    assert await states(db) == {"pending", "running", "blocked", "failed"}
    clock.advance(timedelta(days=3650))
    assert await prune(timed, **keep) == 0


async def test_failed_jobs_go_when_a_time_was_set_for_them_on_purpose(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    await one_in_each_state(timed, db, clock)
    clock.advance(100)
    assert await prune(timed, keep_finished=1000, keep_failed=99) == 1
    assert "failed" not in await states(db)


async def test_finished_jobs_can_be_kept_for_ever(timed: Scheduler, db: Database, clock: ManualClock) -> None:
    await one_in_each_state(timed, db, clock)
    clock.advance(timedelta(days=3650))
    assert await prune(timed) == 0
    assert await states(db) == set(STATES)


@pytest.mark.slow
async def test_one_step_deletes_no_more_than_a_few_hundred(timed: Scheduler, db: Database, clock: ManualClock) -> None:
    await finished(timed, db, 1100, at=clock.now())
    clock.advance(10)
    pruner, left = pruner_of(timed, keep_finished=5), list[int]()
    while await pruner.prune():
        left.append(await count_jobs(db))
    assert left == [600, 100] and await count_jobs(db) == 0


async def test_a_job_that_is_run_again_is_not_pruned(timed: Scheduler, db: Database, clock: ManualClock) -> None:
    job = await timed.schedule("work")
    await timed.cancel(job.id)
    clock.advance(100)
    await timed.retry(job.id)
    assert await prune(timed, keep_finished=1, keep_failed=1) == 0


async def test_a_job_that_was_run_again_and_has_ended_anew_since_it_was_read_is_not_deleted(
    timed: Scheduler, db: Database
) -> None:
    kept, gone = [await timed.schedule("work") for _ in range(2)]
    for job in (kept, gone):
        await timed.cancel(job.id)
    read = [document async for document in db.jobs.find({}, hint="_id_")]
    await timed.retry(kept.id)
    assert await store_of(timed).removal.remove(read) == 1
    await timed.cancel(kept.id)  # in the same state again, and at the same instant: the clock stands still
    assert await store_of(timed).removal.remove(read) == 0
    assert (await timed.get_job(kept.id)).state == "cancelled"


async def test_what_does_not_end_is_never_deleted(timed: Scheduler, db: Database, clock: ManualClock) -> None:
    await one_in_each_state(timed, db, clock)
    read = [document async for document in db.jobs.find({}, hint="_id_")]
    assert await store_of(timed).removal.remove(read) == 4
    assert await states(db) == {"pending", "running", "blocked"}


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


async def test_one_worker_prunes_at_a_time(timed: Scheduler, db: Database, clock: ManualClock) -> None:
    await finished(timed, db, 3, at=clock.now())
    clock.advance(10)
    assert not await pruner_of(timed, keep_finished=1000, worker="one").prune()  # it has the lock, and nothing to do
    assert await prune(timed, keep_finished=1, worker="other") == 0
    assert await prune(timed, keep_finished=1, worker="one") == 3


async def test_a_worker_that_stops_leaves_the_pruning_to_the_next_at_once(make_scheduler: Make, db: Database) -> None:
    first, second = make_scheduler(keep_finished=3600), make_scheduler(keep_finished=3600)
    for scheduler in (first, second):
        await scheduler.connect()
        await finished(scheduler, db, 1, at=datetime.now(UTC) - timedelta(days=1))
        await scheduler.start()

        async def pruned() -> bool:
            return await count_jobs(db) == 0

        await eventually(pruned)
        await scheduler.stop()


# -- rules ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_rule_is_about_its_name_queue_and_state_and_the_most_specific_one_counts(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    rules = [
        Keep(age="10h"),
        Keep(queue="slow", age="8h"),
        Keep(name="report", age="6h"),
        Keep(name="report", queue="slow", age="4h"),
        Keep(name="report", queue="slow", state="cancelled", age="2h"),
        Keep(name="audit"),
    ]
    kinds = [("work", "default"), ("work", "slow"), ("report", "default"), ("report", "slow"), ("audit", "slow")]
    for name, queue in kinds:
        await finished(timed, db, 1, at=clock.now(), name=name, queue=queue)
    await finished(timed, db, 1, at=clock.now(), name="report", queue="slow", state="cancelled")
    await finished(timed, db, 1, at=clock.now(), name="report", queue="slow", state="failed")
    gone = []
    for _ in range(5):
        clock.advance(timedelta(hours=2, seconds=1))
        before = await kept(db)
        assert await prune(timed, rules) == 1
        gone += list((before - await kept(db)).elements())
    assert gone == [
        ("report", "slow", "cancelled"),
        ("report", "slow", "completed"),
        ("report", "default", "completed"),
        ("work", "slow", "completed"),
        ("work", "default", "completed"),
    ]
    clock.advance(timedelta(days=3650))
    assert await prune(timed, rules) == 0
    assert sorted((await kept(db)).elements()) == [("audit", "slow", "completed"), ("report", "slow", "failed")]


async def test_the_newest_so_many_of_a_rule_are_kept_of_each_state(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    rules = [Keep(name="report", count=3, state="all")]
    for state in ("completed", "failed"):
        for number in range(5):
            await finished(timed, db, 1, at=clock.now(), name="report", state=state, tags=[str(number)])
            clock.advance(1)
    await finished(timed, db, 5, at=clock.now(), name="other")
    assert await prune(timed, rules) == 4
    newest = [job.tags[0] async for job in timed.jobs(state="completed", name="report")]
    assert newest == ["4", "3", "2"]
    assert await count_jobs(db, name="other") == 5


async def test_of_jobs_that_ended_in_the_same_millisecond_the_count_is_kept_all_the_same(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    await finished(timed, db, 40, at=clock.now())
    await finished(timed, db, 2, at=clock.now() + timedelta(seconds=1))
    rules = [Keep(count=12)]
    clock.advance(60)
    assert await prune(timed, rules) == 30
    assert await prune(timed, rules) == 0


async def test_a_count_is_not_used_up_by_jobs_that_another_rule_keeps(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    rules = [Keep(queue="slow", count=2), Keep(name="audit")]
    for name in ("work", "audit", "work", "audit", "work", "audit"):
        await finished(timed, db, 1, at=clock.now(), name=name, queue="slow")
        clock.advance(1)
    assert await prune(timed, rules) == 1
    assert (await kept(db))["audit", "slow", "completed"] == 3


async def test_with_an_age_and_a_count_the_first_that_says_so_ends_a_job(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    rules = [Keep(name="work", age="1h", count=3)]
    await finished(timed, db, 5, at=clock.now())
    assert await prune(timed, rules) == 2
    clock.advance(timedelta(hours=1, seconds=1))
    assert await prune(timed, rules) == 3


@pytest.mark.slow
async def test_jobs_that_others_keep_do_not_stand_in_the_way_of_those_behind_them(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    """More than a step reads, and all of one millisecond."""
    await finished(timed, db, 1300, at=clock.now(), name="audit")
    await finished(timed, db, 20, at=clock.now())
    clock.advance(10)
    assert await prune(timed, [Keep(name="audit")], keep_finished=5) == 20


async def test_what_was_walked_over_is_not_read_again_until_the_next_lap(
    timed: Scheduler, db: Database, clock: ManualClock
) -> None:
    pruner = pruner_of(timed, [Keep(name="audit", age=None), Keep(age="5s")])
    await finished(timed, db, 1, at=clock.now(), name="audit")
    clock.advance(10)
    assert not await pruner.prune()
    late = clock.now() - timedelta(seconds=9)
    await finished(timed, db, 1, at=late)  # as a program that writes an end of a while ago
    clock.advance(60)
    assert not await pruner.prune()
    assert await count_jobs(db) == 2
    clock.advance(timedelta(minutes=15))
    assert not await pruner.prune()
    assert await kept(db) == Counter([("audit", "default", "completed")])


@pytest.mark.fresh_database
@pytest.mark.slow
async def test_the_indexes_for_names_and_queues_are_made_only_where_a_rule_needs_them(
    timed: Scheduler, db: Database
) -> None:
    before = set(await db.jobs.index_information())
    await prune(timed, [Keep(state="failed", age="1h", count=10)], keep_finished=5)
    assert set(await db.jobs.index_information()) == before
    await prune(timed, [Keep(name="report", age="1h")])
    assert set(await db.jobs.index_information()) == before | {"kept_by_name"}
    await prune(timed, [Keep(queue="slow", age="1h")])
    assert set(await db.jobs.index_information()) == before | {"kept_by_name", "kept_by_queue"}


@pytest.mark.fresh_database
async def test_a_worker_makes_the_indexes_anew_when_somebody_has_dropped_them(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = await make_scheduler(retention=[Keep(name="report", age="1h")]).connect()
    pruner = pruner_of(scheduler, [Keep(name="report", age="1h")])
    await pruner.prune()
    await db.jobs.drop_index("kept_by_name")
    with pytest.raises(OperationFailure):
        await pruner.prune()
    store_of(scheduler).removal.forget_indexes()
    assert not await pruner.prune()
    assert "kept_by_name" in await db.jobs.index_information()


async def test_a_running_worker_follows_its_rules(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(retention=[Keep(name="report", age="1h"), Keep(name="audit")], keep_finished=7200)
    await scheduler.connect()
    for name in ("work", "report", "audit"):
        await finished(scheduler, db, 1, at=datetime.now(UTC) - timedelta(minutes=90), name=name)
    await scheduler.start()

    async def pruned() -> bool:
        return set(await kept(db)) == {("work", "default", "completed"), ("audit", "default", "completed")}

    await eventually(pruned)


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
    assert await store_of(timed).dedupe_keys.prune(clock.now(), 100) == 0  # nothing is older than now
    clock.advance(timedelta(hours=2))
    assert await store_of(timed).dedupe_keys.prune(clock.now() - timedelta(hours=1), 100) == 2
    assert await keys(db) == ["live", "window"]
    assert (await timed.schedule("work", dedupe_key="live")).deduplicated
    assert (await timed.schedule("work", dedupe_key="window")).deduplicated
    assert not (await timed.schedule("work", dedupe_key="over")).deduplicated
    clock.advance(timedelta(days=2))
    await timed.cancel(ended["live"])
    await store_of(timed).dedupe_keys.prune(clock.now(), 100)
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
        await store_of(timed).dedupe_keys.prune(clock.now() - timedelta(hours=1), 10)
    assert len(await keys(db)) == 20 and "over" not in await keys(db)


async def test_a_job_is_kept_for_as_long_as_its_window_lasts(timed: Scheduler, clock: ManualClock) -> None:
    keep = timed.settings.keep_finished
    first = await timed.schedule("work", dedupe_key="k", dedupe_window=30 * DAY)
    await timed.cancel(first.id)
    clock.advance(timedelta(days=29))
    assert await prune(timed, keep_finished=keep) == 0
    assert await store_of(timed).dedupe_keys.prune(clock.now() - timedelta(hours=1), 100) == 0
    assert (await timed.schedule("work", dedupe_key="k")).id == first.id
    clock.advance(timedelta(days=2))
    assert await prune(timed, keep_finished=keep) == 1
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
