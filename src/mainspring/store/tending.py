"""The slow, shared work on the jobs collection: adopting raw inserts, holding and releasing jobs that nobody can run,
expiring what was not started in time, and pruning what has been kept long enough.

Each verb does one bounded pass, is safe when several workers do it at once, and returns what it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import bson
from pymongo import UpdateOne

from mainspring.clock import truncate
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
from mainspring.store.codec import DocumentId, Undecodable, check_fields
from mainspring.store.collections import BUMP, BY_ID, FINISHED_INDEX, HELD, LAYOUT, RAW, START_BY
from mainspring.store.connection import CODEC, Connection, Document
from mainspring.store.finish import start_by_of, undecodable_fields

NO_HANDLER = "handler"

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
# A process that was held up may still make the job of a firing that others made long ago: its id must be taken then.
_FIRING_KEPT = timedelta(minutes=10)


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
                [{"$set": undecodable_fields(reason, self._connection.clock.expression())}],
            )
        return result.matched_count == 1

    async def hold(self, ids: Sequence[DocumentId], by: str, note: str) -> int:
        """Take ready jobs out of the claim's index, saying why."""
        held = {"by": by, "note": {"$literal": note}, "since": self._connection.clock.expression()}
        with self._connection.deadline():
            result = await self._connection.jobs.update_many(
                {"_id": {"$in": list(ids)}, "ready": True},
                [{"$set": {**BUMP, "held": held, "ready": "$$REMOVE"}}],
                hint=BY_ID,
            )
        return result.modified_count

    async def release(self, by: str, names: Sequence[str] | None) -> int:
        """Put held jobs back into the claim's index: those of these names, or all that were held for this reason."""
        filter: dict[str, Any] = {"held.by": by}
        if names is not None:
            filter["name"] = {"$in": list(names)}
        with self._connection.deadline():
            result = await self._connection.jobs.update_many(filter, _RELEASE, hint=HELD)
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

    async def prune(self, keep: dict[str, float | None], limit: int = 500) -> int:
        """Delete up to `limit` finished jobs of each state that have been kept for the given seconds.

        One whose dedupe window lasts longer is kept until then: it is what a second `schedule()` returns.
        """
        deleted = 0
        now = truncate(self._connection.clock.now())
        for state, seconds in keep.items():
            if seconds is None:
                continue
            before = truncate(now - timedelta(seconds=seconds))
            old: Document = {"state": state, "finished_at": {"$lt": before}, "dedupe_until": {"$not": {"$gt": now}}}
            if seconds < _FIRING_KEPT.total_seconds():
                kept = truncate(now - _FIRING_KEPT)
                old["$or"] = [{"schedule_id": None}, {"finished_at": {"$lt": kept}}]
            with self._connection.deadline():
                cursor = self._connection.jobs.find(old, {"_id": 1}, hint=FINISHED_INDEX, limit=limit)
                ids = [document["_id"] for document in await cursor.to_list(limit)]
                if ids:
                    result = await self._connection.jobs.delete_many({"_id": {"$in": ids}, **old}, hint=BY_ID)
                    deleted += result.deleted_count
        return deleted

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
            return [{"$set": {**defaults, **undecodable_fields(str(error), now)}}]
        defaults |= {
            "priority": {"$toInt": defaults["priority"]},
            "ready": True if state == PENDING else "$$REMOVE",
            "finished_at": _or("$finished_at", "date", now) if state in FINISHED else "$$REMOVE",
        }
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


def keep_times(keep_finished: float | None, keep_failed: float | None) -> dict[str, float | None]:
    """How long each finished state is kept; None for ever."""
    return {state: keep_failed if state == FAILED else keep_finished for state in FINISHED}


def overdue(document: Document, now: datetime) -> bool:
    """Whether a candidate may not be started any more."""
    limit = document.get("start_by")
    return limit is not None and limit < now
