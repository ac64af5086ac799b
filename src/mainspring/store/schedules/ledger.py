"""Reading ledgers, backfilling past firings, and deleting old rows.

A backfill is resumable: its progress is a document of its own, its jobs have ids that are the same whenever they are
made, and each batch of jobs is stored before the progress is.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from pymongo import ReplaceOne
from pymongo.errors import DuplicateKeyError

from mainspring.clock import truncate
from mainspring.errors import InvalidSchedule
from mainspring.model.schedules.ledger import (
    BACKFILLED,
    LATE,
    MISSED,
    ON_TIME,
    SKIPPED,
    Book,
    Entry,
    Row,
    entries,
    recent,
)
from mainspring.rules.instants import instant_text
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import readable
from mainspring.store.jobs.insert import Inserts
from mainspring.store.refusals import brief, split_refused
from mainspring.store.schedules.calendars import Calendars
from mainspring.store.schedules.codec import calendar_keys, decode_row, encode_row, eras_of, job_of
from mainspring.store.schema import FIRINGS, OLD, SPANS
from mainspring.store.shapes import LEDGER_ROW

logger = logging.getLogger("mainspring")

_MOMENT = timedelta(milliseconds=1)
_BATCH = 500
_MOST_SPANS = 1000
NOT_RUN, ALL = "not_run", "all"
Which = Literal["not_run", "all"]
WHICH = (NOT_RUN, ALL)


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill of a past window of a schedule, and its progress."""

    id: str
    schedule_id: str
    start: datetime
    end: datetime
    which: str
    made: int
    done: bool
    actor: str | None = None


