"""Sums of the statistics over longer spans: minutes of all workers, then five minutes, hours and days.

A span is summed once no worker writes to its parts any more, and is only ever inserted: a second process changes
nothing. The parts are deleted some time after that. The document `marks` stores up to which instant the spans of each
length are complete, and up to which minutes were deleted (`pruned`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from mainspring.clock import EPOCH, truncate
from mainspring.model.views import windows
from mainspring.model.views.windows import floored
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit
from mainspring.store.schema import BY_ID, COUNTED
from mainspring.store.shapes import INSTANT
from mainspring.store.views.counts_codec import (
    DAY,
    HOUR,
    MARKS,
    MINUTE,
    PART,
    VERSION,
    WORKER,
    span_id,
    summed_document,
)

# Each kind of spans: its length, the spans that it is summed from, and how much is read at once.
_LEVELS = (
    (MINUTE, windows.MINUTE, WORKER, windows.FIVE_MINUTES),
    (PART, windows.FIVE_MINUTES, MINUTE, windows.HOUR),
    (HOUR, windows.HOUR, PART, windows.DAY),
    (DAY, windows.DAY, HOUR, 30 * windows.DAY),
)
_MARKS = {**{per: INSTANT for per, *_ in _LEVELS}, "pruned": INSTANT}
# After this time no worker adds to a minute: each stores its counts once a second, or drops them.
_SETTLED = timedelta(minutes=5)
# A request that has read the marks before a minute was summed still finds what the workers have added.
_SUMMED_KEPT = timedelta(minutes=15)
_MINUTES_KEPT = timedelta(days=2)
_PIECES = 50
_BATCH = 500
_VERSIONS_KNOWN = 200


class RollUps:
    """The store's verbs that sum up counts and delete old ones."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def roll_up(self, pieces: int = _PIECES) -> bool:
        """Sum up settled spans, the oldest first. True when there are more. Spans of one length are complete before
        longer ones are made of them."""
        settled = self._connection.clock.now() - _SETTLED
        marks = await self._marks()
        for per, length, source, piece in _LEVELS:
            done, until = marks[per], floored(settled, length)
            while (first := await self._first(source, done)) is not None and (start := floored(first, length)) < until:
                if not pieces:
                    return True
                pieces -= 1
                done = min(start + max(piece, length), until)
                await self.make_spans(per, start, done)
                await self._mark(per, done)
        return False

    async def make_spans(self, per: str, start: datetime, end: datetime) -> None:
        """Sum up the parts of spans between two instants; a span that is there stays as it is."""
        length, source = next((length, source) for one, length, source, _ in _LEVELS if one == per)
        spans: dict[datetime, list[Document]] = defaultdict(list)
        for document in await self._connection.stats.find_all(
            {"_id.per": source, "_id.at": {"$gte": truncate(start), "$lt": truncate(end)}}, hint=COUNTED
        ):
            if isinstance(at := document["_id"].get("at"), datetime):
                spans[floored(at, length)].append(document)
        await self._insert(
            [
                UpdateOne({"_id": span_id(per, at)}, {"$setOnInsert": summed_document(parts)}, upsert=True)
                for at, parts in spans.items()
            ]
        )

    async def prune(self, before: datetime | None, limit: int = _BATCH) -> bool:
        """Delete the counts of single workers and of minutes that were summed up long ago, and hours and days from
        before an instant. True when there may be more."""
        now, marks = self._connection.clock.now(), await self._marks()
        gone = [await self._delete(WORKER, min(marks[MINUTE], now - _SUMMED_KEPT), limit)]
        edge = floored(min(marks[HOUR], now - _MINUTES_KEPT), windows.HOUR)
        if edge > marks["pruned"]:
            await self._mark("pruned", edge)  # readers use the hours from now on
        gone += [await self._delete(per, edge, limit) for per in (MINUTE, PART)]
        if before is not None:
            gone += [await self._delete(per, before, limit) for per in (HOUR, DAY, VERSION)]
        return max(gone) >= limit

    async def note_versions(self, versions: Sequence[str], at: datetime) -> list[str]:
        """Note versions of workers that were not seen before, and return them. The first ones of all are no change."""
        marks = await self._connection.stats.find_one({"_id": {"per": MARKS}}, {"versions": 1}, hint=BY_ID) or {}
        known = marks.get("versions")
        new = [one for one in versions if not isinstance(known, list) or one not in known]
        if not new:
            return []
        if isinstance(known, list):
            await self._insert(
                [
                    UpdateOne({"_id": {**span_id(VERSION, at), "version": one}}, {"$setOnInsert": {}}, upsert=True)
                    for one in new
                ]
            )
        await self._connection.stats.update_one(
            {"_id": {"per": MARKS}},
            {"$push": {"versions": {"$each": new, "$slice": -_VERSIONS_KNOWN}}},
            upsert=True,
        )
        return new

    async def _insert(self, statements: list[UpdateOne]) -> None:
        try:
            if statements:
                await self._connection.stats.bulk_write(statements)
        except BulkWriteError as error:
            others = [one for one in error.details.get("writeErrors", ()) if one.get("code") != 11000]
            if others or error.details.get("writeConcernErrors"):
                raise

    async def _first(self, per: str, since: datetime) -> datetime | None:
        """The beginning of the first stored span from an instant on."""
        first = await self._connection.stats.find_one(
            {"_id.per": per, "_id.at": {"$gte": since, "$not": {"$type": "array"}}},
            {"_id": 1},
            sort=[("_id.per", 1), ("_id.at", 1)],
            hint=COUNTED,
        )
        at = None if first is None else first["_id"]["at"]
        return at if isinstance(at, datetime) else None

    async def _delete(self, per: str, before: datetime, limit: int) -> int:
        ids = await self._connection.stats.find_ids(
            {"_id.per": per, "_id.at": {"$lt": truncate(before)}}, hint=COUNTED, limit=limit
        )
        if ids:
            await self._connection.stats.delete_many({"_id": {"$in": ids}}, hint=BY_ID)
        return len(ids)

    async def _marks(self) -> dict[str, datetime]:
        found = await self._connection.stats.find_one({"_id": {"per": MARKS}}, hint=BY_ID) or {}
        marks = fit(found, _MARKS).document
        return {mark: marks.get(mark, EPOCH) for mark in _MARKS}

    async def _mark(self, mark: str, at: datetime) -> None:
        await self._connection.stats.update_one({"_id": {"per": MARKS}}, {"$max": {mark: at}}, upsert=True)
