"""Calendars: named sets of days, such as holidays, or the days on which no business is done.

A `Calendar` is an immutable value. It is stored under a name, and rules can leave its days out (`Except`). Days are
dates without a zone: the rule that uses the calendar has the zone.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any, TypeVar

from mainspring.errors import InvalidSchedule
from mainspring.rules import english
from mainspring.rules.calendars.day_sets import Days, merge
from mainspring.spelling import spelled_class

_FULL_NAMES = tuple(name.upper() for name in english.WEEKDAYS)
WEEKDAYS = tuple(name[:3] for name in _FULL_NAMES)
MOST_DAYS = 20_000
_LONGEST_DESCRIPTION = 1000
_LEAP_YEAR = 2000
_YEARLY = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")

Day = date | str
T = TypeVar("T")


@spelled_class
@dataclass(frozen=True, init=False)
class Calendar:
    """A set of days.

    `days` are single dates, `ranges` are pairs of a first and a last date, `yearly` are days of every year such as
    "12-25", and `weekdays` are names such as "SAT". Dates may be text, such as "2030-12-24". A day that is named more
    than once counts once. `|` joins two calendars.
    """

    days: tuple[date, ...]
    ranges: tuple[tuple[date, date], ...]
    yearly: tuple[tuple[int, int], ...]
    weekdays: tuple[str, ...]
    description: str

    def __init__(
        self,
        days: Iterable[Day] = (),
        *,
        ranges: Iterable[tuple[Day, Day]] = (),
        yearly: Iterable[str | tuple[int, int]] = (),
        weekdays: Iterable[str] = (),
        description: str = "",
    ) -> None:
        singles, spans = _list(days, "days", _day), _list(ranges, "ranges", _range)
        if len(singles) + len(spans) > MOST_DAYS:
            raise InvalidSchedule(f"A calendar has at most {MOST_DAYS:,} days and ranges; split this one in several.")
        if not isinstance(description, str) or len(description) > _LONGEST_DESCRIPTION:
            raise InvalidSchedule(
                f"A calendar's description must be text of at most {_LONGEST_DESCRIPTION} characters."
            )
        names = set(_list(weekdays, "weekdays", _weekday))
        object.__setattr__(self, "days", tuple(sorted(set(singles))))
        object.__setattr__(self, "ranges", tuple(_merged(spans)))
        object.__setattr__(self, "yearly", tuple(sorted(set(_list(yearly, "yearly", _month_and_day)))))
        object.__setattr__(self, "weekdays", tuple(name for name in WEEKDAYS if name in names))
        object.__setattr__(self, "description", description)

    def contains(self, day: date) -> bool:
        """Whether this day is in the calendar."""
        if not isinstance(day, date) or isinstance(day, datetime):
            raise InvalidSchedule(f"A calendar contains dates; ask for .date() of {day!r}.")
        return day.toordinal() in self.searchable

    def __or__(self, other: object) -> Calendar:
        if not isinstance(other, Calendar):
            return NotImplemented
        return Calendar(
            (*self.days, *other.days),
            ranges=(*self.ranges, *other.ranges),
            yearly=(*self.yearly, *other.yearly),
            weekdays=(*self.weekdays, *other.weekdays),
            description=self.description or other.description,
        )

    def to_document(self) -> dict[str, Any]:
        """The calendar as plain data, without empty parts."""
        document = {
            "days": [day.isoformat() for day in self.days],
            "ranges": [[first.isoformat(), last.isoformat()] for first, last in self.ranges],
            "yearly": [f"{month:02}-{day:02}" for month, day in self.yearly],
            "weekdays": list(self.weekdays),
            "description": self.description,
        }
        return {key: value for key, value in document.items() if value}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Calendar:
        """The calendar that `to_document` was called on."""
        known = ("days", "ranges", "yearly", "weekdays", "description")
        if not isinstance(document, Mapping) or not set(document) <= set(known):
            raise InvalidSchedule(f"A calendar's document has {', '.join(known)} and nothing else.")
        return cls(**document)

    @classmethod
    def from_ics(
        cls, text: str | bytes, *, since: date | None = None, timezone: str | None = None, description: str = ""
    ) -> Calendar:
        """The days on which the events of an .ics file take place. Needs `pip install 'mainspring[calendars]'`.

        Events that repeat every year or every week are stored as such. Other repeating events are expanded for 20 years
        from `since`, by default the latest date in the file. With `timezone`, times in UTC or another zone are
        converted to days in this zone; otherwise each event has the days of its own zone.
        """
        from mainspring.rules.calendars.ics import read_ics

        return read_ics(text, since, timezone, description)

    @cached_property
    def searchable(self) -> Days:
        """The same days, as a set that can be searched."""
        spans = [*self.ranges, *((day, day) for day in self.days)]
        numbers = ((first.toordinal(), last.toordinal()) for first, last in spans)
        return Days(numbers, self.yearly, (WEEKDAYS.index(name) for name in self.weekdays))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "searchable"}


def _list(values: Iterable[Any], name: str, read: Callable[[object], T]) -> list[T]:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise InvalidSchedule(f"A calendar's {name} must be a list, not {values!r}.")
    found: list[T] = []
    for value in values:
        if len(found) >= MOST_DAYS:
            raise InvalidSchedule(f"A calendar has at most {MOST_DAYS:,} {name}; split this one in several.")
        found.append(read(value))
    return found


def _day(value: object) -> date:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise InvalidSchedule(f"{value!r} is not a date; write it as 2030-12-24.") from None
    if not isinstance(value, date) or isinstance(value, datetime):
        raise InvalidSchedule(f'A calendar has dates, such as date(2030, 12, 24) or "2030-12-24", not {value!r}.')
    return value


def _range(value: object) -> tuple[date, date]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise InvalidSchedule(f"A calendar's range is a first and a last date, (first, last), not {value!r}.")
    first, last = _day(value[0]), _day(value[1])
    if last < first:
        raise InvalidSchedule(f"The range from {first} to {last} ends before it begins; its last day belongs to it.")
    return first, last


def _month_and_day(value: object) -> tuple[int, int]:
    found = _YEARLY.fullmatch(value) if isinstance(value, str) else None
    pair = (int(found[1]), int(found[2])) if found else value
    match pair:
        case (int(month), int(day)) if 1 <= month <= 12 and 1 <= day <= monthrange(_LEAP_YEAR, month)[1]:
            return month, day
    raise InvalidSchedule(f'A day of every year is written as month and day, such as "12-25", not {value!r}.')


def _weekday(value: object) -> str:
    name = value.strip().upper() if isinstance(value, str) else ""
    if name[:3] in WEEKDAYS and name in (name[:3], _FULL_NAMES[WEEKDAYS.index(name[:3])]):
        return name[:3]
    raise InvalidSchedule(f"A weekday is one of {', '.join(WEEKDAYS)}, not {value!r}.")


def _merged(ranges: Iterable[tuple[date, date]]) -> Iterator[tuple[date, date]]:
    for first, last in merge((first.toordinal(), last.toordinal()) for first, last in ranges):
        yield date.fromordinal(first), date.fromordinal(last)
