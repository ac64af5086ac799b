"""Stored counts of attempts: per minute, queue, name and worker at first, later per hour, queue and name.

A worker writes to documents of its own only, all of them in one bulk, so that no worker waits for another. A write
that was not answered is not sent again (except by the driver's own retry, which the server recognises): the counts of a
second may be lost, and none is counted twice. A count waits for no majority: it is no promise.

Hours are summed from minutes once no worker writes to these any more, and are only ever inserted: a second process
changes nothing. Minutes are deleted some time after that. The document `marks` stores the progress of both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pymongo import UpdateOne, WriteConcern
from pymongo.errors import BulkWriteError

from mainspring.clock import EPOCH, truncate
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.views.statistics import BINS, FIGURES, HOUR, Counts, Kind, Window
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit
from mainspring.store.schema import BY_ID, COUNTED
from mainspring.store.shapes import INSTANT

_MINUTE, _HOUR, _MARKS = "minute", "hour", "marks"
_MARK_TYPES = {"rolled": INSTANT, "pruned": INSTANT}
# After this time no worker adds to a minute: each stores its counts once a second, or drops them.
_SETTLED = timedelta(minutes=5)
_MINUTES_KEPT = timedelta(days=2)
_BATCH = 500
_LARGEST = 2**53


class Statistics:
    """The store's verbs for counts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._light = connection.stats.with_options(write_concern=WriteConcern(1, j=False))

    async def add(self, worker: str, counted: Sequence[tuple[Kind, Counts]]) -> None:
        """Add the counts of a worker. Not to be repeated: an error does not mean that nothing was added."""
        statements = [
            UpdateOne({"_id": _id(kind, worker)}, {"$inc": _increments(one)}, upsert=True) for kind, one in counted
        ]
        for start in range(0, len(statements), _BATCH):
            await self._light.bulk_write(statements[start : start + _BATCH])

    # -- reading ---------------------------------------------------------------------------------------------------

    async def read(
        self, window: Window, name: str | None, queue: str | None, scope: Scope = EVERYTHING
    ) -> list[tuple[datetime, Counts]]:
        """The counts within a window, by its steps; an hour is counted from its beginning."""
        marks = await self._marks()
        mark = marks["rolled"] if window.step % HOUR == timedelta(0) else marks["pruned"]
        edge = min(max(mark, window.start), window.end)
        wanted = _wanted(name, queue, scope)
        found: list[tuple[datetime, Counts]] = []
        if mark > window.start:
            found += await self._read(_HOUR, _hour_of(window.start), edge, window.step, wanted)
        if edge < window.end:
            found += await self._read(_MINUTE, edge, window.end, window.step, wanted)
        return found

    async def _read(
        self, per: str, start: datetime, end: datetime, step: timedelta, wanted: Document
    ) -> list[tuple[datetime, Counts]]:
        length = step // timedelta(milliseconds=1)
        since = {"$subtract": ["$_id.at", EPOCH]}
        place = {"$add": [EPOCH, {"$subtract": [since, {"$mod": [since, length]}]}]}
        return [(row["_id"], _counts(row)) for row in await self._sums(per, start, end, wanted, place)]

    async def _sums(self, per: str, start: datetime, end: datetime, wanted: Document, by: Any) -> list[Document]:
        within = {"_id.per": per, "_id.at": {"$gte": truncate(start), "$lt": truncate(end)}, **wanted}
        return await self._connection.stats.aggregate(
            [{"$match": within}, {"$group": {"_id": by, **_SUMS}}], hint=COUNTED
        )

    # -- rolling up and pruning ------------------------------------------------------------------------------------

    async def roll_up(self, hours: int = 24) -> bool:
        """Sum settled minutes into hours, the oldest first. True when there are more."""
        until = _hour_of(self._connection.clock.now() - _SETTLED)
        done = (await self._marks())["rolled"]
        for _ in range(hours):
            hour = await self._first_hour(done)
            if hour is None or hour >= until:
                return False
            await self._make_hour(hour)
            done = hour + HOUR
            await self._mark("rolled", done)
        return True

    async def prune(self, before: datetime | None, limit: int = _BATCH) -> bool:
        """Delete old minutes that were rolled up, and hours from before an instant. True when there may be more."""
        settled = self._connection.clock.now() - _MINUTES_KEPT
        edge = _hour_of(min((await self._marks())["rolled"], settled))
        gone = await self._delete(_MINUTE, edge, limit, first=True)
        if before is not None:
            gone = max(gone, await self._delete(_HOUR, before, limit))
        return gone >= limit

    async def _make_hour(self, hour: datetime) -> None:
        by = {"queue": "$_id.queue", "name": "$_id.name"}
        rows = await self._sums(_MINUTE, hour, hour + HOUR, {}, by)
        statements = []
        for row in rows:
            kind = Kind(hour, row["_id"]["queue"], row["_id"]["name"])
            statements.append(UpdateOne({"_id": _id(kind)}, {"$setOnInsert": _increments(_counts(row))}, upsert=True))
        for start in range(0, len(statements), _BATCH):
            await self._insert(statements[start : start + _BATCH])

    async def _insert(self, statements: list[UpdateOne]) -> None:
        try:
            await self._connection.stats.bulk_write(statements)
        except BulkWriteError as error:
            others = [one for one in error.details.get("writeErrors", ()) if one.get("code") != 11000]
            if others or error.details.get("writeConcernErrors"):
                raise

    async def _first_hour(self, since: datetime) -> datetime | None:
        """The first hour from an instant on that has stored minutes."""
        first = await self._connection.stats.find_one(
            {"_id.per": _MINUTE, "_id.at": {"$gte": since}},
            {"_id": 1},
            sort=[("_id.per", 1), ("_id.at", 1)],
            hint=COUNTED,
        )
        return None if first is None else _hour_of(first["_id"]["at"])

    async def _delete(self, per: str, before: datetime, limit: int, *, first: bool = False) -> int:
        ids = await self._connection.stats.find_ids(
            {"_id.per": per, "_id.at": {"$lt": truncate(before)}}, hint=COUNTED, limit=limit
        )
        if not ids:
            return 0
        if first:
            await self._mark("pruned", before)  # readers use the hours from now on
        await self._connection.stats.delete_many({"_id": {"$in": ids}}, hint=BY_ID)
        return len(ids)

    async def _marks(self) -> dict[str, datetime]:
        found = await self._connection.stats.find_one({"_id": {"per": _MARKS}}, hint=BY_ID) or {}
        marks = fit(found, _MARK_TYPES).document
        return {mark: marks.get(mark, EPOCH) for mark in _MARK_TYPES}

    async def _mark(self, mark: str, at: datetime) -> None:
        await self._connection.stats.update_one({"_id": {"per": _MARKS}}, {"$max": {mark: at}}, upsert=True)


