"""The wall times at which a recurrence rule may fire, as sets that are searched and counted by arithmetic.

A wall time is a whole number: its day (as `date.toordinal()` numbers it) × 86,400 + the second of the day. Three kinds
of sets answer the same questions. `DailyWalls`: the same times on each of its days. `ChosenWalls`: those that BYSETPOS
chooses out of each week, month or year. `FlowingWalls`: hours, minutes or seconds as they pass; INTERVAL counts real
time there, so that the set depends on the offset to UTC.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from datetime import date
from functools import lru_cache
from math import gcd

from mainspring.model.recurrence.days import RecurringDays, lowest
from mainspring.model.recurrence.pattern import WEEKLY, YEARLY, Pattern

DAY = 86_400
_WHOLE_DAY = (1 << DAY) - 1
# Periods without a firing that are looked at in one search before the rule counts as over.
_MOST_PERIODS = 1000


class Walls:
    """A set of wall times. `offset` is the zone's offset to UTC, in seconds, at the times that are asked about."""

    patience = 60
    """How many years with a day that could fire, and none that does, are looked at before the rule counts as over."""

    @abstractmethod
    def first(self, start: int, end: int, offset: int) -> int | None:
        """The first wall time from `start` on and before `end`."""

    @abstractmethod
    def last(self, start: int, end: int, offset: int) -> int | None:
        """The last wall time from `start` on and before `end`."""

    @abstractmethod
    def count(self, start: int, end: int, offset: int) -> int:
        """How many wall times there are from `start` on and before `end`."""

    @abstractmethod
    def near(self, day: int) -> int | None:
        """A day from this one on before which there is nothing; None when there is nothing any more."""

    @abstractmethod
    def near_before(self, day: int) -> int | None:
        """A day up to this one after which there is nothing."""


