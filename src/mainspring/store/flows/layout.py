"""Laying out the nodes of a declared flow: storing them so that none starts before those that it waits for have ended.

Keeps true: nodes that wait are stored first, not sealed, so that no check starts them; then the nodes that wait for
none; and the seal comes last, when every predecessor exists. Ids are computed, so that a worker that repeats this after
a crash stores what is missing and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mainspring.clock import truncate
from mainspring.model.flows.ids import wait_id
from mainspring.model.flows.waits import Predecessors, Waits
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.job import BLOCKED
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.flows.looks import first_look
from mainspring.store.jobs.insert import CHUNK, Inserts
from mainspring.store.schema import BUMP, BY_ID

AFTER = "after"
"""The name of the wait of a node."""


@dataclass(slots=True)
class LaidOut:
    """One node, as it is to be stored."""

    id: str
    node: str
    draft: Draft
    before: list[str]
    """The waits that it holds back."""
    when: str = "success"
    after: list[Document] = field(default_factory=list)
    """Its predecessors: the name and the job of each."""
    refs: list[Document] = field(default_factory=list)
    label: str | None = None
    known: list[Document] = field(default_factory=list)
    """Of a node that does not wait: predecessors that have ended, with their outcomes."""

    @property
    def wait(self) -> str:
        return wait_id(self.id, AFTER)


class Layouts:
    """The store's verbs for the nodes of declared flows."""

    def __init__(self, connection: Connection, inserts: Inserts) -> None:
        self._connection = connection
        self._inserts = inserts

    async def store(self, flow: str, parent: str, nodes: Sequence[LaidOut]) -> list[Document]:
        """Store the nodes of a flow; returns those that are new and may run at once. Repeating it is safe."""
        blocked = [node for node in nodes if node.after]
        entries = [node for node in nodes if not node.after]
        await self._insert([self._document(flow, parent, node) for node in blocked])
        fresh = await self._insert([self._document(flow, parent, node) for node in entries])
        await self._seal([node.id for node in blocked])
        return fresh

    async def ends(self, ids: Sequence[str]) -> dict[DocumentId, Document]:
        """How the nodes have ended, as far as they exist."""
        fields = {"state": 1, "error": 1, "because": 1, "node": 1}
        return await self._connection.jobs.find_dict({"_id": {"$in": list(ids)}}, fields, hint=BY_ID)

    async def results(self, ids: Sequence[DocumentId]) -> dict[DocumentId, Document]:
        """The ends and results of these jobs, as far as they exist."""
        fields = {"name": 1, "state": 1, "result": 1, "error": 1, "sealed": 1}
        return await self._connection.jobs.find_dict({"_id": {"$in": list(ids)}}, fields, hint=BY_ID)

    async def _insert(self, pairs: Sequence[tuple[Draft, Document]]) -> list[Document]:
        fresh = []
        for place in range(0, len(pairs), CHUNK):
            chunk = pairs[place : place + CHUNK]
            existing = set(await self._inserts.insert_under(chunk))
            fresh += [document for _, document in chunk if document["_id"] not in existing]
        return fresh

    def _document(self, flow: str, parent: str, node: LaidOut) -> tuple[Draft, Document]:
        # A node that waits joins its sequence when it is claimed: before that, it would hold up the nodes before it.
        draft = replace(node.draft, gates=(), seq=None) if node.after else node.draft
        document = self._inserts.document(draft)
        document |= {"_id": node.id, "parent_id": parent, "flow": flow, "node": node.node, "before": node.before}
        if node.label is not None:
            document["label"] = node.label
        if node.refs:
            document["refs"] = node.refs
        if node.after:
            now = truncate(self._connection.clock.now())
            waits = Waits((Predecessors(node.wait, len(node.after)),), since=now, when=node.when, sealed=False)
            document |= {"state": BLOCKED, "after": node.after, "waits": waits.to_document()}
            for key in ("ready", "start_by"):
                document.pop(key, None)
        elif node.known:
            document["after"] = node.known
        return draft, document

    async def _seal(self, ids: Sequence[str]) -> None:
        """Let checks start the nodes that wait: all their predecessors exist now."""
        if ids:
            look = first_look(self._connection.clock.expression())
            await self._connection.jobs.update_many(
                {"_id": {"$in": list(ids)}, "state": BLOCKED, "waits.sealed": False},
                [{"$set": {**BUMP, "waits.sealed": True, "check_at": look}}],
                hint=BY_ID,
            )
