"""Reading dead letters: in their order, page by page, and in groups by the fingerprint of their error.

All reads use one index that only failed jobs are in. A page begins exactly behind a place in it, which is the instant
and the id of the last dead letter seen, so that it is correct even where thousands failed in the same millisecond, or
ids are of different types.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import MaxKey, MinKey

from mainspring.clock import EPOCH, truncate
from mainspring.model.dead_letters.dead_letters import UNKNOWN, DeadLetterGroup, Selection
from mainspring.model.jobs.job import FAILED
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit
from mainspring.store.schema import BY_ID, DEAD
from mainspring.store.shapes import INSTANT, JOB

logger = logging.getLogger("mainspring")

_BATCH = 200
_NEWEST_FIRST = [("state", -1), ("finished_at", -1), ("_id", -1)]
_OLDEST_FIRST = [("state", 1), ("finished_at", 1), ("_id", 1)]
_TIMES = {"first": INSTANT, "last": INSTANT}
# The fields that the index holds.
KEYS = {"_id": 1, "finished_at": 1, "fingerprint": 1}


@dataclass(frozen=True, slots=True)
class Place:
    """The place of one dead letter in their order; a read begins or ends right before or behind it."""

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
        """The dead letters that match, the newest first; with `after`, only those behind that place."""
        left = limit
        while left is None or left > 0:
            count = _BATCH if left is None else min(left, _BATCH)
            page = await self._connection.jobs.find_all(
                filter_of(selection), sort=_NEWEST_FIRST, hint=DEAD, limit=count, **_ends(upper=after)
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
            filter, dict(fields), sort=_OLDEST_FIRST, hint=DEAD, limit=limit, **_ends(lower=after)
        )

    async def count(self, filter: Document, most: int) -> int:
        """The number of dead letters that match, counted up to `most`."""
        return await self._connection.jobs.count(filter, hint=DEAD, limit=most)

    async def groups(self, selection: Selection) -> list[DeadLetterGroup]:
        """The dead letters that match, by their fingerprints, the group with the latest one first.

        The fingerprint includes the name and the error's type, so that a filter on these applies to whole groups, and
        need not read each dead letter. Without a queue, a tag or a text to look for, the index alone is read, and one
        job per group.
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
        groups = [_group(one, samples[key]) for one in found if (key := str(one["last"]["_id"])) in samples]
        wanted = [group for group in groups if _fits(group, selection)]
        return sorted(wanted, key=lambda group: group.last_seen or EPOCH, reverse=True)

    async def summed(self, filter: Document) -> list[Document]:
        """The count, the first instant, and the last instant with its job, by fingerprint."""
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
        return await self._connection.jobs.aggregate(stages, hint=DEAD)

    async def _samples(self, ids: list[DocumentId]) -> dict[str, Document]:
        fields = {"name": 1, "error.type": 1, "error.message": 1, "alert": 1}
        return {
            str(document["_id"]): fit(document, JOB).document
            for document in await self._connection.jobs.find_all({"_id": {"$in": ids}}, fields, hint=BY_ID)
        }


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
    times = fit({"first": summed["first"], "last": summed["last"].get("at")}, _TIMES).document
    return DeadLetterGroup(
        str(summed["_id"] or UNKNOWN),
        sample.get("name", ""),
        error.get("type", ""),
        error.get("message", ""),
        summed["count"],
        times.get("first"),
        times.get("last"),
        str(sample["_id"]),
    )


def _fits(group: DeadLetterGroup, selection: Selection) -> bool:
    return selection.name in (None, group.name) and selection.error in (None, group.error_type)
