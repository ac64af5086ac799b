"""The wall times of recurrence rules that are not the same on each day.

`ChosenTimes` are the times that BYSETPOS chooses out of each week, month or year. `FlowingTimes` are hours, minutes or
seconds of real time; INTERVAL counts real time there, so that the set depends on the offset to UTC.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from datetime import date
from functools import lru_cache
from math import gcd

from mainspring.rules.rrule.pattern import WEEKLY, YEARLY, Pattern
from mainspring.rules.wall_times import WallTimes
from mainspring.rules.year_days import EPOCH, YearDays, new_year, weekday
from mainspring.rules.zones.zone import DAY, MARGIN

_WHOLE_DAY = (1 << DAY) - 1
Period = tuple[int, int]
"""The first day of a week, month or year, and the first day after it."""


class ChosenTimes(WallTimes):
    """The wall times at certain positions of each period (a week, a month or a year)."""

    def __init__(self, days: YearDays, times: tuple[int, ...], pattern: Pattern) -> None:
        self._days = days
        self._times = times
        self._pattern = pattern
        self._chosen = lru_cache(maxsize=8)(self._choose)

    def first(self, wall: int, end: int, offset: int) -> int | None:
        day: int | None = wall // DAY
        while day is not None and day * DAY < end:
            period = self._period(day)
            chosen = self._chosen(period)
            place = bisect_left(chosen, wall)
            if place < len(chosen):
                return chosen[place]
            day = self._days.first(period[1])
        return None if day is None else day * DAY

    def last(self, wall: int, start: int, offset: int) -> int | None:
        day: int | None = wall // DAY
        while day is not None and (day + 1) * DAY > start:
            period = self._period(day)
            chosen = self._chosen(period)
            place = bisect_right(chosen, wall)
            if place:
                return chosen[place - 1]
            day = self._days.last(period[0] - 1)
        return None if day is None else (day + 1) * DAY - 1

    def count(self, start: int, end: int, offset: int) -> int:
        total = 0
        day = self._days.first(start // DAY)
        while day is not None and day * DAY < end:
            period = self._period(day)
            chosen = self._chosen(period)
            total += bisect_left(chosen, end) - bisect_left(chosen, start)
            day = self._days.first(period[1])
        return total

    def _period(self, day: int) -> Period:
        if self._pattern.freq == WEEKLY:
            first = day - (weekday(day) - self._pattern.week_start) % 7
            return first, first + 7
        when = date.fromordinal(day + EPOCH)
        if self._pattern.freq == YEARLY:
            return new_year(when.year), new_year(when.year + 1)
        first = day - when.day + 1
        return first, first + monthrange(when.year, when.month)[1]

    def _choose(self, period: Period) -> list[int]:
        days = []
        day = self._days.first(period[0])
        while day is not None and day < period[1]:
            days.append(day)
            day = self._days.first(day + 1)
        size = len(self._times)
        places = positions(self._pattern.positions, len(days) * size)
        return [days[place // size] * DAY + self._times[place % size] for place in places]


class FlowingTimes(WallTimes):
    """Hours, minutes or seconds of real time, filtered by the wall clock."""

    patience = 12

    def __init__(self, days: YearDays, times: int, unit: int, interval: int, origin: int) -> None:
        self._days = days
        self._times = times
        self._unit = unit
        self._period = unit * interval
        self._origin = origin
        self._masked = lru_cache(maxsize=4)(self._mask)

    def first(self, wall: int, end: int, offset: int) -> int | None:
        day = self._days.first(wall // DAY) if self._possible(offset) else None
        while day is not None and day * DAY < end:
            passed = max(0, wall - day * DAY)
            if rest := self._of(day, offset) >> passed:
                return day * DAY + passed + (rest & -rest).bit_length() - 1
            day = self._days.first(day + 1)
        day = self._days.first((end - MARGIN) // DAY)  # with another offset, the last day may have times again
        return None if day is None else max(end, day * DAY)

    def last(self, wall: int, start: int, offset: int) -> int | None:
        day = self._days.last(wall // DAY) if self._possible(offset) else None
        while day is not None and (day + 1) * DAY > start:
            if rest := self._of(day, offset) & (2 << min(DAY, wall - day * DAY)) - 1:
                return day * DAY + rest.bit_length() - 1
            day = self._days.last(day - 1)
        day = self._days.last((start + MARGIN) // DAY)
        return None if day is None else min(start, (day + 1) * DAY) - 1

    def count(self, start: int, end: int, offset: int) -> int:
        first, last = start // DAY, (end - 1) // DAY
        if first == last:
            return self._part(first, start, end, offset)
        inner = self._inner(first + 1, last, offset)
        return self._part(first, start, end, offset) + inner + self._part(last, start, end, offset)

    def _inner(self, first: int, end: int, offset: int) -> int:
        """The number of wall times on whole days."""
        if DAY % self._period == 0:
            return self._days.count(first, end) * self._of(first, offset).bit_count()
        total = 0
        day = self._days.first(first)
        while day is not None and day < end:
            total += self._of(day, offset).bit_count()
            day = self._days.first(day + 1)
        return total

    def _part(self, day: int, start: int, end: int, offset: int) -> int:
        if day not in self._days:
            return 0
        mask = self._of(day, offset) & ((1 << min(DAY, end - day * DAY)) - 1)
        return (mask >> max(0, start - day * DAY)).bit_count()

    def _possible(self, offset: int) -> bool:
        """Whether any day has such a second: the part of INTERVAL that is the same for all days may leave none."""
        common = gcd(self._period, DAY)
        return bool(self._times & share(self._unit, common, (-offset - self._origin) % common))

    def _of(self, day: int, offset: int) -> int:
        """The seconds of one day; INTERVAL goes on from day to day, by real time."""
        if self._period == 1:
            return self._times
        return self._masked((day * DAY - offset - self._origin) % self._period)

    def _mask(self, passed: int) -> int:
        """The seconds of a day that begins `passed` seconds into a period."""
        return self._times & share(self._unit, self._period, passed)


def share(unit: int, period: int, passed: int) -> int:
    """The seconds of a day that are in the first `unit` seconds of each period."""
    if unit == period:
        return _WHOLE_DAY
    block = (1 << unit) - 1
    if period >= DAY:
        return (block >> passed | block << (period - passed)) & _WHOLE_DAY if period - passed < DAY else block >> passed
    return _repeated(unit, period) >> passed & _WHOLE_DAY


@lru_cache(maxsize=64)
def _repeated(unit: int, period: int) -> int:
    mask, length = (1 << unit) - 1, period
    while length < DAY + period:
        mask |= mask << length
        length *= 2
    return mask


def positions(wanted: tuple[int, ...], size: int) -> list[int]:
    """The places, from 0, that BYSETPOS chooses among `size` ones."""
    places = {one - 1 if one > 0 else size + one for one in wanted}
    return sorted(place for place in places if 0 <= place < size)
