"""Declaring a flow: the builder that `scheduler.flow()` returns, and the handles of its nodes.

Nothing is sent before `start()`. The graph is checked as a whole then, and each node's data and options as `schedule()`
checks those of a job; an error names the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from mainspring.engine.handlers import Named
from mainspring.errors import ConfigurationError, InvalidFlow
from mainspring.model.flows.graph import Graph, MapOver, Node, When, check_node_name, numbered
from mainspring.model.flows.references import Fill, Path, Reference, copied, take_out
from mainspring.model.flows.waits import wrong_tolerance
from mainspring.model.jobs.options import TemplateOptions
from mainspring.spelling import spelled_verbs

if TYPE_CHECKING:
    from mainspring.client.flows.starts import FlowStarts
    from mainspring.client.namespaces.flows import Flow


class NodeHandle:
    """A node of a flow that is being declared: for `after=`, and for references to its result."""

    def __init__(self, name: str, builder: object) -> None:
        self.name = name
        self._builder = builder

    @property
    def result(self) -> Reference:
        """A reference to the node's result, for the data of a later node: `extract.result["path"]`. The value is filled
        in when the later node starts. The result of a map node has `total` and `failed`, the numbers of its jobs."""
        return Reference(self.name, (), self._builder)

    def __repr__(self) -> str:
        return f"<NodeHandle {self.name!r}>"


After = NodeHandle | str | Iterable[NodeHandle | str] | None
"""The nodes that a node waits for: handles or names."""


@spelled_verbs
class FlowBuilder:
    """A flow that is being declared. Nothing is stored before `start()`."""

    def __init__(
        self, starts: FlowStarts, name: str, data: Mapping[str, Any] | None, options: Mapping[str, Any]
    ) -> None:
        self._starts = starts
        self.name = name
        """The name of the flow."""
        self.data = dict(copied(data or {}))
        """Values that are kept with the flow."""
        self._options = dict(options)
        self._nodes: list[Node] = []

    def add(
        self,
        job: Named,
        data: Mapping[str, Any] | None = None,
        *,
        after: After = None,
        when: When = "success",
        name: str | None = None,
        **options: Unpack[TemplateOptions],
    ) -> NodeHandle:
        """Add a job that starts when the nodes in `after` have ended, and return its handle.

        With `when="success"` it runs if they all completed, and is cancelled if one did not. With "done" it runs in any
        case. With "failure" it runs if one of them ended badly, and is skipped otherwise. Its data may contain
        references to results of earlier nodes: `{"rows": extract.result["path"]}`. The handler finds its predecessors
        in `ctx.before`. `name` is the name of the node, by default that of its job. `options` are job options.
        """
        _check_order("add", job, data)
        return self._put(job, name, data, after, when, options, None)

    def map(
        self,
        job: Named,
        over: Reference | Sequence[Any],
        data: Mapping[str, Any] | None = None,
        *,
        item: str | None = None,
        key: str | None = None,
        tolerate: float = 0,
        fail_fast: bool = False,
        after: After = None,
        when: When = "success",
        name: str | None = None,
        **options: Unpack[TemplateOptions],
    ) -> NodeHandle:
        """Add a job for each item of a list. Pass the list, or a reference to the result of an earlier node.

        An item is the data of its job, in addition to `data`; with `item`, it is the argument of that name. With `key`,
        the name of a field, a job is identified by the key of its item instead of its position. The node fails if more
        jobs than `tolerate`, a number or a fraction of them, end badly; with `fail_fast` at once, and the others are
        cancelled.
        """
        _check_order("map", job, over)
        if isinstance(over, Reference):
            self._check_reference(over)
            spec = MapOver(None, over.node, over.path, item, key, tolerate, fail_fast)
        elif isinstance(over, Sequence) and not isinstance(over, str | bytes):
            _refuse_references(over)
            spec = MapOver(tuple(copied(over)), None, (), item, key, tolerate, fail_fast)
        else:
            raise InvalidFlow(
                f"over must be a list, or a reference such as extract.result['shards'], not {over!r:.100}."
            )
        _check_policy(spec)
        return self._put(job, name, data, after, when, options, spec)

    async def start(self, *, session: Any = None) -> Flow:
        """Store the flow and return it. When this returns, the flow survives the loss of any one node of the replica
        set, and the workers run it to its end. With `session`, the flow exists if and only if your transaction
        commits."""
        return await self._starts.start(self, session)

    @property
    def graph(self) -> Graph:
        """The checked graph. Raise InvalidFlow if it is invalid."""
        return Graph.of(self._nodes)

    @property
    def options(self) -> dict[str, Any]:
        """The options of the flow."""
        return dict(self._options)

    def _put(
        self,
        job: Named,
        name: str | None,
        data: Mapping[str, Any] | None,
        after: After,
        when: str,
        options: Mapping[str, Any],
        over: MapOver | None,
    ) -> NodeHandle:
        job_name = self._starts.named(job)
        taken = [node.name for node in self._nodes]
        chosen = numbered(job_name, taken) if name is None else check_node_name(name)
        if chosen in taken:
            raise InvalidFlow(f"The flow already has a node {chosen!r}; give this one another name with name=….")
        given = {key: value for key, value in options.items() if value is not None}
        without, found = take_out(data)
        for at, reference in found:
            self._check_reference(reference)
            _check_place(at)
        fills = tuple(Fill(at, reference.node, reference.path) for at, reference in found)
        self._nodes.append(Node(chosen, job_name, without or {}, fills, self._names(after), when, given, over))
        return NodeHandle(chosen, self)

    def _names(self, after: After) -> tuple[str, ...]:
        if after is None:
            return ()
        nodes = [after] if isinstance(after, NodeHandle | str) else list(after)
        for node in nodes:
            if not isinstance(node, NodeHandle | str):
                raise InvalidFlow(
                    f"after names nodes: what add() and map() returned, or their names, not {node!r:.100}."
                )
            if isinstance(node, NodeHandle) and not self._owns(node._builder):
                raise InvalidFlow(f"The node {node.name!r} in after belongs to another flow.")
        return tuple(node.name if isinstance(node, NodeHandle) else node for node in nodes)

    def _check_reference(self, reference: Reference) -> None:
        if not self._owns(reference.graph):
            raise InvalidFlow(f"The data refers to {reference}, which belongs to another flow.")

    def _owns(self, builder: object) -> bool:
        """Whether a handle is of this flow; the blocking form of a builder shares its nodes."""
        return isinstance(builder, FlowBuilder) and builder._nodes is self._nodes

    def __repr__(self) -> str:
        return f"<FlowBuilder {self.name!r}, {len(self._nodes):,} nodes>"


def _check_place(at: Path) -> None:
    if not at or not isinstance(at[0], str):
        raise InvalidFlow("data must be a mapping of argument names to values; a reference may be one of the values.")


def _refuse_references(items: Sequence[Any]) -> None:
    for at, reference in take_out(list(items))[1]:
        raise InvalidFlow(
            f"Item {at[0]:,} of a map refers to {reference}; give it in data, which all jobs of the map have, "
            "or go over a list in a result: over=extract.result['shards']."
        )


def _check_order(verb: str, job: Named, second: object) -> None:
    """Refuse the name of a node before its job, which is the order of ctx.call and ctx.map."""
    if callable(second):
        raise InvalidFlow(f"{verb}() takes the job first; the name of the node is an option: name={job!r:.100}.")


def _check_policy(spec: MapOver) -> None:
    if wrong := wrong_tolerance(spec.tolerate, "jobs"):
        raise InvalidFlow(wrong)
    for value, what in ((spec.key, "key"), (spec.item, "item")):
        if value is not None and not isinstance(value, str):
            raise ConfigurationError(f"{what} of a map is the name of a field, not {value!r:.100}.")
