"""Aging: pending jobs that have waited long move up one priority, so that the least urgent are not left for ever.

A job's waiting counts from its `run_at`, or from its last move. What it was scheduled with stays in `asked_priority`.
It runs along the claim's index, and for jobs in the lines of limits along theirs; each pass moves a batch by ids, and
the update looks at the times once more, so that any number of workers may do it at once.
"""

from __future__ import annotations

from typing import Any

from mainspring.model.job import FIRST_PRIORITY, LAST_PRIORITY, PENDING
from mainspring.store.codec import DocumentId
from mainspring.store.collections import BY_ID, CLAIM, LINE
from mainspring.store.connection import Connection, Document

# The priority that a job had before it moved up, if it has; and that it has not.
ASKED = {"$ifNull": ["$asked_priority", "$priority"]}
NOT_AGED = {"asked_priority": "$$REMOVE", "aged_at": "$$REMOVE"}


class Aging:
    """The store's verb for jobs that wait long."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def age(self, queue: str | None, after: float, limit: int) -> int:
        """Move up to `limit` jobs of a queue, or with None of all lines, that have waited that many seconds."""
        place: Document = {"line": {"$gt": ""}} if queue is None else {"ready": True, "queue": queue}
        long = _long_waiting(self._connection.clock.expression(), after)
        hint = LINE if queue is None else CLAIM
        with self._connection.deadline():
            cursor = self._connection.jobs.find({**place, **long}, {"_id": 1}, hint=hint, limit=limit)
            ids: list[DocumentId] = [document["_id"] for document in await cursor.to_list(limit)]
            if not ids:
                return 0
            moved = await self._connection.jobs.update_many(
                {"_id": {"$in": ids}, "state": PENDING, **long}, [{"$set": self._moved_up()}], hint=BY_ID
            )
        return moved.modified_count

    def _moved_up(self) -> Document:
        return {
            "priority": {"$subtract": ["$priority", 1]},
            "asked_priority": ASKED,
            "aged_at": self._connection.clock.expression(),
            "rev": {"$add": ["$rev", 1]},
        }


def _long_waiting(now: Any, after: float) -> Document:
    """Due, and neither made, nor moved up, nor tried within that time, and not the most urgent already."""
    before = {"$subtract": [now, int(after * 1000)]}
    since = {"$max": ["$created_at", "$aged_at"]}
    return {
        "priority": {"$gt": FIRST_PRIORITY, "$lte": LAST_PRIORITY},
        "$expr": {"$and": [{"$lte": ["$run_at", before]}, {"$lte": [since, before]}]},
    }
