"""How many jobs failed for good in each hour, by the fingerprint of their error and by queue.

Each worker adds to documents of its own, like the other counts (`store/views/statistics.py`), so that the trend of a
group of dead letters is there although its jobs were run again or discarded since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pymongo import UpdateOne, WriteConcern

from mainspring.clock import truncate
from mainspring.model.views.windows import HOUR, floored
from mainspring.store.connection import Connection, Document
from mainspring.store.schema import BY_ID, COUNTED

_GROUP = "group"
_KEPT = timedelta(days=2)
_READ = 400
_LARGEST = 2**53


class FailureCounts:
    """The failures of the last hours by fingerprint and queue. `start` is later than 24 hours ago where there are too
    many to read."""

    def __init__(self, start: datetime, hours: int, rows: Sequence[Document]) -> None:
        self.start = start
        self.hours = hours
        self._counts: dict[Any, dict[str, list[int]]] = {}
        for row in rows:
            id, failed = row["_id"], row.get("failed")
            place = (id["at"] - start) // HOUR
            if isinstance(failed, int) and isinstance(queue := id.get("queue"), str) and 0 <= place < hours:
                by_queue = self._counts.setdefault(id.get("print"), {})
                by_queue.setdefault(queue, [0] * hours)[place] += min(max(failed, 0), _LARGEST)

    def of(self, fingerprint: str | None) -> dict[str, list[int]]:
        """The failures of a fingerprint in each hour, by queue."""
        return self._counts.get(fingerprint, {})


class Failures:
    """The store's verbs for counts of failures."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._light = connection.stats.with_options(write_concern=WriteConcern(1, j=False))

    async def add(self, worker: str, counted: Mapping[tuple[datetime, str, str], int]) -> None:
        """Add failures of a worker by hour, queue and fingerprint. Not to be repeated: an error does not mean that
        nothing was added."""
        statements = []
        for (hour, queue, print), number in counted.items():
            id = {"per": _GROUP, "at": hour, "queue": queue, "print": print, "worker": worker}
            statements.append(UpdateOne({"_id": id}, {"$inc": {"failed": number}}, upsert=True))
        if statements:
            await self._light.bulk_write(statements)

    async def read(self, most: int = _READ) -> FailureCounts:
        """The failures of the last 24 hours, from at most so many documents."""
        end = floored(self._connection.clock.now(), HOUR) + HOUR
        start = end - 24 * HOUR
        found = await self._connection.stats.find_all(
            {"_id.per": _GROUP, "_id.at": {"$gte": start, "$lt": end}},
            {"failed": 1},
            sort=[("_id.per", -1), ("_id.at", -1)],
            hint=COUNTED,
            limit=most,
        )
        rows = [one for one in found if isinstance(one["_id"].get("at"), datetime)]
        if len(found) >= most and rows:  # the first of these hours is not whole
            start = floored(rows[-1]["_id"]["at"], HOUR) + HOUR
        return FailureCounts(start, (end - start) // HOUR, rows)

    async def prune(self, limit: int) -> int:
        """Delete counts that were kept long enough; returns how many."""
        before = truncate(self._connection.clock.now() - _KEPT)
        ids = await self._connection.stats.find_ids(
            {"_id.per": _GROUP, "_id.at": {"$lt": before}}, hint=COUNTED, limit=limit
        )
        if ids:
            await self._connection.stats.delete_many({"_id": {"$in": ids}}, hint=BY_ID)
        return len(ids)
