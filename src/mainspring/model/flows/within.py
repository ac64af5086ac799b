"""Flows as a key with a scope may see them: nodes and jobs out of its scope do not show. Pure.

The root decides whether a flow is visible. Its graph and the errors of its members may name nodes that are out of the
scope: they are left out, and texts that may be about them are replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mainspring.model.access.api_keys import Scope
from mainspring.model.fields import Fields
from mainspring.model.flows.flow import FlowNode
from mainspring.model.flows.graph import Graph, Node
from mainspring.model.jobs.job import DEFAULT_QUEUE
from mainspring.model.jobs.reserved_names import MAP

CAUSED = "A job that it depends on ended badly, or was skipped."
"""In place of the error of a job that was cancelled or skipped because of another one."""
ENDED_BADLY = "Some of its jobs ended badly."
"""In place of the error of a flow that may name jobs out of the scope."""
_WAITS = "It waits for other jobs."


def graph_within(scope: Scope, graph: Graph) -> Graph:
    """The nodes of a graph that are within a scope, and the edges among them."""
    if scope.everything:
        return graph
    nodes = [node for node in graph.nodes if _is_node_within(scope, node)]
    known = {node.name for node in nodes}
    return Graph(tuple(replace(node, after=tuple(one for one in node.after if one in known)) for node in nodes))


def nodes_within(graph: Graph, nodes: Sequence[FlowNode], reached: Collection[str]) -> tuple[FlowNode, ...]:
    """The nodes of a flow as a key with a scope sees them. `graph` is the whole one; `reached` has the ids of the jobs
    within the scope, of those that decided the ends of others."""
    waits_for = {node.name: len(node.after) for node in graph.nodes}
    return tuple(_node(node, waits_for.get(node.name, 0) > len(node.after), reached) for node in nodes)


def _node(node: FlowNode, cut: bool, reached: Collection[str]) -> FlowNode:
    changes: Fields = {}
    if cut and node.holding is not None and node.state is not None:
        changes["holding"] = _WAITS
    if node.because is not None or node.skipped:
        changes |= {"error": CAUSED, "because": node.because if node.because in reached else None}
    return replace(node, **changes) if changes else node


def data_within(scope: Scope, data: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """The data of the root of a declared flow without the nodes out of a scope, and whether there are such nodes, or
    it is not known."""
    nodes = data.get("nodes")
    if not isinstance(nodes, list):
        return data, True
    kept = [one for one in nodes if isinstance(one, Mapping) and _is_within(scope, one)]
    if len(kept) == len(nodes):
        return data, False
    names = {one.get("name") for one in kept}
    return {**data, "nodes": [_without_others(one, names) for one in kept]}, True


def callbacks_within(scope: Scope, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data of the root of a batch without the callbacks out of a scope."""
    callbacks = data.get("callbacks")
    if not isinstance(callbacks, Mapping):
        return data
    kept = {key: one for key, one in callbacks.items() if _is_callback_within(scope, one)}
    return {**data, "callbacks": kept}


def _is_callback_within(scope: Scope, callback: Any) -> bool:
    if not isinstance(callback, Mapping) or not isinstance(callback.get("options"), Mapping):
        return False
    queue, name = callback["options"].get("queue", DEFAULT_QUEUE), callback.get("job")
    return isinstance(queue, str) and isinstance(name, str) and scope.allows(queue, name)


def _without_others(node: Mapping[str, Any], names: Collection[Any]) -> Fields:
    """A node of the stored graph without the nodes that are left out."""
    kept = dict(node)
    if isinstance(kept.get("after"), list):
        kept["after"] = [one for one in kept["after"] if one in names]
    if isinstance(kept.get("fills"), list):
        kept["fills"] = [one for one in kept["fills"] if isinstance(one, Mapping) and one.get("node") in names]
    over = kept.get("over")
    if isinstance(over, Mapping) and over.get("node") not in (None, *names):
        kept["over"] = {key: value for key, value in over.items() if key not in ("node", "path")}
    return kept


def _is_within(scope: Scope, document: Mapping[str, Any]) -> bool:
    try:
        return _is_node_within(scope, Node.from_document(document))
    except (KeyError, TypeError, AttributeError):
        return False


def _is_node_within(scope: Scope, node: Node) -> bool:
    queue = node.options.get("queue", DEFAULT_QUEUE)
    names = (node.job,) if node.over is None else (node.job, MAP)
    return isinstance(queue, str) and all(isinstance(name, str) and scope.allows(queue, name) for name in names)
