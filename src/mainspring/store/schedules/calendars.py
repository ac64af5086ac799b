"""Storing calendars: the one in force under its name, and every earlier revision, for the ledgers of the past.

A revision never changes once it is stored, so that a process may cache it. A change is a compare-and-set on the
revision it was made from, so that of two changes at once none is lost. A deleted calendar leaves its number behind, so
that another one of the same name goes on from there and no revision means two things.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pymongo.errors import DuplicateKeyError

from mainspring.clock import truncate
from mainspring.errors import CalendarNotFound
from mainspring.model.unreadable import Listed
from mainspring.rules.calendars.calendar import Calendar
from mainspring.store.compare_and_set import compare_and_set
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import readable
from mainspring.store.schema import BY_ID, LAYOUT
from mainspring.store.shapes import CALENDAR

logger = logging.getLogger("mainspring")

_REMEMBERED = 256
_BATCH = 1000
# While a revision is being replaced, a reader may find it in neither place; a second read finds it.
_LOOKS = 2


@dataclass(frozen=True, slots=True)
class StoredCalendar:
    """A calendar as it is stored under its name."""

    name: str
    calendar: Calendar
    rev: int
    updated_at: datetime
    actor: str | None = None


class Calendars:
    """The store's verbs for calendars."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: OrderedDict[tuple[str, int], Calendar] = OrderedDict()

    async def get(self, name: str) -> StoredCalendar | None:
        """The calendar that is in force under a name."""
        document = await self._read(name)
        return None if document is None or "calendar" not in document else _readable(document)

    async def find(self) -> Listed[StoredCalendar]:
        """All calendars in force, in the order of their names."""
        found: Listed[StoredCalendar] = Listed()
        after = ""
        while True:
            page = {"_id": {"$gt": after}, "past": None, "deleted": None}
            batch = await self._connection.calendars.find_all(page, sort=[("_id", 1)], hint=BY_ID, limit=_BATCH)
            part = _readable_of(batch)
            found += part
            found.unreadable += part.unreadable
            if len(batch) < _BATCH:
                return found
            after = batch[-1]["_id"]

    async def put(self, name: str, calendar: Calendar, actor: str | None) -> tuple[StoredCalendar, bool]:
        """Store a calendar under a name; returns it, and whether anything changed."""

        async def attempt(_: int) -> tuple[StoredCalendar, bool] | None:
            document = await self._read(name)
            before = None if document is None or "calendar" not in document else _readable(document)
            if before is not None and before.calendar == calendar:
                return before, False
            rev = 1 if document is None else document["rev"] + 1
            after = StoredCalendar(name, calendar, rev, truncate(self._connection.clock.now()), actor)
            return (after, True) if await self._replace(document, _encode(after)) else None

        return await compare_and_set(attempt, f"calendar {name!r}")

    async def delete(self, name: str) -> None:
        """Delete a calendar. Its revisions stay, since past firings were judged by them, and so does their number."""

        async def attempt(_: int) -> bool | None:
            document = await self._read(name)
            if document is None or "calendar" not in document:
                raise CalendarNotFound(name)
            return await self._replace(document, {**_without_days(document), "deleted": True}) or None

        await compare_and_set(attempt, f"calendar {name!r}")

    async def in_force(self, keys: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Calendar]:
        """Calendars by name and revision. A missing revision is left out."""
        wanted = set(keys)
        for _ in range(_LOOKS):
            missing = [key for key in wanted if key not in self._known]
            if missing:
                await self._load(missing)
        return {key: self._known[key] for key in wanted if key in self._known}

    async def _load(self, keys: Iterable[tuple[str, int]]) -> None:
        """Read these revisions, in force or past."""
        ids = [one for name, rev in keys for one in (name, _past_id(name, rev))]
        for document in await self._connection.calendars.find_all({"_id": {"$in": ids}, "deleted": None}, hint=BY_ID):
            stored = _readable(document)
            if stored is not None:
                self._remember(stored)

    async def _read(self, name: str) -> Document | None:
        """The document under a name, also that of a deleted calendar."""
        return await self._connection.calendars.find_one({"_id": name, "past": None})

    async def _replace(self, before: Document | None, after: Document) -> bool:
        """Replace the revision that was read by a new one; the old one is stored as past first."""
        try:
            with self._connection.deadline():
                if before is None:
                    await self._connection.calendars.insert_one(after)
                    return True
                if "calendar" in before:
                    past = {**before, "_id": _past_id(before["name"], before["rev"]), "past": True}
                    await self._connection.calendars.replace_one({"_id": past["_id"]}, past, upsert=True)
                outcome = await self._connection.calendars.replace_one(
                    {"_id": before["_id"], "rev": before["rev"], "deleted": before.get("deleted")}, after
                )
                return outcome.matched_count == 1
        except DuplicateKeyError:
            return False

    def _remember(self, stored: StoredCalendar) -> None:
        self._known[stored.name, stored.rev] = stored.calendar
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def _past_id(name: str, rev: int) -> str:
    return f"{name}@{rev}"


def _encode(stored: StoredCalendar) -> Document:
    document: Document = {
        "_id": stored.name,
        "v": LAYOUT,
        "name": stored.name,
        "rev": stored.rev,
        "calendar": stored.calendar.to_document(),
        "updated_at": stored.updated_at,
    }
    return document if stored.actor is None else {**document, "actor": stored.actor}


def _without_days(document: Document) -> Document:
    return {key: value for key, value in document.items() if key != "calendar"}


def _readable_of(documents: Iterable[Document]) -> Listed[StoredCalendar]:
    """Stored calendars. An unreadable calendar counts as missing and does not affect the others."""
    found = readable(documents, CALENDAR, _decode)
    for one in found.unreadable:
        logger.error("The calendar %s cannot be read: %s", one.id, one.error)
    return found


def _readable(document: Document) -> StoredCalendar | None:
    return next(iter(_readable_of([document])), None)


def _decode(document: Document) -> StoredCalendar:
    if document["_id"] not in (document["name"], _past_id(document["name"], document["rev"])):
        raise ValueError("the name is not that of the id")
    return StoredCalendar(
        document["name"],
        Calendar.from_document(document["calendar"]),
        document["rev"],
        document["updated_at"],
        document.get("actor"),
    )
