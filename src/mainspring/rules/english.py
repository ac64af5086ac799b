"""English words that rules describe themselves with: names of months and weekdays, ordinals and lists."""

from __future__ import annotations

from collections.abc import Sequence

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""In the order of `date.weekday()`."""


def nth(number: int) -> str:
    """1st, 2nd, 3rd; a negative number counts from the end."""
    if number == -1:
        return "last"
    if number < 0:
        return f"{nth(-number)} last"
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def joined(parts: Sequence[str], word: str = "and") -> str:
    """One, two and three."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"
