"""The meaning of a cron expression: its days and its times of day. Compiled once, then shared by equal expressions."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b

from mainspring.rules.cron.days import LENGTHS, cron_days
from mainspring.rules.cron.fields import DAY, FIELDS, MONTH, SPECIAL, WEEKDAY, Field, Item, Kind, values
from mainspring.rules.cron.parse import Items, find_field, parse, refuse
from mainspring.rules.wall_times import DailyTimes, bits, clock_times

Choose = Callable[[Field, Item], Item]
"""Returns the item that an H in a field stands for."""
_PATIENCE = 402
"""The calendar and all zones repeat after 400 years: after those, the zone leaves out every time of the expression."""


class Pattern:
    """A compiled expression."""

    def __init__(self, items: tuple[Items, ...], choose: Choose) -> None:
        self.items = items
        self.hashed = any(item.kind is Kind.HASH for field in items for item in field)
        self.resolved = _resolve(items, choose) if self.hashed else items
        found = [_values(field, these) for field, these in zip(FIELDS, self.resolved, strict=True)]
        seconds, minutes, hours, dates, months, weekdays = found
        starred = [_is_star(field[0]) for field in items]
        self.real_time = starred[0] or starred[1] or starred[2]
        """Whether it follows real time: it fires whenever the clock on the wall matches, however often that is."""
        either = not (starred[3] or starred[5])
        self.days = cron_days(
            bits(dates), bits(months), bits(weekdays), _specials(items[3]), _specials(items[5]), either
        )
        self.times = DailyTimes(self.days, clock_times(hours, minutes, seconds), _PATIENCE)


@lru_cache(maxsize=4096)
def compile_pattern(expression: str, seed: str) -> Pattern:
    """The pattern of an expression; refused when it cannot be read or can never fire."""
    items = parse(expression)
    pattern = Pattern(items, lambda field, item: _chosen(field, item, _hash(seed, field)))
    varies = any(item.kind is Kind.HASH for item in items[3] + items[4])
    poorest = Pattern(items, _poorest) if varies else pattern
    if poorest.days.is_empty():
        found, position = find_field(DAY, expression)
        where = "H may choose a day that no year has" if varies else "no year has such a day"
        problem = f"{DAY.name}: found {found!r}, but with this {MONTH.name} and {WEEKDAY.name} {where}"
        refuse(expression, position, f"{problem}, so that it would never fire.")
    return pattern


def _is_star(item: Item) -> bool:
    return item.kind is Kind.STAR or item.kind is Kind.ANY


def _specials(items: Items) -> Items:
    return tuple(item for item in items if item.kind in SPECIAL)


def _values(field: Field, items: Items) -> tuple[int, ...]:
    """The values that a field names, in order; items that name another day in each month have none."""
    if any(_is_star(item) and item.step == 1 for item in items):
        return tuple(range(field.low, field.low + field.size))
    return tuple(sorted({value for item in items if item.kind not in SPECIAL for value in values(field, item)}))


def _resolve(items: tuple[Items, ...], choose: Choose) -> tuple[Items, ...]:
    """The items with each H replaced by the item that it stands for."""
    return tuple(
        tuple(choose(field, item) if item.kind is Kind.HASH else item for item in these)
        for field, these in zip(FIELDS, items, strict=True)
    )


def _chosen(field: Field, item: Item, number: int) -> Item:
    """The item that an H stands for: one value of its reach, or every step-th from one of the first on."""
    reach = values(field, item)
    if item.step == 1:
        value = reach[number % len(reach)]
        return Item(Kind.RANGE, value, value)
    return Item(Kind.RANGE, reach[number % item.step], reach[-1], item.step)


def _hash(seed: str, field: Field) -> int:
    """A number that is the same in every process and version, and a different one in each field."""
    text = f"{seed}\0{field.name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest())


def _poorest(field: Field, item: Item) -> Item:
    """The choice with the fewest chances to fire at all: the latest day, the shortest month."""
    choices = [_chosen(field, item, number) for number in range(item.step if item.step > 1 else field.size)]
    if field is MONTH:
        return min(choices, key=lambda item: max(LENGTHS[month - 1] for month in values(field, item)))
    return max(choices, key=lambda item: min(values(field, item)))
