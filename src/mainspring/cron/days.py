"""Which days of a month match: day of month and day of week together, as a mask with one bit for each day.

The mask depends on two things only, the weekday of the first and the number of days, so that there are 28 kinds of
months in all. Each is worked out when it is first met. This also proves what can never fire: every kind that a month
can be does occur within 400 years.
"""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.cron.fields import SATURDAY, Item, Kind

SHORTEST = 28
LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
FEBRUARY = 2
EVERY_WEEKDAY = 0b1111111
_EACH_WEEK = sum(1 << week for week in (0, 7, 14, 21, 28))
_SUNDAY = 0


def length(year: int, month: int) -> int:
    """How many days a month has."""
    if month == FEBRUARY and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return LENGTHS[month]


class Days:
    """The days that match, by the kind of month. `either` joins the two fields by OR, else both have to match."""

    __slots__ = ("_dates", "_either", "_masks", "_special_dates", "_special_weekdays", "_weekdays")

    def __init__(
        self, dates: int, weekdays: int, specials: tuple[Sequence[Item], Sequence[Item]], either: bool
    ) -> None:
        self._dates, self._weekdays, self._either = dates, weekdays, either
        self._special_dates, self._special_weekdays = specials
        self._masks: list[int | None] = [None] * 28

    def mask(self, first: int, days: int) -> int:
        """Bit n is set when the n-th matches; `first` is the weekday of the first, `days` their number."""
        kind = first * 4 + days - SHORTEST
        known = self._masks[kind]
        if known is None:
            known = self._masks[kind] = self._work_out(first, days)
        return known

    def any_in(self, months: int) -> bool:
        """Whether any day of these months (a mask) ever matches, in whatever year."""
        lengths = {LENGTHS[month] for month in range(1, 13) if months >> month & 1}
        if months >> FEBRUARY & 1:
            lengths.add(29)
        return any(self.mask(first, days) for days in sorted(lengths, reverse=True) for first in range(7))

    def _work_out(self, first: int, days: int) -> int:
        whole = (2 << days) - 2
        dates, weekdays = self._dates, _repeat(self._weekdays, first)
        for item in self._special_dates:
            dates |= _date(item, first, days)
        for item in self._special_weekdays:
            weekdays |= _weekday(item, first, days)
        return (dates | weekdays if self._either else dates & weekdays) & whole


def _repeat(weekdays: int, first: int) -> int:
    """A mask of weekdays, turned so that it begins with the first's, for each week of a month."""
    turned = (weekdays >> first | weekdays << (7 - first)) & EVERY_WEEKDAY
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
    if weekday == _SUNDAY:
        return day + 1 if day < days else days - 2
    return day


def _weekday(item: Item, first: int, days: int) -> int:
    """nL or n#k as a mask of one day, or of none."""
    day = 1 + (item.low - first) % 7
    if item.kind is Kind.NTH_WEEKDAY:
        return 1 << (day + 7 * (item.high - 1))
    return 1 << (day + (days - day) // 7 * 7)
