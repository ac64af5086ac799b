"""The handlers of the jobs that Mainspring runs itself: the root of a declared flow, a map node, the root of a batch.

Every worker has them. They wait as handlers of users do, so that a crash, a cancellation or a retry of a flow is that
of its root job: a root that is run again lays the same nodes out under the same ids, and waits again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from mainspring.engine.flows.layout import Layout, restored_options
from mainspring.engine.flows.verbs import Asked
from mainspring.engine.handler import Handler
from mainspring.engine.run.context import JobContext, agent_of
from mainspring.engine.run.context_backend import ContextBackend
from mainspring.errors import ConfigurationError, FlowFailed, StepError, Suspension
from mainspring.model.fields import Fields
from mainspring.model.flows.graph import Graph
from mainspring.model.flows.verdict import batch_verdict, flow_verdict
from mainspring.model.flows.waits import tolerated
from mainspring.model.jobs.reserved_names import BATCH, FLOW, MAP
from mainspring.model.jobs.retry import Retry
from mainspring.store.flows.batches import ITEMS, SEALED

NODES = "nodes"
"""The name of the wait of a flow for its nodes."""
# Errors of a root are those of the database: its nodes have retries of their own. Jobs that cannot be made are refused
# in the same way in each attempt, unless this worker lacks a key or a handler that another one has.
_RETRY = Retry(attempts=1_000, delay=1.0, max_delay=60.0, rules={ConfigurationError: Retry(attempts=5, delay=1.0)})


def builtin_handlers() -> dict[str, Handler]:
    """The handlers that every worker has, by name."""
    functions = {FLOW: run_flow, MAP: run_map, BATCH: run_batch}
    return {name: Handler(name, function, retry=_RETRY) for name, function in functions.items()}


def _backend(ctx: JobContext) -> ContextBackend:
    return cast("ContextBackend", agent_of(ctx))


async def run_flow(ctx: JobContext) -> Fields:
    """Lay the nodes of a flow out, wait for all of them, and judge their ends."""
    layout = _backend(ctx).layout
    graph = Graph.from_document(ctx.data.get("nodes") or [])
    fresh = False
    if not (await layout.begin(NODES)).sealed:
        fresh = await layout.lay_out(graph, NODES)
    total = len(graph.nodes)
    settled = await layout.settle([Asked(NODES, total, tolerate=total, fresh=fresh)])
    if settled is None:
        raise Suspension
    ends = await layout.ends(graph)
    verdict = flow_verdict(ends, settled[0].failed, layout.of_added(graph, settled[0].errors))
    if verdict is not None:
        raise FlowFailed(verdict)
    return {"nodes": total, "skipped": sum(end.skipped for end in ends)}


async def run_map(ctx: JobContext) -> Fields:
    """Make a job for each item of a map node, and wait for all of them."""
    spec = ctx.data
    results = await ctx.map(
        ITEMS,
        spec["job"],
        _items(spec),
        key=spec.get("key"),
        tolerate=spec.get("tolerate") or 0,
        fail_fast=bool(spec.get("fail_fast")),
        **restored_options(spec.get("options") or {}),
    )
    return {"total": len(results), "failed": results.failed}


def _items(spec: Mapping[str, Any]) -> Iterator[Fields]:
    """The data of the jobs of a map node."""
    items, common, argument = spec.get("items"), spec.get("data") or {}, spec.get("item")
    if not isinstance(items, Sequence) or isinstance(items, str | bytes):
        raise StepError(f"A map goes over a list of items, not {type(items).__name__}.")
    for place, item in enumerate(items):
        if argument is not None:
            yield {**common, argument: item}
        elif isinstance(item, Mapping):
            yield {**common, **item}
        else:
            raise StepError(
                f"Item {place:,} of the map is {type(item).__name__}, and an item is the data of its job; name the "
                "argument that gets it, as in flow.map(…, item='shard')."
            )


async def run_batch(ctx: JobContext) -> Fields:
    """Wait for the jobs of a batch, run its callbacks, and judge the ends."""
    layout = _backend(ctx).layout
    sealed = await ctx.step(SEALED, layout.sealed_batch)
    total = int(sealed["total"])
    settled = await layout.settle([Asked(ITEMS, total, tolerate=total, counted=True)])
    if settled is None:
        raise Suspension
    failed = settled[0].failed
    summary = {"total": total, "failed": failed, "aborted": sealed["aborted"]}
    bad = failed > tolerated(ctx.data.get("tolerate") or 0, total) or bool(sealed["aborted"])
    verdict = batch_verdict(summary, settled[0].errors) if bad else None
    callbacks = ctx.data.get("callbacks") or {}
    due = {name: callbacks[name] for name in ("on_failure" if bad else "on_success", "on_done") if name in callbacks}
    if due:
        await _call_back(layout, due, summary, verdict)
    if verdict is not None:
        raise FlowFailed(verdict)
    return summary


async def _call_back(layout: Layout, due: Mapping[str, Any], summary: Mapping[str, Any], verdict: str | None) -> None:
    """Run callbacks of a batch and wait for them. Those of a batch that failed have names of their own, since a retried
    batch may succeed."""
    wait = "callbacks" if verdict is None else "callbacks-after-failure"
    fresh = await layout.call_back(wait, due, summary, failed=verdict is not None)
    settled = await layout.settle([Asked(wait, len(due), tolerate=len(due), fresh=fresh)])
    if settled is None:
        raise Suspension
    if settled[0].failed:
        error = f"A callback of the batch ended badly: {settled[0].errors[0][0]}: {settled[0].errors[0][1]}"
        raise FlowFailed(f"{verdict or ''} {error}".strip())
