"""Which jobs an operation means: how many, and some of them, at a bounded cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mainspring.model.operations.operations import SAMPLED, Order
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.reach import reached
from mainspring.store.schema import BY_ID
from mainspring.store.views.counts import Counts
from mainspring.store.views.walks import walks_of


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
        self._counts = Counts(connection)

    async def count(self, order: Order) -> Counted:
        """The jobs that an order means now."""
        if order.ids is not None:
            return await self._count_named(order, order.ids)
        walks = [walk for state in order.states for walk in walks_of(order.search_in(state))]
        counted = await self._counts.along(walks, sampled=SAMPLED)
        return Counted(counted.count, counted.capped, await self._sample(counted.first))

    async def _count_named(self, order: Order, ids: Sequence[str]) -> Counted:
        named = [document_id(one) for one in ids]
        there = set(await self._connection.jobs.find_ids({"_id": {"$in": named}, **reached(order.scope)}, hint=BY_ID))
        return Counted(len(there), False, await self._sample([one for one in named if one in there][:SAMPLED]))

    async def _sample(self, ids: Sequence[DocumentId]) -> list[Document]:
        """The jobs that have these ids, as far as they are still there."""
        found = await self._connection.jobs.find_all({"_id": {"$in": list(ids)}}, hint=BY_ID) if ids else []
        return sorted(found, key=lambda document: ids.index(document["_id"]))
