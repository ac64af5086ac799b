"""The declared graph of a flow: its checks, its order and its document."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.errors import InvalidFlow
from mainspring.model.flows.graph import MOST_NODES, Edge, Graph, MapOver, Node, numbered
from mainspring.model.flows.references import Fill


def graph(*nodes: Node) -> Graph:
    return Graph.of(nodes)


def test_nodes_come_after_those_that_they_wait_for() -> None:
    made = graph(
        Node("load", "load", after=("clean", "fetch")), Node("clean", "clean", after=("fetch",)), Node("fetch", "f")
    )
    assert [node.name for node in made.nodes] == ["fetch", "clean", "load"]
    assert [node.name for node in made.entries] == ["fetch"]
    assert [node.name for node in made.blocked] == ["clean", "load"]
    assert made.followers == {"fetch": ("clean", "load"), "clean": ("load",), "load": ()}
    assert set(made.edges) == {Edge("fetch", "clean"), Edge("fetch", "load"), Edge("clean", "load")}


def test_a_graph_is_the_same_after_it_was_stored() -> None:
    made = graph(
        Node("a", "a", {"day": 1}, options={"priority": 2, "queue": "q"}),
        Node("b", "b", {"x": None, "y": [None]}, (Fill(("x",), "a"), Fill(("y", 0), "a", ("p", 0))), ("a",), "done"),
        Node("c", "c", after=("b",), over=MapOver(node="b", path=("shards",), key="id", tolerate=0.5, fail_fast=True)),
        Node("d", "d", over=MapOver(items=({"n": 1}, {"n": 2}))),
    )
    assert Graph.from_document(made.to_document()) == made


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([], "at least one node"),
        ([Node("a", "a"), Node("a", "b")], "two nodes 'a'"),
        ([Node("a", "a", after=("b",))], "'a' waits for 'b', which is no node of the flow"),
        ([Node("a", "a"), Node("b", "b", after=("a", "a"))], "'b' waits for 'a' twice"),
        ([Node("a", "a", after=("a",))], "'a' waits for 'a'"),
        ([Node("a", "a", when="failure")], "waits for no node"),
        ([Node("a", "a"), Node("b", "b", after=("a",), when="always")], "must be one of success, done, failure"),
        ([Node("a/b", "a")], "has no slash"),
        ([Node("", "a")], "printable text"),
        ([Node("a", "a"), Node("b", "b", fills=(Fill(("x",), "z"),))], "refers to the result of 'z', which is no node"),
        ([Node("a", "a"), Node("b", "b", fills=(Fill(("x",), "a"),))], "refers to the result of 'a' and does not wait"),
        ([Node("a", "a"), Node("b", "b", fills=(Fill(("x",), "a", ("p", 0)),))], r"'a'\['p'\]\[0\] .* after='a'"),
        ([Node("a", "a"), Node("b", "b", over=MapOver(node="a"))], "refers to the result of 'a' and does not wait"),
        ([Node(f"n{place}", "a") for place in range(MOST_NODES + 1)], "1,001 nodes, and a flow has at most 1,000"),
        (
            [Node("a", "a", after=("c",)), Node("b", "b", after=("a",)), Node("c", "c", after=("b",)), Node("d", "d")],
            "'a' waits for 'c', 'c' waits for 'b', 'b' waits for 'a'",
        ),
    ],
)
def test_a_wrong_graph_is_refused_and_the_error_names_the_node_or_the_edge(nodes: list[Node], says: str) -> None:
    with pytest.raises(InvalidFlow, match=says):
        Graph.of(nodes)


def test_a_misspelled_node_gets_a_suggestion() -> None:
    with pytest.raises(InvalidFlow, match="Did you mean 'extract'"):
        graph(Node("extract", "e"), Node("load", "l", after=("extrat",)))


def test_a_node_may_refer_to_any_node_above_it() -> None:
    made = graph(
        Node("a", "a"),
        Node("b", "b", after=("a",)),
        Node("c", "c", fills=(Fill(("x",), "a"),), after=("b",)),
    )
    assert len(made.nodes) == 3


def test_a_stored_graph_that_another_program_has_changed_is_refused() -> None:
    with pytest.raises(InvalidFlow, match="cannot be read"):
        Graph.from_document([{"job": "a"}])


def test_a_node_without_a_name_has_that_of_its_job_and_a_number_where_it_is_taken() -> None:
    assert numbered("mail", []) == "mail"
    assert numbered("mail", ["mail", "mail-2"]) == "mail-3"
    assert numbered("a/b", []) == "a-b"


@st.composite
def edge_sets(draw: st.DrawFn) -> tuple[int, set[tuple[int, int]]]:
    size = draw(st.integers(1, 12))
    ends = st.integers(0, size - 1)
    return size, draw(st.sets(st.tuples(ends, ends), max_size=30))


@given(edge_sets())
def test_a_graph_is_refused_exactly_if_it_has_a_circle_and_the_error_names_real_edges(
    drawn: tuple[int, set[tuple[int, int]]],
) -> None:
    size, edges = drawn
    nodes = [
        Node(f"n{one}", "job", after=tuple(f"n{before}" for before, after in sorted(edges) if after == one))
        for one in range(size)
    ]
    try:
        made = Graph.of(nodes)
    except InvalidFlow as error:
        assert _has_circle(size, edges)
        named = str(error).partition("could start: ")[2].rstrip(".").split(", ")
        for sentence in named:
            if "more" not in sentence:
                after, before = (part.strip("'") for part in sentence.split(" waits for "))
                assert (int(before[1:]), int(after[1:])) in edges
    else:
        assert not _has_circle(size, edges)
        place = {node.name: number for number, node in enumerate(made.nodes)}
        assert all(place[f"n{before}"] < place[f"n{after}"] for before, after in edges)


def _has_circle(size: int, edges: set[tuple[int, int]]) -> bool:
    """Whether a node is reachable from itself, found by closing the relation."""
    reach = {(before, after) for before, after in edges}
    for middle in range(size):
        reach |= {(a, b) for a, x in reach if x == middle for y, b in reach if y == middle}
    return any(a == b for a, b in reach)