class Ledger:
    """The store's verbs for ledgers and backfills."""

    def __init__(self, connection: Connection, inserts: Inserts, calendars: Calendars) -> None:
        self._connection = connection
        self._inserts = inserts
        self._calendars = calendars

    async def entries(self, schedule: Document, start: datetime, end: datetime, limit: int) -> list[Entry]:
        """The first firings from `start` on and before `end`, with their outcomes.

        Times whose rows may have been pruned are left out: a firing without a row would be taken as on time.
        """
        start = self._kept_since(start)
        book = await self._book(schedule, await self._rows(schedule["_id"], start, end, limit))
        return entries(book, start, end, limit)

    async def latest(self, schedule: Document, start: datetime, end: datetime, limit: int) -> list[Entry]:
        """The last firings from `start` on, up to now and before `end`, with their outcomes and without those that a
        calendar has left out."""
        start = self._kept_since(start)
        book = await self._book(schedule, await self._rows(schedule["_id"], start, end, limit, newest=True))
        return recent(book, limit, start, end)

    def _kept_since(self, start: datetime) -> datetime:
        keep = self._connection.settings.keep_ledger
        return start if keep is None else max(start, self._now() - timedelta(seconds=keep))

    def _now(self) -> datetime:
        return truncate(self._connection.clock.now())

    async def _book(self, schedule: Document, rows: Sequence[Row]) -> Book:
        keys = {key for era in (schedule, *schedule.get("eras", ())) for key in calendar_keys(era)}
        calendars = await self._calendars.in_force(keys)
        paused = schedule.get("paused")
        paused_at = None if paused is None else paused["at"]
        return Book(eras_of(schedule, calendars), rows, schedule["cursor"], paused_at, self._now())

    async def _rows(
        self, schedule_id: str, start: datetime, end: datetime, limit: int, *, newest: bool = False
    ) -> list[Row]:
        """The spans that reach into a window, and the first or the newest rows of single firings in it."""
        within = {"schedule_id": schedule_id, "until": {"$gte": start}, "at": {"$lt": end}}
        single = {**within, "span": None, **({"until": {"$gte": start, "$lt": end}} if newest else {})}
        with self._connection.deadline():
            rows = (
                *await self._connection.ledger.find_all({**within, "span": True}, hint=SPANS, limit=_MOST_SPANS),
                *await self._connection.ledger.find_all(
                    single, sort=[("until", -1 if newest else 1)], hint=FIRINGS, limit=limit + 1
                ),
            )
        found = readable(rows, LEDGER_ROW, decode_row)
        for one in found.unreadable:
            logger.error("The row %s of a ledger cannot be read: %s", one.id, one.error)
        return found

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete rows of firings before an instant."""
        return await self._connection.ledger.delete_some({"until": {"$lt": before}}, hint=OLD, limit=limit)

    # -- backfills -------------------------------------------------------------------------------------------------

    async def to_backfill(
        self, schedule: Document, start: datetime, end: datetime, which: str
    ) -> AsyncIterator[list[Entry]]:
        """The firings of a window whose jobs a backfill makes, in batches."""
        while start < end:
            found = await self.entries(schedule, start, end, _BATCH)
            chosen = [entry for entry in found if _wanted(entry, which)]
            if chosen:
                yield chosen
            if len(found) < _BATCH:
                return
            start = found[-1].at + _MOMENT

    async def open_backfill(
        self, schedule_id: str, start: datetime, end: datetime, which: str, actor: str | None, key: str | None
    ) -> Document:
        """The progress of a backfill: a new one, or the stored one of an earlier call."""
        window = f"{instant_text(start)}..{instant_text(end)}"
        document: Document = {
            "_id": f"{schedule_id}^{key or f'{window}^{which}'}",
            "schedule_id": schedule_id,
            "outcome": "backfill",
            "window": {"start": start, "end": end},
            "until": end,
            "which": which,
            "cursor": start,
            "made": 0,
            **({"actor": actor} if actor else {}),
        }
        try:
            await self._connection.ledger.insert_one(document)
        except DuplicateKeyError:
            stored = await self._connection.ledger.find_one({"_id": document["_id"]})
            if stored is not None:
                if stored["window"] != document["window"] or stored["which"] != which:
                    raise InvalidSchedule(
                        f"The backfill {key!r} is for another window; give this one another backfill_id."
                    ) from None
                return stored
        return document

    async def backfill_batch(self, schedule: Document, progress: Document, batch: Sequence[Entry]) -> list[Document]:
        """Make the jobs of some firings and note the progress; returns the jobs that are new."""
        now = truncate(self._connection.clock.now())
        jobs, rows = [], []
        for entry in batch:
            job_id = f"{schedule['_id']}@{instant_text(entry.at)}"
            if progress["which"] == ALL:
                job_id += f"~{_key(progress)}"
            make = {"job": job_id, "at": entry.at, "due": now}
            jobs.append(job_of({**schedule, "overlap": "allow", "pause_after": None}, make, now))
            row = Row(entry.at, entry.at, BACKFILLED, job_id=job_id, actor=progress.get("actor"))
            rows.append(encode_row(schedule["_id"], row))
        fresh = await self._inserts.insert_made(jobs)
        for stored, error in await split_refused(rows, self._replace_rows):
            logger.error("The row %s of a backfill cannot be stored: %s", stored["_id"], brief(error))
        await self._connection.ledger.update_one(
            {"_id": progress["_id"]}, {"$max": {"cursor": batch[-1].at + _MOMENT}, "$inc": {"made": len(fresh)}}
        )
        return fresh

    async def _replace_rows(self, rows: Sequence[Document]) -> None:
        statements = [ReplaceOne({"_id": row["_id"]}, row, upsert=True) for row in rows]
        await self._connection.ledger.bulk_write(statements)

    async def end_backfill(self, progress: Document) -> Document:
        with self._connection.deadline():
            await self._connection.ledger.update_one({"_id": progress["_id"]}, {"$set": {"done": True}})
            return await self._connection.ledger.find_one({"_id": progress["_id"]}) or progress


def _key(document: Document) -> str:
    """The key of a backfill within its schedule."""
    return str(document["_id"]).removeprefix(f"{document['schedule_id']}^")


def decode_backfill(document: Document) -> Backfill:
    return Backfill(
        _key(document),
        document["schedule_id"],
        document["window"]["start"],
        document["window"]["end"],
        document["which"],
        document["made"],
        bool(document.get("done")),
        document.get("actor"),
    )


def _wanted(entry: Entry, which: str) -> bool:
    if entry.outcome in (MISSED, SKIPPED):
        return not entry.reason.startswith("calendar")
    return which == ALL and entry.outcome in (ON_TIME, LATE, BACKFILLED)
