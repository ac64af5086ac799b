"""What all bodies have in common: camelCase on the wire, nothing unknown, milliseconds, instants ending in Z."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from mainspring.jobtypes.http.templates import instant

LONGEST_MS = 100 * 365 * 86_400_000
# Instants that can be moved by any zone and any duration without leaving the calendar.
_FIRST_YEAR, _LAST_YEAR = 1000, 9000
T = TypeVar("T")


class In(BaseModel):
    """The body of a request. A field that nobody knows is refused."""

    model_config = ConfigDict(
        extra="forbid", alias_generator=to_camel, populate_by_name=True, hide_input_in_errors=True, frozen=True
    )


class Nothing(In):
    """A body that says nothing; it may as well be left out."""


class Out(BaseModel):
    """The body of a response."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)


class Answer(Out, Generic[T]):
    """What a call has to say. `next` leads to the next page, where there is one."""

    success: bool = True
    data: T
    next: str | None = None


def check_instant(value: datetime) -> datetime:
    """An instant in UTC; ValueError if it says no zone, or is too near the ends of the calendar."""
    if value.tzinfo is None:
        raise ValueError("has no time zone; end it with Z or an offset such as +02:00")
    if not _FIRST_YEAR <= value.year < _LAST_YEAR:
        raise ValueError(f"must be in a year from {_FIRST_YEAR} on and before {_LAST_YEAR}")
    return value.astimezone(UTC)


Instant = Annotated[datetime, PlainSerializer(instant, return_type=str), Field(examples=["2026-12-24T18:00:00.000Z"])]
InstantIn = Annotated[datetime, AfterValidator(check_instant), Field(examples=["2026-12-24T18:00:00.000Z"])]
Milliseconds = Annotated[int, Field(ge=0, le=LONGEST_MS)]


def to_ms(value: timedelta | float | None) -> int | None:
    """A duration as whole milliseconds."""
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return round(seconds * 1000)