def _sum(field: str) -> Document:
    """The sum of a field's integers: a malformed value of another program, such as NaN, would spoil all others."""
    return {"$sum": {"$cond": [{"$in": [{"$type": field}, ["int", "long"]]}, field, 0]}}


_SUMS: Document = {name: _sum(f"${name}") for name in FIGURES}
_SUMS |= {f"bin{place}": _sum(f"$bins.{place}") for place in range(BINS)}


def _id(kind: Kind, worker: str | None = None) -> Document:
    """The exact id of a count. The order of its fields is part of it."""
    id: Document = {"per": _HOUR if worker is None else _MINUTE, "at": kind.at, "queue": kind.queue, "name": kind.name}
    return id if worker is None else {**id, "worker": worker}


def _increments(counts: Counts) -> Document:
    figures: Document = {name: getattr(counts, name) for name in FIGURES if getattr(counts, name)}
    return figures | {f"bins.{place}": count for place, count in enumerate(counts.bins) if count}


def _counts(row: Document) -> Counts:
    figures = {name: _bounded(row[name]) for name in FIGURES}
    return Counts(**figures, bins=[_bounded(row[f"bin{place}"]) for place in range(BINS)])


def _bounded(count: float) -> int:
    """A sum within the range of durations, whatever another program has stored."""
    return int(min(max(count, 0), _LARGEST))


def _wanted(name: str | None, queue: str | None, scope: Scope) -> Document:
    every: list[Document] = []
    if name is not None:
        every.append({"_id.name": name})
    if queue is not None:
        every.append({"_id.queue": queue})
    if scope.queues is not None:
        every.append({"_id.queue": {"$in": list(scope.queues)}})
    if scope.prefixes is not None:
        begins = "|".join(re.escape(prefix) for prefix in scope.prefixes)
        every.append({"_id.name": {"$regex": f"^(?:{begins})"}})
    return {"$and": every} if every else {}


def _hour_of(instant: datetime) -> datetime:
    return instant - (instant - EPOCH) % HOUR
