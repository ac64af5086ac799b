"""Reading flows: their roots in pages, and how many of their jobs are in which state, by node.

A count looks at a bounded number of index keys, however large the flow is. The index `flow_ended` has the ended jobs of
a flow by state and node, the index `flow` the others by node; the state of these is read from the jobs, the oldest
first. A node with more jobs than a look takes is skipped over, and its numbers are lower bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.jobs.job import FINISHED, PENDING, RUNNING
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.flows.tree import live_members
from mainspring.store.reach import both, reached
from mainspring.store.schema import BY_ID, FLOW, FLOW_ENDED, LEASE, ROOTS
from mainspring.store.views.search import Searching, Stretch
from mainspring.store.views.walks import Walk

MOST_KEYS = 2_000
"""The most index keys that one count looks at."""
_LOOK = 250
_LISTED = {"result": 0, "log": 0, "attempts": 0, "data.nodes": 0}
_LARGE_IN_ATTEMPTS = ("attempts.error", "attempts.log")


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


@dataclass(frozen=True, slots=True)
class _Part:
    """The jobs of a flow that are in one index, or in one state of it, in the order of its keys."""

    hint: str
    filter: Document
    keys: tuple[str, ...]


class FlowReads:
    """The store's reads of flows."""

    def __init__(self, connection: Connection, searching: Searching) -> None:
        self._connection = connection
        self._searching = searching

    async def get(self, flow_id: str, scope: Scope) -> Document | None:
        return await self._connection.jobs.find_one({"_id": document_id(flow_id), **reached(scope)}, hint=BY_ID)

    async def members(self, ids: Sequence[str]) -> dict[DocumentId, Document]:
        """The nodes of a declared flow, without their data and results. Of their attempts, only the times are read."""
        fields = dict.fromkeys(("data", "result", "steps", "log", "refs", *_LARGE_IN_ATTEMPTS), 0)
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
        for part in (_live(flow_id), *_ended(flow_id)):
            keys = await self._look_at(part, fields, found, keys)
        return found

    async def _look_at(self, part: _Part, fields: Sequence[str], found: Looked, keys: int) -> int:
        """Read jobs of a part, node after node; returns how many keys may still be looked at."""
        after: Document = {}
        while keys > 0:
            look = min(_LOOK, keys)
            documents = await self._read(part, {**part.filter, **after}, fields, look)
            keys -= max(1, len(documents))
            if len(documents) < look:
                found.documents += documents
                return keys
            first, last = (documents[place].get("node") or "" for place in (0, -1))
            if first == last:  # this node alone fills a look
                if part.hint == FLOW:
                    keys -= await self._look_further(part, last, fields, documents)
                found.documents += documents
                found.capped |= {(last, one["state"]) for one in documents}
                after = {"node": {"$gt": last}}
                continue
            found.documents += [one for one in documents if (one.get("node") or "") != last]
            after = {"node": {"$gte": last}}  # it may have been cut
        found.complete = False
        return 0

    async def _look_further(self, part: _Part, node: str, fields: Sequence[str], documents: list[Document]) -> int:
        """Add to the oldest live jobs of a node some that run, and some of the youngest, where the oldest are all in
        other states; returns how many keys were looked at. Jobs run in the order of their ids, but for those that wait
        for another attempt."""
        states, of_node = {one["state"] for one in documents}, {**part.filter, "node": node}
        more: list[Document] = []
        if RUNNING not in states:
            running = {"state": RUNNING}
            stages: list[Document] = [{"$match": running}, {"$sort": {"state": 1, "lease_until": 1}}, {"$limit": _LOOK}]
            stages += [{"$match": {**of_node, **running}}, {"$project": _projection(fields)}]
            more += await self._connection.jobs.aggregate(stages, hint=LEASE)
        if PENDING not in states:
            more += await self._read(part, of_node, fields, _LOOK, order=-1)
        known = {one["_id"] for one in documents}
        documents += [one for one in more if one["_id"] not in known]
        return _LOOK * len({RUNNING, PENDING} - states)

    async def _read(
        self, part: _Part, filter: Document, fields: Sequence[str], limit: int, *, order: int = 1
    ) -> list[Document]:
        sort = [(key, order) for key in part.keys]
        return await self._connection.jobs.find_all(filter, _projection(fields), sort=sort, hint=part.hint, limit=limit)

    async def count(self, flow_id: str, *, exact: bool = False, most: int = MOST_KEYS) -> NodeCounts:
        """How many jobs of a flow are in which state, by node. At most so many keys are looked at, or all."""
        if exact:
            found = NodeCounts()
            # Ended jobs come first: one that ends meanwhile is not counted twice.
            for part in (*_ended(flow_id), _live(flow_id)):
                for one in await self._grouped(part, part.filter, None):
                    found.add(one["_id"]["node"] or "", one["_id"]["state"], one["n"])
            return found
        looked = Looked()
        keys = await self._look_at(_live(flow_id), (), looked, most)
        found = looked.counts(EVERYTHING)
        for part in _ended(flow_id):
            keys = await self._count(part, found, keys)
        return found

    async def total(self, flow_id: str, node: str) -> int:
        """The number of jobs of one node. It reads as many keys."""
        parts = (*_ended(flow_id), _live(flow_id))
        return sum([await self._connection.jobs.count({**one.filter, "node": node}, hint=one.hint) for one in parts])

    async def _count(self, part: _Part, found: NodeCounts, keys: int) -> int:
        """Count the jobs of a part, node after node, in the index alone; returns how many keys may still be looked
        at."""
        state, after = part.filter["state"], Document()
        while keys > 0:
            look = min(_LOOK, keys)
            groups = await self._grouped(part, {**part.filter, **after}, look)
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

    async def _grouped(self, part: _Part, filter: Document, limit: int | None) -> list[Document]:
        stages: list[Document] = [{"$match": filter}]
        if limit is not None:
            stages += [{"$sort": dict.fromkeys(part.keys, 1)}, {"$limit": limit}]
        stages += [
            {"$project": {"_id": 0, "state": 1, "node": 1}},
            {"$group": {"_id": {"node": "$node", "state": "$state"}, "n": {"$sum": 1}}},
        ]
        return await self._connection.jobs.aggregate(stages, hint=part.hint)


def _live(flow_id: str) -> _Part:
    return _Part(FLOW, live_members(flow_id), ("flow", "node", "_id"))


def _ended(flow_id: str) -> list[_Part]:
    keys = ("flow", "state", "node", "_id")
    return [_Part(FLOW_ENDED, {"flow": flow_id, "state": state}, keys) for state in FINISHED]


def _projection(fields: Sequence[str]) -> dict[str, int]:
    """What is read of a job: these fields, and those that scopes need."""
    return dict.fromkeys(("state", "node", "name", "queue", *fields), 1)


def is_within(document: Document, scope: Scope) -> bool:
    """Whether a job is within a scope, by its queue and name."""
    queue, name = document.get("queue"), document.get("name")
    return scope.everything or (isinstance(queue, str) and isinstance(name, str) and scope.allows(queue, name))


def _named(name: str) -> Document:
    """The flows of a name: that of the flow, or of the job whose handler makes it."""
    return {"$or": [{"label": name}, {"label": None, "name": name}]}
