"""A recurrence rule on a zone's time: the next instant, the one before, and how many there are.

Instants are whole seconds since 1970. The zone comes as spans of one offset each (`mainspring.cron.spans`), from which
the policy for nights on which clocks change has already taken what does not fire. A search goes from span to span; when
the next day that could fire is far away it goes on from there. It gives up after a bounded number of spans that could
have had a firing and have none: then the rule is over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from datetime import date
from zoneinfo import ZoneInfo

from mainspring.cron.spans import Range, Span, spans
from mainspring.cron.zone import BLOCK, DAY, EARLIEST, LATEST, MARGIN, Fold, Gap
from mainspring.model.recurrence.walls import Walls

EPOCH = date(1970, 1, 1).toordinal() * DAY
"""What wall times count from the year 1 on, zones count from 1970 on."""
_MOST_YEARS = 100


class Timeline:
    """Wall times in a zone under a policy, from a first instant to a last one."""

    def __init__(self, walls: Walls, zone: ZoneInfo, gap: Gap, fold: Fold, start: int, end: int = LATEST) -> None:
        self._walls = walls
        self._zone = zone
        self._gap: Gap = gap
        self._fold: Fold = fold
        self._start = max(start, EARLIEST)
        self._end = min(end, LATEST)

    def first(self, second: int) -> int | None:
        """The first firing at or after a second."""
        second = max(second, self._start)
        for _ in range(self._walls.patience):
            if second >= self._end:
                return None
            number = second // BLOCK
            starts, block = spans(self._zone, self._gap, self._fold, number)
            for span in block[max(bisect_right(starts, second) - 1, 0) :]:
                found = self._first_in(span, second)
                if found is not None:
                    return found if found < self._end else None
            second = (number + 1) * BLOCK
            day = self._walls.near(_day(second - MARGIN))
            if day is None:
                return None
            second = max(second, day * DAY - EPOCH - MARGIN)
        return None

    def last(self, second: int) -> int | None:
        """The last firing at or before a second."""
        second = min(second, self._end - 1)
        for _ in range(self._walls.patience):
            if second < self._start:
                return None
            number = second // BLOCK
            starts, block = spans(self._zone, self._gap, self._fold, number)
            for span in reversed(block[: bisect_right(starts, second)]):
                found = self._last_in(span, second)
                if found is not None:
                    return found if found >= self._start else None
            second = number * BLOCK - 1
            day = self._walls.near_before(_day(second + MARGIN))
            if day is None:
                return None
            second = min(second, (day + 1) * DAY - EPOCH + MARGIN)
        return None

    def count(self, start: int, end: int) -> int:
        """How many firings there are from `start` to before `end`."""
        start, end = max(start, self._start), min(end, self._end)
        number = 0
        for span in self._overlapping(start, end):
            shift = span.offset + EPOCH
            low, high = max(start, span.start) + shift, min(end, span.end) + shift
            number += self._walls.count(low, high, span.offset) if low < high else 0
            if start <= span.start < end and self._lost(span):
                twice = low < high and self._walls.first(low, low + 1, span.offset) is not None
                number += not twice
        return number

    def nth(self, number: int) -> int | None:
        """The firing that so many (1, 2, …) make up to, from the start on; None when it is more than a century away."""
        low = self._start
        for _ in range(_MOST_YEARS):
            here = self.count(low, low + BLOCK)
            if here >= number:
                return self._nth_from(low, number)
            number, low = number - here, low + BLOCK
        return None

    def _nth_from(self, start: int, number: int) -> int:
        low, high = start, start + BLOCK
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.count(start, middle) < number else (low, middle)
        return low

    def lost_at(self, second: int, most: int) -> list[int]:
        """The first few wall times that do not exist and fire at this instant instead."""
        found: list[int] = []
        for span in self._overlapping(second, second + 1):
            for gap in span.lost if span.start == second else ():
                wall = self._lost_in(gap, span)
                while wall is not None and len(found) < most:
                    found.append(wall)
                    wall = self._lost_in((wall + 1, gap[1]), span)
        return found

    def _first_in(self, span: Span, second: int) -> int | None:
        second = max(second, span.start)
        if second == span.start and self._lost(span):
            return second
        shift = span.offset + EPOCH
        wall = self._walls.first(second + shift, span.end + shift, span.offset) if second < span.end else None
        return None if wall is None else wall - shift

    def _last_in(self, span: Span, second: int) -> int | None:
        shift, end = span.offset + EPOCH, min(second + 1, span.end)
        wall = self._walls.last(span.start + shift, end + shift, span.offset) if span.start < end else None
        if wall is not None:
            return wall - shift
        return span.start if span.start <= second and self._lost(span) else None

    def _overlapping(self, start: int, end: int) -> Iterator[Span]:
        for number in range(start // BLOCK, (end - 1) // BLOCK + 1) if start < end else ():
            for span in spans(self._zone, self._gap, self._fold, number).spans:
                if span.start < end and (span.end > start or span.start >= start):
                    yield span

    def _lost(self, span: Span) -> bool:
        return any(self._lost_in(gap, span) is not None for gap in span.lost)

    def _lost_in(self, gap: Range, span: Span) -> int | None:
        wall = self._walls.first(gap[0] + EPOCH, gap[1] + EPOCH, span.offset)
        return None if wall is None else wall - EPOCH


def _day(second: int) -> int:
    return (min(max(second, EARLIEST), LATEST) + EPOCH) // DAY
