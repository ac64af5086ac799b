"""Reading dead letters: in their order, page by page, and in groups by the print of their error.

All of it goes along one index that only failed jobs are in. A page begins exactly behind a place in it, told by the
instant and the id of the last one seen, so that neither thousands that failed in the same millisecond nor ids of
different kinds confuse it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import MaxKey, MinKey
from pymongo import UpdateOne

from mainspring.clock import truncate
from mainspring.model.dead_letters import UNKNOWN, DeadLetterGroup, Selection
from mainspring.model.job import FAILED
from mainspring.store.codec import DocumentId, fingerprint_of
from mainspring.store.collections import BY_ID, DEAD
from mainspring.store.connection import Connection, Document

_BATCH = 200
_NEWEST_FIRST = [("state", -1), ("finished_at", -1), ("_id", -1)]
_OLDEST_FIRST = [("state", 1), ("finished_at", 1), ("_id", 1)]
# What can be read from the index alone.
KEYS = {"_id": 1, "finished_at": 1, "fingerprint": 1}


@dataclass(frozen=True, slots=True)
class Place:
    """Right before or right behind one dead letter, in their order."""

    at: datetime
    id: DocumentId

    def before(self) -> dict[str, Any]:
        return self._bound(MinKey())

    def behind(self) -> dict[str, Any]:
        return self._bound(MaxKey())

    def _bound(self, end: Any) -> dict[str, Any]:
        return {"state": FAILED, "finished_at": self.at, "_id": self.id, "fingerprint": end}


class DeadLetters:
    """The store's verbs for looking at dead letters."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def find(self, selection: Selection, limit: int | None, after: Place | None) -> AsyncIterator[Document]:
        """Those that match, the newest first, from behind a place on."""
        left = limit
        while left is None or left > 0:
            count = _BATCH if left is None else min(left, _BATCH)
            with self._connection.deadline():
                cursor = self._connection.jobs.find(
                    filter_of(selection), sort=_NEWEST_FIRST, hint=DEAD, limit=count, **_ends(upper=after)
                )
                page = await cursor.to_list(count)
            for document in page:
                yield document
            if len(page) < count:
                return
            left = None if left is None else left - count
            after = Place(page[-1]["finished_at"], page[-1]["_id"])

    async def page(
        self, filter: Document, limit: int, after: Place | None = None, fields: Mapping[str, int] = KEYS
    ) -> list[Document]:
        """The next that match behind a place, the oldest first."""
        with self._connection.deadline():
            cursor = self._connection.jobs.find(
                filter, dict(fields), sort=_OLDEST_FIRST, hint=DEAD, limit=limit, **_ends(lower=after)
            )
            return await cursor.to_list(limit)

    async def count(self, filter: Document, most: int) -> int:
        """How many there are, counted up to `most`."""
        with self._connection.deadline():
            return await self._connection.jobs.count_documents(filter, hint=DEAD, limit=most)

    async def groups(self, selection: Selection) -> list[DeadLetterGroup]:
        """Those that match by their prints, the group with the latest one first.

        The print says the name and the error's type, so that these need not be read from each: a group either has
        them or has not. Without a queue, a tag or a text to look for, the index alone is read, and one job per group.
        """
        within = Selection(
            fingerprint=selection.fingerprint,
            since=selection.since,
            until=selection.until,
            queue=selection.queue,
            tag=selection.tag,
            text=selection.text,
        )
        found = await self.summed(filter_of(within))
        samples = await self._samples([group["last"]["_id"] for group in found])
        groups = [_group(one, samples[one["last"]["_id"]]) for one in found if one["last"]["_id"] in samples]
        wanted = [group for group in groups if _fits(group, selection)]
        return sorted(wanted, key=lambda group: group.last_seen, reverse=True)

    async def summed(self, filter: Document) -> list[Document]:
        """Per print: count, first, and last with its instant and its job."""
        stages: list[dict[str, Any]] = [
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
        with self._connection.deadline():
            cursor = await self._connection.jobs.aggregate(stages, hint=DEAD)
            return await cursor.to_list(None)

    async def _samples(self, ids: list[DocumentId]) -> dict[DocumentId, Document]:
        fields = {"name": 1, "error.type": 1, "error.message": 1, "alert": 1}
        with self._connection.deadline():
            cursor = self._connection.jobs.find({"_id": {"$in": ids}}, fields, hint=BY_ID)
            return {document["_id"]: document for document in await cursor.to_list()}

    async def fill_prints(self, limit: int, after: Place | None) -> tuple[int, Place | None]:
        """Give those dead letters a print that were stored without one, among the next `limit`.

        Returns how many were looked at, and the place behind the last of them.
        """
        rows = await self.page({"state": FAILED}, limit, after)
        bare = [row["_id"] for row in rows if row.get("fingerprint") is None]
        if bare:
            await self._fill(bare)
        return len(rows), Place(rows[-1]["finished_at"], rows[-1]["_id"]) if rows else after

    async def _fill(self, ids: list[DocumentId]) -> None:
        bare = {"state": FAILED, "fingerprint": None}
        with self._connection.deadline():
            cursor = self._connection.jobs.find({"_id": {"$in": ids}, **bare}, {"name": 1, "error": 1}, hint=BY_ID)
            statements = [
                UpdateOne(
                    {"_id": document["_id"], **bare},
                    {"$set": {"fingerprint": fingerprint_of(document.get("name"), document.get("error"))}},
                )
                for document in await cursor.to_list(len(ids))
            ]
            if statements:
                await self._connection.jobs.bulk_write(statements, ordered=False)


def filter_of(selection: Selection, before: datetime | None = None) -> Document:
    """What a selection means to MongoDB; with `before`, only of those made before that instant."""
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


def _ends(lower: Place | None = None, upper: Place | None = None) -> dict[str, Any]:
    """The part of the index between two places. Unlike a comparison, it does not stop where another type begins."""
    ends: dict[str, Any] = {}
    if lower is not None:
        ends["min"] = lower.behind()
    if upper is not None:
        ends["max"] = upper.before()
    return ends


def _group(summed: Document, sample: Document) -> DeadLetterGroup:
    error = sample.get("error") or {}
    return DeadLetterGroup(
        summed["_id"] or UNKNOWN,
        str(sample.get("name", "")),
        str(error.get("type", "")),
        str(error.get("message", "")),
        summed["count"],
        summed["first"],
        summed["last"]["at"],
        str(sample["_id"]),
    )


def _fits(group: DeadLetterGroup, selection: Selection) -> bool:
    return selection.name in (None, group.name) and selection.error in (None, group.error_type)
