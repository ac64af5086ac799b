"""`scheduler.flows`: jobs that wait for jobs, as a whole: looking at flows, cancelling them and retrying them.

A flow is a root job and the jobs below it: a declared flow, a batch, or a job whose handler has waited for children.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mainspring.client.core import Core
from mainspring.client.jobs import Jobs
from mainspring.config.checks import check_whole
from mainspring.errors import ConfigurationError, FlowNotFound, InvalidFlow, JobStateError
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.flows.flow import FlowFacts, FlowNode, Member, counted_nodes, declared_nodes, kind_of
from mainspring.model.flows.graph import Graph
from mainspring.model.flows.ids import child_prefix
from mainspring.model.flows.timeline import Timeline, TimelineRow, timeline_of
from mainspring.model.flows.waits import read_waits
from mainspring.model.flows.within import graph_within, nodes_within
from mainspring.model.jobs.job import BLOCKED, FAILED, STATES, Job, JobState
from mainspring.model.jobs.retry import Seconds
from mainspring.spelling import spelled_verbs
from mainspring.store.codec import decode_job, document_id
from mainspring.store.connection import Document
from mainspring.store.flows.batches import SEALED
from mainspring.store.flows.flow_reads import MOST_KEYS, NodeCounts, is_within
from mainspring.store.views.search import packed, unpacked

_CHARTED = ("label", "token", "created_at", "claimed_at", "finished_at", "waits", "attempts.started_at")
"""The fields of a job that its row in a chart needs."""


@dataclass(frozen=True)
class Flow(FlowFacts):
    """A flow as it was when it was read, with methods to manage it."""

    _verbs: Flows | None = field(default=None, repr=False, compare=False, kw_only=True)

    def _face(self) -> Flows:
        if self._verbs is None:
            raise ConfigurationError("This flow was not read from a Scheduler, so its methods cannot be used.")
        return self._verbs

    async def refresh(self, *, exact: bool = False) -> Flow:
        """Return the flow as it is now. With `exact`, all its jobs are counted."""
        return await self._face().get(self.id, exact=exact)

    async def wait(self, timeout: Seconds | None = None) -> Flow:
        """Wait until it has ended, in any state, and return it. Raise WaitTimeout."""
        return await self._face()._wait_for(self.id, timeout)

    async def cancel(self, reason: str = "") -> Flow:
        """Cancel it with all its jobs. Waiting jobs are cancelled at once; running jobs are asked to stop."""
        return await self._face().cancel(self.id, reason)

    async def retry(self) -> Flow:
        """Run its failed and expired jobs again, and the jobs that were cancelled because of them."""
        return await self._face().retry(self.id)


@spelled_verbs
class Flows:
    """The verbs for flows."""

    def __init__(self, core: Core, jobs: Jobs) -> None:
        self._core = core
        self._jobs = jobs

    async def get(self, flow_id: str, *, exact: bool = False, scope: Scope = EVERYTHING) -> Flow:
        """Return a flow with its nodes: the state of each, the number of jobs below it by state, and what it waits for.

        The cost is bounded: at most 2,000 jobs are read or counted, so a number may be a lower bound (`at_least`). With
        `exact`, all jobs are counted. Raise FlowNotFound if there is no such flow within the `scope`.
        """
        store, root = await self._core.store(), await self._root(flow_id, scope)
        flow, graph = self._read(root), self._graph(root)
        most = MOST_KEYS - (0 if graph is None else len(graph.nodes))  # each node is read, too
        if scope.everything:
            counts = await store.flow_reads.count(flow.id, exact=exact, most=most)
        else:  # an index cannot tell which jobs are within a scope
            counts = (await store.flow_reads.look(flow.id, most=most)).counts(scope)
        if graph is None:
            capped = {node for node, _ in counts.capped}
            return replace(flow, nodes=counted_nodes(counts.counts, capped), complete=counts.complete)
        seen = graph_within(scope, graph)
        members = await store.flow_reads.members([child_prefix(flow.id, node.name) for node in seen.nodes])
        nodes = self._nodes(flow.id, seen, members, counts)
        if not scope.everything:
            causes = {document_id(node.because) for node in nodes if node.because is not None}
            reached = {one for one in causes if one in members and is_within(members[one], scope)}
            reached |= set(await store.jobs.existing_among(list(causes - members.keys()), scope))
            nodes = nodes_within(graph, nodes, {str(one) for one in reached})
        return replace(flow, nodes=nodes, edges=seen.edges, complete=counts.complete)

    async def all(
        self,
        limit: int = 100,
        *,
        name: str | None = None,
        state: JobState | None = None,
        after: Flow | None = None,
        scope: Scope = EVERYTHING,
    ) -> list[Flow]:
        """Return the latest flows, newest first, without their nodes. For the next page, pass the last flow as `after`.
        `name` and `state` are filters. If fewer than `limit` flows match, this searches all flows, in portions of
        bounded cost."""
        check_whole(limit, "limit", 1, 10_000)
        place = () if after is None else (after.created_at, document_id(after.id))
        found: list[Flow] = []
        async for flow in self._walk(limit, place, scope, name, state):
            found.append(flow)
            if len(found) == limit:
                break
        return found

    async def find(self, *, name: str | None = None, state: JobState | None = None) -> AsyncIterator[Flow]:
        """Iterate over the flows that match, the newest first, without their nodes."""
        async for flow in self._walk(100, (), EVERYTHING, name, state):
            yield flow

    async def cancel(self, flow_id: str, reason: str = "") -> Flow:
        """Cancel a flow with all its jobs, including jobs that are stored later. Waiting jobs are cancelled at once;
        running jobs are asked to stop, and their workers receive the request within two seconds. A flow that has ended
        stays as it is."""
        await self.get(flow_id)
        await self._jobs.cancel(flow_id, reason)
        return await self.get(flow_id)

    async def retry(self, flow_id: str) -> Flow:
        """Run the failed and expired jobs of a flow again, and the jobs that were cancelled because of them. Nothing
        else runs again: completed jobs keep their results. The flow must have failed or still be running."""
        flow = await self.get(flow_id)
        if flow.finished and flow.state != FAILED:
            raise JobStateError(flow_id, flow.state, "retry of a flow", "failed and live", "Start a new flow instead.")
        store = await self._core.store()
        waits = await store.flow_retries.retry(document_id(flow.id))
        if waits:
            await self._jobs.check_waits(store, sorted(waits))
        self._core.worker.wake()
        return await self.get(flow_id)

    def _started(self, job: Job, graph: Graph) -> Flow:
        """A flow that was just started, or that has the same dedupe key."""
        flow = self._flow(job, {})
        if job.deduplicated:
            return replace(flow, deduplicated=True)
        nodes = declared_nodes(graph, _ids(job.id, graph), {}, {}, set(), self._core.link.clock.now())
        return replace(flow, nodes=nodes, edges=graph.edges)

    def _read(self, root: Document) -> Flow:
        """The flow of a root, without its nodes."""
        return self._flow(self._jobs.decode(root), root)

    async def _root(self, flow_id: str, scope: Scope) -> Document:
        """The root of a flow within a scope. Raises FlowNotFound."""
        root = await (await self._core.store()).flow_reads.get(_id(flow_id), scope)
        if root is None:
            raise FlowNotFound(flow_id)
        if root.get("root") is not True:
            raise FlowNotFound(flow_id, _no_flow(root))
        return root

    # -- reading ---------------------------------------------------------------------------------------------------

    async def _wait_for(self, flow_id: str, timeout: Seconds | None) -> Flow:
        await self._jobs.wait(flow_id, timeout)
        return await self.get(flow_id)

    async def _walk(
        self, limit: int, place: tuple[Any, ...], scope: Scope, name: str | None, state: str | None
    ) -> AsyncIterator[Flow]:
        """The flows behind a place that match, read in pages of up to `limit`."""
        if state is not None and state not in STATES:
            raise ConfigurationError(f"There is no state {state!r}; a flow is {', '.join(STATES)}.")
        store = await self._core.store()
        while True:
            page = await store.flow_reads.page(limit, place, scope, name, state)
            for document in page.documents:
                yield self._read(document)
            if page.rest is None:
                return
            place = tuple(page.rest)

    def _flow(self, job: Job, root: Mapping[str, Any]) -> Flow:
        graph = self._graph(root) if root else None
        return Flow(
            id=job.id,
            name=job.label or job.name,
            kind=kind_of(job),
            state=job.state,
            queue=job.queue,
            created_at=job.created_at,
            data=_shown(job.data.get("data")) if kind_of(job) == "declared" else job.data,
            edges=() if graph is None else graph.edges,
            started_at=job.started_at or (job.attempts[0].started_at if job.attempts else None),
            finished_at=job.finished_at,
            error=None if job.error is None else str(job.error),
            because=job.because,
            cancel_requested=job.cancel_requested,
            aborted=_is_aborted(job, root.get("waits")),
            deduplicated=job.deduplicated,
            _verbs=self,
        )

    def _graph(self, root: Mapping[str, Any]) -> Graph | None:
        """The graph of a declared flow; None of another flow, or where this process lacks the key."""
        job = self._jobs.decode(dict(root))
        nodes = job.data.get("nodes") if kind_of(job) == "declared" else None
        try:
            return Graph.from_document(nodes) if isinstance(nodes, list) else None
        except InvalidFlow:
            return None

    def _nodes(
        self, flow_id: str, graph: Graph, documents: Mapping[Any, Document], counts: NodeCounts
    ) -> tuple[FlowNode, ...]:
        ids = _ids(flow_id, graph)
        members = {name: _member(documents[one]) for name, one in ids.items() if one in documents}
        capped = {node for node, _ in counts.capped}
        return declared_nodes(graph, ids, members, counts.counts, capped, self._core.link.clock.now())


def flow_of(flows: Flows, root: Document) -> Flow:
    """The flow of a root, without its nodes; for other parts of the Scheduler."""
    return flows._read(root)


def started_flow(flows: Flows, job: Job, graph: Graph) -> Flow:
    """A flow that was just started; for other parts of the Scheduler."""
    return flows._started(job, graph)


async def page_of(
    flows: Flows, limit: int, after: str | None, scope: Scope, name: str | None, state: str | None
) -> tuple[list[Flow], str | None]:
    """A page of flows, the newest first, and the cursor of the next one; for the service. Its cost is bounded: where
    few match, it is short."""
    place = () if after is None else tuple(unpacked(after)["place"])
    store = await flows._core.store()
    found = await store.flow_reads.page(limit, place, scope, name, state)
    listed = [flows._read(document) for document in found.documents]
    return listed, None if found.rest is None else packed({"place": list(found.rest)})


async def chart_of(flows: Flows, flow_id: str, scope: Scope) -> Timeline:
    """The jobs of a flow within the scope over time; for the service. No job is counted. Raises FlowNotFound."""
    await flows._root(flow_id, scope)
    looked = await (await flows._core.store()).flow_reads.look(flow_id, *_CHARTED)
    bars = [_bar(document) for document in looked.documents if is_within(document, scope)]
    return timeline_of(bars, looked.complete and not looked.capped)


def _ids(flow_id: str, graph: Graph) -> dict[str, str]:
    return {node.name: child_prefix(flow_id, node.name) for node in graph.nodes}


def _member(document: Document) -> Member:
    """A node's job. It has started where a worker first claimed it, as in the chart."""
    job, waits = decode_job(document), read_waits(document.get("waits"))
    started: datetime | None = job.started_at or (job.attempts[0].started_at if job.attempts else None)
    if started is None and job.token > 0:
        started = waits.since if waits is not None else job.created_at
    return Member(
        job.state,
        None if job.error is None else job.error.type,
        None if job.error is None else str(job.error),
        job.because,
        started,
        job.finished_at,
        sum(one.total for one in waits.on) if waits is not None else 0,
        tuple(waits.signals) if waits is not None else (),
    )


