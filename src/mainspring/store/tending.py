"""The slow, shared work on the jobs collection: adopting raw inserts, holding and releasing jobs that nobody can run,
and expiring what was not started in time.

Each verb does one bounded pass, is safe when several workers do it at once, and returns what it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import bson
from pymongo import UpdateOne

from mainspring.model.job import (
    BLOCKED,
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    EXPIRED,
    FAILED,
    FINISHED,
    PENDING,
    RUNNING,
)
from mainspring.store.codec import DocumentId, Undecodable, check_fields, fingerprint_of
from mainspring.store.collections import BUMP, BY_ID, HELD, LAYOUT, RAW, START_BY
from mainspring.store.connection import CODEC, Connection, Document
from mainspring.store.finish import start_by_of, undecodable_fields

# What a job that nobody can run is held by.
NO_HANDLER, TOO_NEW, NO_KEY = "handler", "version", "key"

_RELEASE = [
    {
        "$set": {
            **BUMP,
            "held": "$$REMOVE",
            "line": "$$REMOVE",
            "ready": {"$cond": [{"$eq": ["$state", PENDING]}, True, "$$REMOVE"]},
        }
    }
]


class Tending:
    """The store's verbs for chores."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def adopt(self, limit: int = 500) -> tuple[int, list[Document]]:
        """Give raw inserts the fields they lack; one that is no valid job fails, saying why.

        Returns how many there were, and those that failed.
        """
        with self._connection.deadline():
            cursor = self._connection.jobs.find({"v": None}, hint=RAW, limit=limit)
            found = await cursor.to_list(limit)
        failed = []
        statements = []
        for document in found:
            stages = self._adoption(document)
            if stages[0]["$set"].get("state") == FAILED:
                failed.append(document)
            statements.append(UpdateOne({"_id": document["_id"], "v": None}, stages))
        if statements:
            with self._connection.deadline():
                await self._connection.jobs.bulk_write(statements, ordered=False)
        return len(found), failed

    async def fail_undecodable(self, document: Document, reason: str) -> bool:
        """End a pending job that cannot be decoded; it is kept, and says why."""
        with self._connection.deadline():
            result = await self._connection.jobs.update_one(
                {"_id": document["_id"], "ready": True},
                [{"$set": undecodable_fields(document.get("name"), reason, self._connection.clock.expression())}],
            )
        return result.matched_count == 1

    async def hold(self, ids: Sequence[DocumentId], by: str, note: str) -> int:
        """Take ready jobs out of the claim's index, and others out of the lines that they wait in, saying why."""
        held = {"by": by, "note": {"$literal": note}, "since": self._connection.clock.expression()}
        with self._connection.deadline():
            result = await self._connection.jobs.update_many(
                {"_id": {"$in": list(ids)}, "$or": [{"ready": True}, {"line": {"$exists": True}}]},
                [{"$set": {**BUMP, "held": held, "ready": "$$REMOVE", "line": "$$REMOVE"}}],
                hint=BY_ID,
            )
        return result.modified_count

    async def release(self, by: str, where: Document | None = None) -> int:
        """Put jobs that were held for this reason back into the claim's index, all or some of them."""
        with self._connection.deadline():
            result = await self._connection.jobs.update_many({**(where or {}), "held.by": by}, _RELEASE, hint=HELD)
        return result.modified_count

    async def release_these(self, ids: Sequence[DocumentId]) -> int:
        """Put these jobs back into the claim's index, whatever they were held for."""
        with self._connection.deadline():
            result = await self._connection.jobs.update_many(
                {"_id": {"$in": list(ids)}, "held": {"$exists": True}}, _RELEASE, hint=BY_ID
            )
        return result.modified_count

    async def expire(self, limit: int = 500) -> list[Document]:
        """End pending jobs that were not started in time; returns them."""
        now = self._connection.clock.expression()
        late = {"state": PENDING, "$expr": {"$lt": ["$start_by", now]}, "start_by": {"$type": "date"}}
        with self._connection.deadline():
            cursor = self._connection.jobs.find(late, hint=START_BY, limit=limit)
            found = await cursor.to_list(limit)
        return await self.expire_these(found)

    async def expire_these(self, documents: Sequence[Document]) -> list[Document]:
        """End those of these pending jobs that are late; returns the ones that this call has ended."""
        now = self._connection.clock.expression()
        ended: list[DocumentId] = []
        for document in documents:
            with self._connection.deadline():
                result = await self._connection.jobs.update_one(
                    {
                        "_id": document["_id"],
                        "state": PENDING,
                        "rev": document["rev"],
                        "$expr": {"$lt": ["$start_by", now]},
                    },
                    [
                        {
                            "$set": {
                                **BUMP,
                                "state": EXPIRED,
                                "finished_at": now,
                                "ready": "$$REMOVE",
                                "held": "$$REMOVE",
                                "line": "$$REMOVE",
                            }
                        }
                    ],
                )
            if result.matched_count:
                ended.append(document["_id"])
        if not ended:
            return []
        with self._connection.deadline():
            cursor = self._connection.jobs.find({"_id": {"$in": ended}}, hint=BY_ID)
            return await cursor.to_list(len(ended))

    def _adoption(self, document: Document) -> list[dict[str, Any]]:
        now = self._connection.clock.expression()
        state = document.get("state") or PENDING
        defaults: dict[str, Any] = {
            "v": LAYOUT,
            "state": state,
            "rev": 0,
            "token": _whole(document.get("token")),
            "tries": _whole(document.get("tries")),
            "created_at": _or("$created_at", "date", now),
            "run_at": _or("$run_at", "date", now),
            "queue": _or("$queue", "string", DEFAULT_QUEUE),
            "priority": {"$ifNull": ["$priority", DEFAULT_PRIORITY]},
            "data": {"$ifNull": ["$data", {}]},
        }
        try:
            if state not in (PENDING, RUNNING, BLOCKED, *FINISHED):
                raise Undecodable(f"state {state!r} is none of Mainspring's states; insert jobs as {PENDING!r}.")
            check_fields(document)
            self._check_size(document)
        except Undecodable as error:
            return [{"$set": {**defaults, **undecodable_fields(document.get("name"), str(error), now)}}]
        defaults |= {
            "priority": {"$toInt": defaults["priority"]},
            "ready": True if state == PENDING else "$$REMOVE",
            "data_v": {"$cond": [{"$isNumber": "$data_v"}, {"$toInt": "$data_v"}, "$$REMOVE"]},
            "finished_at": _or("$finished_at", "date", now) if state in FINISHED else "$$REMOVE",
        }
        if state == FAILED:
            defaults["fingerprint"] = fingerprint_of(document["name"], document.get("error"))
        return [{"$set": defaults}, {"$set": {"start_by": start_by_of("$run_at")}}]

    def _check_size(self, document: Document) -> None:
        size = len(bson.encode(document.get("data") or {}, codec_options=CODEC))
        limit = self._connection.settings.max_data
        if size > limit:
            raise Undecodable(f"data takes {size:,} bytes, over the limit of {limit:,}.")


def _or(field: str, kind: str, otherwise: Any) -> dict[str, Any]:
    """A field, or something else where it is not of this kind."""
    return {"$cond": [{"$eq": [{"$type": field}, kind]}, field, otherwise]}


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**31 else 0


def overdue(document: Document, now: datetime) -> bool:
    """Whether a candidate may not be started any more."""
    limit = document.get("start_by")
    return limit is not None and limit < now
