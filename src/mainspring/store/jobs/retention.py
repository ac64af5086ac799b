"""Deleting finished jobs: finding the jobs that have been kept long enough, and the one statement that deletes them.

Called by the pruner, and by redrives that discard dead letters. Keeps true: a job is deleted only as it was read. A job
that was run again since then has another `rev`, and stays. Every verb does a bounded piece of work along an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pymongo import DeleteMany

from mainspring.clock import truncate
from mainspring.model.jobs.job import FAILED, FINISHED
from mainspring.model.jobs.retention import Retention, Share
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.index_definitions import RETENTION_INDEXES
from mainspring.store.schema import BY_ID, FINISHED_INDEX, KEPT_BY_NAME, KEPT_BY_QUEUE

# A process that was held up may insert the job of a firing that another process inserted long ago: its id must still
# exist then.
_FIRING_KEPT = timedelta(minutes=10)
_TICK = timedelta(milliseconds=1)
_NEEDED = ("state", "name", "queue", "finished_at", "rev", "dedupe_until", "schedule_id", "v", "mapped", "flow")


@dataclass(frozen=True, slots=True)
class Cut:
    """The end of a share: jobs that ended up to `through` are deleted, except the `spared` jobs of that instant."""

    through: datetime
    spared: frozenset[DocumentId] = field(default_factory=frozenset)

    def spares(self, document: Document) -> bool:
        """Whether a finished job of the share is spared."""
        return document["finished_at"] == self.through and document["_id"] in self.spared


class Removal:
    """The store's verbs for deleting finished jobs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._made: set[str] = set()

    async def make_indexes(self, shares: Sequence[Share]) -> None:
        """Create the indexes that only these shares need. It may take long where many jobs are stored: there is no
        deadline."""
        wanted = {_index(share) for share in shares} - {FINISHED_INDEX} - self._made
        missing = [index for index in RETENTION_INDEXES if index.document["name"] in wanted]
        if missing:
            await self._connection.indexes.make(self._connection.jobs, missing)
            self._made |= wanted

    def forget_indexes(self) -> None:
        """Let the next call create the indexes again: they may have been dropped."""
        self._made.clear()

    async def cut(self, share: Share, retention: Retention) -> Cut | None:
        """The end of the share now; None when no job of it is to be deleted."""
        cuts = [self._cut_by_age(share), await self._cut_by_count(share, retention)]
        return max((cut for cut in cuts if cut is not None), key=lambda cut: cut.through, default=None)

    async def read(self, share: Share, since: datetime | None, through: datetime, limit: int) -> list[Document]:
        """Finished jobs of the share's scope, the oldest first; only the fields needed to judge and to delete them."""
        span: Document = {"$lte": through} if since is None else {"$gte": since, "$lte": through}
        return await self._connection.jobs.find_all(
            {**share.scope, "state": share.state, "finished_at": span},
            dict.fromkeys(_NEEDED, 1),
            sort=[("finished_at", 1)],
            hint=_index(share),
            limit=limit,
        )

    def may_go(self, document: Document) -> bool:
        """Whether nothing but its share keeps a job. A dedupe window in force keeps it, since a second `schedule()`
        returns it; so does a firing so recent that another process may still insert its job. A document without a
        layout is no job of Mainspring's, whatever its fields are called, and a job that was adopted through a field map
        belongs to another program."""
        if document.get("v") is None or "mapped" in document:
            return False
        now = self._connection.clock.now()
        window, ended = document.get("dedupe_until"), document["finished_at"]
        if isinstance(window, datetime) and window > now:
            return False
        return document.get("schedule_id") is None or ended < now - _FIRING_KEPT

    async def without_members(self, documents: Sequence[Document]) -> list[Document]:
        """These jobs without the members of flows whose roots have not ended, or have failed: their results may be read
        yet, by a root that goes on or is retried with its flow."""
        flows = {str(document["flow"]) for document in documents if "flow" in document}
        if not flows:
            return list(documents)
        roots = [document_id(one) for one in flows if one]
        over = [state for state in FINISHED if state != FAILED]
        going_on = await self._connection.jobs.find_ids({"_id": {"$in": roots}, "state": {"$nin": over}}, hint=BY_ID)
        kept = {str(one) for one in going_on}
        return [document for document in documents if str(document.get("flow")) not in kept]

    async def load(self, documents: Sequence[Document]) -> list[Document]:
        """The whole documents of these jobs, unless they are no longer finished."""
        ids = [document["_id"] for document in documents]
        return await self._connection.jobs.find_all({"_id": {"$in": ids}, "state": {"$in": list(FINISHED)}}, hint=BY_ID)

    async def remove(self, documents: Sequence[Document]) -> int:
        """Delete these finished jobs, each only if it is as it was read; `state` and `rev` are enough of it.

        Returns how many were deleted. After an error some may have been; repeating the call is safe.
        """
        statements = [DeleteMany({"_id": {"$in": ids}, **as_read}, hint=BY_ID) for as_read, ids in _alike(documents)]
        if not statements:
            return 0
        result = await self._connection.jobs.bulk_write(statements)
        return result.deleted_count

    def _cut_by_age(self, share: Share) -> Cut | None:
        if share.age is None:
            return None
        return Cut(truncate(self._connection.clock.now() - timedelta(seconds=share.age)) - _TICK)

    async def _cut_by_count(self, share: Share, retention: Retention) -> Cut | None:
        """The end of a share by count. Jobs that ended in the same millisecond count by their ids."""
        if share.count is None:
            return None
        ours: Document = {**share.scope, "state": share.state}
        others = list(retention.others_within(share))
        if others:
            ours["$nor"] = others
        jobs, hint = self._connection.jobs, _index(share)
        newest: Any = [("finished_at", -1)]
        with self._connection.deadline():
            found = await jobs.find_one(ours, {"_id": 0, "finished_at": 1}, sort=newest, skip=share.count, hint=hint)
            if found is None or not isinstance(found.get("finished_at"), datetime):
                return None
            at = found["finished_at"]
            newer = await jobs.count({**ours, "finished_at": {"$gt": at}}, hint=hint)
            room = share.count - newer
            if room <= 0:
                return Cut(at)
            same = await jobs.find_ids({**ours, "finished_at": at}, sort=[("_id", -1)], hint=hint, limit=room)
            return Cut(at, frozenset(same))


def _index(share: Share) -> str:
    if share.name is not None:
        return KEPT_BY_NAME
    return FINISHED_INDEX if share.queue is None else KEPT_BY_QUEUE


def _alike(documents: Sequence[Document]) -> list[tuple[Document, list[DocumentId]]]:
    """Groups of jobs: the state and revision that they must still have when they are deleted, and their ids."""
    groups: dict[tuple[str, str], tuple[Document, list[DocumentId]]] = {}
    for document in documents:
        state, rev = document["state"], document.get("rev")
        if state in FINISHED:
            group = groups.setdefault((state, repr(rev)), ({"state": state, "rev": rev}, []))
            group[1].append(document["_id"])
    return list(groups.values())
