"""Reading flows: their roots in pages, and how many of their jobs are in which state, by node.

A count looks at a bounded number of index keys, however large the flow is. The index `flow` has the jobs of a flow by
state and node: a node with more jobs than a look takes is skipped over, and its number is a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mainspring.model.access.api_keys import Scope
from mainspring.model.jobs.job import STATES
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.reach import both, reached
from mainspring.store.schema import BY_ID, FLOW, ROOTS
from mainspring.store.views.search import Searching, Stretch
from mainspring.store.views.walks import Walk

MOST_KEYS = 2_000
"""The most index keys that one count looks at."""
_LOOK = 250
_LISTED = {"result": 0, "log": 0, "attempts": 0, "data.nodes": 0}
_BY_NODE = [("flow", 1), ("state", 1), ("node", 1), ("_id", 1)]


@dataclass(slots=True)
class NodeCounts:
    """The number of jobs by node and state; a number in `capped` is a lower bound."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    capped: set[tuple[str, str]] = field(default_factory=set)
    complete: bool = True
    """False where some nodes were not looked at."""

    def add(self, node: str, state: str, number: int) -> None:
        of_node = self.counts.setdefault(node, {})
        of_node[state] = of_node.get(state, 0) + number


@dataclass(slots=True)
class Looked:
    """Some jobs of a flow, with few of their fields. Of a node and state in `capped`, there are more."""

    documents: list[Document] = field(default_factory=list)
    capped: set[tuple[str, str]] = field(default_factory=set)
    complete: bool = True
    """False where some nodes were not looked at."""

    def counts(self, scope: Scope) -> NodeCounts:
        """The number of those within a scope, by node and state."""
        found = NodeCounts(complete=self.complete)
        for one in self.documents:
            if is_within(one, scope):
                found.add(one.get("node") or "", one["state"], 1)
        found.capped = {(node, state) for node, state in self.capped if state in found.counts.get(node, ())}
        return found


class FlowReads:
    """The store's reads of flows."""

    def __init__(self, connection: Connection, searching: Searching) -> None:
        self._connection = connection
        self._searching = searching

    async def get(self, flow_id: str, scope: Scope) -> Document | None:
        return await self._connection.jobs.find_one({"_id": document_id(flow_id), **reached(scope)}, hint=BY_ID)

    async def members(self, ids: Sequence[str]) -> dict[DocumentId, Document]:
        """The nodes of a declared flow, without their data and results."""
        fields = {"data": 0, "result": 0, "steps": 0, "log": 0, "attempts": 0, "refs": 0}
        return await self._connection.jobs.find_dict({"_id": {"$in": list(ids)}}, fields, hint=BY_ID)

    async def page(
        self, limit: int, after: tuple[Any, ...], scope: Scope, label: str | None, state: str | None
    ) -> Stretch:
        """The roots of flows, the newest first, at a bounded cost: where few match, the page is short. The name of a
        flow without a label, which a handler makes, is that of its job."""
        wanted: Document = {} if label is None else _named(label)
        if state is not None:
            wanted["state"] = state
        walk = Walk(ROOTS, {"root": True}, ("created_at", "_id"), wanted=both(wanted, reached(scope)))
        return await self._searching.read_exact(walk, after, limit, _LISTED)

    async def look(self, flow_id: str, *fields: str, most: int = MOST_KEYS) -> Looked:
        """Some jobs of a flow, of all its nodes and states, with these fields beside those that scopes need. Bounded as
        `count` is."""
        found, keys = Looked(), most
        shown = dict.fromkeys(("state", "node", "name", "queue", *fields), 1)
        for state in STATES:
            keys = await self._look_at_state({"flow": flow_id, "state": state}, shown, found, keys)
        return found

    async def _look_at_state(self, fixed: Document, fields: dict[str, int], found: Looked, keys: int) -> int:
        """Read jobs in one state, node after node; returns how many keys may still be looked at."""
        after: Document = {}
        while keys > 0:
            look = min(_LOOK, keys)
            documents = await self._connection.jobs.find_all(
                {**fixed, **after}, fields, sort=_BY_NODE, hint=FLOW, limit=look
            )
            keys -= max(1, len(documents))
            if len(documents) < look:
                found.documents += documents
                return keys
            first, last = (documents[place].get("node") or "" for place in (0, -1))
            if first == last:  # this node alone fills a look
                found.documents += documents
                found.capped.add((last, fixed["state"]))
                after = {"node": {"$gt": last}}
                continue
            found.documents += [one for one in documents if (one.get("node") or "") != last]
            after = {"node": {"$gte": last}}  # it may have been cut
        found.complete = False
        return 0

    async def count(self, flow_id: str, *, exact: bool = False, most: int = MOST_KEYS) -> NodeCounts:
        """How many jobs of a flow are in which state, by node. At most so many keys are looked at, or all."""
        found = NodeCounts()
        if exact:
            for one in await self._grouped({"flow": flow_id}, None):
                found.add(one["_id"]["node"] or "", one["_id"]["state"], one["n"])
            return found
        keys = most
        for state in STATES:
            keys = await self._count_state(flow_id, state, found, keys)
        return found

    async def total(self, flow_id: str, node: str) -> int:
        """The number of jobs of one node. It reads as many keys."""
        ranges = [{"flow": flow_id, "state": state, "node": node} for state in STATES]
        return sum([await self._connection.jobs.count(one, hint=FLOW) for one in ranges])

    async def _count_state(self, flow_id: str, state: str, found: NodeCounts, keys: int) -> int:
        """Count the jobs in one state, node after node; returns how many keys may still be looked at."""
        after: Document = {}
        while keys > 0:
            look = min(_LOOK, keys)
            groups = await self._grouped({"flow": flow_id, "state": state, **after}, look)
            groups.sort(key=lambda one: one["_id"]["node"] or "")
            looked = sum(one["n"] for one in groups)
            keys -= max(1, looked)
            if looked < look:
                for one in groups:
                    found.add(one["_id"]["node"] or "", state, one["n"])
                return keys
            last = groups[-1]["_id"]["node"] or ""
            if len(groups) == 1:  # this node alone fills a look
                found.add(last, state, groups[0]["n"])
                found.capped.add((last, state))
                after = {"node": {"$gt": last}}
                continue
            for one in groups[:-1]:
                found.add(one["_id"]["node"] or "", state, one["n"])
            after = {"node": {"$gte": last}}  # it may have been cut
        found.complete = False
        return 0

    async def _grouped(self, filter: Document, limit: int | None) -> list[Document]:
        stages: list[Document] = [{"$match": filter}]
        if limit is not None:
            stages += [{"$sort": {"flow": 1, "state": 1, "node": 1, "_id": 1}}, {"$limit": limit}]
        stages += [
            {"$project": {"_id": 0, "state": 1, "node": 1}},
            {"$group": {"_id": {"node": "$node", "state": "$state"}, "n": {"$sum": 1}}},
        ]
        return await self._connection.jobs.aggregate(stages, hint=FLOW)


def is_within(document: Document, scope: Scope) -> bool:
    """Whether a job is within a scope, by its queue and name."""
    queue, name = document.get("queue"), document.get("name")
    return scope.everything or (isinstance(queue, str) and isinstance(name, str) and scope.allows(queue, name))


def _named(name: str) -> Document:
    """The flows of a name: that of the flow, or of the job whose handler makes it."""
    return {"$or": [{"label": name}, {"label": None, "name": name}]}
