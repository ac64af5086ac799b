"""Reading the text of RFC 5545, strictly: every error names the expected form.

A text that the standard forbids is refused rather than guessed at. Exceptions and extra dates are refused, too: rules
and calendars of their own express them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from mainspring.errors import InvalidSchedule
from mainspring.rules.rrule.pattern import (
    DAILY,
    FREQUENCIES,
    MONTHLY,
    WEEKDAYS,
    WEEKLY,
    YEARLY,
    Pattern,
)

LONGEST_TEXT = 4000
MOST_COUNT = 100_000
MOST_INTERVAL = 1_000_000
_NUMBER = re.compile(r"[+-]?[0-9]{1,7}")
_WEEKDAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_UNTIL = re.compile(r"[0-9]{8}(T[0-9]{6}Z?)?")
_START = re.compile(r"DTSTART((?:;[A-Z-]+=[^;:]+)*):([0-9]{8}(?:T[0-9]{6}Z?)?)", re.I)
_ELSEWHERE = {
    "RDATE": "join the rule with At([...]) by AnyOf",
    "EXDATE": "put these days into a calendar and use .excluding(name)",
    "EXRULE": "use a calendar and .excluding(name)",
    "DTEND": "a firing has no duration; leave it out",
    "DURATION": "a firing has no duration; leave it out",
}


@dataclass(frozen=True)
class Written:
    """The content of the text: the pattern and, if there is one, the start as it was written."""

    pattern: Pattern
    start: str | None = None
    zone: str | None = None


def parse(text: object) -> Written:
    """The text of a rule, with or without `RRULE:` and a line for DTSTART."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidSchedule(f'RRule takes a text such as "FREQ=WEEKLY;BYDAY=MO,FR", not {text!r}.')
    if len(text) > LONGEST_TEXT:
        raise InvalidSchedule(f"A recurrence rule has at most {LONGEST_TEXT} characters; join several rules by AnyOf.")
    return _parse(text)


@lru_cache(maxsize=1024)
def _parse(text: str) -> Written:
    rules: list[str] = []
    start: str | None = None
    zone: str | None = None
    for line in re.sub(r"\r?\n[ \t]", "", text).split():
        name = re.split("[;:=]", line, maxsplit=1)[0].upper()
        if name in _ELSEWHERE:
            raise InvalidSchedule(f"RRule takes no {name}: {_ELSEWHERE[name]}.")
        if name == "DTSTART":
            if start is not None:
                raise InvalidSchedule("The rule has two lines of DTSTART; one is enough.")
            start, zone = _start(line)
        else:
            rules.append(line)
    if len(rules) != 1:
        raise InvalidSchedule(f"RRule takes one rule, not {len(rules)}; join several by AnyOf(RRule(…), RRule(…)).")
    return Written(_pattern(re.sub("^RRULE:", "", rules[0], flags=re.I)), start, zone)


def _start(line: str) -> tuple[str, str | None]:
    found = _START.fullmatch(line)
    if found is None:
        raise InvalidSchedule(
            f"{line!r} is not a start; write DTSTART:20300101T090000Z, or leave it out and give start=."
        )
    parameters = dict(part.split("=", 1) for part in found[1].split(";")[1:])
    zone = next((value for key, value in parameters.items() if key.upper() == "TZID"), None)
    if zone is not None and found[2].upper().endswith("Z"):
        raise InvalidSchedule(f"{line!r} names a zone and UTC; leave out TZID or the Z.")
    return found[2].upper(), zone


def _pattern(text: str) -> Pattern:
    values: dict[str, Any] = {}
    for part in text.upper().removesuffix(";").split(";"):
        name, sign, value = part.partition("=")
        if not sign:
            raise InvalidSchedule(f"{part!r} is not a part of a rule; parts look like FREQ=DAILY, with ; between them.")
        reader = _PARTS.get(name)
        if reader is None:
            close = get_close_matches(name, _PARTS, 1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(_PARTS)}."
            raise InvalidSchedule(f"RRule has no part {name!r}; {hint}")
        field, read = reader
        if field in values:
            raise InvalidSchedule(f"RRule has {name} twice; write its values as one list.")
        values[field] = read(name, value)
    if "freq" not in values:
        raise InvalidSchedule(f"RRule needs FREQ, one of {', '.join(FREQUENCIES)}.")
    pattern = Pattern(**values)
    _check(pattern)
    return pattern


