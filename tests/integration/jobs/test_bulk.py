"""Scheduling many at once: honest item by item, fast, and single calls that share a write."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from bson import ObjectId

from harness.listening import Listener
from harness.looking import Database, count_jobs
from harness.servers import Servers
from mainspring import BulkError, InvalidJob, Job, Scheduler

Make = Callable[..., Scheduler]


# -- what becomes of each item -------------------------------------------------------------------------------------


async def test_the_jobs_come_back_in_the_order_of_the_items(scheduler: Scheduler) -> None:
    items = [{"name": "work", "data": {"n": n}, "queue": f"q{n % 3}", "priority": n % 10 + 1} for n in range(50)]
    jobs = await scheduler.schedule_bulk(items)
    assert [(job.data["n"], job.queue, job.priority) for job in jobs] == [
        (n, f"q{n % 3}", n % 10 + 1) for n in range(50)
    ]
    assert (await scheduler.get_job(jobs[7].id)).data == {"n": 7}


@pytest.mark.slow
async def test_five_thousand_jobs_are_stored_and_each_is_there_once(scheduler: Scheduler, db: Database) -> None:
    jobs = await scheduler.schedule_bulk({"name": "work", "data": {"n": n}} for n in range(5000))
    assert len({job.id for job in jobs}) == 5000
    assert await count_jobs(db) == 5000
    stored = {str(document["_id"]): document["data"]["n"] async for document in db.jobs.find({}, hint="_id_")}
    assert stored == {job.id: job.data["n"] for job in jobs}


async def test_an_empty_bulk_stores_nothing(scheduler: Scheduler) -> None:
    assert await scheduler.schedule_bulk([]) == []


async def test_refused_items_are_reported_by_their_places_and_the_others_are_stored(
    scheduler: Scheduler, db: Database
) -> None:
    items: list[Any] = [
        {"name": "work", "data": {"n": 0}},
        {"name": "work", "priority": 11},
        {"name": "work", "data": {"n": 2}},
        {"data": {"n": 3}},
        "work",
        {"name": "work", "data": {"blob": "x" * 300_000}},
        {"name": "work", "run_at": datetime(2030, 1, 1)},
        {"name": "work", "colour": "red"},
        {"name": "work", "data": {"n": 8}},
    ]
    with pytest.raises(BulkError, match=r"6 of 9 items were refused.*the first refused item is 1: priority") as refused:
        await scheduler.schedule_bulk(items)
    jobs, errors = refused.value.jobs, refused.value.errors
    assert [isinstance(job, Job) for job in jobs] == [place in (0, 2, 8) for place in range(9)]
    assert [job.data["n"] for job in jobs if isinstance(job, Job)] == [0, 2, 8]
    assert sorted(errors) == [1, 3, 4, 5, 6, 7]
    assert all(isinstance(error, InvalidJob) for error in errors.values())
    said = {place: str(error) for place, error in errors.items()}
    assert "priority must be a whole number" in said[1]
    assert "at least a 'name'" in said[3] and "at least a 'name'" in said[4]
    assert "over the limit" in said[5] and "no time zone" in said[6] and "colour" in said[7]
    assert await count_jobs(db) == 3


async def test_items_are_checked_against_the_handler_where_it_is_known(scheduler: Scheduler) -> None:
    @scheduler.job("add", queue="sums", priority=2)
    async def add(a: int, b: int) -> int:
        return a + b

    with pytest.raises(BulkError) as refused:
        await scheduler.schedule_bulk(
            [{"name": "add", "data": {"a": 1, "b": 2}}, {"name": "add", "data": {"a": 1}}, {"name": "add"}]
        )
    assert sorted(refused.value.errors) == [1, 2]
    stored = refused.value.jobs[0]
    assert isinstance(stored, Job) and (stored.queue, stored.priority) == ("sums", 2)


async def test_when_keyed_items_cannot_be_stored_the_others_are_still_reported_as_stored(
    scheduler: Scheduler, servers: Servers, db: Database
) -> None:
    await scheduler.connect()
    items = [{"name": "plain"}, {"name": "keyed", "dedupe_key": "k"}, {"name": "plain"}]
    no_keys = {"failCommands": ["insert"], "namespace": f"{db.name}.jobs.keys", "errorCode": 13}
    with (
        servers.fail_point("failCommand", "alwaysOn", **no_keys),
        pytest.raises(BulkError, match="1 of 3 items were refused, the others are stored") as refused,
    ):
        await scheduler.schedule_bulk(items)
    assert sorted(refused.value.errors) == [1]
    assert [isinstance(job, Job) for job in refused.value.jobs] == [True, False, True]
    assert await count_jobs(db, name="plain") == await count_jobs(db) == 2


async def test_a_bulk_with_keys_takes_a_few_statements(heard: Scheduler, listener: Listener) -> None:
    items = [{"name": "work", "dedupe_key": f"k{n}"} for n in range(500)]
    jobs = await heard.schedule_bulk(items)
    assert not any(job.deduplicated for job in jobs)
    again = await heard.schedule_bulk(items)
    assert [job.id for job in again] == [job.id for job in jobs] and all(job.deduplicated for job in again)
    assert len(listener.commands) <= 12


async def test_a_bulk_runs(scheduler: Scheduler) -> None:
    seen: list[int] = []

    @scheduler.job("work")
    async def work(n: int) -> None:
        seen.append(n)

    created: list[Job] = []
    scheduler.on("job:created", created.append)
    await scheduler.start()
    jobs = await scheduler.schedule_bulk([{"name": "work", "data": {"n": n}} for n in range(200)])
    ended = await asyncio.gather(*(scheduler.wait(job.id, timeout=60) for job in jobs))
    assert Counter(job.state for job in ended) == {"completed": 200}
    assert sorted(seen) == list(range(200))
    assert [job.id for job in created] == [job.id for job in jobs]


# -- in a transaction ----------------------------------------------------------------------------------------------


async def test_in_a_transaction_all_items_are_stored_or_none(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    async with scheduler.transaction() as tx:
        jobs = await scheduler.schedule_bulk([{"name": "work"}] * 3, session=tx.session)
        assert await db.jobs.find_one({"_id": ObjectId(jobs[0].id)}) is None  # no other client sees them yet
    assert await count_jobs(db) == 3
    with pytest.raises(RuntimeError):
        async with scheduler.transaction() as tx:
            await scheduler.schedule_bulk([{"name": "work"}] * 3, session=tx.session)
            raise RuntimeError
    assert await count_jobs(db) == 3


async def test_in_a_transaction_one_refused_item_keeps_all_out_and_the_error_says_so(
    scheduler: Scheduler, db: Database
) -> None:
    await scheduler.connect()
    async with scheduler.transaction() as tx:
        for bad in ({"name": "work", "priority": 0}, {"name": "work", "data": {"blob": "x" * 300_000}}):
            with pytest.raises(BulkError, match=r"1 of 3 items were refused.*nothing") as refused:
                await scheduler.schedule_bulk([{"name": "work"}, bad, {"name": "work"}], session=tx.session)
            assert refused.value.jobs == [None, None, None]
            assert sorted(refused.value.errors) == [1]
    assert await count_jobs(db) == 0


# -- how it is written ---------------------------------------------------------------------------------------------


async def test_a_hundred_concurrent_single_calls_share_a_few_writes(
    heard: Scheduler, listener: Listener, db: Database
) -> None:
    jobs = await asyncio.gather(*(heard.schedule("work", {"n": n}) for n in range(100)))
    inserts = listener.named("insert", "jobs")
    assert len(inserts) <= 4
    assert sum(len(command["documents"]) for command in inserts) == 100
    assert [job.data["n"] for job in jobs] == list(range(100))
    assert await count_jobs(db) == 100


async def test_a_single_call_is_one_write_and_waits_for_nobody(heard: Scheduler, listener: Listener) -> None:
    heard.job("work")(lambda: None)
    await heard.schedule("work")
    assert [next(iter(command)) for command in listener.commands] == ["insert"]


async def test_calls_without_the_handler_first_read_what_workers_have_registered_together(
    heard: Scheduler, listener: Listener
) -> None:
    await asyncio.gather(*(heard.schedule("work") for _ in range(50)))
    assert len(listener.named("find", "jobs.workers")) == 1


@pytest.mark.slow
async def test_a_bulk_is_written_by_the_thousand(heard: Scheduler, listener: Listener) -> None:
    await heard.schedule_bulk([{"name": "work"}] * 5000)
    assert len(listener.named("insert", "jobs")) == 5


async def test_one_refused_call_does_not_touch_those_it_shares_a_write_with(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    calls = [scheduler.schedule("work", {"n": n}, priority=11 if n == 13 else 5) for n in range(30)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(outcome, InvalidJob) for outcome in outcomes] == [n == 13 for n in range(30)]
    assert await count_jobs(db) == 29
