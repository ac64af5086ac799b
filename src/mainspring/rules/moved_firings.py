"""The arithmetic of exclusions: which firings stay, which are moved, from where and to where.

Firings that stay and firings that are moved are searched separately. A search for a firing that stays leaves a run of
excluded days in one step. Moved firings come from runs in which the rule fires at all; each run has one target, the
nearest day outside of it, so that runs in order have targets in order. A day begins at the first midnight that its
zone's clocks show, and a firing belongs to the day that began last before it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from mainspring.rules.any_of import fires_at, once
from mainspring.rules.calendars.day_sets import FIRST_DAY, LAST_DAY, AnyDays, Days
from mainspring.rules.rule import Rule
from mainspring.rules.zones.zone import Fold, Gap, in_zone, instants

SKIP, NEXT, PREVIOUS = "skip", "next", "previous"
FARTHEST = 31
"""The most days that a firing is moved by."""
MAX_PER_DAY = 1440
"""The firings of a day with more than this are not moved."""
# The runs of excluded days that one search passes before the rule counts as over: seventy years of weekends.
_MOST_RUNS = 4000
_TICK = timedelta(microseconds=1)


class Run(NamedTuple):
    """Excluded days, one after the other; `first` or `last` is None where they go on for many years."""

    first: int | None
    last: int | None


class Move(NamedTuple):
    """A firing that was moved, and the calendar that moved it."""

    to: datetime
    source: datetime
    calendar: str


class Exclusion:
    """A rule, and the named sets of days on which it does not fire."""

    def __init__(
        self, rule: Rule, named: Sequence[tuple[str, Days]], then: str, zone: ZoneInfo, gap: Gap, fold: Fold
    ) -> None:
        self._rule = rule
        self._named = named
        self._days = AnyDays([days for _, days in named])
        self._then = then
        self._zone = zone
        self._gap: Gap = gap
        self._fold: Fold = fold

    def next(self, after: datetime) -> datetime | None:
        stays = self._staying_from(self._rule.next(after), 1)
        end = None if stays is None else self._day(stays) + 1
        for target, moves in self._runs(self._earliest(self._day(after) - 1), 1) if self._then != SKIP else ():
            if end is not None and target is not None and target > end:
                break
            found = min((move.to for move in moves if move.to > after), default=None)
            if found is not None:
                return found if stays is None else min(found, stays)
        return stays

    def previous(self, before: datetime) -> datetime | None:
        stays = self._staying_from(self._rule.previous(before), -1)
        end = None if stays is None else self._day(stays) - 1
        for target, moves in self._runs(self._latest(self._day(before) + 1), -1) if self._then != SKIP else ():
            if end is not None and target is not None and target < end:
                break
            found = max((move.to for move in moves if move.to < before), default=None)
            if found is not None:
                return found if stays is None else max(found, stays)
        return stays

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        moved = (to for moves in self._arrivals(start, end) for to in moves)
        return once(heapq.merge(self._staying(start, end), moved))

    def count(self, start: datetime, end: datetime) -> int:
        if start >= end:
            return 0
        total = self._rule.count(start, end)
        for first, last in self._excluded(start, end):
            total -= self._rule.count(first, last)
        arrived = {to for moves in self._arrivals(start, end) for to in moves}
        return total + sum(1 for to in arrived if not self._stays(to))

    def skipped(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """The firings in a span of time that were neither kept nor moved."""
        if self._then == SKIP:
            for first, last in self._excluded(start, end):
                for instant in self._rule.between(first, last):
                    yield instant, self._calendar(self._day(instant))
            return
        for first, last in self._excluded(start, end):
            target = self._target(self._run(self._day(first)))
            for day in range(self._day(first), self._day(last - _TICK) + 1):
                yield from self._homeless(day, target, first, last)

    def notes(self, at: datetime) -> tuple[str, ...]:
        """The source of a moved firing and, if the rule fires at this instant anyway, the rule's own notes."""
        notes = self._rule.notes(at) if self._stays(at) else ()
        for target, moves in self._runs(self._earliest(self._day(at) - 1), 1) if self._then != SKIP else ():
            if target is not None and target > self._day(at) + 1:
                break
            notes += tuple(_note(move, self._zone) for move in moves if move.to == at)
        return notes

    # -- firings that stay -------------------------------------------------------------------------------------------

    def _stays(self, instant: datetime) -> bool:
        return self._day(instant) not in self._days and fires_at(self._rule, instant)

    def _staying_from(self, found: datetime | None, step: int) -> datetime | None:
        """The nearest firing that stays, from this firing on (`step` is 1) or back (-1)."""
        for _ in range(_MOST_RUNS):
            if found is None or (day := self._day(found)) not in self._days:
                return found
            free = self._days.next_out(day) if step > 0 else self._days.previous_out(day)
            found = None if free is None else self._firing(free, step)
        return None

    def _firing(self, day: int, step: int) -> datetime | None:
        """The first firing of the rule from the beginning of a day on, or the last until its end."""
        return self._rule.next(self._begin(day) - _TICK) if step > 0 else self._rule.previous(self._begin(day + 1))

    def _staying(self, start: datetime, end: datetime) -> Iterator[datetime]:
        for first, last in self._excluded(start, end):
            yield from self._rule.between(start, first)
            start = last
        if start < end:
            yield from self._rule.between(start, end)

    def _excluded(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The runs of excluded days within a span of time."""
        day = self._days.next_in(self._day(start))
        while day is not None and (first := self._begin(day)) < end:
            free = self._days.next_out(day)
            last = end if free is None else min(self._begin(free), end)
            if max(start, first) < last:
                yield max(start, first), last
            day = None if free is None else self._days.next_in(free)

    # -- firings that are moved --------------------------------------------------------------------------------------

    def _arrivals(self, start: datetime, end: datetime) -> Iterator[list[datetime]]:
        """The instants within a span of time to which firings were moved: run by run, in order, each once."""
        for target, moves in self._runs(self._earliest(self._day(start) - 1), 1) if self._then != SKIP else ():
            if target is not None and target > self._day(end) + 1:
                return
            yield sorted({move.to for move in moves if start <= move.to < end})

    def _runs(self, day: int | None, step: int) -> Iterator[tuple[int | None, list[Move]]]:
        """The runs in which the rule fires, from a day on or back: their targets, and the firings moved there."""
        for _ in range(_MOST_RUNS):
            found = None if day is None else self._firing(day, step)
            if found is None:
                return
            day = self._day(found)
            if day in self._days:
                run = self._run(day)
                yield self._target(run), self._moves(run)
                edge = run.last if step > 0 else run.first
                day = None if edge is None else edge + step
            if day is not None:
                day = self._days.next_in(day) if step > 0 else self._days.previous_in(day)

    def _earliest(self, day: int) -> int:
        """The first day whose firings can be moved to this one or a later one."""
        if self._then != NEXT or day - 1 not in self._days:
            return day
        return max(day - FARTHEST, (self._days.previous_out(day - 1) or 0) + 1)

    def _latest(self, day: int) -> int:
        """The last day whose firings can be moved to this one or an earlier one."""
        if self._then != PREVIOUS or day + 1 not in self._days:
            return day
        return min(day + FARTHEST, (self._days.next_out(day + 1) or LAST_DAY) - 1)

    def _run(self, day: int) -> Run:
        before, after = self._days.previous_out(day), self._days.next_out(day)
        return Run(None if before is None else before + 1, None if after is None else after - 1)

    def _target(self, run: Run) -> int | None:
        if self._then == NEXT:
            return None if run.last is None else run.last + 1
        return None if run.first is None else run.first - 1

    def _moves(self, run: Run) -> list[Move]:
        """The firings of a run that are moved; firings too far from its target are not."""
        target = self._target(run)
        if target is None:
            return []
        days = range(target - FARTHEST, target) if self._then == NEXT else range(target + 1, target + FARTHEST + 1)
        inside = (day for day in days if (run.first or day) <= day <= (run.last or day))
        return [move for day in inside for move in self._moves_of(day, target)]

    def _moves_of(self, day: int, target: int) -> list[Move]:
        begin, end = self._begin(day), self._begin(day + 1)
        if self._rule.count(begin, end) > MAX_PER_DAY:
            return []
        name = self._calendar(day)
        return [Move(to, at, name) for at in self._rule.between(begin, end) for to in self._moved(at, target)]

    def _homeless(self, day: int, target: int | None, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """The firings of an excluded day, within a span of time, that could not be moved."""
        moved: set[datetime] = set()
        if target is not None and abs(target - day) <= FARTHEST:
            moved = {move.source for move in self._moves_of(day, target)}
        begin, end = max(start, self._begin(day)), min(end, self._begin(day + 1))
        for source in self._rule.between(begin, end):
            if source not in moved:
                yield source, self._calendar(day)

    def _moved(self, source: datetime, day: int) -> tuple[datetime, ...]:
        """A firing's wall time on another day."""
        wall = in_zone(source, self._zone).replace(tzinfo=None)
        there = datetime.combine(date.fromordinal(day), wall.time())
        return instants(there, self._zone, self._gap, self._fold)

    def _calendar(self, day: int) -> str:
        return next(name for name, days in self._named if day in days)

    # -- days --------------------------------------------------------------------------------------------------------

    def _day(self, instant: datetime) -> int:
        day = in_zone(instant, self._zone).toordinal()
        return day + 1 if FIRST_DAY < day < LAST_DAY and self._begin(day + 1) <= instant else day

    def _begin(self, day: int) -> datetime:
        midnight = datetime.combine(date.fromordinal(min(max(day, FIRST_DAY), LAST_DAY)), datetime.min.time())
        return instants(midnight, self._zone, "after", "first")[0]


def _note(move: Move, zone: ZoneInfo) -> str:
    source = in_zone(move.source, zone)
    return f"moved here from {source:%A %Y-%m-%d %H:%M} by the calendar {move.calendar}"
