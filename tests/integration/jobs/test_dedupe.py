"""Deduplication: while the first job is live, for a stated window, in bulk, in a race, in a transaction."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from harness.inside import inside
from harness.looking import Database, count_jobs
from harness.processes import TESTS
from harness.waiting import eventually
from mainspring import InvalidJob, Job, Scheduler
from mainspring.clock import ManualClock
from mainspring.model.jobs.draft import Draft
from mainspring.store.jobs.dedupe import Taken

Make = Callable[..., Scheduler]


# -- while it is live ----------------------------------------------------------------------------------------------


async def test_a_second_job_with_a_live_key_is_not_stored_and_the_first_is_returned(
    scheduler: Scheduler, db: Database
) -> None:
    first = await scheduler.schedule("work", {"n": 1}, dedupe_key="k")
    second = await scheduler.schedule("work", {"n": 2}, dedupe_key="k")
    assert (first.deduplicated, second.deduplicated) == (False, True)
    assert (second.id, second.data) == (first.id, {"n": 1})
    assert await count_jobs(db, dedupe_key="k") == 1


async def test_other_keys_and_jobs_without_one_do_not_care(scheduler: Scheduler) -> None:
    jobs = [await scheduler.schedule("work", dedupe_key=key) for key in ("a", "b", None, None)]
    assert len({job.id for job in jobs}) == 4
    assert not any(job.deduplicated for job in jobs)


async def test_a_key_holds_while_its_job_runs_and_is_free_once_it_has_ended(scheduler: Scheduler) -> None:
    going = asyncio.Event()

    @scheduler.job("work")
    async def work() -> None:
        await going.wait()

    await scheduler.start()
    first = await scheduler.schedule("work", dedupe_key="k")

    async def runs() -> bool:
        return (await scheduler.get_job(first.id)).state == "running"

    await eventually(runs)
    assert (await scheduler.schedule("work", dedupe_key="k")).id == first.id
    going.set()
    await scheduler.wait(first.id, timeout=60)
    later = await scheduler.schedule("work", dedupe_key="k")
    assert (later.deduplicated, later.id == first.id) == (False, False)


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled", "expired"])
async def test_a_key_is_free_whichever_way_its_job_has_ended(scheduler: Scheduler, db: Database, ending: str) -> None:
    first = await scheduler.schedule("work", dedupe_key="k")
    ended = {"$set": {"state": ending, "finished_at": datetime.now(UTC)}, "$unset": {"ready": True}}
    await db.jobs.update_one({"_id": ObjectId(first.id)}, ended)
    assert not (await scheduler.schedule("work", dedupe_key="k")).deduplicated


async def test_a_key_is_free_after_its_job_was_cancelled_or_deleted(scheduler: Scheduler, db: Database) -> None:
    first = await scheduler.schedule("work", dedupe_key="k")
    await scheduler.cancel(first.id)
    second = await scheduler.schedule("work", dedupe_key="k")
    await scheduler.delete(second.id)
    third = await scheduler.schedule("work", dedupe_key="k")
    assert not (second.deduplicated or third.deduplicated)
    assert await count_jobs(db, state="pending") == 1


# -- for a window --------------------------------------------------------------------------------------------------


async def test_a_window_holds_after_completion_and_ends_when_it_was_said_to(make_scheduler: Make) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(clock=clock)
    first = await scheduler.schedule("work", dedupe_key="k", dedupe_window=timedelta(hours=1))
    await scheduler.cancel(first.id)
    clock.advance(3599)
    assert (await scheduler.schedule("work", dedupe_key="k", dedupe_window=3600)).id == first.id
    clock.advance(2)
    assert not (await scheduler.schedule("work", dedupe_key="k", dedupe_window=3600)).deduplicated


async def test_a_window_that_ended_lets_a_second_live_job_in(make_scheduler: Make) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(clock=clock)
    await scheduler.schedule("work", dedupe_key="k", dedupe_window=10, delay=1000)
    clock.advance(11)
    assert not (await scheduler.schedule("work", dedupe_key="k", dedupe_window=10)).deduplicated


async def test_a_window_holds_after_the_job_has_run(scheduler: Scheduler) -> None:
    @scheduler.job("work")
    async def work() -> None: ...

    await scheduler.start()
    first = await scheduler.schedule("work", dedupe_key="k", dedupe_window=600)
    await scheduler.wait(first.id, timeout=60)
    again = await scheduler.schedule("work", dedupe_key="k")
    assert (again.id, again.deduplicated, again.state) == (first.id, True, "completed")


async def test_a_window_without_a_key_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidJob, match="needs a dedupe_key"):
        await scheduler.schedule("work", dedupe_window=1)


# -- in bulk -------------------------------------------------------------------------------------------------------


async def test_in_bulk_keys_count_among_the_items_and_against_stored_jobs(scheduler: Scheduler, db: Database) -> None:
    stored = await scheduler.schedule("work", {"n": 0}, dedupe_key="stored")
    items = [
        {"name": "work", "data": {"n": n}, "dedupe_key": key}
        for n, key in enumerate(["a", "stored", "b", "a", None, "a", "b"])
    ]
    jobs = await scheduler.schedule_bulk(items)
    assert [job.deduplicated for job in jobs] == [False, True, False, True, False, True, True]
    assert jobs[1].id == stored.id
    assert jobs[0].id == jobs[3].id == jobs[5].id and jobs[2].id == jobs[6].id
    assert [job.data["n"] for job in jobs] == [0, 0, 2, 0, 4, 0, 2]
    assert await count_jobs(db, state="pending") == 4


@pytest.mark.slow
async def test_in_bulk_one_key_spread_over_many_items_makes_one_job(scheduler: Scheduler, db: Database) -> None:
    items = [{"name": "work", "dedupe_key": "same" if n % 700 == 0 else None} for n in range(2500)]
    jobs = await scheduler.schedule_bulk(items)
    same = [job for job in jobs if job.dedupe_key == "same"]
    assert len(same) == 4 and len({job.id for job in same}) == 1
    assert sum(not job.deduplicated for job in same) == 1
    assert await count_jobs(db, dedupe_key="same") == 1


# -- in a race -----------------------------------------------------------------------------------------------------


async def test_of_fifty_concurrent_calls_one_stores_its_job(scheduler: Scheduler, db: Database) -> None:
    jobs = await asyncio.gather(*(scheduler.schedule("work", {"n": n}, dedupe_key="k") for n in range(50)))
    assert len({job.id for job in jobs}) == 1
    assert sum(not job.deduplicated for job in jobs) == 1
    assert await count_jobs(db, dedupe_key="k") == 1


async def test_of_fifty_concurrent_calls_for_a_key_that_has_just_become_free_one_stores_its_job(
    scheduler: Scheduler, db: Database
) -> None:
    first = await scheduler.schedule("work", dedupe_key="k")
    await scheduler.cancel(first.id)
    jobs = await asyncio.gather(*(scheduler.schedule("work", {"n": n}, dedupe_key="k") for n in range(50)))
    assert len({job.id for job in jobs}) == 1 and jobs[0].id != first.id
    assert sum(not job.deduplicated for job in jobs) == 1


@pytest.mark.slow
async def test_eight_processes_that_race_for_the_same_keys_make_one_job_each(uri: str, db: Database) -> None:
    command = [sys.executable, "-m", "harness.apps.dedupe", uri, "race"]
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    racers = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    try:
        for racer in racers:
            assert racer.stdout is not None
            assert await asyncio.to_thread(racer.stdout.readline) == "ready\n"
        ends = await asyncio.gather(*(asyncio.to_thread(racer.communicate, "go\n", 60) for racer in racers))
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
    rounds: dict[int, list[list[str]]] = defaultdict(list)
    for output, _ in ends:
        for round_, line in enumerate(output.splitlines()):
            rounds[round_].append(line.split())
    for round_ in range(5):
        ids, deduplicated = zip(*rounds[round_], strict=True)
        assert len(ids) == 8 and len(set(ids)) == 1
        assert sorted(deduplicated) == ["False"] + ["True"] * 7
        assert await count_jobs(db, dedupe_key=f"race-{round_}") == 1


# -- what a crash leaves behind ------------------------------------------------------------------------------------


@pytest.mark.parametrize("age", [0, 3600])
async def test_a_key_whose_job_was_never_inserted_heals(scheduler: Scheduler, db: Database, age: int) -> None:
    await scheduler.connect()
    left_behind = ObjectId()
    at = datetime.now(UTC) - timedelta(seconds=age)
    await db["jobs.keys"].insert_one({"_id": "k", "job": left_behind, "at": at})
    jobs = await asyncio.gather(*(scheduler.schedule("work", {"n": n}, dedupe_key="k") for n in range(10)))
    assert len({job.id for job in jobs}) == 1
    assert sum(not job.deduplicated for job in jobs) == 1
    key = await db["jobs.keys"].find_one({"_id": "k"})
    assert key is not None and str(key["job"]) == jobs[0].id


@pytest.mark.parametrize("how", ["one", "bulk", "debounced", "debounced in bulk"])
async def test_a_process_that_was_held_up_between_its_key_and_its_job_makes_no_second_job(
    make_scheduler: Make, db: Database, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    held_up, other = make_scheduler(), make_scheduler()
    await asyncio.gather(held_up.connect(), other.connect())
    options: dict[str, Any] = {"dedupe_key": "k"} | ({"debounce": 60} if how.startswith("debounced") else {})
    inserts = inside(held_up).open_store.inserts
    insert_new = inserts._insert_new
    others: list[Job] = []

    async def late(documents: list[dict[str, Any]]) -> Any:
        if not others:
            long_ago = datetime.now(UTC) - timedelta(seconds=61)
            await db["jobs.keys"].update_one({"_id": "k"}, {"$set": {"at": long_ago}})
            others.append(await other.schedule("work", {"n": 2}, **options))
        return await insert_new(documents)

    monkeypatch.setattr(inserts, "_insert_new", late)
    monkeypatch.setattr(inserts._debounces, "_insert", late)
    if how.endswith("bulk"):
        (job,) = await held_up.schedule_bulk([{"name": "work", "data": {"n": 1}, **options}])
    else:
        job = await held_up.schedule("work", {"n": 1}, **options)
    (document,) = await db["jobs"].find({}, hint="_id_").to_list()
    assert (job.id, job.deduplicated, str(document["_id"])) == (others[0].id, True, others[0].id)


# -- by hand -------------------------------------------------------------------------------------------------------


async def ended(scheduler: Scheduler, key: str) -> Job:
    job = await scheduler.schedule("work", dedupe_key=key)
    return await scheduler.cancel(job.id)


async def test_a_job_whose_key_another_live_job_holds_cannot_be_run_again(scheduler: Scheduler) -> None:
    first = await ended(scheduler, "k")
    second = await scheduler.schedule("work", dedupe_key="k")
    with pytest.raises(InvalidJob, match=f"job {second.id} holds its dedupe key 'k'"):
        await scheduler.retry(first.id)
    assert (await scheduler.get_job(first.id)).state == "cancelled"
    await scheduler.cancel(second.id)
    assert (await scheduler.retry(first.id)).state == "pending"


async def test_a_job_that_is_run_again_holds_its_key_again(scheduler: Scheduler) -> None:
    first = await ended(scheduler, "k")
    await scheduler.retry(first.id)
    again = await scheduler.schedule("work", dedupe_key="k")
    assert (again.id, again.deduplicated) == (first.id, True)


async def test_a_job_that_is_run_again_holds_its_key_while_it_is_live_only(scheduler: Scheduler) -> None:
    first = await ended(scheduler, "k")
    await scheduler.retry(first.id)
    await scheduler.cancel(first.id)
    assert not (await scheduler.schedule("work", dedupe_key="k")).deduplicated


@pytest.mark.slow
async def test_an_old_job_that_runs_again_and_a_new_one_that_race_for_a_key_make_one_live_job(
    make_scheduler: Make,
) -> None:
    one, other = make_scheduler(), make_scheduler()
    keys = [f"key {number}" for number in range(20)]
    for key in keys:
        old = await ended(one, key)
        outcomes = await asyncio.gather(
            one.retry(old.id), other.schedule("work", dedupe_key=key), return_exceptions=True
        )
        assert not isinstance(outcomes[1], BaseException)
    live = [job.dedupe_key async for job in one.jobs(state="pending")]
    assert sorted(live, key=str) == sorted(keys)


@pytest.mark.parametrize(("age", "held"), [(0, True), (3600, False)])
async def test_a_key_of_a_job_that_was_about_to_run_again_holds_for_a_moment_only(
    scheduler: Scheduler, db: Database, age: int, held: bool
) -> None:
    """As after a crash in between."""
    first = await ended(scheduler, "k")
    at = datetime.now(UTC) - timedelta(seconds=age)
    await db["jobs.keys"].update_one({"_id": "k"}, {"$set": {"returning": True, "round": ObjectId(), "at": at}})
    job = await scheduler.schedule("work", dedupe_key="k")
    assert (job.deduplicated, job.id == first.id) == (held, held)


# -- in a transaction ----------------------------------------------------------------------------------------------


async def test_a_committed_transaction_leaves_the_job_and_its_key(scheduler: Scheduler) -> None:
    await scheduler.connect()
    async with scheduler.transaction() as tx:
        job = await scheduler.schedule("work", dedupe_key="k", session=tx.session)
        same = await scheduler.schedule("work", dedupe_key="k", session=tx.session)
        assert (job.deduplicated, same.deduplicated, same.id) == (False, True, job.id)
    after = await scheduler.schedule("work", dedupe_key="k")
    assert (after.id, after.deduplicated) == (job.id, True)


async def test_a_transaction_that_is_rolled_back_leaves_neither_job_nor_key(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    with pytest.raises(RuntimeError, match="no"):
        async with scheduler.transaction() as tx:
            await scheduler.schedule("work", dedupe_key="k", session=tx.session)
            raise RuntimeError("no")
    assert await count_jobs(db) == 0
    assert await db["jobs.keys"].find_one({"_id": "k"}) is None
    assert not (await scheduler.schedule("work", dedupe_key="k")).deduplicated


async def test_in_a_transaction_a_key_that_is_held_gives_the_job_that_holds_it(
    scheduler: Scheduler, db: Database
) -> None:
    first = await scheduler.schedule("work", dedupe_key="k")
    async with scheduler.transaction() as tx:
        jobs = await scheduler.schedule_bulk(
            [{"name": "work", "dedupe_key": key} for key in ("k", "new", "new")], session=tx.session
        )
    assert [job.deduplicated for job in jobs] == [True, False, True]
    assert jobs[0].id == first.id and jobs[1].id == jobs[2].id
    assert await count_jobs(db, state="pending") == 2


# -- ids that were given -------------------------------------------------------------------------------------------


async def test_jobs_with_ids_of_their_callers_share_writes_and_each_id_is_one_job(
    scheduler: Scheduler, db: Database
) -> None:
    ids = [str(ObjectId()) for _ in range(20)]
    calls = [scheduler.schedule("work", {"n": n}, job_id=job_id) for n, job_id in enumerate([*ids, *ids[:5]])]
    jobs = await asyncio.gather(*calls)
    assert [job.id for job in jobs] == [*ids, *ids[:5]]
    assert [job.deduplicated for job in jobs] == [False] * 20 + [True] * 5
    assert [job.data["n"] for job in jobs] == [*range(20), *range(5)]
    assert await count_jobs(db) == 20
    again = await asyncio.gather(*(scheduler.schedule("work", job_id=job_id) for job_id in ids[:3]))
    assert [(job.deduplicated, job.data) for job in again] == [(True, {"n": n}) for n in range(3)]


@pytest.mark.slow
async def test_who_finds_a_key_taken_gets_the_job_also_where_it_is_written_at_the_same_moment(
    scheduler: Scheduler, db: Database
) -> None:
    for round_ in range(20):
        jobs = await asyncio.gather(*(scheduler.schedule("work", dedupe_key=f"k{round_}") for _ in range(6)))
        assert len({job.id for job in jobs}) == 1
        assert sum(not job.deduplicated for job in jobs) == 1
        assert await count_jobs(db, dedupe_key=f"k{round_}") == 1


async def test_of_those_who_write_at_once_the_one_who_took_the_key_is_the_one_who_stores_the_job(
    scheduler: Scheduler, db: Database
) -> None:
    inserts = (await inside(scheduler).store()).inserts
    mine, other = (inserts.document(Draft("work", {"n": n})) for n in (1, 2))
    taken = mine["_id"]
    late, first = await inserts._insert_named([(other, Taken(taken, False)), (mine, Taken(taken, True))])
    assert (late, first) == ((mine, False), (mine, True))
    assert await count_jobs(db, _id=taken, data={"n": 1}) == 1
