"""Sets of days that can be searched in both directions without walking over the days between.

Days are numbers, as `date.toordinal()` gives them. A calendar is one such set (`Days`), and so are
several calendars together (`AnyDays`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import date

FIRST_DAY = date(1, 1, 15).toordinal()
LAST_DAY = date(9999, 12, 15).toordinal()
# The most days of an unbroken run that are followed one by one; a run of more than eleven years counts as endless.
_FARTHEST = 4018

Span = tuple[int, int]


class Days:
    """Days by spans of first and last day, by month and day of every year, and by weekday (Monday is 0)."""

    def __init__(self, spans: Iterable[Span], yearly: Iterable[tuple[int, int]], weekdays: Iterable[int]) -> None:
        self._spans = merge(spans)
        self._firsts = [first for first, _ in self._spans]
        self._lasts = [last for _, last in self._spans]
        self._yearly = frozenset(yearly)
        self._weekdays = frozenset(weekdays)

    def __contains__(self, day: int) -> bool:
        return self._recurs(day) or self._span(day) is not None

    def next_in(self, day: int) -> int | None:
        """The first day of the set from this one on."""
        found = [self._near(day, 1), self._year(day, 1)]
        place = bisect_right(self._lasts, day - 1)
        if place < len(self._spans):
            found.append(max(day, self._firsts[place]))
        return min((one for one in found if one is not None), default=None)

    def previous_in(self, day: int) -> int | None:
        """The last day of the set up to this one."""
        found = [self._near(day, -1), self._year(day, -1)]
        place = bisect_right(self._firsts, day)
        if place:
            found.append(min(day, self._lasts[place - 1]))
        return max((one for one in found if one is not None), default=None)

    def next_out(self, day: int) -> int | None:
        """The first day from this one on that is not in the set; None when that is many years away."""
        return self._out(day, 1)

    def previous_out(self, day: int) -> int | None:
        """The last day up to this one that is not in the set; None when that is many years away."""
        return self._out(day, -1)

    def _out(self, day: int, step: int) -> int | None:
        for _ in range(_FARTHEST if len(self._weekdays) < 7 else 0):
            if not FIRST_DAY <= day <= LAST_DAY:
                return None
            span = self._span(day)
            if span is not None:
                day = span[1] if step > 0 else span[0]
            elif not self._recurs(day):
                return day
            day += step
        return None

    def _recurs(self, day: int) -> bool:
        if (day - 1) % 7 in self._weekdays:
            return True
        if not self._yearly:
            return False
        when = date.fromordinal(day)
        return (when.month, when.day) in self._yearly

    def _span(self, day: int) -> Span | None:
        place = bisect_right(self._firsts, day) - 1
        return self._spans[place] if place >= 0 and day <= self._lasts[place] else None

    def _near(self, day: int, step: int) -> int | None:
        """The nearest day of its weekdays."""
        near = (day + step * distance for distance in range(7))
        return next((one for one in near if (one - 1) % 7 in self._weekdays), None)

    def _year(self, day: int, step: int) -> int | None:
        """The nearest of its days of every year; the 29th of February may be eight years away."""
        if not self._yearly or not FIRST_DAY <= day <= LAST_DAY:
            return None
        year = date.fromordinal(day).year
        for other in range(year, year + step * 9, step):
            found = [one for one in self._of_year(other) if (one - day) * step >= 0]
            if found:
                return min(found) if step > 0 else max(found)
        return None

    def _of_year(self, year: int) -> list[int]:
        found = []
        for month, day in self._yearly if 1 <= year <= 9999 else ():
            try:
                found.append(date(year, month, day).toordinal())
            except ValueError:
                continue
        return found


class AnyDays:
    """The days that are in any of several sets, searched in the same way without a merge."""

    def __init__(self, sets: Sequence[Days]) -> None:
        self._sets = sets

    def __contains__(self, day: int) -> bool:
        return any(day in one for one in self._sets)

    def next_in(self, day: int) -> int | None:
        found = (one.next_in(day) for one in self._sets)
        return min((one for one in found if one is not None), default=None)

    def previous_in(self, day: int) -> int | None:
        found = (one.previous_in(day) for one in self._sets)
        return max((one for one in found if one is not None), default=None)

    def next_out(self, day: int) -> int | None:
        return self._out(day, Days.next_out)

    def previous_out(self, day: int) -> int | None:
        return self._out(day, Days.previous_out)

    def _out(self, day: int, leave: Callable[[Days, int], int | None]) -> int | None:
        for _ in range(_FARTHEST):
            inside = next((one for one in self._sets if day in one), None)
            if inside is None:
                return day
            outside = leave(inside, day)
            if outside is None:
                return None
            day = outside
        return None


def merge(spans: Iterable[Span]) -> list[Span]:
    """Spans in order; spans that overlap or touch are merged."""
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged
