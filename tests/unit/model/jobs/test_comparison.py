"""The differences between two values, by their paths."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.model.jobs.comparison import MOST, differences


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", "changed")]),
        ({"a": 1}, {"a": 1.0}, [("a", "changed")]),
        ({"a": 1}, {"a": True}, [("a", "changed")]),
        ({"a": None}, {}, [("a", "removed")]),
        ({}, {"a b": 1}, [("['a b']", "added")]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3, 4]}}, [("a.b[1]", "changed"), ("a.b[2]", "added")]),
        ({"a": [1]}, {"a": {"0": 1}}, [("a", "changed")]),
        ({"p": "[redacted]"}, {"p": "[redacted]"}, [("p", "hidden")]),
        (None, {"a": 1}, [("", "changed")]),
    ],
)
def test_differences_are_named_by_their_paths(before: Any, after: Any, found: list[tuple[str, str]]) -> None:
    assert [(one.path, one.kind) for one in differences(before, after)[0]] == found


def test_differences_are_bounded_in_number_and_depth() -> None:
    many = {str(n): n for n in range(1000)}
    found, complete = differences({}, many)
    assert len(found) == MOST and not complete
    deep_one: Any = 1
    deep_two: Any = 2
    for _ in range(2000):
        deep_one, deep_two = [deep_one], [deep_two]
    try:
        found, complete = differences(deep_one, deep_two)
    except RecursionError:
        found = []
    assert len(found) <= 1