def _check(pattern: Pattern) -> None:
    """Refuse combinations that the standard forbids because they have no meaning."""
    name = FREQUENCIES[pattern.freq]
    plain = not any(nth for nth, _ in pattern.weekdays)
    for broken, complaint in (
        (pattern.count and pattern.until, "COUNT and UNTIL together; give one of them"),
        (pattern.week_numbers and pattern.freq != YEARLY, f"BYWEEKNO with FREQ={name}; it needs FREQ=YEARLY"),
        (pattern.year_days and MONTHLY <= pattern.freq <= DAILY, f"BYYEARDAY with FREQ={name}; it needs FREQ=YEARLY"),
        (pattern.month_days and pattern.freq == WEEKLY, "BYMONTHDAY with FREQ=WEEKLY; use FREQ=DAILY or MONTHLY"),
        (not plain and pattern.freq > MONTHLY, f"an ordinal in BYDAY with FREQ={name}; use MONTHLY or YEARLY"),
        (not plain and pattern.week_numbers, "an ordinal in BYDAY with BYWEEKNO; leave one of them out"),
        (
            pattern.positions and not _has_lists(pattern),
            "BYSETPOS alone; it chooses among the times of other BY… parts",
        ),
    ):
        if broken:
            raise InvalidSchedule(f"RRule cannot have {complaint}.")


def _has_lists(pattern: Pattern) -> bool:
    days = pattern.months or pattern.week_numbers or pattern.year_days or pattern.month_days or pattern.weekdays
    return bool(days or pattern.hours or pattern.minutes or pattern.seconds)


def _one_of(choices: tuple[str, ...]) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if value not in choices:
            raise InvalidSchedule(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
        return choices.index(value)

    return read


def _number(low: int, high: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not _NUMBER.fullmatch(value) or not low <= int(value) <= high:
            raise InvalidSchedule(f"{name} must be a whole number from {low} to {high:,}, not {value!r}.")
        return int(value)

    return read


def _numbers(low: int, high: int, *, signed: bool = False) -> Callable[[str, str], tuple[int, ...]]:
    def read(name: str, value: str) -> tuple[int, ...]:
        found = set()
        for item in value.split(","):
            number = int(item) if _NUMBER.fullmatch(item) else None
            if number is None or not low <= (abs(number) if signed else number) <= high:
                back = f", or from -{high} to -{low}" if signed else ""
                raise InvalidSchedule(f"{name} takes whole numbers from {low} to {high}{back}, not {item!r}.")
            found.add(number)
        return tuple(sorted(found))

    return read


def _weekdays(name: str, value: str) -> tuple[tuple[int, int], ...]:
    found = set()
    for item in value.split(","):
        match = _WEEKDAY.fullmatch(item)
        nth = int(match[1] or 0) if match else 0
        if match is None or (match[1] and not 1 <= abs(nth) <= 53):
            raise InvalidSchedule(f"{name} takes {', '.join(WEEKDAYS)}, or 1MO for the first Monday, not {item!r}.")
        found.add((nth, WEEKDAYS.index(match[2])))
    return tuple(sorted(found))


def _until(name: str, value: str) -> str:
    if not _UNTIL.fullmatch(value):
        raise InvalidSchedule(f"{name} must be a date or a time such as 20301231 or 20301231T225959Z, not {value!r}.")
    return value


_PARTS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "FREQ": ("freq", _one_of(FREQUENCIES)),
    "INTERVAL": ("interval", _number(1, MOST_INTERVAL)),
    "COUNT": ("count", _number(1, MOST_COUNT)),
    "UNTIL": ("until", _until),
    "WKST": ("week_start", _one_of(WEEKDAYS)),
    "BYMONTH": ("months", _numbers(1, 12)),
    "BYWEEKNO": ("week_numbers", _numbers(1, 53, signed=True)),
    "BYYEARDAY": ("year_days", _numbers(1, 366, signed=True)),
    "BYMONTHDAY": ("month_days", _numbers(1, 31, signed=True)),
    "BYDAY": ("weekdays", _weekdays),
    "BYHOUR": ("hours", _numbers(0, 23)),
    "BYMINUTE": ("minutes", _numbers(0, 59)),
    "BYSECOND": ("seconds", _numbers(0, 59)),
    "BYSETPOS": ("positions", _numbers(1, 366, signed=True)),
}
