"""Calendars from .ics files: the days on which their events take place.

The package `icalendar` reads the text; this module computes the days of its events, in bounded steps: a file is at most
1 MB, and an event that repeats without an end is either kept as such (every year, every week) or written out for a
limited time. Cancelled events do not count; a moved instance of a repeated event counts on its new day.
"""

from __future__ import annotations

from calendar import monthrange
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

from mainspring.errors import InvalidSchedule
from mainspring.rules.calendars.calendar import WEEKDAYS, Calendar
from mainspring.rules.calendars.vevent import Event
from mainspring.rules.rrule.parse import parse
from mainspring.rules.rrule.pattern import DAILY, WEEKLY, YEARLY, Pattern
from mainspring.rules.rrule.rrule import RRule
from mainspring.rules.zones.zone import find_zone

MOST_BYTES = 1_000_000
MOST_REPEATED = 500
MOST_WRITTEN_OUT = 10_000
_BEFORE, _AFTER = timedelta(days=5 * 366), timedelta(days=20 * 366)
_DAY, _TICK = timedelta(days=1), timedelta(microseconds=1)
_LEAP_YEAR = 2000
_FEBRUARY_ENDS = ((2, 28), (2, 29))


def read_ics(text: str | bytes, since: date | None, timezone: str | None, description: str) -> Calendar:
    """The calendar that a file describes; `since` is the day around which repeated events are written out."""
    try:
        return _read(text, since, timezone, description)
    except OverflowError:
        raise InvalidSchedule("This .ics file has an event that reaches beyond the year 9999.") from None


def _read(text: str | bytes, since: date | None, timezone: str | None, description: str) -> Calendar:
    zone = None if timezone is None else find_zone(timezone)
    events = [Event.read(event) for event in _load(text)]
    around = since or _youngest(events)
    moved: dict[str, set[date]] = defaultdict(set)
    for event in events:
        if event.replaces is not None:
            moved[event.uid].add(event.replaces)
    reading = _Reading(around, zone)
    for event in events:
        if not event.cancelled:
            reading.take(event, moved[event.uid] if event.replaces is None else set())
    return reading.calendar(description)


def _youngest(events: list[Event]) -> date:
    """The approximate date of the file: its youngest stamp, or otherwise the last beginning of its events."""
    stamps = [event.stamp for event in events if event.stamp is not None]
    return max(stamps or [event.first for event in events], default=date(2000, 1, 1))


def _load(text: str | bytes) -> list[Any]:
    """The events of the file, as the package reads them."""
    try:
        import icalendar
    except ImportError:
        raise InvalidSchedule("Reading .ics files needs a package: pip install 'mainspring[calendars]'.") from None
    if not isinstance(text, str | bytes):
        raise InvalidSchedule(f"An .ics file is text or bytes, not {type(text).__name__}; read the file first.")
    if len(text) > MOST_BYTES:
        raise InvalidSchedule("An .ics file of more than 1 MB is not read; split it into several calendars.")
    try:
        loaded = icalendar.Calendar.from_ical(text, multiple=True)
        return [event for part in loaded for event in part.walk("VEVENT")] if loaded else _refuse_empty()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InvalidSchedule):
            raise
        raise InvalidSchedule(f"This .ics file cannot be read: {str(error)[:200]}") from None


def _refuse_empty() -> list[Any]:
    raise InvalidSchedule("This is not an .ics file: it has no BEGIN:VCALENDAR.")


class _Reading:
    """The days that have been found so far."""

    def __init__(self, around: date, zone: ZoneInfo | None) -> None:
        self._around = around
        self._zone = zone
        self._spans: set[tuple[date, date]] = set()
        self._yearly: set[tuple[int, int]] = set()
        self._weekdays: set[str] = set()
        self._repeated = 0
        self._written = 0

    def calendar(self, description: str) -> Calendar:
        """The calendar of all days; single days that also repeat are not listed again."""
        kept = Calendar(yearly=self._yearly, weekdays=self._weekdays).searchable
        left = [
            (first, last) for first, last in self._spans if (kept.next_out(first.toordinal()) or 0) <= last.toordinal()
        ]
        singles = [first for first, last in left if first == last]
        ranges = [span for span in left if span[0] != span[1]]
        return Calendar(singles, ranges=ranges, yearly=self._yearly, weekdays=self._weekdays, description=description)

    def take(self, event: Event, moved: set[date]) -> None:
        """Note the days of an event; instances on the days in `moved` have events of their own."""
        left_out = event.left_out | moved
        for begin, end in event.extra:
            self._spans.add(event.days(begin, self._zone, end))
        if event.first not in left_out:
            self._spans.add(event.days(event.start, self._zone))
        for text in event.rules:
            self._repeat(event, text, left_out)

    def _repeat(self, event: Event, text: str, left_out: frozenset[date]) -> None:
        self._repeated += 1
        if self._repeated > MOST_REPEATED:
            raise InvalidSchedule(f"An .ics file has at most {MOST_REPEATED} repeated events; split this one.")
        try:
            pattern = parse(text).pattern
            if pattern.freq > DAILY:
                raise InvalidSchedule("a calendar of days takes no FREQ finer than DAILY")
            if not left_out and event.first <= self._around and self._keep(event, pattern.completed(event.wall)):
                return
            self._write_out(event, RRule(text, event.zone, start=event.instant), left_out)
        except InvalidSchedule as error:
            raise InvalidSchedule(f"The event {event.name!r} repeats in a way that cannot be read: {error}") from None

    def _keep(self, event: Event, pattern: Pattern) -> bool:
        """Keep an event that repeats every year or every week, without an end, as yearly days or weekdays; returns
        whether it is one."""
        first, last = event.days(event.start, self._zone)
        endless = pattern.count is None and pattern.until is None and pattern.interval == 1 and not pattern.positions
        if not endless or first != event.first:
            return False
        if pattern.freq == WEEKLY and first == last and not pattern.months:
            self._weekdays |= {WEEKDAYS[day] for _, day in pattern.weekdays}
            return True
        plain = not (pattern.weekdays or pattern.year_days or pattern.week_numbers)
        if pattern.freq != YEARLY or not plain or min(pattern.month_days) < 0 or not pattern.months:
            return False
        days = set(product(pattern.months, pattern.month_days))
        if first != last:
            days = {((first + _DAY * n).month, (first + _DAY * n).day) for n in range((last - first).days + 1)}
            if len(pattern.months) * len(pattern.month_days) > 1 or days.intersection(_FEBRUARY_ENDS):
                return False
        self._yearly |= {(month, day) for month, day in days if day <= monthrange(_LEAP_YEAR, month)[1]}
        return True

    def _write_out(self, event: Event, rule: RRule, left_out: frozenset[date]) -> None:
        for begin in self._instances(rule):
            self._written += 1
            if self._written > MOST_WRITTEN_OUT:
                raise InvalidSchedule(f"written out, this makes more than {MOST_WRITTEN_OUT:,} days")
            if begin.date() not in left_out:
                self._spans.add(event.days(event.as_written(begin), self._zone))

    def _instances(self, rule: RRule) -> Iterator[datetime]:
        """One instance a day, within the time for which repeated events are written out."""
        begin = datetime(self._around.year, self._around.month, self._around.day, tzinfo=UTC)
        found = rule.next(begin - _BEFORE)
        while found is not None and found < begin + _AFTER:
            yield found
            found = rule.next(found.replace(hour=0, minute=0, second=0, microsecond=0) + _DAY - _TICK)
