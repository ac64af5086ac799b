"""A pattern on a zone's time: the first firing from an instant, the last until one, and how many there are.

Instants are whole seconds since 1970. A search looks at the span that it begins in; what it finds there is the answer
nearly always. Otherwise it goes on to the next span or, when the next match is far away, to three days before that:
no offset differs by so much, so that nothing in between can fire. It gives up after 401 years, in which the calendar
and all zones have repeated themselves: then the zone leaves out every wall time that the pattern has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from zoneinfo import ZoneInfo

from mainspring.cron.count import count
from mainspring.cron.pattern import Pattern
from mainspring.cron.search import first_from, last_until
from mainspring.cron.spans import Range, Span, spans
from mainspring.cron.zone import BLOCK, EARLIEST, LATEST, MARGIN, Fold, Gap

_FARTHEST = 401
Firing = tuple[int, Span]
"""An instant, and the span that it was found in."""


class Timeline:
    """A pattern, a zone and a policy."""

    __slots__ = ("fold", "gap", "pattern", "zone")

    def __init__(self, pattern: Pattern, zone: ZoneInfo, gap: Gap, fold: Fold) -> None:
        self.pattern, self.zone = pattern, zone
        self.gap: Gap = "skip" if pattern.real_time else gap
        self.fold: Fold = "both" if pattern.real_time else fold

    def first(self, second: int) -> Firing | None:
        """The first firing at or after a second."""
        second = max(second, EARLIEST)
        final = min(second + _FARTHEST * BLOCK, LATEST)
        while second < final:
            number = second // BLOCK
            starts, block = spans(self.zone, self.gap, self.fold, number)
            onward = (number + 1) * BLOCK
            for span in block[max(bisect_right(starts, second) - 1, 0) :]:
                second = max(second, span.start)
                if span.lost and second == span.start and self._lost_match(span):
                    return second, span
                wall = first_from(self.pattern, second + span.offset)
                if wall is None:
                    return None
                if (found := wall - span.offset) < span.end:
                    return found, span
                if span.end - second >= MARGIN and found - MARGIN > span.end:
                    onward = found - MARGIN
                    break
            second = onward
        return None

    def last(self, second: int) -> Firing | None:
        """The last firing at or before a second."""
        second = min(second, LATEST - 1)
        final = max(second - _FARTHEST * BLOCK, EARLIEST)
        while second >= final:
            number = second // BLOCK
            starts, block = spans(self.zone, self.gap, self.fold, number)
            onward = number * BLOCK - 1
            for span in reversed(block[: bisect_right(starts, second)]):
                second = min(second, span.end - 1)
                wall = last_until(self.pattern, second + span.offset)
                if wall is None:
                    return None
                if (found := wall - span.offset) >= span.start:
                    return found, span
                if span.lost and self._lost_match(span):
                    return span.start, span
                if second - span.start >= MARGIN and found + MARGIN < span.start:
                    onward = found + MARGIN
                    break
            second = onward
        return None

    def count(self, start: int, end: int) -> int:
        """How many firings there are from `start` to before `end`."""
        number = 0
        for span in self._overlapping(max(start, EARLIEST), min(end, LATEST)):
            low, high = max(start, span.start), min(end, span.end)
            number += count(self.pattern, low + span.offset, high + span.offset)
            if span.lost and start <= span.start < end and self._lost_match(span):
                number += not (low < high and count(self.pattern, low + span.offset, low + span.offset + 1))
        return number

    def lost_at(self, second: int) -> tuple[Range, ...]:
        """The wall times that do not exist and fire at this instant instead, if any of them match."""
        for span in self._overlapping(second, second + 1):
            if span.lost and span.start == second and self._lost_match(span):
                return span.lost
        return ()

    def _overlapping(self, start: int, end: int) -> Iterator[Span]:
        for number in range(start // BLOCK, (end - 1) // BLOCK + 1):
            for span in spans(self.zone, self.gap, self.fold, number).spans:
                if span.start < end and (span.end > start or span.start >= start):
                    yield span

    def _lost_match(self, span: Span) -> bool:
        """Whether any wall time that does not exist matches."""
        for low, high in span.lost:
            found = first_from(self.pattern, low)
            if found is not None and found < high:
                return True
        return False
