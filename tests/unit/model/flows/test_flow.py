"""A flow as users see it: its nodes with counts, and what holds each back."""

from datetime import UTC, datetime, timedelta

import pytest

from mainspring.errors import ConfigurationError
from mainspring.model.flows.before import Before, Predecessor
from mainspring.model.flows.flow import FlowFacts, Member, declared_nodes
from mainspring.model.flows.graph import Graph, MapOver, Node

NOW = datetime(2027, 1, 1, tzinfo=UTC)
GRAPH = Graph.of(
    [
        Node("extract", "extract"),
        Node("transform", "transform", after=("extract",), over=MapOver(node="extract")),
        Node("load", "load", after=("transform",)),
    ]
)
IDS = {node.name: f"root.{node.name}" for node in GRAPH.nodes}


def facts(members: dict[str, Member], counts: dict[str, dict[str, int]]) -> FlowFacts:
    nodes = declared_nodes(GRAPH, IDS, members, counts, {"transform/items"}, NOW)
    return FlowFacts("root", "nightly", "declared", "blocked", "default", NOW, nodes=nodes)


def test_a_node_says_what_it_waits_for() -> None:
    flow = facts(
        {
            "extract": Member("running", started_at=NOW - timedelta(minutes=4)),
            "transform": Member("blocked"),
            "load": Member("blocked"),
        },
        {},
    )
    assert [node.holding for node in flow.nodes] == [
        None,
        "It waits for 'extract', running for 4 min.",
        "It waits for 'transform'.",
    ]


def test_a_map_says_how_many_of_its_jobs_are_left() -> None:
    started = Member("blocked", started_at=NOW, total=100_000)
    flow = facts(
        {"extract": Member("completed"), "transform": started, "load": Member("blocked")},
        {"transform": {"blocked": 1}, "transform/items": {"pending": 300, "running": 12, "failed": 2}},
    )
    transform = flow.node("transform")
    assert transform.holding == "It waits for its jobs: 312 of 100,000 left."
    assert transform.counts == {"pending": 300, "running": 12, "failed": 2}
    assert transform.at_least and transform.is_map and not flow.node("load").at_least
    assert flow.counts == {"completed": 1, "blocked": 2, "pending": 300, "running": 12, "failed": 2}


def test_a_node_names_the_signals_that_it_waits_for() -> None:
    asks = Member("blocked", started_at=NOW, signals=("approved",))
    sleeps = Member("blocked", started_at=NOW)
    flow = facts({"extract": Member("completed"), "transform": asks, "load": sleeps}, {})
    assert flow.node("transform").holding == "It waits for the signal 'approved'."
    assert flow.node("load").holding == "It waits for a time."


def test_a_node_that_is_not_stored_yet_says_so() -> None:
    assert facts({}, {}).node("load").holding == "The flow has not stored it yet."
    with pytest.raises(LookupError, match="has no node 'other'; it has extract, transform, load"):
        facts({}, {}).node("other")


def test_the_result_of_the_only_predecessor_has_a_short_form() -> None:
    one, two = Predecessor("a", "1", "completed", 7), Predecessor("b", "2", "failed")
    assert Before({"a": one}).result == 7
    assert Before({}).result is None
    assert dict(Before({"a": one, "b": two})) == {"a": one, "b": two}
    with pytest.raises(ConfigurationError, match=r"several nodes \('a', 'b'\)"):
        _ = Before({"a": one, "b": two}).result
