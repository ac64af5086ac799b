"""What the items of an expression come to: a mask of bits for each field, and the days. Compiled once, then shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b

from mainspring.cron.days import LENGTHS, Days
from mainspring.cron.fields import DAY, FIELDS, MONTH, SPECIAL, WEEKDAY, Field, Item, Kind, values
from mainspring.cron.parse import Items, find_field, parse, refuse

Choose = Callable[[Field, Item], Item]
"""Given a field and an H in it, the item that it stands for."""


class Pattern:
    """A compiled expression. Everything is read-only but the days, which fill themselves in."""

    __slots__ = (
        "days", "first_second", "hashed", "hours", "items", "last_second", "minutes", "months", "per_day", "real_time",
        "resolved", "seconds",
    )  # fmt: skip

    def __init__(self, items: tuple[Items, ...], choose: Choose) -> None:
        self.items = items
        self.hashed = any(item.kind is Kind.HASH for field in items for item in field)
        self.resolved = _resolve(items, choose) if self.hashed else items
        masks = [_mask(field, these) for field, these in zip(FIELDS, self.resolved, strict=True)]
        self.seconds, self.minutes, self.hours, dates, self.months, weekdays = masks
        starred = [_is_star(field[0]) for field in items]
        specials = (_specials(items[3]), _specials(items[5]))
        self.days = Days(dates, weekdays, specials, either=not (starred[3] or starred[5]))
        self.real_time = starred[0] or starred[1] or starred[2]
        """Whether it follows real time: it fires whenever the clock on the wall matches, however often that is."""
        self.per_day = self.hours.bit_count() * self.minutes.bit_count() * self.seconds.bit_count()
        self.first_second = lowest(self.hours) * 3600 + lowest(self.minutes) * 60 + lowest(self.seconds)
        self.last_second = highest(self.hours) * 3600 + highest(self.minutes) * 60 + highest(self.seconds)


@lru_cache(maxsize=4096)
def compile_pattern(expression: str, seed: str) -> Pattern:
    """The pattern of an expression; refused when it cannot be read or can never fire."""
    items = parse(expression)
    pattern = Pattern(items, lambda field, item: _chosen(field, item, _hash(seed, field)))
    varies = any(item.kind is Kind.HASH for item in items[3] + items[4])
    poorest = Pattern(items, _poorest) if varies else pattern
    if not poorest.days.any_in(poorest.months):
        found, position = find_field(DAY, expression)
        where = "H may choose a day that no year has" if varies else "no year has such a day"
        problem = f"{DAY.name}: found {found!r}, but with this {MONTH.name} and {WEEKDAY.name} {where}"
        refuse(expression, position, f"{problem}, so that it would never fire.")
    return pattern


def lowest(mask: int) -> int:
    """The place of the lowest bit that is set."""
    return (mask & -mask).bit_length() - 1


def highest(mask: int) -> int:
    """The place of the highest bit that is set."""
    return mask.bit_length() - 1


def _is_star(item: Item) -> bool:
    return item.kind is Kind.STAR or item.kind is Kind.ANY


def _specials(items: Items) -> list[Item]:
    return [item for item in items if item.kind in SPECIAL]


def _mask(field: Field, items: Items) -> int:
    mask = 0
    for item in items:
        if _is_star(item) and item.step == 1:
            mask |= (1 << field.size) - 1 << field.low
        elif item.kind not in SPECIAL:
            mask |= _bits(values(field, item))
    return mask


def _bits(places: Sequence[int]) -> int:
    mask = 0
    for place in places:
        mask |= 1 << place
    return mask


def _resolve(items: tuple[Items, ...], choose: Choose) -> tuple[Items, ...]:
    """The items with each H replaced by what it stands for."""
    return tuple(
        tuple(choose(field, item) if item.kind is Kind.HASH else item for item in these)
        for field, these in zip(FIELDS, items, strict=True)
    )


def _chosen(field: Field, item: Item, number: int) -> Item:
    """What an H stands for: one value of its reach, or every step-th from one of the first on."""
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
        return min(choices, key=lambda item: max(LENGTHS[month] for month in values(field, item)))
    return max(choices, key=lambda item: min(values(field, item)))
