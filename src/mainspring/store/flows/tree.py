"""Whole trees: cancelling the jobs below a job.

A cancelled job that has made children has the mark `cancel_tree`: its handlers make no more, and the sweep repeats the
cancellation for longer than one operation lasts, so that children that were being stored are cancelled, too.
The jobs below a root are found by their field `flow`; those below another job level by level, by the waits that they
hold back. Both ways read live jobs only, in bounded passes. A pass that is interrupted is repeated by any later call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from mainspring.model.flows.ids import waits_of
from mainspring.model.jobs.job import BLOCKED, PENDING, RUNNING
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.edit import cancel_stages
from mainspring.store.refusals import change_jobs
from mainspring.store.schema import BEFORE, BY_ID, FLOW, NOT_ENDED

WITH_PARENT = "The job that waited for it was cancelled."
_BATCH = 1000
_WATCHED = 60.0
"""For how many seconds the sweep repeats a cancellation; longer with slower operations."""
_FOUND = {"state": 1, "before": 1, "spawned": 1}


@dataclass(slots=True)
class CancelledTree:
    """The jobs that a cancellation has ended, how many running ones were asked to stop, and the waits that the ended
    ones held back."""

    ended: list[DocumentId] = field(default_factory=list)
    asked: int = 0
    waits: set[str] = field(default_factory=set)


class Trees:
    """The store's verbs for whole trees."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def cancel_below(self, job: Document, reason: str) -> CancelledTree:
        """Cancel the live jobs below a job: those that wait at once, those that run by a request."""
        tree = CancelledTree()
        if isinstance(job.get("flow"), str):
            await self._cancel_levels([str(job["_id"])], reason, None, tree)
        else:
            await self._cancel_found(live_members(str(job["_id"])), FLOW, reason, None, tree)
        return tree

    async def carry_on(self, job: Document) -> CancelledTree:
        """Repeat the cancellation that a mark asks for, and forget about it when its time is over."""
        mark = job["cancel_tree"]
        reason, at = mark.get("reason"), mark.get("at")
        tree = await self.cancel_below(job, reason if isinstance(reason, str) and reason else WITH_PARENT)
        watched = timedelta(seconds=max(_WATCHED, 4 * self._connection.settings.operation_timeout))
        if not tree.ended and not tree.asked and at + watched < self._connection.clock.now():
            await self._connection.jobs.update_one(
                {"_id": job["_id"], "cancel_tree.at": at, "retry_tree": None}, {"$unset": {"check_at": ""}}, hint=BY_ID
            )
        return tree

    async def cancel_predecessors(self, wait: str, reason: str, because: str | None = None) -> CancelledTree:
        """Cancel the live predecessors of a wait, and the jobs below them."""
        tree = CancelledTree()
        live = {"before": wait, "state": {"$in": list(NOT_ENDED)}}
        parents = await self._cancel_found(live, BEFORE, reason, because, tree)
        await self._cancel_levels(parents, reason, because, tree)
        return tree

    async def _cancel_levels(
        self, parents: Sequence[str], reason: str, because: str | None, tree: CancelledTree
    ) -> None:
        """Cancel the children of these jobs, then their children, and so on."""
        todo = list(parents)
        while todo:
            todo += await self._cancel_found(live_children(todo.pop()), BEFORE, reason, because, tree)

    async def _cancel_found(
        self, filter: Document, hint: str, reason: str, because: str | None, tree: CancelledTree
    ) -> list[str]:
        """Cancel all jobs that match; returns those that may have children: they have made some, or run."""
        parents: list[str] = []
        asked: set[DocumentId] = set()
        while True:
            more = {**filter, "cancel": None}  # a running job that was asked to stop is not asked again
            found = await self._connection.jobs.find_all(more, _FOUND, hint=hint, limit=_BATCH)
            fresh = [document for document in found if document["_id"] not in asked]
            if not fresh:
                return parents
            await self._cancel([document["_id"] for document in fresh], reason, because)
            for document in fresh:
                asked.add(document["_id"])
                _note(document, tree, parents)

    async def _cancel(self, ids: list[DocumentId], reason: str, because: str | None) -> None:
        now, mirror = self._connection.clock.expression(), self._connection.mirror
        stages = cancel_stages(now, reason, because)
        live = {"state": {"$in": [PENDING, BLOCKED, RUNNING]}}
        await change_jobs(
            self._connection.jobs, ids, lambda some: mirror.update({**some, **live}, stages), "cannot be cancelled"
        )


def live_members(root_id: str) -> Document:
    """The filter for the live jobs below a root, for the index FLOW."""
    return {"flow": root_id, "state": {"$in": list(NOT_ENDED)}}


def live_children(parent_id: str) -> Document:
    """The filter for the live jobs for which a job waits, for the index BEFORE."""
    low, high = waits_of(parent_id)
    # The bounds are of one element: a job may hold back several waits. An id may contain a "#"; the name of a wait does
    # not.
    own = {"$gt": low, "$lt": high, "$regex": f"^{re.escape(low)}[^#]*$"}
    return {"before": {"$elemMatch": own}, "state": {"$in": list(NOT_ENDED)}}


def _note(document: Document, tree: CancelledTree, parents: list[str]) -> None:
    if document["state"] == RUNNING:
        tree.asked += 1
    else:
        tree.ended.append(document["_id"])
        tree.waits |= set(document.get("before") or ())
    if document["state"] == RUNNING or document.get("spawned"):
        parents.append(str(document["_id"]))
