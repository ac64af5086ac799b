"""Wall times in a zone: the first firing from an instant on, the last one up to an instant, and their number.

Instants are whole seconds since 1970. The zone is given as spans of one offset each (zones/spans.py), from which the
policy for changes of clocks has already removed the wall times that do not fire. A search reads the span that it begins
in, and nearly always finds its answer there. Otherwise it goes on to the next span or, when the next wall time is far
away, to three days before that: no two offsets differ by so much, so that nothing in between can fire. Without a next
wall time it goes on, too: the next span may repeat an hour. It gives up after a bounded number of years in which the
policy or the offset removed every wall time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from zoneinfo import ZoneInfo

from mainspring.rules.wall_times import WallTimes
from mainspring.rules.zones.spans import Range, Span, spans
from mainspring.rules.zones.zone import BLOCK, EARLIEST, LATEST, MARGIN, Fold, Gap

_MOST_YEARS = 100
Firing = tuple[int, Span]
"""An instant, and the span that it was found in."""


class Timeline:
    """Wall times in a zone under a policy, from a first instant to before a last one."""

    def __init__(
        self, times: WallTimes, zone: ZoneInfo, gap: Gap, fold: Fold, start: int = EARLIEST, end: int = LATEST
    ) -> None:
        self.zone = zone
        self._times = times
        self._gap: Gap = gap
        self._fold: Fold = fold
        self._start = max(start, EARLIEST)
        self._end = min(end, LATEST)

    def until(self, end: int) -> Timeline:
        """The same timeline with an earlier end."""
        return Timeline(self._times, self.zone, self._gap, self._fold, self._start, end)

    def first(self, second: int) -> Firing | None:
        """The first firing at or after a second."""
        second = max(second, self._start)
        patience, looked_at = self._times.patience, None
        while second < self._end and patience > 0:
            number = second // BLOCK
            starts, block = spans(self.zone, self._gap, self._fold, number)
            onward = (number + 1) * BLOCK
            if number != looked_at and onward - second >= MARGIN:
                patience, looked_at = patience - 1, number
            for span in block[max(bisect_right(starts, second) - 1, 0) :]:
                if span.start >= second:
                    second = span.start
                    if span.lost and self._fires_late(span):
                        return (second, span) if second < self._end else None
                if second >= span.end:
                    continue
                wall = self._times.first(second + span.offset, span.end + span.offset, span.offset)
                found = LATEST if wall is None else wall - span.offset
                if found < span.end:
                    return (found, span) if found < self._end else None
                if span.end - second >= MARGIN and found - MARGIN > span.end:
                    onward = found - MARGIN
                    break
            second = onward
        return None

    def last(self, second: int) -> Firing | None:
        """The last firing at or before a second."""
        second = min(second, self._end - 1)
        patience, looked_at = self._times.patience, None
        while second >= self._start and patience > 0:
            number = second // BLOCK
            starts, block = spans(self.zone, self._gap, self._fold, number)
            onward = number * BLOCK - 1
            if number != looked_at and second - onward > MARGIN:
                patience, looked_at = patience - 1, number
            for span in reversed(block[: bisect_right(starts, second)]):
                second = min(second, span.end - 1)
                wall = self._times.last(second + span.offset, span.start + span.offset, span.offset)
                found = EARLIEST - 1 if wall is None else wall - span.offset
                if found >= span.start:
                    return self._since_start(found, span)
                if span.lost and self._fires_late(span):
                    return self._since_start(span.start, span)
                if second - span.start >= MARGIN and found + MARGIN < span.start:
                    onward = found + MARGIN
                    break
            second = onward
        return None

    def count(self, start: int, end: int) -> int:
        """The number of firings from `start` to before `end`."""
        start, end = max(start, self._start), min(end, self._end)
        number = 0
        for span in self._overlapping(start, end):
            low, high = max(start, span.start) + span.offset, min(end, span.end) + span.offset
            number += self._times.count(low, high, span.offset) if low < high else 0
            if span.lost and start <= span.start < end and self._fires_late(span):
                number += not (low < high and self._times.count(low, low + 1, span.offset))
        return number

    def nth(self, number: int) -> int | None:
        """The instant of the nth firing (1, 2, …) from the start; None when it is more than a century away."""
        low = self._start
        for _ in range(_MOST_YEARS):
            here = self.count(low, low + BLOCK)
            if here >= number:
                return self._nth_from(low, number)
            number, low = number - here, low + BLOCK
        return None

    def lost_at(self, second: int, most: int) -> list[int]:
        """The first few wall times that do not exist and fire at this instant instead."""
        found: list[int] = []
        for span in self._overlapping(second, second + 1):
            for gap in span.lost if span.start == second else ():
                wall = self._lost(gap, span)
                while wall is not None and len(found) < most:
                    found.append(wall)
                    wall = self._lost((wall + 1, gap[1]), span)
        return found

    def _since_start(self, second: int, span: Span) -> Firing | None:
        return (second, span) if second >= self._start else None

    def _nth_from(self, start: int, number: int) -> int:
        low, high = start, start + BLOCK
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.count(start, middle) < number else (low, middle)
        return low

    def _overlapping(self, start: int, end: int) -> Iterator[Span]:
        for number in range(start // BLOCK, (end - 1) // BLOCK + 1) if start < end else ():
            for span in spans(self.zone, self._gap, self._fold, number).spans:
                if span.start < end and (span.end > start or span.start >= start):
                    yield span

    def _fires_late(self, span: Span) -> bool:
        """Whether a wall time that does not exist fires at the start of this span."""
        return any(self._lost(gap, span) is not None for gap in span.lost)

    def _lost(self, gap: Range, span: Span) -> int | None:
        """The first wall time of the set within a gap."""
        wall = self._times.first(*gap, span.offset) if gap[0] < gap[1] else None
        return wall if wall is not None and wall < gap[1] else None
