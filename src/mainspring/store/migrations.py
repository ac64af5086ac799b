"""The version of the database's documents, and the changes that raise it, while old and new workers run.

The chore `convert_earlier_documents` follows workers of an earlier version: what they write is found along the indexes
that they need. `mainspring migrate` walks over all documents, in batches by `_id`, notes how far it is, and ends when
no earlier worker is alive: then the earlier indexes go and the version is raised. A walk beside earlier workers is
repeated at their end, since they write behind it. Keeps true: a document is changed only if it still has an earlier
field; doing it twice, or in two processes at once, is doing it once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pymongo.errors import DuplicateKeyError, OperationFailure

from mainspring.clock import truncate
from mainspring.model.jobs.job import PENDING
from mainspring.model.schema_versions import CURRENT, FIRST, OLDEST_READER, SchemaStatus
from mainspring.store.collection import NO_SUCH_INDEX, Collection
from mainspring.store.connection import Connection, Document
from mainspring.store.index_definitions import EARLIER_INDEXES
from mainspring.store.jobs.upkeep import NO_HANDLER, NO_KEY, TOO_NEW
from mainspring.store.schema import BUMP, BY_ID, SCHEMA

_HELD = "held"
_BATCH = 1000
_GONE = (26, 27)  # no such collection, no such index
_OF_JOBS: Document = {"$or": [{"held": {"$exists": True}}, {"executes": {"$exists": True}}]}
_OF_SCHEDULES: Document = {"job.executes": {"$exists": True}}
# A job that waited for an able worker is made ready: the next worker that finds it judges anew.
_JUDGED_ANEW: Document = {"$in": ["$held.by", [NO_HANDLER, TOO_NEW, NO_KEY]]}
_JOB_STAGES: list[Document] = [
    {
        "$set": {
            **BUMP,
            "waiting_for": {"$cond": [_JUDGED_ANEW, "$$REMOVE", {"$ifNull": ["$waiting_for", "$held"]}]},
            "ready": {"$cond": [{"$and": [_JUDGED_ANEW, {"$eq": ["$state", PENDING]}]}, True, "$ready"]},
            "guarantee": {"$ifNull": ["$guarantee", "$executes"]},
        }
    },
    {"$unset": ["held", "executes"]},
]
_SCHEDULE_STAGES: list[Document] = [
    {"$set": {**BUMP, "job.guarantee": {"$ifNull": ["$job.guarantee", "$job.executes"]}}},
    {"$unset": "job.executes"},
]


class Migrations:
    """The store's verbs for the version of the documents."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._steps: Sequence[tuple[Collection, Document, list[Document]]] = (
            (connection.schedules, _OF_SCHEDULES, _SCHEDULE_STAGES),
            (connection.jobs, _OF_JOBS, _JOB_STAGES),
        )

    async def status(self) -> SchemaStatus:
        """The version of the database, and how far an unfinished migration is."""
        record = await self._record()
        if record is None:
            earlier = await self._has_earlier()
            return await self._counted(SchemaStatus(FIRST if earlier else CURRENT))
        walk = record.get("walk") or {}
        found = SchemaStatus(
            _whole(record, "version", FIRST),
            _whole(record, "minimum", FIRST),
            recorded=True,
            seen=_whole(walk, "seen"),
            changed=_whole(walk, "changed"),
            walked=_whole(walk, "step") >= len(self._steps),
        )
        return await self._counted(found)

    async def record(self) -> SchemaStatus:
        """Record the version of a database that has no record: the current one, unless earlier indexes show that a
        library of the first version has used it."""
        status = await self.status()
        if not status.recorded:
            minimum = OLDEST_READER if status.version == CURRENT else FIRST
            document = {"_id": SCHEMA, "version": status.version, "minimum": minimum, "at": self._now()}
            try:
                await self._connection.locks.insert_one(document)
            except DuplicateKeyError:
                return await self.status()
        return replace(status, recorded=True)

    async def follow(self) -> int:
        """Change what workers of an earlier version have written since; returns how many documents were changed.

        Of jobs these are the waiting ones: no worker of this version would find them. Jobs with `executes` alone are
        run as they are, since both names of the guarantee are read. No index finds them: they are left to the walk.
        """
        changed = 0
        for collection, filter, stages in self._steps:
            held = collection is self._connection.jobs
            wanted, hint = ({"held.by": {"$exists": True}}, _HELD) if held else (filter, BY_ID)
            try:
                ids = await collection.find_ids(wanted, hint=hint, limit=_BATCH)
            except OperationFailure as error:
                if error.code not in NO_SUCH_INDEX:
                    raise
                return changed  # the index is gone: a migration has ended meanwhile
            changed += await self._change(collection, ids, filter, stages)
        return changed

    async def step(self) -> SchemaStatus:
        """Look at the next batch of documents of a pending migration, and note how far it is."""
        status = await self.record()
        record = await self._record() or {}
        walk = record.get("walk") or {}
        at, after = _whole(walk, "step"), walk.get("after")
        if not status.pending or at >= len(self._steps):
            return await self._end(status, walk)
        collection, filter, stages = self._steps[at]
        beyond: Document = {} if after is None else {"$expr": {"$gt": ["$_id", {"$literal": after}]}}
        ids = await collection.find_ids(beyond, sort=[("_id", 1)], hint=BY_ID, limit=_BATCH)
        changed = await self._change(collection, ids, filter, stages) if ids else 0
        noted = {
            "step": at if ids else at + 1,
            "after": ids[-1] if ids else None,
            "seen": _whole(walk, "seen") + len(ids),
            "changed": _whole(walk, "changed") + changed,
            "alone": walk.get("alone", not walk) is True and not status.earlier_workers,
        }
        return await self._note(noted)

    async def _note(self, walk: Document) -> SchemaStatus:
        await self._connection.locks.update_one({"_id": SCHEMA}, {"$set": {"walk": walk}})
        return await self.status()

    async def _end(self, status: SchemaStatus, walk: Mapping[str, Any]) -> SchemaStatus:
        """Raise the version when no earlier worker is alive; then the earlier indexes are dropped, too. What earlier
        workers have written behind a walk is found by another walk."""
        if not status.pending or status.earlier_workers:
            return status
        if walk.get("alone") is not True:
            return await self._note({"changed": _whole(walk, "changed"), "alone": True})
        for suffix, names in EARLIER_INDEXES.items():
            await self._drop(self._connection.jobs if not suffix else self._connection.gates, names)
        raised = {"version": CURRENT, "minimum": OLDEST_READER, "at": self._now()}
        await self._connection.locks.update_one({"_id": SCHEMA}, {"$set": raised})
        return await self.status()

    async def _change(self, collection: Collection, ids: Sequence[Any], filter: Document, stages: Any) -> int:
        if not ids:
            return 0
        changed = await collection.update_many({**filter, "_id": {"$in": list(ids)}}, stages, hint=BY_ID)
        return changed.modified_count

    async def _record(self) -> Document | None:
        return await self._connection.locks.find_one({"_id": SCHEMA})

    async def _counted(self, status: SchemaStatus) -> SchemaStatus:
        """The status with the number of documents and the earlier workers, where something is pending."""
        if not status.pending:
            return status
        with self._connection.deadline():
            total = sum([await step[0].raw.estimated_document_count() for step in self._steps])
        return replace(status, total=max(total, status.seen), earlier_workers=tuple(await self._earlier_workers()))

    async def _earlier_workers(self) -> list[str]:
        found = await self._connection.workers.find_all(
            {"lease_until": {"$gt": self._now()}, "schema": {"$not": {"$gte": CURRENT}}},
            {"_id": 1},
            hint=BY_ID,
            limit=_BATCH,
        )
        return sorted(str(one["_id"]) for one in found)

    async def _has_earlier(self) -> bool:
        """Whether the collection has an index that only the first version needs."""
        present = await self._connection.indexes.names(self._connection.jobs)
        return _HELD in present

    async def _drop(self, collection: Collection, names: Sequence[str]) -> None:
        for name in names:
            try:
                with collection.deadline():
                    await collection.raw.drop_index(name)
            except OperationFailure as error:
                if error.code not in _GONE:
                    raise

    def _now(self) -> Any:
        return truncate(self._connection.clock.now())


def _whole(document: Mapping[str, Any], key: str, usual: int = 0) -> int:
    """A whole number of a record; the usual one where another program has written something else."""
    value = document.get(key) if isinstance(document, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else usual
