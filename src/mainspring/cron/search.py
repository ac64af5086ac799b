"""The next and the previous wall time that match a pattern, by scanning bits.

A wall time is what a clock on the wall shows, in seconds since its 1970-01-01 00:00; zones do not matter here. Nothing
loops for long: within a day three scans of bits decide, and days are looked for month by month in at most 492 months,
because a day that matches at all comes within 40 years (a 29th of February with a given weekday is the rarest).
"""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, date

from mainspring.cron.days import length
from mainspring.cron.pattern import Pattern, highest, lowest

DAY = 86400
EPOCH = date(1970, 1, 1).toordinal()
MOST_MONTHS = 41 * 12


def first_from(pattern: Pattern, wall: int) -> int | None:
    """The first wall time that matches, at or after this one; None when it is after the last year."""
    day, second = divmod(wall, DAY)
    found = _day_from(pattern, day + EPOCH)
    if found == day + EPOCH:
        time = _time_from(pattern, second)
        if time >= 0:
            return day * DAY + time
        found = _day_from(pattern, found + 1)
    return None if found is None else (found - EPOCH) * DAY + pattern.first_second


def last_until(pattern: Pattern, wall: int) -> int | None:
    """The last wall time that matches, at or before this one; None when it is before the first year."""
    day, second = divmod(wall, DAY)
    found = _day_until(pattern, day + EPOCH)
    if found == day + EPOCH:
        time = _time_until(pattern, second)
        if time >= 0:
            return day * DAY + time
        found = _day_until(pattern, found - 1)
    return None if found is None else (found - EPOCH) * DAY + pattern.last_second


def _time_from(pattern: Pattern, second: int) -> int:
    """The first second of the day that matches, at or after this one; -1 when there is none."""
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    if pattern.hours >> hour & 1:
        if pattern.minutes >> minute & 1 and (rest := pattern.seconds >> second):
            return hour * 3600 + minute * 60 + second + lowest(rest)
        if rest := pattern.minutes >> minute + 1:
            return hour * 3600 + (minute + 1 + lowest(rest)) * 60 + lowest(pattern.seconds)
    if rest := pattern.hours >> hour + 1:
        return (hour + 1 + lowest(rest)) * 3600 + pattern.first_second % 3600
    return -1


def _time_until(pattern: Pattern, second: int) -> int:
    """The last second of the day that matches, at or before this one; -1 when there is none."""
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    if pattern.hours >> hour & 1:
        if pattern.minutes >> minute & 1 and (rest := pattern.seconds & (2 << second) - 1):
            return hour * 3600 + minute * 60 + highest(rest)
        if rest := pattern.minutes & (1 << minute) - 1:
            return hour * 3600 + highest(rest) * 60 + highest(pattern.seconds)
    if rest := pattern.hours & (1 << hour) - 1:
        return highest(rest) * 3600 + pattern.last_second % 3600
    return -1


def month_mask(pattern: Pattern, year: int, month: int, first: int) -> int:
    """The days of a month that match; `first` is the ordinal of its first day, whose weekday is what is left by 7."""
    return pattern.days.mask(first % 7, length(year, month)) if pattern.months >> month & 1 else 0


def _day_from(pattern: Pattern, ordinal: int) -> int | None:
    """The first day that matches, at or after this one."""
    day = date.fromordinal(ordinal)
    year, month = day.year, day.month
    if rest := month_mask(pattern, year, month, ordinal - day.day + 1) >> day.day:
        return ordinal + lowest(rest)
    for _ in range(MOST_MONTHS):
        if rest := pattern.months >> month + 1:
            month += 1 + lowest(rest)
        else:
            year, month = year + 1, lowest(pattern.months)
        if year > MAXYEAR:
            return None
        first = date(year, month, 1).toordinal()
        if mask := month_mask(pattern, year, month, first):
            return first - 1 + lowest(mask)
    return None


def _day_until(pattern: Pattern, ordinal: int) -> int | None:
    """The last day that matches, at or before this one."""
    day = date.fromordinal(ordinal)
    year, month = day.year, day.month
    first = ordinal - day.day + 1
    if rest := month_mask(pattern, year, month, first) & (2 << day.day) - 1:
        return first - 1 + highest(rest)
    for _ in range(MOST_MONTHS):
        if rest := pattern.months & (1 << month) - 1:
            month = highest(rest)
        else:
            year, month = year - 1, highest(pattern.months)
        if year < MINYEAR:
            return None
        first = date(year, month, 1).toordinal()
        if mask := month_mask(pattern, year, month, first):
            return first - 1 + highest(mask)
    return None