class DailyWalls(Walls):
    """The same times on each of some days."""

    def __init__(self, days: RecurringDays, times: tuple[int, ...]) -> None:
        self._days = days
        self._times = times

    def first(self, start: int, end: int, offset: int) -> int | None:
        day, second = divmod(start, DAY)
        place = bisect_left(self._times, second) if day in self._days else len(self._times)
        if place == len(self._times):
            later = self._days.first(day + 1)
            if later is None or not self._times:
                return None
            day, place = later, 0
        found = day * DAY + self._times[place]
        return found if found < end else None

    def last(self, start: int, end: int, offset: int) -> int | None:
        day, second = divmod(end, DAY)
        place = bisect_left(self._times, second) if day in self._days else 0
        if not place:
            earlier = self._days.last(day - 1)
            if earlier is None or not self._times:
                return None
            day, place = earlier, len(self._times)
        found = day * DAY + self._times[place - 1]
        return found if found >= start else None

    def count(self, start: int, end: int, offset: int) -> int:
        return self._until(end, start // DAY) - self._until(start, start // DAY)

    def _until(self, wall: int, since: int) -> int:
        """How many there are from the beginning of a day on and before a wall time."""
        day, second = divmod(wall, DAY)
        today = bisect_left(self._times, second) if day in self._days else 0
        return self._days.count(since, day) * len(self._times) + today

    def near(self, day: int) -> int | None:
        return self._days.first(day)

    def near_before(self, day: int) -> int | None:
        return self._days.last(day)


class ChosenWalls(Walls):
    """Those wall times of each period (a week, a month or a year) that stand at certain positions among all of it."""

    def __init__(self, days: RecurringDays, times: tuple[int, ...], pattern: Pattern) -> None:
        self._days = days
        self._times = times
        self._pattern = pattern
        self._chosen = lru_cache(maxsize=8)(self._choose)

    def first(self, start: int, end: int, offset: int) -> int | None:
        period: tuple[int, int] | None = self._period(start // DAY)
        for _ in range(_MOST_PERIODS):
            if period is None or period[0] * DAY >= end:
                return None
            chosen = self._chosen(period)
            place = bisect_left(chosen, start)
            if place < len(chosen):
                return chosen[place] if chosen[place] < end else None
            later = self._days.first(period[1])
            period = None if later is None else self._period(later)
        return None

    def last(self, start: int, end: int, offset: int) -> int | None:
        period: tuple[int, int] | None = self._period(end // DAY)
        for _ in range(_MOST_PERIODS):
            if period is None or period[1] * DAY <= start:
                return None
            chosen = self._chosen(period)
            place = bisect_left(chosen, end)
            if place:
                return chosen[place - 1] if chosen[place - 1] >= start else None
            earlier = self._days.last(period[0] - 1)
            period = None if earlier is None else self._period(earlier)
        return None

    def count(self, start: int, end: int, offset: int) -> int:
        total = 0
        day = self._days.first(start // DAY)
        while day is not None and day * DAY < end:
            period = self._period(day)
            chosen = self._chosen(period)
            total += bisect_left(chosen, end) - bisect_left(chosen, start)
            day = self._days.first(period[1])
        return total

    def near(self, day: int) -> int | None:
        return self._days.first(day)

    def near_before(self, day: int) -> int | None:
        return self._days.last(day)

    def _period(self, day: int) -> tuple[int, int]:
        """The first day of the period that a day is in, and the first day after it."""
        if self._pattern.freq == WEEKLY:
            first = day - ((day - 1) % 7 - self._pattern.week_start) % 7
            return first, first + 7
        when = date.fromordinal(day)
        if self._pattern.freq == YEARLY:
            return date(when.year, 1, 1).toordinal(), date(when.year, 12, 31).toordinal() + 1
        first = day - when.day + 1
        return first, date.fromordinal(first + 31).replace(day=1).toordinal()

    def _choose(self, period: tuple[int, int]) -> list[int]:
        days = []
        day = self._days.first(period[0])
        while day is not None and day < period[1]:
            days.append(day)
            day = self._days.first(day + 1)
        size = len(self._times)
        places = positions(self._pattern.positions, len(days) * size)
        return [days[place // size] * DAY + self._times[place % size] for place in places]


class FlowingWalls(Walls):
    """Hours, minutes or seconds as they pass, filtered by what the wall clock shows at each."""

    patience = 12

    def __init__(self, days: RecurringDays, times: int, unit: int, interval: int, origin: int) -> None:
        self._days = days
        self._times = times
        self._unit = unit
        self._period = unit * interval
        self._origin = origin
        self._masked = lru_cache(maxsize=4)(self._mask)

    def first(self, start: int, end: int, offset: int) -> int | None:
        day = self._days.first(start // DAY) if self._possible(offset) else None
        while day is not None and day * DAY < end:
            mask = self._of(day, offset)
            passed = max(0, start - day * DAY)
            if mask >> passed:
                found = day * DAY + passed + lowest(mask >> passed)
                return found if found < end else None
            day = self._days.first(day + 1)
        return None

    def last(self, start: int, end: int, offset: int) -> int | None:
        day = self._days.last((end - 1) // DAY) if self._possible(offset) else None
        while day is not None and (day + 1) * DAY > start:
            mask = self._of(day, offset) & ((1 << min(DAY, end - day * DAY)) - 1)
            if mask:
                found = day * DAY + mask.bit_length() - 1
                return found if found >= start else None
            day = self._days.last(day - 1)
        return None

    def count(self, start: int, end: int, offset: int) -> int:
        first, last = start // DAY, (end - 1) // DAY
        if first == last:
            return self._part(first, start, end, offset)
        inner = self._inner(first + 1, last, offset)
        return self._part(first, start, end, offset) + inner + self._part(last, start, end, offset)

    def near(self, day: int) -> int | None:
        return self._days.first(day)

    def near_before(self, day: int) -> int | None:
        return self._days.last(day)

    def _inner(self, first: int, end: int, offset: int) -> int:
        """How many there are on whole days."""
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
        """The seconds of a day that begins when so much of a period has passed."""
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
    """The places, from 0, that BYSETPOS means among so many."""
    places = {one - 1 if one > 0 else size + one for one in wanted}
    return sorted(place for place in places if 0 <= place < size)
