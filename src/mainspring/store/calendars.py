"""Storing calendars: the one in force under its name, and every earlier revision, for the ledgers of the past.

A revision never changes once it is stored, so that a process may keep what it has read. A change compares the
revision it was made from, so that of two changes at once none is lost.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pymongo.errors import DuplicateKeyError

from mainspring.clock import truncate
from mainspring.errors import CalendarNotFound, Unavailable
from mainspring.model.calendar import Calendar
from mainspring.store.collections import BY_ID, LAYOUT
from mainspring.store.connection import Connection, Document

_ROUNDS = 20
_REMEMBERED = 256
_BATCH = 1000


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
        with self._connection.deadline():
            document = await self._connection.calendars.find_one({"_id": name, "past": None})
        return None if document is None else _decode(document)

    async def find(self) -> list[StoredCalendar]:
        """All calendars in force, in the order of their names."""
        found: list[Document] = []
        after = ""
        while True:
            with self._connection.deadline():
                cursor = self._connection.calendars.find(
                    {"_id": {"$gt": after}}, sort=[("_id", 1)], hint=BY_ID, limit=_BATCH
                )
                batch = await cursor.to_list(_BATCH)
            found += [document for document in batch if not document.get("past")]
            if len(batch) < _BATCH:
                return [_decode(document) for document in found]
            after = batch[-1]["_id"]

    async def put(self, name: str, calendar: Calendar, actor: str | None) -> tuple[StoredCalendar, bool]:
        """Store a calendar under a name; returns it, and whether anything changed."""
        for _ in range(_ROUNDS):
            before = await self.get(name)
            if before is not None and before.calendar == calendar:
                return before, False
            after = StoredCalendar(
                name, calendar, 1 if before is None else before.rev + 1, truncate(self._connection.clock.now()), actor
            )
            if await self._replace(before, after):
                return after, True
        raise Unavailable(f"Calendar {name!r} was changed by others all the time; try once more.")

    async def _replace(self, before: StoredCalendar | None, after: StoredCalendar) -> bool:
        try:
            with self._connection.deadline():
                if before is None:
                    await self._connection.calendars.insert_one(_encode(after))
                    return True
                await self._keep(before)
                outcome = await self._connection.calendars.replace_one(
                    {"_id": before.name, "rev": before.rev}, _encode(after)
                )
                return outcome.matched_count == 1
        except DuplicateKeyError:
            return False

    async def _keep(self, calendar: StoredCalendar) -> None:
        """Keep a revision that is about to be replaced or deleted."""
        past = {**_encode(calendar), "_id": _past_id(calendar.name, calendar.rev), "past": True}
        await self._connection.calendars.replace_one({"_id": past["_id"]}, past, upsert=True)

    async def delete(self, name: str) -> None:
        """Delete a calendar. Its revisions stay: past firings were judged by them."""
        before = await self.get(name)
        if before is None:
            raise CalendarNotFound(name)
        with self._connection.deadline():
            await self._keep(before)
            await self._connection.calendars.delete_one({"_id": name, "rev": before.rev})

    async def in_force(self, keys: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Calendar]:
        """Calendars by name and revision. One that is nowhere to be found is left out."""
        wanted = set(keys)
        missing = [key for key in wanted if key not in self._known]
        if missing:
            ids = [one for name, rev in missing for one in (name, _past_id(name, rev))]
            with self._connection.deadline():
                cursor = self._connection.calendars.find({"_id": {"$in": ids}}, hint=BY_ID)
                for document in await cursor.to_list(len(ids)):
                    self._remember(_decode(document))
        return {key: self._known[key] for key in wanted if key in self._known}

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


def _decode(document: Document) -> StoredCalendar:
    return StoredCalendar(
        document["name"],
        Calendar.from_document(document["calendar"]),
        document["rev"],
        document["updated_at"],
        document.get("actor"),
    )
