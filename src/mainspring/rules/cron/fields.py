"""The fields of a cron expression: their names, their values, and the kinds of items in them.

Pure tables, used by the parser, the compiled pattern and the description.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from mainspring.rules.english import MONTHS, WEEKDAYS

SUNDAY, SATURDAY = 0, 6


def _names(full: tuple[str, ...], start: int) -> dict[str, int]:
    """The numbers of names, by their first three letters and in full."""
    upper = [name.upper() for name in full]
    return {name: number for number, whole in enumerate(upper, start) for name in (whole[:3], whole)}


class Field(NamedTuple):
    """One field: `size` values counted from `low`; `high` may be written, too, and is the end of `n/step`."""

    name: str
    low: int
    high: int
    size: int
    hashed: int
    """The last value that H may choose: the 28th for days, so that each month has it."""
    names: Mapping[str, int] = {}


SECOND = Field("second", 0, 59, 60, 59)
MINUTE = Field("minute", 0, 59, 60, 59)
HOUR = Field("hour", 0, 23, 24, 23)
DAY = Field("day of month", 1, 31, 31, 28)
MONTH = Field("month", 1, 12, 12, 12, _names(MONTHS, 1))
WEEKDAY = Field("day of week", 0, 7, 7, 6, _names((*WEEKDAYS[-1:], *WEEKDAYS[:-1]), 0))
FIELDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)

MACROS = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}


class Kind(Enum):
    """The kinds of items in a field."""

    STAR = "*, */step"
    ANY = "?"
    RANGE = "value, value-value, either with /step"
    HASH = "H, H(value-value), either with /step"
    LAST = "L, L-n: days before the last of the month"
    LAST_WORKDAY = "LW"
    NEAREST_WORKDAY = "nW"
    LAST_WEEKDAY = "nL"
    NTH_WEEKDAY = "n#k"


SPECIAL = frozenset((Kind.LAST, Kind.LAST_WORKDAY, Kind.NEAREST_WORKDAY, Kind.LAST_WEEKDAY, Kind.NTH_WEEKDAY))
"""Kinds that name another day in each month."""


class Item(NamedTuple):
    """One of the items that commas separate. `low` holds n, and `high` holds k, of the kinds that have them."""

    kind: Kind
    low: int = 0
    high: int = 0
    step: int = 1


def values(field: Field, item: Item) -> list[int]:
    """The values of a star, a range or the reach of an H, in the order of counting; a range may wrap."""
    high = item.high if item.high >= item.low else item.high + field.size
    step = 1 if item.kind is Kind.HASH else item.step
    return [field.low + (value - field.low) % field.size for value in range(item.low, high + 1, step)]
