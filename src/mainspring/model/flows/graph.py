"""The declared graph of a flow: its nodes, what each one waits for, and the document that the root job keeps. Pure.

`Graph.of` checks a graph before anything is stored: its errors name the node or the edge that is wrong. The client
makes graphs from the calls of a builder; the worker that lays a flow out reads the graph from the data of the root job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, get_args

from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError, InvalidFlow
from mainspring.model.fields import Fields
from mainspring.model.flows.references import Fill, Path, path_text
from mainspring.spelling import meant_by, suggestion

When = Literal["success", "done", "failure"]
WHENS: tuple[When, ...] = get_args(When)
MOST_NODES = 1_000
MOST_EDGES = 20_000
LARGEST_FLOW = 8 * 1024 * 1024
"""The bytes that a graph with the data of all its nodes may take."""


@dataclass(frozen=True, slots=True)
class MapOver:
    """The items of a map node: given with the graph, or the list at a path in the result of an earlier node."""

    items: tuple[Any, ...] | None = None
    node: str | None = None
    path: Path = ()
    item: str | None = None
    """The argument that gets an item; None where items are the data of their jobs."""
    key: str | None = None
    tolerate: int | float = 0
    fail_fast: bool = False

    def to_document(self) -> Fields:
        over = {"items": list(self.items)} if self.items is not None else {"node": self.node, "path": list(self.path)}
        return {**over, "item": self.item, **self.policy}

    @property
    def policy(self) -> Fields:
        """How its jobs are told apart, and how many may end badly."""
        return {"key": self.key, "tolerate": self.tolerate, "fail_fast": self.fail_fast}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> MapOver:
        items = document.get("items")
        return cls(
            None if items is None else tuple(items),
            document.get("node"),
            tuple(document.get("path") or ()),
            document.get("item"),
            document.get("key"),
            document.get("tolerate") or 0,
            bool(document.get("fail_fast")),
        )


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a graph: a job, or a job for each item of a list."""

    name: str
    job: str
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Its data, with None at the places of `fills`."""
    fills: tuple[Fill, ...] = ()
    after: tuple[str, ...] = ()
    when: str = "success"
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of its job, in the form in which they are stored."""
    over: MapOver | None = None
    secret: bool = False
    """Whether some of its data is stored encrypted."""

    @property
    def refers_to(self) -> list[tuple[str, Path]]:
        """The results that it needs: the name of the node, and the path."""
        needed = [(fill.node, fill.path) for fill in self.fills]
        if self.over is not None and self.over.node is not None:
            needed.append((self.over.node, self.over.path))
        return needed

    def to_document(self) -> Fields:
        document: Fields = {"name": self.name, "job": self.job, "data": dict(self.data)}
        if self.fills:
            document["fills"] = [fill.to_document() for fill in self.fills]
        if self.after:
            document["after"] = list(self.after)
        if self.when != "success":
            document["when"] = self.when
        if self.options:
            document["options"] = dict(self.options)
        if self.over is not None:
            document["over"] = self.over.to_document()
        if self.secret:
            document["secret"] = True
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Node:
        over = document.get("over")
        return cls(
            document["name"],
            document["job"],
            document.get("data") or {},
            tuple(Fill.from_document(one) for one in document.get("fills") or ()),
            tuple(document.get("after") or ()),
            document.get("when") or "success",
            document.get("options") or {},
            None if over is None else MapOver.from_document(over),
            bool(document.get("secret")),
        )


@dataclass(frozen=True, slots=True)
class Edge:
    """One node waits for another."""

    before: str
    after: str
    when: str = "success"


