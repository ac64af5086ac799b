"""How many examples the tests with hostile texts try: some by default, many with MAINSPRING_FUZZ=full."""

from __future__ import annotations

import os
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

T = TypeVar("T")
FULL = os.environ.get("MAINSPRING_FUZZ") == "full"
LONG = pytest.mark.timeout(7200 if FULL else 120)
"""Marks a module with such tests: many examples take longer than a test may otherwise."""


def examples(some: int, many: int = 100_000) -> settings:
    """Settings of a test with so many examples; what a fixture keeps open is shared by all of them."""
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.filter_too_much]
    number = many if FULL else some
    return settings(max_examples=number, deadline=None, suppress_health_check=checks, print_blob=True)


def mostly(sound: st.SearchStrategy[T], hostile: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    """One in eight is hostile: where any such field is refused, enough requests without one must be left."""
    return st.integers(0, 7).flatmap(lambda number: hostile if number == 7 else sound)
