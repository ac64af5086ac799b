"""Hints from a change stream that there may be work.

A hint is never the truth: it only wakes a worker, which then polls the database. When the stream breaks, cannot be
opened (a standalone server) or falls behind, polling goes on and nothing is lost; the stream is opened anew with a
pause in between, never with an old resume token.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo.read_concern import ReadConcern

from mainspring.model.jobs.job import PENDING
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection
from mainspring.store.schema import Document

_AWAIT_MS = 15_000
# A blocked job that is started loses the time of its next look and becomes pending.
_STARTED = {"updateDescription.removedFields": "check_at", "updateDescription.updatedFields.state": PENDING}


@dataclass(frozen=True, slots=True)
class Hint:
    """A job was inserted, with its queue (None: a raw insert without one) and its due time; or a blocked job has become
    pending, whose queue is not told. Or, with `schedule`, a schedule was changed, with `control`, a pause, limit or
    breaker, or with `operation`, an operation was created."""

    id: DocumentId
    queue: str | None
    run_at: datetime | None
    raw: bool
    schedule: bool = False
    control: bool = False
    operation: bool = False


class Hints:
    """The store's change stream on new jobs, changed schedules, changed controls and new operations."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def possible(self) -> bool:
        return self._connection.supports_transactions

    async def hints(self, opened: Callable[[], None]) -> AsyncIterator[Hint]:
        """Hints from now on, until the stream breaks (which raises). `opened` is called when the stream is open."""
        stages: list[Document] = [
            {"$match": {"$or": self._wanted()}},
            {
                "$project": {
                    "ns": 1,
                    "documentKey": 1,
                    "operationType": 1,
                    "fullDocument.queue": 1,
                    "fullDocument.run_at": 1,
                    "fullDocument.v": 1,
                }
            },
        ]
        database = self._connection.db.with_options(read_concern=ReadConcern("majority"))
        async with await database.watch(stages, max_await_time_ms=_AWAIT_MS) as stream:
            opened()
            async for change in stream:
                yield self._hint(change)

    def _wanted(self) -> list[Document]:
        told = {"updateDescription.updatedFields.told": {"$exists": True}}
        whole = {"operationType": {"$in": ["insert", "replace", "delete"]}}
        return [
            {"ns.coll": self._connection.jobs.name, "$or": [{"operationType": "insert"}, _STARTED]},
            {"ns.coll": self._connection.schedules.name, "$or": [{"operationType": "insert"}, told]},
            {"ns.coll": self._connection.controls.name, "$or": [whole, told]},
            {"ns.coll": self._connection.operations.name, "operationType": "insert"},
        ]

    def _hint(self, change: Mapping[str, Any]) -> Hint:
        collection, id = change["ns"]["coll"], change["documentKey"]["_id"]
        if collection == self._connection.schedules.name:
            return Hint(id, None, None, raw=False, schedule=True)
        if collection == self._connection.controls.name:
            return Hint(id, None, None, raw=False, control=True)
        if collection == self._connection.operations.name:
            return Hint(id, None, None, raw=False, operation=True)
        return _job_hint(change)


def _job_hint(change: Mapping[str, Any]) -> Hint:
    """The hint of an insert, or of a blocked job that was started. Any document may have been inserted, so that every
    field is checked."""
    if change.get("operationType") == "update":
        return Hint(change["documentKey"]["_id"], None, None, raw=False)
    document = change.get("fullDocument") or {}
    queue, run_at = document.get("queue"), document.get("run_at")
    return Hint(
        change["documentKey"]["_id"],
        queue if isinstance(queue, str) else None,
        run_at if isinstance(run_at, datetime) else None,
        raw=document.get("v") is None,
    )
