"""Instants as whole milliseconds: the database stores these, and rules count in them.

Whole numbers add up exactly, however far they reach; a rule never adds to a rounded or a local time. Everything here
works between the years 1 and 9999, a few weeks inside Python's own limits, so that no zone's offset leads beyond them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mainspring.errors import InvalidSchedule

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def check_aware(value: object, name: str) -> datetime:
    """An aware datetime; a naive one is refused, since it names no instant."""
    if not isinstance(value, datetime):
        raise InvalidSchedule(f"{name} must be an aware datetime, such as datetime.now(UTC), not {value!r}.")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidSchedule(
            f"{name}={value.isoformat()} has no time zone, so that it names no instant; "
            "use datetime.now(UTC) + …, or .replace(tzinfo=ZoneInfo('Europe/Paris'))."
        )
    return value


def floor_ms(instant: datetime) -> int:
    """The last whole millisecond that is not after an instant."""
    return (instant - _EPOCH) // _MICROSECOND // 1000


def ceil_ms(instant: datetime) -> int:
    """The first whole millisecond that is not before an instant."""
    return -((_EPOCH - instant) // _MICROSECOND // 1000)


def from_ms(milliseconds: int) -> datetime:
    """The instant, in UTC."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


FIRST_MS = floor_ms(datetime(1, 1, 20, tzinfo=UTC))
LAST_MS = floor_ms(datetime(9999, 12, 10, tzinfo=UTC))


def within(instant: datetime) -> datetime:
    """The instant, or the nearest one within the time that rules cover."""
    return from_ms(FIRST_MS) if instant < from_ms(FIRST_MS) else min(instant, from_ms(LAST_MS))


def instant_text(instant: datetime) -> str:
    """An instant as text for JSON and users, in UTC, with milliseconds where there are any."""
    text = instant.astimezone(UTC).isoformat(timespec="milliseconds" if instant.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def read_instant(value: object, name: str) -> datetime:
    """An instant from a document: text, or a date of the database."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidSchedule(f"{name} must be an instant such as 2030-01-01T09:00:00Z, not {value!r}.") from None
    return check_aware(value, name)