def _bar(document: Document) -> TimelineRow:
    """A job as a row of a chart. It has started where a worker has claimed it; a job that waits keeps no start, so that
    its wait stands for it. A worker knows the time by an estimate, which may be ahead of the server's own."""
    attempts = document.get("attempts") or [{}]
    waits, started = read_waits(document.get("waits")), attempts[0].get("started_at") or document.get("claimed_at")
    if started is None and document.get("token"):
        started = waits.since if waits is not None else document.get("created_at")
    name = document.get("label") or document["name"]
    node, state = document.get("node") or "", document["state"]
    ended = document.get("finished_at")
    if ended is not None and started is not None:
        ended = max(started, ended)
    return TimelineRow(node, str(document["_id"]), name, state, 1, started, ended)


def _is_aborted(job: Job, waits: Any) -> bool:
    """Whether the process that stored the jobs of a batch died: the sweep notes it in the wait, and the root in a
    step, since its later waits replace that one."""
    if isinstance(waits, Mapping) and waits.get("aborted") is True:
        return True
    kept = next((step.result for step in job.steps if step.name == SEALED), None)
    return kind_of(job) == "batch" and isinstance(kept, Mapping) and kept.get("aborted") is True


def _shown(data: Any) -> Mapping[str, Any]:
    return data if isinstance(data, Mapping) else {}


def _no_flow(document: Document) -> str:
    """What the job is that is not a flow, what its handler waits for, and the commands that tell more."""
    flow, waits = document.get("flow"), read_waits(document.get("waits"))
    told = "the job with this id has made no children."
    if isinstance(flow, str):
        told = f"the job with this id is a part of the flow {flow!r}."
    job_id = shlex.quote(str(document["_id"]))
    signals = waits.signals if waits is not None and document.get("state") == BLOCKED else ()
    if signals:
        names = " or ".join(map(repr, signals))
        told += f" Its handler waits for the signal {names}; mainspring flows signal {job_id} "
        told += f"{shlex.quote(signals[0]) if len(signals) == 1 else 'NAME'} sends it."
    return f"{told} mainspring jobs explain {job_id} shows the job."


def _id(flow_id: object) -> str:
    if not isinstance(flow_id, str) or not flow_id:
        raise ConfigurationError(f"A flow's id is a non-empty text, not {flow_id!r}.")
    return flow_id
