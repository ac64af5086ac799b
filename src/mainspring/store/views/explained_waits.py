"""The reads behind the explanation of a blocked job: how much is left of its waits.

Bounded: live and badly ended predecessors are counted up to a limit along the index `before`, in which completed ones
are not, and the oldest is found among a limited number of running ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.model.explain.facts import Count, WaitFacts, WaitingFacts
from mainspring.model.flows.waits import Predecessors, read_waits
from mainspring.model.jobs.job import BLOCKED, RUNNING
from mainspring.store.codec import document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.schema import BADLY_ENDED, BEFORE, BEFORE_BADLY, BY_ID, NOT_ENDED

_COUNTED = 10_000
_RUNNING_READ = 200
_SHOWN = 3


class ExplainedWaits:
    """The store's reads of waits."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def of(self, document: Document) -> WaitingFacts | None:
        """What a blocked job waits for; None of a job that is not blocked."""
        waits = read_waits(document.get("waits")) if document.get("state") == BLOCKED else None
        if waits is None:
            return None
        others = 0
        if waits.when is not None:
            on, others = await self._before_node(document)
        else:
            on = [await self._left(one.id.rpartition("#")[2], one) for one in waits.on]
        return WaitingFacts(
            tuple(on), waits.signals, waits.until, waits.since, waits.when, sealed=waits.sealed, others=others
        )

    async def _before_node(self, document: Document) -> tuple[list[WaitFacts], int]:
        """The nodes that a node waits for: the first of them with the jobs that they wait for themselves, and how many
        others there are."""
        after = [one for one in document.get("after") or () if isinstance(one, Mapping)]
        ids = {document_id(str(one["job"])): str(one["node"]) for one in after}
        live = await self._connection.jobs.find_all(
            {"_id": {"$in": list(ids)}, "state": {"$in": list(NOT_ENDED)}},
            {"state": 1, "claimed_at": 1, "waits": 1},
            hint=BY_ID,
        )
        shown = [await self._node(ids[one["_id"]], one) for one in live[:_SHOWN]]
        return shown, max(0, len(live) - _SHOWN)

    async def _node(self, name: str, document: Document) -> WaitFacts:
        waits = read_waits(document.get("waits"))
        if document["state"] == BLOCKED and waits is not None and waits.when is None and waits.on:
            return await self._left(name, waits.on[0])
        running = document["state"] == RUNNING
        return WaitFacts(
            name, 1, Count(1), running=int(running), oldest=document.get("claimed_at") if running else None
        )

    async def _left(self, name: str, one: Predecessors) -> WaitFacts:
        running = await self._connection.jobs.find_all(
            {"before": one.id, "state": RUNNING}, {"claimed_at": 1, "_id": 0}, hint=BEFORE, limit=_RUNNING_READ
        )
        since = [document["claimed_at"] for document in running if document.get("claimed_at") is not None]
        return WaitFacts(
            name,
            one.total,
            await self._count(one.id, NOT_ENDED, BEFORE),
            await self._count(one.id, BADLY_ENDED, BEFORE_BADLY),
            len(running),
            min(since, default=None),
        )

    async def _count(self, wait: str, states: Sequence[str], index: str) -> Count:
        filter: Document = {"before": wait, "state": {"$in": list(states)}}
        number = await self._connection.jobs.count(filter, hint=index, limit=_COUNTED + 1)
        return Count(min(number, _COUNTED), over=number > _COUNTED)
