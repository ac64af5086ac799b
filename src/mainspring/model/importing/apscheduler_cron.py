"""Cron triggers of APScheduler 3 as cron expressions. Pure.

There, Monday is 0, both the day of the month and the day of the week must match, and there are fields for the year and
the week; what cannot be said in an expression is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.model.importing.pickled import Recorded
from mainspring.model.importing.plan import CannotImport
from mainspring.rules.cron import Cron

_LARGEST = {"month": 12, "day": 31, "day_of_week": 6, "hour": 23, "minute": 59, "second": 59}
_LAST = 5
"""The place of "last" among the words 1st, 2nd, 3rd, 4th, 5th, last."""


def read_cron(fields: Mapping[str, Any], timezone: str) -> Cron:
    """The rule of a trigger's state."""
    parts = {str(one.fields.get("name")): one.fields.get("expressions") or [] for one in fields.get("fields", ())}
    for name in ("year", "week"):
        if not _is_any(parts.get(name, [])):
            raise CannotImport(f"Its cron trigger has a {name}, which cron expressions lack; use start_at and end_at.")
    texts = {name: _field(name, parts.get(name, [])) for name in ("second", "minute", "hour", "month")}
    days, weekdays = _days(parts.get("day", []), parts.get("day_of_week", []))
    expression = f"{texts['second']} {texts['minute']} {texts['hour']} {days} {texts['month']} {weekdays}"
    zone = fields.get("timezone")
    return Cron(expression, getattr(zone, "key", None) or ("UTC" if zone is not None else timezone))


def _days(days: list[Recorded], weekdays: list[Recorded]) -> tuple[str, str]:
    """The two fields of days. A position such as "2nd mon" is a day of the week in an expression."""
    positions = [one for one in days if _kind(one) == "WeekdayPositionExpression"]
    if positions and len(positions) == len(days) and _is_any(weekdays):
        return "*", ",".join(_position(one) for one in positions)
    if positions:
        raise CannotImport("Its days mix positions of weekdays with other days; make two schedules of it.")
    text, of_week = _field("day", days), _field("day_of_week", weekdays)
    if not text.startswith("*") and of_week != "*":
        raise CannotImport(
            "Both its day and its day_of_week must match there; in a cron expression either is enough. Make the "
            "schedule by hand, or check the other one in the handler."
        )
    return text, of_week


def _field(name: str, expressions: list[Recorded]) -> str:
    return ",".join(_expression(name, one) for one in expressions) or "*"


def _expression(name: str, one: Recorded) -> str:
    kind, fields = _kind(one), one.fields
    step = fields.get("step")
    if kind == "LastDayOfMonthExpression":
        return "L"
    first, last = fields.get("first"), fields.get("last")
    if kind == "AllExpression":
        if name != "day_of_week" or step is None:
            return "*" if step is None else f"*/{step}"
        first, last = 0, 6
    if not isinstance(first, int):
        raise CannotImport(f"Its {name} cannot be read ({kind}).")
    end = (last if isinstance(last, int) else first) if step is None or last is not None else _LARGEST[name]
    if name == "day_of_week":
        return ",".join(str((day + 1) % 7) for day in range(first, end + 1, step or 1))
    return str(first) if end == first else f"{first}-{end}{'' if step is None else f'/{step}'}"


def _position(one: Recorded) -> str:
    place, weekday = int(one.fields["option_num"]), (int(one.fields["weekday"]) + 1) % 7
    return f"{weekday}L" if place == _LAST else f"{weekday}#{place + 1}"


def _is_any(expressions: list[Recorded]) -> bool:
    return all(_kind(one) == "AllExpression" and one.fields.get("step") is None for one in expressions)


def _kind(one: Recorded) -> str:
    return one.place.rpartition(".")[2]
