"""The days on which a recurrence rule may fire, as masks of whole years: bit 0 is the first of January.

Which days of a year a rule's lists allow depends only on the weekday that the year begins with, on its length and, for
numbers of weeks, on the length of the year before: 28 kinds of years at most, each worked out once. INTERVAL then
takes its share. So a search goes by years, and a year without a day costs next to nothing.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from datetime import date

from mainspring.model.recurrence.pattern import DAILY, MONTHLY, WEEKLY, YEARLY, Pattern

FIRST_YEAR, LAST_YEAR = 1, 9999
_KEPT_YEARS = 50
# The calendar repeats itself after 400 years; what does not come in more than that many years does not come.
_MOST_YEARS = 500


class RecurringDays:
    """The days of a completed pattern that starts on a day; numbered as `date.toordinal()` does."""

    def __init__(self, pattern: Pattern, start: date) -> None:
        self._pattern = pattern
        self._start = start
        self._week = start.toordinal() - (start.weekday() - pattern.week_start) % 7
        self._kinds: dict[tuple[int, bool, bool], int] = {}
        self._years: dict[int, int] = {}

    def first(self, day: int) -> int | None:
        """The first of these days from this one on."""
        year = _year(day)
        mask = self.mask(year) >> (day - _new_year(year)) << (day - _new_year(year))
        for _ in range(_MOST_YEARS):
            if mask:
                return _new_year(year) + lowest(mask)
            year = self._step(year, 1)
            if year > LAST_YEAR:
                return None
            mask = self.mask(year)
        return None

    def last(self, day: int) -> int | None:
        """The last of these days up to this one, and not before the year of the start."""
        year = _year(day)
        mask = self.mask(year) & ((2 << (day - _new_year(year))) - 1)
        for _ in range(_MOST_YEARS):
            if mask:
                return _new_year(year) + mask.bit_length() - 1
            year = self._step(year, -1)
            if year < self._start.year:
                return None
            mask = self.mask(year)
        return None

    def count(self, start: int, end: int) -> int:
        """How many of these days there are from `start` on and before `end`."""
        total = 0
        for year in range(_year(start), _year(end) + 1) if start < end else ():
            begin = _new_year(year)
            mask = self.mask(year) & ((1 << max(0, end - begin)) - 1)
            total += (mask >> max(0, start - begin)).bit_count()
        return total

    def __contains__(self, day: int) -> bool:
        year = _year(day)
        return bool(self.mask(year) >> (day - _new_year(year)) & 1)

    def mask(self, year: int) -> int:
        """The days of one year."""
        known = self._years.get(year)
        if known is None:
            if len(self._years) >= _KEPT_YEARS:
                self._years.clear()
            known = self._years[year] = self._share(year) and self._allowed(year) & self._share(year)
        return known

    def _step(self, year: int, step: int) -> int:
        """The next year to look at in this direction; years that INTERVAL leaves out are jumped over."""
        if self._pattern.freq == YEARLY:
            step *= self._pattern.interval - (year - self._start.year) * step % self._pattern.interval
        return year + step

    def _share(self, year: int) -> int:
        """The days that INTERVAL leaves."""
        pattern, begin, length = self._pattern, _new_year(year), 365 + isleap(year)
        interval, whole = pattern.interval, (1 << length) - 1
        if interval == 1 or pattern.freq > DAILY:
            return whole
        if pattern.freq == YEARLY:
            return 0 if (year - self._start.year) % interval else whole
        if pattern.freq == MONTHLY:
            return self._months(year)
        size, origin = (7, self._week) if pattern.freq == WEEKLY else (1, self._start.toordinal())
        period, mask = size * interval, 0
        for first in range((origin - begin) % period - period, length, period):
            mask |= ((1 << size) - 1) << first if first >= 0 else ((1 << size) - 1) >> -first
        return mask & whole

    def _months(self, year: int) -> int:
        origin = self._start.year * 12 + self._start.month
        mask = 0
        for month in range(1, 13):
            if (year * 12 + month - origin) % self._pattern.interval == 0:
                first = date(year, month, 1).toordinal() - _new_year(year)
                mask |= ((1 << monthrange(year, month)[1]) - 1) << first
        return mask

    def _allowed(self, year: int) -> int:
        """The days that the lists of the pattern allow."""
        kind = (_new_year(year) % 7, isleap(year), isleap(year - 1))
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = _lists(self._pattern, year)
        return known


def lowest(mask: int) -> int:
    """The place of the lowest bit that is set."""
    return (mask & -mask).bit_length() - 1


def _lists(pattern: Pattern, year: int) -> int:
    mask, begin, length = 0, _new_year(year), 365 + isleap(year)
    weekdays = frozenset(pattern.weekdays)
    for place in range(length):
        day = date.fromordinal(begin + place)
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
    """All that BYDAY may call this day: every, the nth and the nth from the end of its month or year."""
    weekday = day.weekday()
    if pattern.freq > MONTHLY:
        return {(0, weekday)}
    if pattern.freq == MONTHLY or pattern.months:
        place, length = day.day - 1, size
    return {(0, weekday), (place // 7 + 1, weekday), (-((length - 1 - place) // 7) - 1, weekday)}


def _week_numbers(day: date, week_start: int) -> set[int]:
    """The number of a day's week, from the beginning and from the end. A week belongs to the year most of it is in."""
    monday = day.toordinal() - (day.weekday() - week_start) % 7
    year = date.fromordinal(max(1, monday + 3)).year
    first, following = _first_week(year, week_start), _first_week(year + 1, week_start)
    number = (monday - first) // 7 + 1
    return {number, number - (following - first) // 7 - 1}


def _first_week(year: int, week_start: int) -> int:
    """The day on which the first week of a year begins: the one that has the fourth of January."""
    fourth = _new_year(year) + 3
    return fourth - ((fourth - 1) % 7 - week_start) % 7


def _year(day: int) -> int:
    return date.fromordinal(day).year


def _new_year(year: int) -> int:
    """The first of January; also of the year 10000, which no date can be in."""
    years = year - 1
    return years * 365 + years // 4 - years // 100 + years // 400 + 1
