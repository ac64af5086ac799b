"""Which jobs an operation means: how many, and some of them, at a bounded cost.

The same walks along indexes as for a search are counted, one behind the other, until so many keys were examined. What
an index cannot tell is compared with the jobs themselves, each of which costs a second key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mainspring.model.operations.operations import SAMPLED, Order
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.reach import reached
from mainspring.store.schema import BY_ID, LEASE
from mainspring.store.views.search import Walk, walks_of

EXAMINED = 10_000
"""How many keys are examined at most, and hence how far is counted."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The jobs that are meant: how many, at least so many where `capped`, and the first of them."""

    count: int
    capped: bool
    sample: list[Document]


class Preview:
    """The store's verb for looking ahead at what an operation would do."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def count(self, order: Order) -> Counted:
        """The jobs that an order means now."""
        if order.ids is not None:
            return await self._count_named(order, order.ids)
        walks = [walk for state in order.states for walk in walks_of(order.search_in(state))]
        return await self._count_walks(walks)

    async def _count_named(self, order: Order, ids: Sequence[str]) -> Counted:
        named = [document_id(one) for one in ids]
        there = set(await self._connection.jobs.find_ids({"_id": {"$in": named}, **reached(order.scope)}, hint=BY_ID))
        return Counted(len(there), False, await self._sample([one for one in named if one in there][:SAMPLED]))

    async def _count_walks(self, walks: Sequence[Walk]) -> Counted:
        count, left, found = 0, EXAMINED, list[DocumentId]()
        for walk in walks:
            cost = 2 if walk.wanted else 1
            room = left // cost
            entries = await self._connection.jobs.count(walk.entries, hint=walk.index, limit=room + 1)
            if entries and room:
                matched, some = await self._match(walk, min(entries, room), SAMPLED - len(found))
                count, found = count + matched, found + some
            if entries > room:
                return Counted(count, True, await self._sample(found))
            left -= entries * cost
        return Counted(count, False, await self._sample(found))

    async def _match(self, walk: Walk, entries: int, sampled: int) -> tuple[int, list[DocumentId]]:
        """How many of the first so many entries match, and the ids of some of these."""
        sort = None if walk.index == LEASE else walk.sort  # running jobs have no order in their index
        if not walk.wanted:
            if not sampled:
                return entries, []
            some = await self._connection.jobs.find_ids(walk.entries, sort=sort, hint=walk.index, limit=sampled)
            return entries, some
        first: list[Document] = [] if sort is None else [{"$sort": dict(sort)}]
        parts: Document = {"matched": [{"$count": "count"}]}
        if sampled:
            parts["some"] = [{"$limit": sampled}, {"$project": {"_id": 1}}]
        stages = [{"$match": walk.entries}, *first, {"$limit": entries}, {"$match": walk.wanted}, {"$facet": parts}]
        (found,) = await self._connection.jobs.aggregate(stages, hint=walk.index)
        matched: list[Any] = found["matched"]
        return (matched[0]["count"] if matched else 0), [one["_id"] for one in found.get("some", ())]

    async def _sample(self, ids: Sequence[DocumentId]) -> list[Document]:
        """The jobs that have these ids, as far as they are still there."""
        found = await self._connection.jobs.find_all({"_id": {"$in": list(ids)}}, hint=BY_ID) if ids else []
        return sorted(found, key=lambda document: ids.index(document["_id"]))
