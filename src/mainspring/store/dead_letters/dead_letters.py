"""Reading dead letters in their order, page by page; `store/dead_letters/groups.py` reads their groups.

All reads use one of two indexes that only failed jobs are in. A page begins exactly behind a place in it, which is the
instant and the id of the last dead letter seen, so that it is correct even where thousands failed in the same
millisecond, or ids are of different types.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import MaxKey, MinKey

from mainspring.clock import truncate
from mainspring.model.dead_letters.dead_letters import UNKNOWN, Selection
from mainspring.model.jobs.job import FAILED
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.schema import DEAD, GROUPED

logger = logging.getLogger("mainspring")

_BATCH = 200
_NEWEST_FIRST = [("state", -1), ("finished_at", -1), ("_id", -1)]
_OLDEST_FIRST = [("state", 1), ("finished_at", 1), ("_id", 1)]
# The fields that the index holds.
KEYS = {"_id": 1, "finished_at": 1, "fingerprint": 1}
GROUP_KEYS = ("state", "fingerprint", "finished_at", "_id")


@dataclass(frozen=True, slots=True)
class Place:
    """The place of one dead letter in their order; a read begins or ends right before or behind it."""

    at: datetime
    id: DocumentId

    def before(self) -> Document:
        return self._bound(MinKey())

    def behind(self) -> Document:
        return self._bound(MaxKey())

    def _bound(self, end: Any) -> Document:
        return {"state": FAILED, "finished_at": self.at, "_id": self.id, "fingerprint": end}


class DeadLetters:
    """The store's verbs for looking at dead letters."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def find(self, selection: Selection, limit: int | None, after: Place | None) -> AsyncIterator[Document]:
        """The dead letters that match, the newest first; with `after`, only those behind that place."""
        left = limit
        while left is None or left > 0:
            count = _BATCH if left is None else min(left, _BATCH)
            page = await self._connection.jobs.find_all(
                filter_of(selection), limit=count, **read_along(selection.fingerprint, after)
            )
            for document in page:
                yield document
            if len(page) < count:
                return
            left = None if left is None else left - count
            after = Place(page[-1]["finished_at"], page[-1]["_id"])

    async def page(
        self, filter: Document, limit: int, after: Place | None = None, fields: Mapping[str, int] = KEYS
    ) -> list[Document]:
        """The next dead letters that match behind a place, the oldest first."""
        return await self._connection.jobs.find_all(
            filter,
            dict(fields),
            sort=_OLDEST_FIRST,
            hint=DEAD,
            limit=limit,
            min=None if after is None else after.behind(),
        )

    async def count(self, filter: Document, most: int) -> int:
        """The number of dead letters that match, counted up to `most`."""
        return await self._connection.jobs.count(filter, hint=DEAD, limit=most)

    async def summed(self, filter: Document) -> list[Document]:
        """The count, the first instant, and the last instant with its job, by fingerprint."""
        stages: list[Document] = [
            {"$match": filter},
            {"$project": KEYS},
            {
                "$group": {
                    "_id": "$fingerprint",
                    "count": {"$sum": 1},
                    "first": {"$min": "$finished_at"},
                    "last": {"$max": {"at": "$finished_at", "_id": "$_id"}},
                }
            },
        ]
        return await self._connection.jobs.aggregate(stages, hint=DEAD)


def filter_of(selection: Selection, before: datetime | None = None) -> Document:
    """A selection as a filter; with `before`, only dead letters made before that instant."""
    filter: Document = {"state": FAILED}
    for key, field in (("name", "name"), ("queue", "queue"), ("tag", "tags"), ("error", "error.type")):
        value = getattr(selection, key)
        if value is not None:
            filter[field] = value
    if selection.fingerprint is not None:
        filter["fingerprint"] = None if selection.fingerprint == UNKNOWN else selection.fingerprint
    if selection.text is not None:
        filter["error.message"] = {"$regex": re.escape(selection.text), "$options": "i"}
    ends = [one for one in (selection.until, before) if one is not None]
    bounds: Document = {} if selection.since is None else {"$gte": truncate(selection.since)}
    if ends:
        bounds["$lt"] = truncate(min(ends))
    return {**filter, "finished_at": bounds} if bounds else filter


def read_along(fingerprint: str | None, before: Place | None = None) -> Document:
    """How to read dead letters from the newest on: along the index of all, or that of one fingerprint; with `before`,
    from behind that place. Unlike a comparison, a bound of an index does not stop where another type begins."""
    if fingerprint is None:
        ends = {} if before is None else {"max": before.before()}
        return {"sort": _NEWEST_FIRST, "hint": DEAD, **ends}
    group = {"state": FAILED, "fingerprint": None if fingerprint == UNKNOWN else fingerprint}
    lower = {**group, "finished_at": MinKey(), "_id": MinKey()}
    upper: Document = {**group, "finished_at": MaxKey(), "_id": MaxKey()}
    if before is not None:
        upper = {**group, "finished_at": before.at, "_id": before.id}
    return {"sort": [(field, -1) for field in GROUP_KEYS], "hint": GROUPED, "min": lower, "max": upper}
