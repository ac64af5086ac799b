"""Retrying a flow: its failed and expired members run again, and those that were cancelled because of them wait again.

Keeps true: a member is put back only after the members that it waits for. Those that failed come first; then the `rev`
of the jobs that wait for them is raised, so that a check misses that has read a failure; then those that were cancelled
because of them, not sealed, so that no check ends them by the state of another that is still to be put back; then
members that have made children, the deepest first; then all are sealed; the root comes last. The root has the mark
`retry_tree` meanwhile, so that the sweep carries on what a process that dies has left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from mainspring.clock import truncate
from mainspring.errors import InvalidJob, JobStateError
from mainspring.model.flows.decide import SKIPPED
from mainspring.model.jobs.job import BLOCKED, CANCELLED, EXPIRED, FAILED
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.flows.looks import first_look
from mainspring.store.flows.waiters import predecessors_again
from mainspring.store.jobs.edit import Jobs, again_stages
from mainspring.store.refusals import change_jobs
from mainspring.store.schema import BADLY_ENDED, BUMP, BY_ID, FLOW, FLOW_ENDED

_BATCH = 1000
_CARRIED_ON = 30.0
"""After how many seconds the sweep carries on a retry, whose process must have died."""
# There is no "/" in the name of a declared node. Of the items of map nodes, only the keys of the index are read.
_A_NODE = {"$regex": "^[^/]+$"}
_GONE = dict.fromkeys(("finished_at", "error", "because", "fingerprint", "cancel_tree"), "$$REMOVE")


@dataclass(slots=True)
class _PassedOver:
    """The members that stay as they are: those that cannot be changed, and those of causes that stand."""

    ids: list[DocumentId] = field(default_factory=list)
    causes: set[str] = field(default_factory=set)

    def filter(self, among: Document) -> Document:
        """The addition to a filter that leaves them out."""
        more: Document = {"_id": {"$nin": self.ids}}
        if "because" in among:
            more["because"] = {**among["because"], "$nin": list(self.causes)}
        return more


class FlowRetries:
    """The store's verbs that run the bad ends of a flow again."""

    def __init__(self, connection: Connection, jobs: Jobs) -> None:
        self._connection = connection
        self._jobs = jobs

    async def retry(self, root_id: DocumentId) -> set[str]:
        """Put the members of a flow back that ended badly, and its root if it failed; returns the waits to be checked.
        Members that fail during this stay as they are."""
        until = await self._latest_end(root_id, truncate(self._connection.clock.now()))
        look = {"$add": [self._connection.clock.expression(), int(_CARRIED_ON * 1000)]}
        await self._connection.jobs.update_one(
            {"_id": root_id}, [{"$set": {"retry_tree": {"at": until}, "check_at": look}}], hint=BY_ID
        )
        return await self._put_all_back(root_id, until)

    async def _latest_end(self, root_id: DocumentId, now: datetime) -> datetime:
        """Now, or the time of a bad end that is stored with a later one: the clock of this process may be behind that
        of the server that has stored it, such as after a failover."""
        later = {"finished_at": {"$gt": now}}
        bad, caused = bad_members(str(root_id))
        latest = now
        for among, hint in (({"_id": root_id}, BY_ID), (bad, FLOW_ENDED), (caused, FLOW_ENDED)):
            found = await self._connection.jobs.find_all(
                {**among, **later}, {"finished_at": 1}, sort=[("finished_at", -1)], hint=hint, limit=1
            )
            latest = max([latest, *(one["finished_at"] for one in found)])
        return latest

    async def carry_on(self, root: Document) -> set[str]:
        """Finish a retry that another process has left half-way; returns the waits to be checked."""
        try:
            return await self._put_all_back(root["_id"], root["retry_tree"]["at"])
        except InvalidJob:  # the root cannot run again
            await self._forget(root["_id"], root["retry_tree"]["at"])
            return set()

    async def _put_all_back(self, root_id: DocumentId, until: datetime) -> set[str]:
        flow_id = str(root_id)
        bad, caused = bad_members(flow_id)
        bad = {**bad, "finished_at": {"$lte": until}}
        nodes = {**caused, "waits.when": {"$exists": True}}
        others = {**caused, "waits.when": {"$exists": False}, "finished_at": {"$lte": until}}
        parents = [{**bad, "spawned": True}, {**others, "spawned": True}]
        bad, others = {**bad, "spawned": {"$ne": True}}, {**others, "spawned": {"$ne": True}}
        await predecessors_again(self._connection, await self._put_back(bad, self._again()))
        # Also where none was put back just now: a process that died may have put back these and no others.
        await self._put_caused_back(nodes, others)
        refused: list[DocumentId] = []
        while await self._put_deepest_back(parents, refused):
            await self._put_caused_back(nodes, others)
        waits = await self._seal(flow_id)
        root = await self._jobs.get(root_id)
        if root["state"] == FAILED and root["finished_at"] <= until:
            # Another process that carries this retry on may have run it again; since then it may even have failed.
            with suppress(JobStateError):
                await self._jobs.retry(root_id, ended_by=until)
        await self._forget(root_id, until)
        return waits

    async def _put_caused_back(self, nodes: Document, others: Document) -> None:
        """Put members back that were cancelled because of members that were put back, until there are no more."""
        while held := await self._put_back(nodes, self._blocked()) | await self._put_back(others, self._again()):
            await predecessors_again(self._connection, held)

    def _again(self) -> list[Document]:
        return again_stages(self._connection.clock.expression())

    def _blocked(self) -> list[Document]:
        """The update that lets a node wait again. It has no time for a look of the sweep while it is not sealed."""
        fields = {**BUMP, **_GONE, "state": BLOCKED, "tries": 0, "check_at": "$$REMOVE"}
        waits = {"since": self._connection.clock.expression(), "sealed": False, "retried": True, "deleted": "$$REMOVE"}
        return [{"$set": {**fields, **{f"waits.{key}": value for key, value in waits.items()}}}]

    async def _put_back(self, filter: Document, stages: list[Document]) -> set[str]:
        """Change the members that match, in batches; returns the waits that they hold back."""
        held: set[str] = set()
        passed = _PassedOver()
        while found := await self._find(filter, passed):
            held |= await self._change(found, filter, stages, passed)
        return held

    async def _put_deepest_back(self, filters: Sequence[Document], refused: list[DocumentId]) -> bool:
        """Put members back that have made children, those that lie deepest below the root; returns whether there were
        any. Their children come first: such a member judges the ends of its children as soon as it runs."""
        passed = _PassedOver(refused)
        found = [await self._find(filter, passed) for filter in filters]
        deepest = max((_depth(one) for some in found for one in some), default=0)
        for filter, some in zip(filters, found, strict=True):
            chosen = [one for one in some if _depth(one) == deepest]
            held = await self._change(chosen, filter, self._again(), passed)
            await predecessors_again(self._connection, held)
        return any(found)

    async def _find(self, filter: Document, passed: _PassedOver) -> list[Document]:
        """The next members that match and may be put back. The node of a child begins with that of its parent, so that
        the order has children before their parents."""
        while True:
            found = await self._connection.jobs.find_all(
                {**filter, **passed.filter(filter)},
                {"before": 1, "because": 1, "node": 1},
                sort=[("node", -1), ("_id", -1)],
                hint=FLOW_ENDED,
                limit=_BATCH,
            )
            if not found or "because" not in filter:
                return found
            passed.causes |= await self._ended_badly({one["because"] for one in found})
            found = [one for one in found if one["because"] not in passed.causes]
            if found:
                return found

    async def _ended_badly(self, causes: Iterable[str]) -> set[str]:
        """The jobs among these that have ended badly still, such as one that was cancelled by hand, or are gone."""
        ids = {document_id(one): one for one in causes if isinstance(one, str)}
        well = {"_id": {"$in": list(ids)}, "state": {"$nin": list(BADLY_ENDED)}}
        found = await self._connection.jobs.find_ids(well, hint=BY_ID) if ids else []
        return set(ids.values()) - {ids[one] for one in found}

    async def _change(
        self, members: Sequence[Document], filter: Document, stages: list[Document], passed: _PassedOver
    ) -> set[str]:
        """Change these members; returns the waits that they hold back. Refused ones are passed over, and so are all
        where none was changed: they would be found again and again."""
        mirror = self._connection.mirror
        changed, refused = await change_jobs(
            self._connection.jobs,
            [one["_id"] for one in members],
            lambda some: mirror.update({**some, "state": filter["state"]}, stages),
            "cannot be retried with its flow",
        )
        passed.ids += list(refused) if changed else [one["_id"] for one in members]
        return {wait for one in members if one["_id"] not in refused for wait in one.get("before") or ()}

    async def _seal(self, flow_id: str) -> set[str]:
        """Seal the nodes that were put back; those that are being laid out have other predecessors to come."""
        put_back = {"flow": flow_id, "state": BLOCKED, "node": _A_NODE, "waits.retried": True}
        found = await self._connection.jobs.find_all(put_back, {"waits.ids": 1}, hint=FLOW)
        if found:
            look = first_look(self._connection.clock.expression())
            sealed = {"waits.sealed": True, "waits.retried": "$$REMOVE", "check_at": look}
            await change_jobs(
                self._connection.jobs,
                [document["_id"] for document in found],
                lambda some: ({**some, "state": BLOCKED, "waits.retried": True}, [{"$set": {**BUMP, **sealed}}]),
                "cannot wait again in its flow",
            )
        return {one for document in found for one in _wait_ids(document)}

    async def _forget(self, root_id: DocumentId, at: datetime) -> None:
        """Remove the mark of this retry, and the time of the look that belongs to it. The mark of a later retry stays:
        its process may die."""
        soon = first_look(self._connection.clock.expression())
        look = {"$cond": [{"$eq": ["$state", BLOCKED]}, soon, "$$REMOVE"]}
        await self._connection.jobs.update_one(
            {"_id": root_id, "retry_tree.at": at},
            [{"$set": {"retry_tree": "$$REMOVE", "check_at": look}}],
            hint=BY_ID,
        )


def bad_members(flow_id: str) -> tuple[Document, Document]:
    """The filters for the members that a retry runs again: those that ended badly, and those that were cancelled
    because of them; for the index FLOW_ENDED."""
    caused = {"flow": flow_id, "state": CANCELLED, "because": {"$exists": True}, "error.type": {"$ne": SKIPPED}}
    return {"flow": flow_id, "state": {"$in": [FAILED, EXPIRED]}}, caused


def _depth(document: Document) -> int:
    """How far a member lies below the root."""
    node = document.get("node")
    return node.count("/") if isinstance(node, str) else 0


def _wait_ids(document: Document) -> list[str]:
    waits = document.get("waits")
    return [one for one in waits.get("ids") or () if isinstance(one, str)] if isinstance(waits, Mapping) else []
