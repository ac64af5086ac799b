"""Aging: pending jobs that have waited long move up one priority, so that the least urgent are not left for ever.

A job's waiting counts from its `run_at`, or from its last move. The priority that it was scheduled with stays in
`asked_priority`. A sweep runs along the claim's index, and for jobs on wait lists along theirs, a bounded number of
entries at a time, and never meets a job twice: a job that moves up lies behind it. The update compares the times
once more, so that any number of workers may sweep at once.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from bson import MaxKey

from mainspring.clock import truncate
from mainspring.model.jobs.job import FIRST_PRIORITY, LAST_PRIORITY, PENDING
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.claim import ORDER
from mainspring.store.refusals import change_jobs
from mainspring.store.schema import CLAIM, LINE, Expression

# The priority that a job was scheduled with; and the fields of a job that has not moved up.
ASKED = {"$ifNull": ["$asked_priority", "$priority"]}
NOT_AGED = {"asked_priority": "$$REMOVE", "aged_at": "$$REMOVE"}
_READ = {"priority": 1, "run_at": 1}


class Aging:
    """The store's verb for jobs that wait long."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def age(
        self, queue: str | None, after: float, limit: int, place: Document | None = None
    ) -> tuple[int, Document | None]:
        """Read the next `limit` jobs behind a place, of a queue, or with None of all wait lists, and move up the jobs
        that have waited that many seconds. Returns how many have moved, and the next place; None at the end."""
        before = truncate(self._connection.clock.now() - timedelta(seconds=after))
        with self._connection.deadline():
            if queue is None:
                found = await self._in_lines(limit, place)
            else:
                found = await self._ready(queue, before, limit, place)
            if not found:
                return 0, None
            long = _long_waiting(self._connection.clock.expression(), after)
            ids: list[DocumentId] = [document["_id"] for document in found]
            moved, _ = await change_jobs(
                self._connection.jobs,
                ids,
                lambda some: ({**some, "state": PENDING, **long}, [{"$set": self._moved_up()}]),
                "has waited long and cannot be moved up",
            )
        return moved, found[-1] if len(found) == limit else None

    async def _ready(self, queue: str, before: datetime, limit: int, place: Document | None) -> list[Document]:
        """The next ready jobs that have been due for long, read from the index alone."""
        jobs, lowest, found = self._connection.jobs, FIRST_PRIORITY + 1, list[Document]()
        if place is not None:
            lowest = place["priority"] + 1
            same = {"ready": True, "queue": queue, "priority": place["priority"]}
            ends: Document = {"min": same | _entry(place), "max": same | {"run_at": before, "_id": MaxKey()}}
            if place["run_at"] <= before:
                found = [
                    one
                    for one in await jobs.find_all({}, _READ, sort=ORDER, hint=CLAIM, limit=limit + 1, **ends)
                    if one["_id"] != place["_id"]
                ][:limit]
        if len(found) < limit:
            rest = {"priority": {"$gte": lowest, "$lte": LAST_PRIORITY}, "run_at": {"$lte": before}}
            found += await jobs.find_all(
                {"ready": True, "queue": queue, **rest}, _READ, sort=ORDER, hint=CLAIM, limit=limit - len(found)
            )
        return found

    async def _in_lines(self, limit: int, place: Document | None) -> list[Document]:
        """The next jobs on any wait list, read from the index alone."""
        ends: Document = {}
        if place is not None:
            ends["min"] = {"line": place["line"], "priority": place["priority"], **_entry(place)}
        found = await self._connection.jobs.find_all(
            {"line": {"$gt": ""}}, {**_READ, "line": 1}, sort=[("line", 1), *ORDER], hint=LINE, limit=limit + 1, **ends
        )
        return [one for one in found if place is None or one["_id"] != place["_id"]][:limit]

    def _moved_up(self) -> Document:
        return {
            "priority": {"$subtract": ["$priority", 1]},
            "asked_priority": ASKED,
            "aged_at": self._connection.clock.expression(),
            "rev": {"$add": ["$rev", 1]},
        }


def _entry(place: Document) -> Document:
    return {"run_at": place["run_at"], "_id": place["_id"]}


def _long_waiting(now: Expression, after: float) -> Document:
    """The filter for jobs that are due, were not made, moved up or tried within that time, and can move up."""
    before = {"$subtract": [now, int(after * 1000)]}
    since = {"$max": ["$created_at", "$aged_at"]}
    return {
        "priority": {"$gt": FIRST_PRIORITY, "$lte": LAST_PRIORITY},
        "$expr": {"$and": [{"$lte": ["$run_at", before]}, {"$lte": [since, before]}]},
    }
