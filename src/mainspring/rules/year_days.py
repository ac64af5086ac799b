"""The days on which a rule of wall times may fire, as one mask of bits per year: bit 0 is 1 January.

Days are numbered from 1970-01-01. A search goes from year to year, so that a year without a matching day costs one
look-up. `CronDays` and `RecurringDays` fill in the masks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import MAXYEAR, MINYEAR, date

EPOCH = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = 1 - EPOCH, date.max.toordinal() - EPOCH
_THURSDAY = 3
_KEPT_YEARS = 50
_MOST_YEARS = 500
"""The Gregorian calendar repeats after 400 years: a day that is not found in more years than that never occurs."""


class YearDays(ABC):
    """A set of days that is searched and counted by whole years."""

    first_year = MINYEAR
    """The set has no days before this year."""

    def __init__(self) -> None:
        self._years: dict[int, tuple[int, int]] = {}

    @abstractmethod
    def mask(self, year: int) -> int:
        """The days of one year."""

    def step(self, year: int, direction: int) -> int:
        """The next year to look at; `direction` is 1 or -1."""
        return year + direction

    def year(self, year: int) -> tuple[int, int]:
        """The number of 1 January, and the mask of the year."""
        known = self._years.get(year)
        if known is None:
            if len(self._years) >= _KEPT_YEARS:
                self._years.clear()
            known = self._years[year] = (new_year(year), self.mask(year))
        return known

    def first(self, day: int) -> int | None:
        """The first day of the set at or after this one."""
        if day > _LAST_DAY:
            return None
        year = date.fromordinal(day + EPOCH).year
        begin, mask = self.year(year)
        if rest := mask >> day - begin:
            return day + (rest & -rest).bit_length() - 1
        for _ in range(_MOST_YEARS):
            year = self.step(year, 1)
            if year > MAXYEAR:
                return None
            begin, mask = self.year(year)
            if mask:
                return begin + (mask & -mask).bit_length() - 1
        return None

    def last(self, day: int) -> int | None:
        """The last day of the set at or before this one."""
        if day < _FIRST_DAY:
            return None
        year = date.fromordinal(day + EPOCH).year
        begin, mask = self.year(year)
        if rest := mask & (2 << day - begin) - 1:
            return begin + rest.bit_length() - 1
        for _ in range(_MOST_YEARS):
            year = self.step(year, -1)
            if year < self.first_year:
                return None
            begin, mask = self.year(year)
            if mask:
                return begin + mask.bit_length() - 1
        return None

    def count(self, start: int, end: int) -> int:
        """The number of days in the set from `start` to before `end`."""
        total = 0
        for year in range(year_of(start), year_of(end) + 1) if start < end else ():
            begin, mask = self.year(year)
            total += ((mask & (1 << max(0, end - begin)) - 1) >> max(0, start - begin)).bit_count()
        return total

    def __contains__(self, day: int) -> bool:
        begin, mask = self.year(year_of(day))
        return bool(mask >> day - begin & 1)


def year_of(day: int) -> int:
    """The year that a day is in."""
    return date.fromordinal(day + EPOCH).year


def new_year(year: int) -> int:
    """The number of 1 January; also of the year 10000, which Python's dates do not reach."""
    years = year - 1
    return years * 365 + years // 4 - years // 100 + years // 400 + 1 - EPOCH


def weekday(day: int) -> int:
    """The weekday of a day; Monday is 0."""
    return (day + _THURSDAY) % 7
