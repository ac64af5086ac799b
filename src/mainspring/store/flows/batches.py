"""Batches: a root that waits while its jobs are streamed in, and is sealed when the last one is stored.

Keeps true: the root is not sealed before its last job is stored, so that no check ends it early. The process that
streams renews `check_at`; when it dies, the sweep finds the root after that time, seals it as it is, and marks it as
aborted. A process that was declared dead and goes on finds that its root is sealed, and stores no more jobs.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring.clock import truncate
from mainspring.model.flows.family import Family
from mainspring.model.flows.waits import Predecessors, Waits
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.job import BLOCKED
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.flows.looks import first_look
from mainspring.store.jobs.insert import Inserts
from mainspring.store.schema import BUMP, BY_ID

ITEMS = "items"
"""The name of the wait of a batch for its jobs, and of the node that they belong to."""
SEALED = "sealed"
"""The step in which the root of a batch keeps how many jobs there are, and whether they are all."""
STREAM_LEASE = 60.0
"""The seconds after which a batch whose process does not renew it is given up; longer with slower operations."""


def family_of(root: str) -> Family:
    """The jobs of a batch."""
    return Family(parent=root, name=ITEMS, flow=root, node=ITEMS)


class Batches:
    """The store's verbs for batches."""

    def __init__(self, connection: Connection, inserts: Inserts) -> None:
        self._connection = connection
        self._inserts = inserts

    @property
    def _lease(self) -> float:
        return max(STREAM_LEASE, 4 * self._connection.settings.operation_timeout)

    async def open(self, draft: Draft, root_id: DocumentId | None) -> tuple[Document, bool]:
        """Store the root of a batch, blocked and not sealed; returns it, or the one that has this id, and whether it
        is new."""
        document = self._inserts.document(draft)
        if root_id is not None:
            document["_id"] = root_id
        now = truncate(self._connection.clock.now())
        on = Predecessors(family_of(str(document["_id"])).wait, 0)
        until = now + timedelta(seconds=self._lease)
        waits = Waits((on,), since=now, sealed=False).to_document()
        document |= {"state": BLOCKED, "waits": waits, "check_at": until, "spawned": True}
        for key in ("ready", "start_by"):
            document.pop(key, None)
        existing = await self._inserts.insert_under([(draft, document)])
        if not existing:
            return document, True
        return await self.get(existing[0]) or document, False

    async def get(self, root_id: DocumentId) -> Document | None:
        return await self._connection.jobs.find_one({"_id": root_id}, hint=BY_ID)

    async def renew(self, root_id: DocumentId) -> bool:
        """Keep a batch open while its jobs are stored; returns whether it is."""
        until = {"$add": [self._connection.clock.expression(), int(self._lease * 1000)]}
        return await self._change(root_id, {"check_at": until})

    async def seal(self, root_id: DocumentId, total: int, tolerate: int) -> bool:
        """Note that all jobs of a batch are stored; returns whether it was open."""
        look = first_look(self._connection.clock.expression())
        sealed = {"waits.sealed": True, "waits.total": [total], "waits.tolerate": [tolerate], "check_at": look}
        return await self._change(root_id, sealed)

    async def _change(self, root_id: DocumentId, fields: Document) -> bool:
        done = await self._connection.jobs.update_one(
            {"_id": root_id, "state": BLOCKED, "waits.sealed": False}, [{"$set": {**BUMP, **fields}}], hint=BY_ID
        )
        return done.matched_count > 0
