"""Bounded queues: bulks with debounced items and items of one key, and calls that are cancelled meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.looking import Database
from mainspring import Scheduler
from mainspring.store.collection import Collection

HOUR = 3600


class HeldWrites:
    """Inserts that wait until they may go."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.begun, self.may_go = asyncio.Event(), asyncio.Event()
        insert_many = Collection.insert_many

        async def held(collection: Collection, *args: Any, **options: Any) -> Any:
            self.begun.set()
            await self.may_go.wait()
            return await insert_many(collection, *args, **options)

        patch.setattr(Collection, "insert_many", held)


async def in_queue(db: Database) -> int:
    return len([one async for one in db.jobs.find({}, {"queue": 1}, hint="_id_") if one["queue"] == "q"])


async def test_debounced_items_beyond_the_bound_wait_until_those_before_them_are_stored_and_run(
    scheduler: Scheduler,
) -> None:
    scheduler.queues.limit("q", max_pending=3, when_full="wait")

    @scheduler.job("work")
    async def work(n: int) -> None: ...

    kind = {"name": "work", "queue": "q", "debounce": 0.01}
    async with scheduler:
        items = [{**kind, "data": {"n": n}, "dedupe_key": str(n)} for n in range(7)]
        jobs = await asyncio.wait_for(scheduler.schedule_bulk(items), 30)
        assert len({job.id for job in jobs}) == 7


@pytest.mark.parametrize("kind", [{}, {"debounce": HOUR}])
async def test_items_of_one_key_need_the_room_of_one_job(scheduler: Scheduler, kind: dict[str, Any]) -> None:
    scheduler.queues.limit("q", max_pending=2)
    items = [{"name": "work", "queue": "q", "dedupe_key": key, **kind} for key in "aaaaab"]
    jobs = await scheduler.schedule_bulk(items)
    assert len({job.id for job in jobs}) == 2


@pytest.mark.parametrize("behind_another", [False, True])
async def test_a_call_that_is_cancelled_while_its_job_is_written_keeps_its_room(
    scheduler: Scheduler, db: Database, monkeypatch: pytest.MonkeyPatch, behind_another: bool
) -> None:
    scheduler.queues.limit("q", max_pending=1)
    await scheduler.connect()
    writes = HeldWrites(monkeypatch)
    calls = []
    if behind_another:  # the next write waits for this one
        calls.append(asyncio.create_task(scheduler.schedule("work")))
        await writes.begun.wait()
    cancelled = asyncio.create_task(scheduler.schedule("work", queue="q"))
    await writes.begun.wait()
    await asyncio.sleep(0.3)
    cancelled.cancel()
    await asyncio.sleep(0.7)  # the last count is not used any more
    calls.append(asyncio.create_task(scheduler.schedule("work", queue="q")))
    await asyncio.sleep(0.3)
    writes.may_go.set()
    await asyncio.gather(*calls, cancelled, return_exceptions=True)
    assert await in_queue(db) == 1
