"""A recurrence rule in English."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import product

from mainspring.rules.english import MONTHS, WEEKDAYS, joined, nth
from mainspring.rules.rrule.compile import read_wall
from mainspring.rules.rrule.pattern import HOURLY, SECONDLY, WEEKLY, Pattern

_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_MOST_TIMES = 6
_MOST_LISTED = 8


def describe(pattern: Pattern, zone: str, start: datetime | None) -> str:
    """The whole sentence. Parts that the rule takes from its start are in it once the start is known."""
    if start is not None:
        pattern = pattern.completed(start)
    unit = _UNITS[pattern.freq]
    every = f"every {unit}" if pattern.interval == 1 else f"every {pattern.interval} {unit}s"
    parts = (every, *_days(pattern), *_times(pattern), _positions(pattern), f"in {zone}", *_limits(pattern, start))
    return ", ".join(part for part in parts if part)


def _days(pattern: Pattern) -> Iterable[str]:
    if pattern.weekdays:
        names = [f"the {nth(place)} {WEEKDAYS[day]}" if place else WEEKDAYS[day] for place, day in pattern.weekdays]
        yield f"on {_list(names)}"
    if pattern.month_days:
        yield f"on the {_list([nth(day) for day in pattern.month_days])} day of the month"
    if pattern.year_days:
        yield f"on the {_list([nth(day) for day in pattern.year_days])} day of the year"
    if pattern.week_numbers:
        yield f"in the {_list([nth(week) for week in pattern.week_numbers])} week of the year"
    if pattern.months:
        yield f"in {_list([MONTHS[month - 1] for month in pattern.months])}"
    if pattern.freq == WEEKLY and pattern.week_start and pattern.interval > 1:
        yield f"with weeks that begin on {WEEKDAYS[pattern.week_start]}"


def _times(pattern: Pattern) -> Iterable[str]:
    number = len(pattern.hours) * len(pattern.minutes) * len(pattern.seconds)
    if pattern.freq < HOURLY and 0 < number <= _MOST_TIMES:
        yield f"at {_list([_clock(*time) for time in product(pattern.hours, pattern.minutes, pattern.seconds)])}"
        return
    if pattern.hours:
        yield f"in the {_plural('hour', pattern.hours)} {_list(map(str, pattern.hours))}"
    if pattern.minutes:
        yield f"at {_plural('minute', pattern.minutes)} {_list(map(str, pattern.minutes))}"
    if pattern.seconds and (pattern.seconds != (0,) or pattern.freq == SECONDLY):
        yield f"at {_plural('second', pattern.seconds)} {_list(map(str, pattern.seconds))}"


def _positions(pattern: Pattern) -> str:
    if not pattern.positions:
        return ""
    return f"of these only the {_list([nth(place) for place in pattern.positions])} in each {_UNITS[pattern.freq]}"


def _limits(pattern: Pattern, start: datetime | None) -> Iterable[str]:
    if start is not None:
        yield f"from {start:%Y-%m-%d}"
    if pattern.count:
        yield "once" if pattern.count == 1 else f"{pattern.count} times"
    if pattern.until:
        wall = read_wall(pattern.until, "UNTIL")
        timed = f"{wall:%Y-%m-%d %H:%M}{' UTC' if pattern.until.endswith('Z') else ''}"
        yield f"until {timed if 'T' in pattern.until else wall.date()}"


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}" + (f":{second:02}" if second else "")


def _plural(word: str, values: tuple[int, ...]) -> str:
    return word if len(values) == 1 else f"{word}s"


def _list(values: Iterable[str]) -> str:
    names = list(values)
    if len(names) > _MOST_LISTED:
        names[_MOST_LISTED - 1 :] = [f"{len(names) - _MOST_LISTED + 1} others"]
    return joined(names)
