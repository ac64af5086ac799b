"""Operations for tests: jobs in every state, stored in bulk past the scheduler, and passes taken by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import ObjectId

from harness.inside import inside
from harness.looking import Database
from mainspring import Operation, Scheduler
from mainspring.engine.services.operating import carry_on, finish, is_under_way
from mainspring.model.jobs.job import FINISHED

Document = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def job(state: str = "pending", number: int = 0, **fields: Any) -> Document:
    """A job in a state, as the scheduler or a worker would have left it."""
    document: Document = {
        "_id": ObjectId(),
        "v": 1,
        "name": "work",
        "data": {"number": number},
        "queue": "default",
        "priority": 5,
        "state": state,
        "run_at": NOW + timedelta(days=36500),
        "created_at": NOW,
        "rev": 0,
        "token": 0,
        "tries": 0,
    }
    if state == "pending":
        document["ready"] = True
    if state == "running":
        document |= {"worker": "w", "claim": "c", "claimed_at": NOW, "lease_until": NOW + timedelta(days=36500)}
        document |= {"token": 1, "tries": 1}
    if state in FINISHED:
        document |= {"finished_at": NOW + timedelta(milliseconds=number), "token": 1, "tries": 1, "rev": 2}
    return document | fields


def jobs(count: int, state: str = "pending", **fields: Any) -> Iterator[Document]:
    for number in range(count):
        yield job(state, number, **fields)


async def fill(scheduler: Scheduler, db: Database, *some: Document) -> list[str]:
    """Store jobs past the scheduler; returns their ids."""
    await scheduler.connect()
    await db.jobs.insert_many(list(some))
    return [str(one["_id"]) for one in some]


async def states(db: Database) -> Counter[str]:
    return Counter([one["state"] async for one in db.jobs.find({}, {"state": 1}, hint="_id_")])


async def take_steps(scheduler: Scheduler, operation: Operation, most: int = 10_000) -> Operation:
    """Do what a worker does for an operation, at most so many steps of it; its end is written down."""
    store, archive = inside(scheduler).open_store, inside(scheduler).archive
    document = await store.operations.get(operation.id)
    while most and is_under_way(document):
        document = await carry_on(store, archive, document)
        most -= 1
    if most:
        await finish(store, document, "by-hand")
    return await operation.refresh()


def counts(operation: Any) -> tuple[str, int, int, int]:
    """The state of an operation, and how many jobs were changed, skipped and refused."""
    progress = operation.progress
    return operation.state, progress.changed, progress.skipped, progress.refused
