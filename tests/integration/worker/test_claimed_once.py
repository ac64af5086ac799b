"""One claim holds a job once: candidates that were read twice are claimed, held and run once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from harness.inside import documents_of, inside
from harness.looking import Database
from harness.slots import limiter_of
from harness.waiting import eventually
from mainspring import JobContext, Scheduler
from mainspring.engine.limits.limiter import Limiter
from mainspring.store import Store
from mainspring.store.jobs.stored_job import StoredJob

Make = Callable[..., Scheduler]
KEYS = 4


def in_turns(scheduler: Scheduler, started: Counter[str], **options: Any) -> Scheduler:
    @scheduler.job("import", fair="tenant", **options)
    async def handler(ctx: JobContext, tenant: str) -> None:
        started[ctx.id] += 1
        await asyncio.sleep(0.05)  # long enough for the end of another run of it to be stored

    return scheduler


async def lined_up(scheduler: Scheduler, db: Database, number: int) -> list[str]:
    """Jobs in the lines of keys that take turns, all of which are open, as lines are that were just mended."""
    jobs = await scheduler.schedule_bulk(
        [{"name": "import", "data": {"tenant": f"t{n % KEYS}"}} for n in range(number)]
    )
    opened = await db["jobs.gates"].update_many({"group": "default"}, [{"$set": {"open_at": "$$NOW"}}], hint="_id_")
    assert opened.modified_count == KEYS
    return [str(job.id) for job in jobs]


async def test_a_job_is_read_once_though_its_line_takes_turns_and_is_open(make_scheduler: Make, db: Database) -> None:
    scheduler = in_turns(make_scheduler(), Counter())
    ids = await lined_up(scheduler, db, 2 * KEYS)
    limiter = await limiter_of(scheduler)
    await limiter.wait_lists.poll(0)
    assert await read(limiter, len(ids)) == sorted(ids)


async def test_a_job_that_changes_its_line_is_not_read_twice_from_the_one_that_takes_turns(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = in_turns(make_scheduler(), Counter())
    ids = await lined_up(scheduler, db, KEYS)
    limiter = await limiter_of(scheduler)
    await limiter.wait_lists.poll(0)
    for line in await (await inside(scheduler).store()).repair.names("f:"):
        limiter.wait_lists.poll_line(line)
    assert await read(limiter, len(ids)) == sorted(ids)


async def read(limiter: Limiter, number: int) -> list[str]:
    """The ids of the jobs that one look into the lines finds, once all of them are due."""
    opened = set(limiter.wait_lists._open)

    async def look() -> list[str] | None:
        limiter.wait_lists._open |= opened
        found = [str(job.id) for job in await limiter.wait_lists.read(100)]
        return found if len(set(found)) == number else None

    return sorted(await eventually(look))


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
async def test_jobs_whose_keys_take_turns_are_started_once(make_scheduler: Make, db: Database, guarantee: str) -> None:
    started: Counter[str] = Counter()
    scheduler = in_turns(make_scheduler(), started, guarantee=guarantee)
    ids = await lined_up(scheduler, db, 5 * KEYS)
    await scheduler.start()
    ended = [await scheduler.wait(job, timeout=60) for job in ids]
    assert {(job.state, job.token) for job in ended} == {("completed", 1)}
    assert started == dict.fromkeys(ids, 1)


async def all_due(store: Store, number: int) -> list[StoredJob] | None:
    found = await store.claims.candidates("default", number)
    return found if len(found) == number else None


@pytest.mark.parametrize("once", [False, True], ids=["at_least_once", "at_most_once"])
@pytest.mark.parametrize("lost", [0, 1])
async def test_a_claim_takes_a_candidate_that_it_is_given_twice_once(
    scheduler: Scheduler, once: bool, lost: int
) -> None:
    store = await inside(scheduler).store()
    ids = [(await scheduler.schedule("x")).id for _ in range(3)]
    seen = await eventually(lambda: all_due(store, 3))
    await store.claims.claim([StoredJob(dict(one.document)) for one in seen[:lost]], "another", 60, lambda _: 3)
    twice = [StoredJob(dict(one.document)) for one in (*seen, *seen)]
    batch = await store.claims.claim(twice, "w1", 60, lambda _: 3, 6, lambda _: once)
    assert [str(one["_id"]) for one in documents_of(batch)] == ids[lost:]
    assert (batch.lost, {one["token"] for one in documents_of(batch)}) == (lost, {1})
