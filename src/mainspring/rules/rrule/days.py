"""The days on which a recurrence rule may fire.

The days of a year that the lists of a rule allow depend on the weekday of New Year, on the length of the year and, for
numbers of weeks, on the length of the year before: 28 kinds of years at most, each computed once. INTERVAL then leaves
a part of them.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from datetime import date

from mainspring.rules.rrule.pattern import DAILY, MONTHLY, WEEKLY, YEARLY, Pattern
from mainspring.rules.year_days import EPOCH, YearDays, new_year, weekday


class RecurringDays(YearDays):
    """The days of a completed pattern that starts on a day."""

    def __init__(self, pattern: Pattern, start: date) -> None:
        super().__init__()
        self.first_year = start.year
        self._pattern = pattern
        self._start = start
        self._day = start.toordinal() - EPOCH
        self._week = self._day - (start.weekday() - pattern.week_start) % 7
        self._kinds: dict[tuple[int, bool, bool], int] = {}

    def mask(self, year: int) -> int:
        share = self._share(year)
        return share and self._allowed(year) & share

    def step(self, year: int, direction: int) -> int:
        """The next year to search; years that INTERVAL leaves out are skipped."""
        if self._pattern.freq == YEARLY:
            interval = self._pattern.interval
            return year + direction * (interval - (year - self._start.year) * direction % interval)
        return year + direction

    def _share(self, year: int) -> int:
        """The days that INTERVAL leaves."""
        pattern, begin, length = self._pattern, new_year(year), 365 + isleap(year)
        interval, whole = pattern.interval, (1 << length) - 1
        if interval == 1 or pattern.freq > DAILY:
            return whole
        if pattern.freq == YEARLY:
            return 0 if (year - self._start.year) % interval else whole
        if pattern.freq == MONTHLY:
            return self._months(year)
        size, origin = (7, self._week) if pattern.freq == WEEKLY else (1, self._day)
        period, mask = size * interval, 0
        for first in range((origin - begin) % period - period, length, period):
            mask |= ((1 << size) - 1) << first if first >= 0 else ((1 << size) - 1) >> -first
        return mask & whole

    def _months(self, year: int) -> int:
        origin = self._start.year * 12 + self._start.month
        mask = 0
        for month in range(1, 13):
            if (year * 12 + month - origin) % self._pattern.interval == 0:
                first = date(year, month, 1).toordinal() - EPOCH - new_year(year)
                mask |= ((1 << monthrange(year, month)[1]) - 1) << first
        return mask

    def _allowed(self, year: int) -> int:
        """The days that the lists of the pattern allow."""
        kind = (weekday(new_year(year)), isleap(year), isleap(year - 1))
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = _lists(self._pattern, year)
        return known


def _lists(pattern: Pattern, year: int) -> int:
    mask, begin, length = 0, new_year(year), 365 + isleap(year)
    weekdays = frozenset(pattern.weekdays)
    for place in range(length):
        day = date.fromordinal(begin + place + EPOCH)
        size = monthrange(year, day.month)[1]
        if (
            (not pattern.months or day.month in pattern.months)
            and (not pattern.month_days or day.day in pattern.month_days or day.day - size - 1 in pattern.month_days)
            and (not pattern.year_days or place + 1 in pattern.year_days or place - length in pattern.year_days)
            and (not weekdays or not weekdays.isdisjoint(_weekday_names(pattern, day, place, length, size)))
            and (
                not pattern.week_numbers or not _week_numbers(day, pattern.week_start).isdisjoint(pattern.week_numbers)
            )
        ):
            mask |= 1 << place
    return mask


def _weekday_names(pattern: Pattern, day: date, place: int, length: int, size: int) -> set[tuple[int, int]]:
    """All entries of BYDAY that match this day: every, the nth and the nth from the end of its month or year."""
    weekday = day.weekday()
    if pattern.freq > MONTHLY:
        return {(0, weekday)}
    if pattern.freq == MONTHLY or pattern.months:
        place, length = day.day - 1, size
    return {(0, weekday), (place // 7 + 1, weekday), (-((length - 1 - place) // 7) - 1, weekday)}


def _week_numbers(day: date, week_start: int) -> set[int]:
    """The number of a day's week, from the beginning and from the end. A week belongs to the year most of it is in."""
    monday = day.toordinal() - EPOCH - (day.weekday() - week_start) % 7
    year = date.fromordinal(max(1, monday + 3 + EPOCH)).year
    first, following = _first_week(year, week_start), _first_week(year + 1, week_start)
    number = (monday - first) // 7 + 1
    return {number, number - (following - first) // 7 - 1}


def _first_week(year: int, week_start: int) -> int:
    """The day on which the first week of a year begins: the one that has the fourth of January."""
    fourth = new_year(year) + 3
    return fourth - (weekday(fourth) - week_start) % 7
