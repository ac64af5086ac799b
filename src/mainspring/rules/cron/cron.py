"""`Cron`: a cron expression in a time zone, as a rule.

The constructor checks everything; the other methods read no clock and fail only for a datetime without a zone. Equal
expressions of a process share their compiled patterns. The next firing is found by `Timeline.first` in
`rules/timeline.py`, among the wall times of the pattern (`rules/cron/pattern.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self
from zoneinfo import ZoneInfo

from mainspring.errors import InvalidSchedule
from mainspring.rules.calendars.calendar import Calendar
from mainspring.rules.cron.describe import describe
from mainspring.rules.cron.parse import check, normalise
from mainspring.rules.cron.pattern import Pattern, compile_pattern
from mainspring.rules.timeline import Timeline
from mainspring.rules.wall_clock_rule import WallClockRule
from mainspring.rules.zones.zone import Fold, Gap, check_policy, find_zone
from mainspring.spelling import spelled_class


@spelled_class
class Cron(WallClockRule):
    """Fires at the wall times that an expression names, in a time zone.

    The expression has five fields (minute, hour, day of month, month, day of week), or six with seconds first. `gap` is
    the policy for a wall time that does not exist because clocks go forward: "after" fires at the first instant after
    the gap, "skip" leaves the firing out. `fold` is the policy for an hour that happens twice: it fires in the "first"
    pass, the "last" or "both". Expressions whose second, minute or hour begins with `*` follow real time instead. `H`
    is a hash of `seed`; the default seed is the id of the schedule.
    """

    _key: tuple[str, str, Gap, Fold, str | None]
    _pattern: Pattern
    _firings: Timeline

    def __init__(
        self,
        expression: str,
        timezone: str | ZoneInfo = "UTC",
        *,
        gap: Gap = "after",
        fold: Fold = "first",
        seed: str | None = None,
    ) -> None:
        check(expression)
        check_policy(gap, fold)
        if seed is not None and not isinstance(seed, str):
            raise InvalidSchedule(f"seed must be text, such as the id of a schedule, not {seed!r}.")
        pattern = compile_pattern(expression, seed or "")
        zone = find_zone(timezone)
        object.__setattr__(self, "_key", (normalise(expression), zone.key, gap, fold, seed))
        object.__setattr__(self, "_pattern", pattern)
        if pattern.real_time:
            gap, fold = "skip", "both"
        object.__setattr__(self, "_firings", Timeline(pattern.times, zone, gap, fold))

    @property
    def expression(self) -> str:
        """The expression in capitals, with single spaces."""
        return self._key[0]

    @property
    def seed(self) -> str | None:
        """The text that H is a hash of; None as long as the rule belongs to no schedule."""
        return self._key[4]

    @property
    def meaning(self) -> tuple[object, ...]:
        """Equal for rules with the same firings. An `H` counts as the value that it stands for."""
        return self._pattern.resolved, self.timezone, self.gap, self.fold

    def describe(self) -> str:
        """The meaning of the rule, in English."""
        return describe(self._pattern, self.timezone, self.seed is not None)

    def bind(self, schedule_id: str, calendars: Mapping[str, Calendar]) -> Self:
        """The rule with the schedule's id as its seed; the same rule when it has no H, or a seed already."""
        if self.seed is not None or not self._pattern.hashed:
            return self
        return type(self)(self.expression, self.timezone, gap=self.gap, fold=self.fold, seed=schedule_id)

    def to_document(self) -> dict[str, Any]:
        """The rule as plain data."""
        expression, zone, gap, fold, seed = self._key
        document = {"kind": "cron", "expression": expression, "timezone": zone, "gap": gap, "fold": fold}
        return document if seed is None else {**document, "seed": seed}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The rule from plain data; only the expression is needed, the rest has its defaults."""
        if "expression" not in document:
            raise InvalidSchedule('A rule of kind "cron" needs an "expression".')
        return cls(
            document["expression"],
            document.get("timezone", "UTC"),
            gap=document.get("gap", "after"),
            fold=document.get("fold", "first"),
            seed=document.get("seed"),
        )

    def __repr__(self) -> str:
        expression, zone, gap, fold, seed = self._key
        given = [repr(expression)]
        if zone != "UTC":
            given.append(repr(zone))
        options = (("gap", gap, "after"), ("fold", fold, "first"), ("seed", seed, None))
        given += [f"{name}={value!r}" for name, value, default in options if value != default]
        return f"{type(self).__name__}({', '.join(given)})"

    def _timeline(self, asked: int) -> Timeline:
        return self._firings
