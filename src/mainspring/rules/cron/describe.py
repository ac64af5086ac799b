"""A cron expression in English: the times of day, the days, the months and the zone."""

from __future__ import annotations

from itertools import product

from mainspring.rules.cron.fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    SPECIAL,
    WEEKDAY,
    Field,
    Item,
    Kind,
    values,
)
from mainspring.rules.cron.parse import Items
from mainspring.rules.cron.pattern import Pattern
from mainspring.rules.english import MONTHS, WEEKDAYS, joined, nth

_MOST_LISTED = 6
_ONLY_ZERO = (Item(Kind.RANGE),)
_WHOLE = {SECOND.name: "minute", MINUTE.name: "hour", HOUR.name: "day"}
_BY_ID = " (H is chosen by the schedule's id)"


def describe(pattern: Pattern, zone: str, seeded: bool) -> str:
    """The whole sentence, such as "at 09:00, Monday to Friday, in Asia/Kolkata"."""
    by_id = pattern.hashed and not seeded
    seconds, minutes, hours, dates, months, weekdays = pattern.items if by_id else pattern.resolved
    clock = _clock_times(seconds, minutes, hours)
    days = _days(dates, weekdays) or ("every day" if clock else "")
    parts = (clock or _times(seconds, minutes, hours), days, _months(months), f"in {zone}")
    return ", ".join(part for part in parts if part) + (_BY_ID if by_id else "")


def _clock_times(seconds: Items, minutes: Items, hours: Items) -> str:
    """The times of day as a list, when they are few."""
    known: list[list[int]] = []
    for field, items in ((HOUR, hours), (MINUTE, minutes), (SECOND, seconds)):
        if any(_is_every(item) or item.kind is Kind.HASH for item in items):
            return ""
        known.append(sorted({value for item in items for value in values(field, item)}))
    if len(known[0]) * len(known[1]) * len(known[2]) > _MOST_LISTED:
        return ""
    shape = "{:02}:{:02}" if known[2] == [0] else "{:02}:{:02}:{:02}"
    return f"at {joined([shape.format(*time) for time in product(*known)])}"


def _times(seconds: Items, minutes: Items, hours: Items) -> str:
    """The frequency, or the seconds or minutes, of which hours."""
    if seconds == _ONLY_ZERO:
        parts = [_lead(MINUTE, minutes)]
    else:
        parts = [_lead(SECOND, seconds)]
        if parts[0].startswith("at") or not _is_every(minutes[0]):
            parts.append(_of(MINUTE, minutes))
    if not _is_every(hours[0]) or not (parts[-1].startswith("every") or parts[-1] == "of every minute"):
        parts.append(_of(HOUR, hours))
    return " ".join(parts)


def _lead(field: Field, items: Items) -> str:
    """The first words, such as "every 5 minutes" or "at minute 5"."""
    item = items[0]
    if len(items) == 1 and _is_every(item):
        return f"every {field.name}"
    if len(items) == 1 and item.kind is Kind.STAR:
        uneven = f" from the start of each {_WHOLE[field.name]}" if field.size % item.step else ""
        return f"every {item.step} {field.name}s{uneven}"
    if len(items) == 1 and _has_many_steps(field, item):
        return f"every {item.step} {field.name}s from {field.name} {_reach(field, item)}"
    return f"at {_named(field, items)}"


def _of(field: Field, items: Items) -> str:
    """The words that limit the words before them."""
    item = items[0]
    if len(items) == 1 and item.kind is Kind.STAR:
        return f"of every {field.name}" if item.step == 1 else f"of every {nth(item.step)} {field.name}"
    if len(items) == 1 and _has_many_steps(field, item):
        return f"of every {nth(item.step)} {field.name} from {_reach(field, item)}"
    return f"of {_named(field, items)}"


def _named(field: Field, items: Items) -> str:
    """The values with their noun, such as "minute 5" or "minutes 5 and 20 to 25"."""
    listed = _listed(field, items)
    one = len(listed) == 1 and (items[0].low == items[0].high or items[0].kind is Kind.HASH)
    return f"{field.name}{'' if one else 's'} {joined(listed)}"


def _days(dates: Items, weekdays: Items) -> str:
    if _is_every(dates[0]) and _is_every(weekdays[0]):
        return ""
    if _is_every(dates[0]):
        plain = len(weekdays) == 1 and weekdays[0].kind is Kind.RANGE and weekdays[0].low != weekdays[0].high
        return _weekdays(weekdays) if plain and weekdays[0].step == 1 else f"on {_weekdays(weekdays)}"
    if _is_every(weekdays[0]):
        return f"on {_dates(dates)}"
    both = dates[0].kind is Kind.STAR or weekdays[0].kind is Kind.STAR
    if both:
        return f"on {_dates(dates)} if it is {_weekdays(weekdays, 'or')}"
    return f"on {_dates(dates)} or on {_weekdays(weekdays)}"


def _dates(items: Items) -> str:
    plain = tuple(item for item in items if item.kind not in SPECIAL)
    if len(plain) == 1 and plain[0].kind is Kind.STAR:
        named = [f"every {nth(plain[0].step)} day"]
    else:
        named = [_named(DAY, plain).replace("day of months", "days").replace("day of month", "day")] if plain else []
    named += [_special_date(item) for item in items if item.kind in SPECIAL]
    return f"{joined(named)} of the month"


def _special_date(item: Item) -> str:
    if item.kind is Kind.LAST_WORKDAY:
        return "the last workday (Monday to Friday)"
    if item.kind is Kind.NEAREST_WORKDAY:
        return f"the workday (Monday to Friday) nearest to day {item.low}"
    if not item.low:
        return "the last day"
    return f"the {nth(item.low)} day before the last"


def _weekdays(items: Items, word: str = "and") -> str:
    named = _listed(WEEKDAY, tuple(item for item in items if item.kind not in SPECIAL))
    for item in items:
        if item.kind is Kind.LAST_WEEKDAY:
            named.append(f"the last {_value(WEEKDAY, item.low)} of the month")
        elif item.kind is Kind.NTH_WEEKDAY:
            named.append(f"the {nth(item.high)} {_value(WEEKDAY, item.low)} of the month")
    return joined(named, word)


def _months(items: Items) -> str:
    return "" if _is_every(items[0]) else f"in {joined(_listed(MONTH, items))}"


def _listed(field: Field, items: Items) -> list[str]:
    """Each item in words; items with few steps as their values."""
    return [text for item in items for text in _item(field, item)]


def _item(field: Field, item: Item) -> list[str]:
    if _has_many_steps(field, item):
        return [f"every {nth(item.step)} from {_reach(field, item)}"]
    if item.step > 1:
        return [_value(field, value) for value in values(field, item)]
    return [_reach(field, item)]


def _has_many_steps(field: Field, item: Item) -> bool:
    return item.step > 1 and (item.kind is Kind.HASH or len(values(field, item)) > _MOST_LISTED)


def _reach(field: Field, item: Item) -> str:
    """The first and the last value of an item, in words."""
    low, high = _value(field, item.low), _value(field, item.high)
    if item.kind is Kind.HASH:
        return "H" if (item.low, item.high) == (field.low, field.hashed) else f"H (within {low} to {high})"
    return low if item.low == item.high else f"{low} to {high}"


def _value(field: Field, value: int) -> str:
    if field is MONTH:
        return MONTHS[value - 1]
    return WEEKDAYS[(value - 1) % 7] if field is WEEKDAY else str(value)


def _is_every(item: Item) -> bool:
    return item.kind is Kind.ANY or (item.kind is Kind.STAR and item.step == 1)