@dataclass(frozen=True, slots=True)
class Graph:
    """A checked graph. Its nodes are in an order in which each one comes after the nodes that it waits for."""

    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Graph:
        """Check nodes and put them in order. Raises InvalidFlow, which names the node or the edge that is wrong."""
        given = tuple(nodes)
        if not given:
            raise InvalidFlow("A flow has at least one node; add one with flow.add().")
        if len(given) > MOST_NODES:
            raise InvalidFlow(
                f"The flow has {len(given):,} nodes, and a flow has at most {MOST_NODES:,}; use flow.map() for many "
                "jobs of one kind."
            )
        by_name = _by_name(given)
        for node in given:
            _check_node(node, by_name)
        if sum(len(node.after) for node in given) > MOST_EDGES:
            raise InvalidFlow(f"The flow has over {MOST_EDGES:,} edges; let nodes wait for one node in between.")
        ordered = _in_order(given, by_name)
        _check_references(ordered)
        return cls(tuple(ordered))

    @property
    def entries(self) -> tuple[Node, ...]:
        """The nodes that wait for no other."""
        return tuple(node for node in self.nodes if not node.after)

    @property
    def blocked(self) -> tuple[Node, ...]:
        """The nodes that wait for others."""
        return tuple(node for node in self.nodes if node.after)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges, for drawing."""
        return tuple(Edge(before, node.name, node.when) for node in self.nodes for before in node.after)

    @property
    def followers(self) -> dict[str, tuple[str, ...]]:
        """The nodes that wait for each node."""
        found: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for before in node.after:
                found[before].append(node.name)
        return {name: tuple(names) for name, names in found.items()}

    def to_document(self) -> list[Fields]:
        """The graph as the root job keeps it."""
        return [node.to_document() for node in self.nodes]

    @classmethod
    def from_document(cls, documents: Sequence[Mapping[str, Any]]) -> Graph:
        """The graph of a root job. It was checked before it was stored; a changed one is checked again."""
        try:
            return cls.of(Node.from_document(one) for one in documents)
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidFlow(f"The stored graph of the flow cannot be read: {error!r}.") from None


def check_node_name(name: object) -> str:
    """Check the name of a node: it is a part of paths, in which names are separated by slashes."""
    try:
        checked = check_name(name, "A node's name")
    except ConfigurationError as error:
        raise InvalidFlow(str(error)) from None
    if "/" in checked:
        raise InvalidFlow(f"A node's name has no slash, since names are joined by slashes: not {checked!r}.")
    return checked


def _by_name(nodes: Sequence[Node]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for node in nodes:
        check_node_name(node.name)
        if node.name in found:
            raise InvalidFlow(f"There are two nodes {node.name!r} in the flow; give each a name of its own, by name=….")
        found[node.name] = node
    return found


def _check_node(node: Node, known: Mapping[str, Node]) -> None:
    if node.when not in WHENS:
        raise InvalidFlow(f"when of node {node.name!r} must be one of {', '.join(WHENS)}, not {node.when!r}.")
    if node.when != "success" and not node.after:
        raise InvalidFlow(f"Node {node.name!r} has when={node.when!r} and waits for no node; name some in after.")
    seen: set[str] = set()
    for before in node.after:
        if before not in known:
            raise InvalidFlow(
                f"Node {node.name!r} waits for {before!r:.200}, which is no node of the flow.{_hint(before, known)}"
            )
        if before in seen:
            raise InvalidFlow(f"Node {node.name!r} waits for {before!r} twice; name it once in after.")
        seen.add(before)
    for name, _ in node.refers_to:
        if name not in known:
            raise InvalidFlow(f"Node {node.name!r} refers to the result of {name!r}, which is no node of the flow.")


def _hint(name: object, known: Iterable[str]) -> str:
    names = sorted(known)
    return suggestion(name, names) if isinstance(name, str) and (len(names) <= 20 or meant_by(name, names)) else ""


def _in_order(nodes: Sequence[Node], by_name: Mapping[str, Node]) -> list[Node]:
    """The nodes, each after those that it waits for, otherwise as they were given."""
    left = {node.name: len(node.after) for node in nodes}
    followers: dict[str, list[str]] = {}
    for node in nodes:
        for before in node.after:
            followers.setdefault(before, []).append(node.name)
    ready = [node.name for node in nodes if not node.after]
    ordered: list[Node] = []
    for name in ready:  # grows while it is read
        ordered.append(by_name[name])
        for follower in followers.get(name, ()):
            left[follower] -= 1
            if not left[follower]:
                ready.append(follower)
    if len(ordered) < len(nodes):
        raise InvalidFlow(_cycle_text(_cycle([node for node in nodes if left[node.name]], by_name)))
    return ordered


def _cycle(nodes: Sequence[Node], by_name: Mapping[str, Node]) -> list[str]:
    """One cycle among nodes each of which waits for another of them, from its first node back to it."""
    among = {node.name for node in nodes}
    path: list[str] = []
    place: dict[str, int] = {}
    name = nodes[0].name
    while name not in place:
        place[name] = len(path)
        path.append(name)
        name = next(before for before in by_name[name].after if before in among)
    return [*path[place[name] :], name]


def _cycle_text(cycle: Sequence[str]) -> str:
    """The error about a cycle, which names its edges."""
    edges = [f"{after!r} waits for {before!r}" for after, before in pairwise(cycle)]
    shown = ", ".join(edges[:8]) + (f", and {len(edges) - 8:,} more" if len(edges) > 8 else "")
    return f"The nodes of the flow wait for each other in a circle, so that none could start: {shown}."


def _check_references(ordered: Sequence[Node]) -> None:
    """Refuse a reference to a node that need not have ended when the node starts."""
    needed = {name for node in ordered for name, _ in node.refers_to}
    if not needed:
        return
    number = {name: 1 << place for place, name in enumerate(sorted(needed))}
    above: dict[str, int] = {}
    """For each node, the needed nodes that have ended before it starts, as bits."""
    for node in ordered:
        bits = 0
        for before in node.after:
            bits |= above[before] | number.get(before, 0)
        above[node.name] = bits
        for name, path in node.refers_to:
            if not bits & number[name]:
                raise InvalidFlow(
                    f"Node {node.name!r} refers to the result of {name!r}{path_text(path)} and does not wait for it; "
                    f"add the edge: after={name!r}."
                )


def numbered(name: str, taken: Iterable[str]) -> str:
    """A name for a node that was given none: that of its job, with a number where the name is taken."""
    known = set(taken)
    plain = name.replace("/", "-")[:190]
    return next(one for one in _numbered(plain) if one not in known)


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1
