"""References to results in the data of nodes: taking them out, and filling the values in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.errors import InvalidFlow, MissingResult
from mainspring.model.flows.references import Fill, Reference, fill_in, take_out

ANSWERS: dict[str, tuple[Any, str]] = {
    "extract": ({"path": "/x", "shards": [{"n": 1}, {"n": 2}], "nothing": None}, "completed"),
    "count": (7, "completed"),
    "broken": (None, "failed"),
    "quiet": (None, "completed"),
}


def test_references_are_taken_out_of_data_at_any_depth() -> None:
    extract = Reference("extract")
    data = {"rows": extract["path"], "deep": {"list": [1, extract["shards"][0], (2, extract)]}, "plain": "x"}
    without, found = take_out(data)
    assert without == {"rows": None, "deep": {"list": [1, None, [2, None]]}, "plain": "x"}
    assert [(at, one.path) for at, one in found] == [
        (("rows",), ("path",)),
        (("deep", "list", 1), ("shards", 0)),
        (("deep", "list", 2, 1), ()),
    ]


def test_data_without_references_is_left_alone() -> None:
    data = {"a": {1, 2}}
    assert take_out(data) == (data, [])


def test_values_are_filled_in_at_their_places_and_the_stored_data_stays_as_it_was() -> None:
    stored: dict[str, Any] = {"rows": None, "list": [0, None], "whole": None, "a.b": None}
    fills = [
        Fill(("rows",), "extract", ("path",)),
        Fill(("list", 1), "extract", ("shards", -1, "n")),
        Fill(("whole",), "count"),
        Fill(("a.b",), "extract", ("nothing",)),
    ]
    filled = fill_in(stored, fills, ANSWERS.__getitem__)
    assert filled == {"rows": "/x", "list": [0, 2], "whole": 7, "a.b": None}
    assert stored == {"rows": None, "list": [0, None], "whole": None, "a.b": None}


@pytest.mark.parametrize(
    ("node", "path", "says"),
    [
        ("extract", ("missing",), r"the result of 'extract'\['missing'\], and its result is a document without \['mi"),
        ("extract", ("shards", 2), r"its result\['shards'\] is a list of 2 without \[2\]"),
        ("extract", ("shards", "n"), r"is a list of 2 without \['n'\]"),
        ("extract", ("path", "x"), r"its result\['path'\] is a str without \['x'\]"),
        ("quiet", ("x",), "is null, a value without"),
        ("broken", (), "'broken' has no result: it is failed"),
        ("broken", ("x",), "'broken' has no result: it is failed"),
    ],
)
def test_a_missing_value_is_named_by_its_node_and_its_path(node: str, path: tuple[str | int, ...], says: str) -> None:
    with pytest.raises(MissingResult, match=says):
        fill_in({"x": None}, [Fill(("x",), node, path)], ANSWERS.__getitem__)


def test_the_result_of_a_completed_node_may_be_null() -> None:
    assert fill_in({"x": 1}, [Fill(("x",), "quiet")], ANSWERS.__getitem__) == {"x": None}


def test_a_reference_cannot_be_read_before_its_node_has_run() -> None:
    extract = Reference("extract")
    with pytest.raises(InvalidFlow, match=r"flow\.map"):
        list(extract["shards"])
    with pytest.raises(InvalidFlow, match="not known yet"):
        assert extract
    with pytest.raises(InvalidFlow, match="a name or a place"):
        extract[1.5]  # type: ignore[index]


plain = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=5), plain, max_size=4), st.data())
def test_data_with_references_filled_in_equals_the_data_with_the_values_written_in(
    data: dict[str, Any], draw: st.DataObject
) -> None:
    expected: dict[str, Any] = {}
    given_data: dict[str, Any] = {}
    for key, value in data.items():
        nested = draw.draw(st.booleans())
        given_data[key] = {"in": [Reference("n")[key]]} if nested else value
        expected[key] = {"in": [value]} if nested else value
    without, found = take_out(given_data)
    fills = [Fill(at, one.node, one.path) for at, one in found]
    assert fill_in(without, fills, lambda _: (data, "completed")) == expected
