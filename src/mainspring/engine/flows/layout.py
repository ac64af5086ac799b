"""The worker's side of the roots of declared flows and batches: stores their nodes, and reads how these have ended.

One `Layout` serves one attempt at a root. The ids of nodes are computed from the root's id and their names, so that a
root that is run again finds the nodes that it has stored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from mainspring.engine.flows.children import Children
from mainspring.engine.flows.verbs import Asked, Begun, Settled
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.model.fields import Fields
from mainspring.model.flows.graph import Graph, Node
from mainspring.model.flows.ids import child_prefix, wait_id
from mainspring.model.flows.verdict import NodeEnd
from mainspring.model.flows.waits import read_waits
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.reserved_names import MAP
from mainspring.model.jobs.retry import Retry
from mainspring.store import Store
from mainspring.store.codec import error_text
from mainspring.store.connection import Document
from mainspring.store.flows.batches import ITEMS, family_of
from mainspring.store.flows.layout import AFTER, LaidOut

DraftNode = Callable[[str, Mapping[str, Any], Fields, frozenset[str]], Awaitable[Draft]]
"""Makes a checked draft of a node: its job's name, data and options, and the arguments that are filled in later."""
_SKIPPED = "Skipped"
_DELETED = "deleted"


class Layout:
    """The nodes of one root."""

    def __init__(
        self,
        claimed: ClaimedJob,
        store: Store,
        children: Children,
        draft: DraftNode,
        made: Callable[[list[Document]], None],
    ) -> None:
        self._claimed = claimed
        self._store = store
        self._children = children
        self._draft = draft
        self._made = made

    @property
    def _root(self) -> str:
        return str(self._claimed.id)

    def _id(self, node: str) -> str:
        return child_prefix(self._root, node)

    async def begin(self, wait: str) -> Begun:
        """Whether the nodes of a wait are known to exist."""
        return await self._children.begin(wait)

    async def settle(self, asked: Sequence[Asked]) -> list[Settled] | None:
        """The ends of waits; None where one is not over, and the root is suspended."""
        return await self._children.settle(asked)

    # -- flows -----------------------------------------------------------------------------------------------------

    async def lay_out(self, graph: Graph, wait: str) -> bool:
        """Store the nodes of a flow, and start those that wait for none. Returns True: the root has to wait."""
        self._claimed.made_children()
        followers = graph.followers
        nodes = [await self._laid_out(node, followers[node.name], wait) for node in graph.nodes]
        flow = self._claimed.job.document.get("flow")
        await self._store_nodes(nodes, flow if isinstance(flow, str) else self._root)
        return True

    async def _store_nodes(self, nodes: Sequence[LaidOut], flow: str) -> None:
        fresh = await self._children.store_between(
            lambda: self._store.layouts.store(flow, self._root, nodes), [node.id for node in nodes]
        )
        # A node that waits for none may have ended before the others were sealed, and its check found nothing.
        waits = [node.wait for node in nodes if node.after]
        while waits:
            checked = await self._children._insist(partial(self._store.checks.check, waits))
            waits = sorted(checked.again)
        self._made(fresh)

    async def _laid_out(self, node: Node, followers: Sequence[str], wait: str) -> LaidOut:
        refs: list[Fields] = [fill.to_document() for fill in node.fills]
        if node.over is not None:
            draft = await self._draft_of_map(node)
            refs = [{**ref, "at": ["data", *ref["at"]]} for ref in refs]
            if node.over.node is not None:
                refs.append({"at": ["items"], "node": node.over.node, "path": list(node.over.path)})
        else:
            later = frozenset(str(fill.at[0]) for fill in node.fills)
            draft = await self._draft(node.job, node.data, restored_options(node.options), later)
        return LaidOut(
            id=self._id(node.name),
            node=node.name,
            draft=draft,
            before=[*(wait_id(self._id(name), AFTER) for name in followers), wait_id(self._root, wait)],
            when=node.when,
            after=[{"node": name, "job": self._id(name)} for name in node.after],
            refs=[{**ref, "job": self._id(ref["node"])} for ref in refs],
            label=node.name if node.over is not None else None,
        )

    async def _draft_of_map(self, node: Node) -> Draft:
        over = node.over
        assert over is not None
        items = None if over.items is None else list(over.items)
        data = {"job": node.job, "items": items, "data": node.data, "item": over.item, **over.policy}
        data["options"] = dict(node.options)
        options = {key: node.options[key] for key in ("queue", "priority", "tags") if key in node.options}
        if node.secret:
            options["encrypt"] = ["items", "data"]
        return await self._draft(MAP, data, options, frozenset())

    async def ends(self, graph: Graph) -> list[NodeEnd]:
        """How the nodes of a flow have ended."""
        ids = [self._id(node.name) for node in graph.nodes]
        found = await self._children._insist(lambda: self._store.layouts.ends(ids))
        return [_end(node.name, found.get(one)) for node, one in zip(graph.nodes, ids, strict=True)]

    def of_added(self, graph: Graph, errors: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Of the errors of jobs, by id, those of jobs that are no nodes: a node has added them."""
        nodes = {self._id(node.name) for node in graph.nodes}
        return [one for one in errors if one[0] not in nodes]

    # -- batches ---------------------------------------------------------------------------------------------------

    async def sealed_batch(self) -> Fields:
        """How many jobs a batch has, and whether the process that stored them died before the last one."""
        document = self._claimed.job.document
        waits, stored = read_waits(document.get("waits")), document.get("waits")
        aborted = isinstance(stored, Mapping) and stored.get("aborted") is True
        total = waits.on[0].total if waits is not None and waits.on else 0
        if aborted:
            total = await self._children._insist(lambda: self._store.flow_reads.total(self._root, ITEMS))
        return {"total": total, "aborted": aborted}

    async def call_back(self, wait: str, due: Mapping[str, Any], summary: Mapping[str, Any], *, failed: bool) -> bool:
        """Store callbacks of a batch; returns whether the root has to wait for them."""
        if (await self.begin(wait)).sealed:
            return False
        self._claimed.made_children()
        known = [{"node": ITEMS, "job": self._root, "state": "failed" if failed else "completed", "result": summary}]
        nodes = []
        for name, callback in due.items():
            node = f"{name}-after-failure" if failed and name == "on_done" else name
            options = restored_options(callback.get("options") or {})
            draft = await self._draft(callback["job"], callback.get("data") or {}, options, frozenset())
            nodes.append(LaidOut(self._id(node), node, draft, [wait_id(self._root, wait)], known=known))
        await self._store_nodes(nodes, family_of(self._root).flow)
        return True


def restored_options(stored: Mapping[str, Any]) -> Fields:
    """The options of a node's job, as `schedule()` takes them, from the form in which they are stored."""
    options = dict(stored)
    if isinstance(options.get("retry"), Mapping):
        options["retry"] = Retry.from_document(options["retry"])
    return options


def _end(name: str, document: Document | None) -> NodeEnd:
    if document is None:
        return NodeEnd(name, _DELETED)
    error, because = document.get("error"), document.get("because")
    skipped = isinstance(error, Mapping) and error.get("type") == _SKIPPED
    return NodeEnd(name, document["state"], error_text(error), skipped, because if isinstance(because, str) else None)
