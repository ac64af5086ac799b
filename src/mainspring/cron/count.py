"""How many wall times match a pattern between two others: computed, never counted one by one.

The rank of a wall time is the number of matches before it since the year 1. Whole years are summed by their kind: there
are 14 (the weekday of New Year, leap or not), and how many of each a cycle of 400 years has is the same for all rules.
"""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from mainspring.cron.days import length
from mainspring.cron.pattern import Pattern
from mainspring.cron.search import DAY, EPOCH, month_mask

_CYCLE = 400
_LEAP, _COMMON = 2000, 2001


def count(pattern: Pattern, start: int, end: int) -> int:
    """How many wall times match from `start` to before `end`."""
    return _rank(pattern, end) - _rank(pattern, start) if start < end else 0


def _rank(pattern: Pattern, wall: int) -> int:
    ordinal, second = divmod(wall, DAY)
    ordinal += EPOCH
    day = date.fromordinal(ordinal)
    days = _days_before_year(pattern, day.year)
    first = date(day.year, 1, 1).toordinal()
    for month in range(1, day.month):
        days += month_mask(pattern, day.year, month, first).bit_count()
        first += length(day.year, month)
    mask = month_mask(pattern, day.year, day.month, first)
    days += (mask & (1 << day.day) - 1).bit_count()
    today = _times_before(pattern, second) if mask >> day.day & 1 else 0
    return days * pattern.per_day + today


def _times_before(pattern: Pattern, second: int) -> int:
    """How many seconds of a day that matches come before this one."""
    minute, second = divmod(second, 60)
    hour, minute = divmod(minute, 60)
    hours = (pattern.hours & (1 << hour) - 1).bit_count()
    minutes = (pattern.minutes & (1 << minute) - 1).bit_count() if pattern.hours >> hour & 1 else 0
    both = pattern.hours >> hour & pattern.minutes >> minute & 1
    seconds = (pattern.seconds & (1 << second) - 1).bit_count() if both else 0
    return (hours * pattern.minutes.bit_count() + minutes) * pattern.seconds.bit_count() + seconds


def _days_before_year(pattern: Pattern, year: int) -> int:
    cycles, place = divmod(year - 1, _CYCLE)
    days = _days_of_years(pattern)
    tallies = _tallies()
    whole = sum(number * each for number, each in zip(tallies[_CYCLE], days, strict=True)) if cycles else 0
    return cycles * whole + sum(number * each for number, each in zip(tallies[place], days, strict=True))


@lru_cache(maxsize=4096)
def _days_of_years(pattern: Pattern) -> tuple[int, ...]:
    """How many days match in each of the 14 kinds of years."""
    return tuple(_days_of_year(pattern, kind // 2, _LEAP if kind % 2 else _COMMON) for kind in range(14))


def _days_of_year(pattern: Pattern, first: int, year: int) -> int:
    days = 0
    for month in range(1, 13):
        days += month_mask(pattern, year, month, first).bit_count()
        first += length(year, month)
    return days


@lru_cache(maxsize=1)
def _tallies() -> list[tuple[int, ...]]:
    """How many years of each kind lie before each year of the cycle, and in all of it."""
    numbers = [0] * 14
    tallies = [tuple(numbers)]
    for year in range(1, _CYCLE + 1):
        numbers[date(year, 1, 1).toordinal() % 7 * 2 + (length(year, 2) == 29)] += 1
        tallies.append(tuple(numbers))
    return tallies
