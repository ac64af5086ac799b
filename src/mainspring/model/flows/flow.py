"""A flow as users see it: its root job, its nodes with their states and counts, and what holds each node back. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from mainspring.model.explain.explanation import listed, sentence, span
from mainspring.model.flows.graph import Edge, Graph, Node
from mainspring.model.jobs.job import BLOCKED, FINISHED, PENDING, RUNNING, Job
from mainspring.model.jobs.reserved_names import BATCH, FLOW

FlowKind = Literal["declared", "batch", "dynamic"]
_LIVE = (PENDING, RUNNING, BLOCKED)
_SKIPPED = "Skipped"


@dataclass(frozen=True, slots=True)
class FlowNode:
    """One node of a flow."""

    name: str
    job: str | None = None
    """The name of its job, or of its jobs; None for a wait of a handler, whose jobs may have any names."""
    id: str | None = None
    """The id of its job; None for a wait of a handler."""
    state: str | None = None
    """The state of its job; None while the flow has not stored it, and for a wait of a handler."""
    when: str = "success"
    after: tuple[str, ...] = ()
    is_map: bool = False
    skipped: bool = False
    """Whether it was skipped: cancelled without being a failure, since its `when` was not met."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of jobs below it by state: those of a map, or of its handler's waits."""
    at_least: bool = False
    """Whether a number in `counts` is a lower bound."""
    holding: str | None = None
    """What it waits for, in words; None where it does not wait."""
    error: str | None = None
    because: str | None = None
    """The id of the job whose end decided that it was cancelled or skipped."""
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True)
class FlowFacts:
    """A flow as it was when it was read. A snapshot: it does not change by itself."""

    id: str
    name: str
    kind: FlowKind
    state: str
    queue: str
    created_at: datetime
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    nodes: tuple[FlowNode, ...] = ()
    edges: tuple[Edge, ...] = ()
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = None
    because: str | None = None
    cancel_requested: bool = False
    complete: bool = True
    """False where some nodes were not counted, since a count looks at a bounded number of jobs."""
    aborted: bool = False
    """Of a batch: whether the process that stored its jobs died before the last one."""
    deduplicated: bool = field(default=False, compare=False)
    """True on the flow returned by `start()` when one with its dedupe key was live, and nothing was stored."""

    @property
    def finished(self) -> bool:
        return self.state in FINISHED

    @property
    def counts(self) -> dict[str, int]:
        """The number of its jobs by state, without its root."""
        found: dict[str, int] = {}
        for node in self.nodes:
            if node.state is not None:
                found[node.state] = found.get(node.state, 0) + 1
            for state, number in node.counts.items():
                found[state] = found.get(state, 0) + number
        return found

    def node(self, name: str) -> FlowNode:
        """The node of this name. Raise LookupError if there is none."""
        found = next((node for node in self.nodes if node.name == name), None)
        if found is None:
            raise LookupError(
                f"The flow {self.name!r} has no node {name!r}; it has {listed([n.name for n in self.nodes])}."
            )
        return found


@dataclass(frozen=True, slots=True)
class Member:
    """The stored facts of a node's job that its view is made of."""

    state: str
    error_type: str | None = None
    error: str | None = None
    because: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    total: int = 0
    """How many jobs it waits for itself, where it waits."""
    signals: tuple[str, ...] = ()
    """The signals that it waits for itself."""


Counts = Mapping[str, Mapping[str, int]]
"""The number of jobs by node and state."""


def kind_of(job: Job) -> FlowKind:
    return "declared" if job.name == FLOW else "batch" if job.name == BATCH else "dynamic"


def declared_nodes(
    graph: Graph, ids: Mapping[str, str], members: Mapping[str, Member], counts: Counts, capped: set[str], now: datetime
) -> tuple[FlowNode, ...]:
    """The nodes of a declared flow; `members` has those that are stored, by name."""
    below = _below([node.name for node in graph.nodes], counts)
    cut = {name.partition("/")[0] for name in capped}
    return tuple(
        _declared_node(node, ids[node.name], members, below.get(node.name, {}), node.name in cut, now)
        for node in graph.nodes
    )


def _declared_node(
    node: Node, node_id: str, members: Mapping[str, Member], below: Mapping[str, int], capped: bool, now: datetime
) -> FlowNode:
    member = members.get(node.name)
    return FlowNode(
        name=node.name,
        job=node.job,
        id=node_id,
        state=None if member is None else member.state,
        when=node.when,
        after=node.after,
        is_map=node.over is not None,
        skipped=member is not None and member.error_type == _SKIPPED,
        counts=below,
        at_least=capped,
        holding=held_back(node, members, below, now),
        error=None if member is None else member.error,
        because=None if member is None else member.because,
        started_at=None if member is None else member.started_at,
        finished_at=None if member is None else member.finished_at,
    )


def _below(names: Sequence[str], counts: Counts) -> dict[str, dict[str, int]]:
    """The jobs below each node, by state: those whose path begins with its name."""
    known, found = set(names), dict[str, dict[str, int]]()
    for path, states in counts.items():
        first, _, rest = path.partition("/")
        if rest and first in known:
            of_node = found.setdefault(first, {})
            for state, number in states.items():
                of_node[state] = of_node.get(state, 0) + number
    return found


def counted_nodes(counts: Counts, capped: set[str]) -> tuple[FlowNode, ...]:
    """The waits of a handler, or of a batch, by the paths of their jobs."""
    return tuple(
        FlowNode(path, counts=dict(states), at_least=path in capped) for path, states in sorted(counts.items())
    )


def held_back(node: Node, members: Mapping[str, Member], below: Mapping[str, int], now: datetime) -> str | None:
    """What a node waits for, in words; None where it does not wait."""
    member = members.get(node.name)
    if member is None:
        return "The flow has not stored it yet."
    if member.state != BLOCKED:
        return None
    if member.started_at is None and node.after:
        live = [name for name in node.after if _is_live(members.get(name))]
        return sentence(f"It waits for {_named(live, members, now)}") if live else "It is about to start."
    left = sum(below.get(state, 0) for state in _LIVE)
    if not left and not member.total:
        signals = " or ".join(f"the signal {name!r}" for name in member.signals)
        return sentence(f"It waits for {signals or 'a time'}")
    return sentence(f"It waits for its jobs: {left_of(left, member.total)}")


def left_of(left: int, total: int) -> str:
    """How many jobs are left, of how many."""
    return f"{left:,} of {total:,} left" if total else f"{left:,} left"


def _is_live(member: Member | None) -> bool:
    return member is None or member.state in _LIVE


def _named(names: Sequence[str], members: Mapping[str, Member], now: datetime) -> str:
    told = []
    for name in names[:3]:
        member = members.get(name)
        since = None if member is None or member.state != RUNNING else member.started_at
        told.append(repr(name) if since is None else f"{name!r}, running for {span(now - since)}")
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return f"{'; '.join(told)}{more}"
