"""One event of an .ics file: its times and its days."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from mainspring.errors import InvalidSchedule

_DAY, _TICK = timedelta(days=1), timedelta(microseconds=1)
When = date | datetime


@dataclass(frozen=True)
class Event:
    """A VEVENT. `start` is a date when the event takes whole days, otherwise a datetime, with or without a zone."""

    name: str
    uid: str
    start: When
    length: timedelta
    rules: tuple[str, ...]
    left_out: frozenset[date]
    extra: tuple[tuple[When, When | None], ...]
    """RDATEs: their beginnings and, where they have one of their own, their ends."""
    replaces: date | None
    """The day of the instance of a repeated event that this one replaces."""
    cancelled: bool
    stamp: date | None
    """The date of the entry (DTSTAMP)."""

    @classmethod
    def read(cls, event: Any) -> Event:
        """The event that the package has read, checked."""
        name = str(event.get("SUMMARY") or event.get("UID") or "without a name")[:100]
        start = _moment(event, "DTSTART", name)
        if start is None:
            raise InvalidSchedule(f"The event {name!r} has no DTSTART, so that it is on no day.")
        replaces, stamp = _moment(event, "RECURRENCE-ID", name), _moment(event, "DTSTAMP", name)
        return cls(
            name=name,
            uid=str(event.get("UID") or ""),
            start=start,
            length=_length(event, start, name),
            rules=tuple(_rule(one, name) for one in _all(event, "RRULE")),
            left_out=frozenset(_date(begin) for begin, _ in _dates(event, "EXDATE", name)),
            extra=tuple(_dates(event, "RDATE", name)),
            replaces=None if replaces is None else _date(replaces),
            cancelled=str(event.get("STATUS") or "").upper() == "CANCELLED",
            stamp=None if stamp is None else _date(stamp),
        )

    @property
    def first(self) -> date:
        return _date(self.start)

    @property
    def wall(self) -> datetime:
        """Its beginning as local wall time."""
        if isinstance(self.start, datetime):
            return self.start.replace(tzinfo=None)
        return datetime(self.start.year, self.start.month, self.start.day)

    @property
    def zone(self) -> str:
        """The zone of its wall times; UTC where it has none, or one without a name."""
        zone = self.start.tzinfo if isinstance(self.start, datetime) else None
        return zone.key if isinstance(zone, ZoneInfo) else "UTC"

    @property
    def instant(self) -> datetime:
        named = isinstance(self.start, datetime) and isinstance(self.start.tzinfo, ZoneInfo)
        return self.start if named and isinstance(self.start, datetime) else self.wall.replace(tzinfo=UTC)

    def as_written(self, instance: datetime) -> When:
        """An instance in the form of the event's own beginning."""
        if not isinstance(self.start, datetime):
            return instance.date()
        return instance if isinstance(self.start.tzinfo, ZoneInfo) else instance.replace(tzinfo=self.start.tzinfo)

    def days(self, begin: When, zone: ZoneInfo | None, end: When | None = None) -> tuple[date, date]:
        """The first and the last day of an instance; its end is not part of it."""
        if end is None:
            length = self.length if isinstance(begin, datetime) else max(self.length, _DAY)
            end = begin + length
        first, last = _wall(begin, zone), _wall(end, zone)
        return first.date(), max(first, last - _TICK).date()


def _moment(event: Any, key: str, name: str) -> When | None:
    value = event.get(key)
    if value is None:
        return None
    found = _dt(value)
    if not isinstance(found, date):
        raise InvalidSchedule(f"The event {name!r} has no readable {key}: {str(value)[:100]!r}.")
    return found


def _length(event: Any, start: When, name: str) -> timedelta:
    end, duration = _moment(event, "DTEND", name), event.get("DURATION")
    if end is None:
        default = timedelta(0) if isinstance(start, datetime) else _DAY
        length = default if duration is None else _dt(duration)
        if not isinstance(length, timedelta):
            raise InvalidSchedule(f"The event {name!r} has no readable DURATION: {str(duration)[:100]!r}.")
    else:
        if isinstance(end, datetime) != isinstance(start, datetime):
            raise InvalidSchedule(f"The event {name!r} begins with a {_kind(start)} and ends with a {_kind(end)}.")
        length = _wall(end, None) - _wall(start, None) if _mixed(start, end) else end - start
    if length < timedelta(0):
        raise InvalidSchedule(f"The event {name!r} ends before it begins.")
    return length


def _mixed(start: When, end: When) -> bool:
    """Whether only one of the two has a zone, so that they cannot be subtracted."""
    zones = [one.tzinfo is None for one in (start, end) if isinstance(one, datetime)]
    return len(set(zones)) > 1


def _kind(when: When) -> str:
    return "time" if isinstance(when, datetime) else "date"


def _rule(value: Any, name: str) -> str:
    try:
        return str(value.to_ical().decode())
    except (AttributeError, ValueError):
        raise InvalidSchedule(f"The event {name!r} has no readable RRULE: {str(value)[:100]!r}.") from None


def _dates(event: Any, key: str, name: str) -> Iterator[tuple[When, When | None]]:
    for value in _all(event, key):
        for one in _list_of(value):
            found = _dt(one)
            if isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], datetime):
                yield found[0], found[0] + found[1] if isinstance(found[1], timedelta) else found[1]
            elif isinstance(found, date):
                yield found, None
            else:
                raise InvalidSchedule(f"The event {name!r} has no readable {key}: {str(value)[:100]!r}.")


def _dt(value: Any) -> Any:
    """The Python value that the package made of a property; None when it could not read it."""
    try:
        return value.dt
    except (AttributeError, ValueError):
        return None


def _list_of(value: Any) -> list[Any]:
    try:
        return list(value.dts)
    except (AttributeError, ValueError):
        return [None]


def _all(event: Any, key: str) -> list[Any]:
    value = event.get(key)
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _date(when: When) -> date:
    return when.date() if isinstance(when, datetime) else when


def _wall(when: When, zone: ZoneInfo | None) -> datetime:
    """A beginning or an end as wall time; in `zone`, if both it and `when` have one."""
    if not isinstance(when, datetime):
        return datetime(when.year, when.month, when.day)
    if zone is not None and when.tzinfo is not None:
        when = when.astimezone(zone)
    return when.replace(tzinfo=None)
