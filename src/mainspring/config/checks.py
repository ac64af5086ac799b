"""Checks of numbers that users give: a bool is not a number here, and the message names the range."""

from __future__ import annotations

from typing import TypeGuard

from mainspring.errors import ConfigurationError, MainspringError


def is_whole(value: object, low: int, high: int | None = None) -> TypeGuard[int]:
    """Whether a value is a whole number in a range, both ends included."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value and (high is None or value <= high)


def check_whole(
    value: object, what: str, low: int, high: int | None = None, error: type[MainspringError] = ConfigurationError
) -> int:
    """Return the value if it is a whole number in a range; otherwise raise an error with the value's role and range."""
    if not is_whole(value, low, high):
        allowed = f"of at least {low:,}" if high is None else f"from {low:,} to {high:,}"
        raise error(f"{what} must be a whole number {allowed}, not {value!r:.100}.")
    return value
