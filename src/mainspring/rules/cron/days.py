"""The days of a cron expression: day of month, month and day of week together.

The mask of a month depends on the weekday of its first day and on its length alone, and the mask of a year on the
weekday of New Year and on whether it is a leap year. So there are 14 kinds of years, each computed when a search first
needs it. This also proves which expressions never fire: every kind of year occurs within 400 years.
"""

from __future__ import annotations

from calendar import isleap
from functools import lru_cache

from mainspring.rules.cron.fields import SATURDAY, SUNDAY, Item, Kind
from mainspring.rules.year_days import YearDays, new_year, weekday

LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LEAP_LENGTHS = (31, 29, *LENGTHS[2:])
_EVERY_WEEKDAY = 0b1111111
_EACH_WEEK = sum(1 << week for week in (0, 7, 14, 21, 28))
Items = tuple[Item, ...]


class CronDays(YearDays):
    """The days that match. `either` joins day of month and day of week by OR; otherwise both have to match.

    `dates`, `months` and `weekdays` are masks: bit n stands for day n, month n, and weekday n counted from Sunday.
    """

    def __init__(
        self, dates: int, months: int, weekdays: int, special_dates: Items, special_weekdays: Items, either: bool
    ) -> None:
        super().__init__()
        self._dates, self._months, self._weekdays, self._either = dates, months, weekdays, either
        self._special_dates, self._special_weekdays = special_dates, special_weekdays
        self._kinds: dict[tuple[int, bool], int] = {}

    def mask(self, year: int) -> int:
        return self._of_kind((weekday(new_year(year)) + 1) % 7, isleap(year))

    def is_empty(self) -> bool:
        """Whether no day of any year matches."""
        return not any(self._of_kind(first, leap) for leap in (True, False) for first in range(7))

    def _of_kind(self, first: int, leap: bool) -> int:
        """The mask of a year that begins on this weekday."""
        known = self._kinds.get((first, leap))
        if known is None:
            known = begin = 0
            for month, days in enumerate(_LEAP_LENGTHS if leap else LENGTHS, 1):
                if self._months >> month & 1:
                    known |= self._month((first + begin) % 7, days) >> 1 << begin
                begin += days
            self._kinds[first, leap] = known
        return known

    def _month(self, first: int, days: int) -> int:
        """Bit n is set when day n matches; `first` is the weekday of the first day, `days` the length of the month."""
        dates, weekdays = self._dates, _repeat(self._weekdays, first)
        for item in self._special_dates:
            dates |= _date(item, first, days)
        for item in self._special_weekdays:
            weekdays |= _weekday(item, first, days)
        return (dates | weekdays if self._either else dates & weekdays) & (2 << days) - 2


cron_days = lru_cache(maxsize=4096)(CronDays)
"""Equal days of different expressions share their masks."""


def _repeat(weekdays: int, first: int) -> int:
    """A mask of weekdays, turned so that it begins with the weekday of the first day, for each week of a month."""
    turned = (weekdays >> first | weekdays << (7 - first)) & _EVERY_WEEKDAY
    return turned * _EACH_WEEK << 1


def _date(item: Item, first: int, days: int) -> int:
    """L, L-n, LW or nW as a mask of one day, or of none."""
    if item.kind is Kind.LAST:
        return 1 << (days - item.low) if item.low < days else 0
    day = days if item.kind is Kind.LAST_WORKDAY else item.low
    return 1 << _nearest_workday(day, first, days) if day <= days else 0


def _nearest_workday(day: int, first: int, days: int) -> int:
    """The day from Monday to Friday next to a day, never outside of its month."""
    weekday = (first + day - 1) % 7
    if weekday == SATURDAY:
        return day - 1 if day > 1 else 3
    if weekday == SUNDAY:
        return day + 1 if day < days else days - 2
    return day


def _weekday(item: Item, first: int, days: int) -> int:
    """nL or n#k as a mask of one day, or of none."""
    day = 1 + (item.low - first) % 7
    if item.kind is Kind.NTH_WEEKDAY:
        return 1 << (day + 7 * (item.high - 1))
    return 1 << (day + (days - day) // 7 * 7)
