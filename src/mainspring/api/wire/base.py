"""The base of all bodies: camelCase on the wire, no unknown fields, instants ending in Z.

A duration is text with its unit, such as "5m", under its name in Python. The name of a number of milliseconds ends with
Ms; the exceptions are `every`, `retryDelay`, `duration` and `pollInterval`, which are named as in other services.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel
from pydantic_core import to_jsonable_python

from mainspring.durations import duration_ms, duration_text
from mainspring.jobtypes.http.templates import instant
from mainspring.model.unreadable import Listed

LONGEST_MS = 100 * 365 * 86_400_000
# Instants that can be moved by any zone and any duration without leaving the calendar.
_FIRST_YEAR, _LAST_YEAR = 1000, 9000
T = TypeVar("T")


class In(BaseModel):
    """The body of a request. An unknown field is refused, and so are NaN and Infinity, which are not JSON."""

    model_config = ConfigDict(
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
        frozen=True,
        allow_inf_nan=False,
    )


class Nothing(In):
    """An empty body, which may be left out."""


class Out(BaseModel):
    """The body of a response. It is built at its first use: to build all of them is a large part of the import of the
    service. A body of a request cannot be, since FastAPI puts it into a type of its own, which needs it built."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
        defer_build=True,
    )


class Answer(Out, Generic[T]):
    """The body of a response. `next` is the cursor of the next page, if there is one."""

    success: bool = True
    data: T
    next: str | None = None


class UnreadableOut(Out):
    """A stored document that cannot be read."""

    id: str
    error: str


class ListAnswer(Answer[list[T]], Generic[T]):
    """A whole list. `unreadable` names stored documents that cannot be read; keys with a scope do not see it."""

    unreadable: list[UnreadableOut] = Field(default_factory=list)

    @classmethod
    def of(cls, found: Sequence[Any], shown: Sequence[T], *, everything: bool = True) -> Self:
        """The answer with the documents found, as far as the caller reaches them."""
        named = found.unreadable if everything and isinstance(found, Listed) else ()
        return cls(data=list(shown), unreadable=[UnreadableOut(id=one.id, error=one.error) for one in named])


def check_instant(value: datetime) -> datetime:
    """The instant in UTC; ValueError if it has no zone, or is too near the ends of the calendar."""
    if value.tzinfo is None:
        raise ValueError("has no time zone; end it with Z or an offset such as +02:00")
    if not _FIRST_YEAR <= value.year < _LAST_YEAR:
        raise ValueError(f"must be in a year from {_FIRST_YEAR} on and before {_LAST_YEAR}")
    return value.astimezone(UTC)


Instant = Annotated[datetime, PlainSerializer(instant, return_type=str), Field(examples=["2026-12-24T18:00:00.000Z"])]
InstantIn = Annotated[datetime, AfterValidator(check_instant), Field(examples=["2026-12-24T18:00:00.000Z"])]
Milliseconds = Annotated[int, Field(ge=0, le=LONGEST_MS)]


def _with_unit(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(f'is text with its unit: write "{value}s" for seconds, "{value}ms" for milliseconds')
    return value


def _check_span(value: str) -> str:
    if duration_ms(value, "duration") > LONGEST_MS:
        raise ValueError("is longer than a hundred years")
    return value


Span = Annotated[
    str,
    BeforeValidator(_with_unit),
    AfterValidator(_check_span),
    Field(max_length=60, pattern=r"^\s*[0-9]", examples=["5m", "1h30m", "250ms"]),
]
"""A duration in a request; the Scheduler takes it as it is."""


def span_seconds(value: str | int) -> float:
    """The seconds of a duration in a request, which is text or whole milliseconds."""
    return (value if isinstance(value, int) else duration_ms(value, "duration")) / 1000


def span_text(value: timedelta | float | None) -> str | None:
    """A duration in an answer: text that a request may send back."""
    milliseconds = to_ms(value)
    return None if milliseconds is None else duration_text(milliseconds)


def to_ms(value: timedelta | float | None) -> int | None:
    """A duration as whole milliseconds."""
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return round(seconds * 1000)


def jsonable(value: Any) -> Any:
    """A value as JSON; types of MongoDB that JSON does not have become text."""
    return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="strings", fallback=str)
