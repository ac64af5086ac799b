"""`Except`: a rule whose firings on the days of named calendars are left out or moved to another day."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from mainspring.config.settings import check_name
from mainspring.errors import CalendarNotFound, ConfigurationError, InvalidSchedule
from mainspring.rules.any_of import check_depth, combinable, parts
from mainspring.rules.calendars.calendar import Calendar
from mainspring.rules.instants import check_aware, within
from mainspring.rules.moved_firings import MAX_PER_DAY, NEXT, PREVIOUS, SKIP, Exclusion
from mainspring.rules.rule import BaseRule, Rule, span
from mainspring.rules.zones.zone import Fold, Gap, find_zone
from mainspring.spelling import spelled_class

MOST_CALENDARS = 16
_DAY = timedelta(days=1)
_THEN = (SKIP, NEXT, PREVIOUS)
_WORDS = {SKIP: "left out", NEXT: "moved to the next other day", PREVIOUS: "moved to the last other day before"}
# A Saturday and a Monday, from which the busiest of the next few days is taken.
_SAMPLES = ("2024-06-01T00:00:00+00:00", "2025-02-03T00:00:00+00:00")


@spelled_class
class Except(BaseRule):
    """Fires as `rule` does, but not on the days of the named calendars.

    `then` is the policy for a firing on such a day: "skip" leaves it out; "next" and "previous" move it, at the same
    wall time, to the nearest day that is in none of the calendars, at most 31 days away. Firings at the same instant
    become one. Days are those of the rule's zone, or of `timezone`; without either, of UTC.

    The calendars are stored ones, by name; the schedule supplies them. To use such a rule without a schedule, call
    `rule.bind("", {"holidays": Calendar(...)})`.
    """

    rule: Rule
    names: tuple[str, ...]
    then: str
    timezone: str
    bound: tuple[Calendar, ...] | None

    def __init__(self, rule: Rule, *calendars: str, then: str = SKIP, timezone: str | None = None) -> None:
        if then not in _THEN:
            raise InvalidSchedule(f"then must be one of {', '.join(map(repr, _THEN))}, not {then!r}.")
        self._set(combinable(rule), _names(calendars), then, _zone(rule, timezone), None)
        check_depth(parts(self), parts)
        if then != SKIP:
            _check_density(rule)

    def _set(
        self, rule: Rule, names: tuple[str, ...], then: str, timezone: str, bound: tuple[Calendar, ...] | None
    ) -> None:
        values = {"rule": rule, "names": names, "then": then, "timezone": timezone, "bound": bound}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_evaluated", None if bound is None else self._evaluate(bound))

    _evaluated: Exclusion | None

    def _evaluate(self, bound: tuple[Calendar, ...]) -> Exclusion:
        named = tuple(zip(self.names, (calendar.searchable for calendar in bound), strict=True))
        gap: Gap = getattr(self.rule, "gap", "after")
        fold: Fold = getattr(self.rule, "fold", "first")
        return Exclusion(self.rule, named, self.then, find_zone(self.timezone), gap, fold)

    @property
    def _ready(self) -> Exclusion:
        if self._evaluated is None:
            raise InvalidSchedule(
                f"This rule needs the calendars {', '.join(self.names)}; a schedule gives them to it, "
                'or rule.bind("", {"name": Calendar(...)}).'
            )
        return self._evaluated

    def _meaning(self) -> tuple[object, ...]:
        return self.rule, self.names, self.then, self.timezone, self.bound

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Except) and self._meaning() == other._meaning()

    def __hash__(self) -> int:
        return hash(self._meaning())

    def __repr__(self) -> str:
        return f"Except({self.rule!r}, {', '.join(map(repr, self.names))}, then={self.then!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, self._meaning()

    def next(self, after: datetime) -> datetime | None:
        inside = within(check_aware(after, "after"))
        return None if inside < after else self._ready.next(inside)

    def previous(self, before: datetime) -> datetime | None:
        inside = within(check_aware(before, "before"))
        return None if inside > before else self._ready.previous(inside)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        span(start, end)
        return self.anchored(start)._ready.between(within(start), within(end))

    def count(self, start: datetime, end: datetime) -> int:
        span(start, end)
        return self.anchored(start)._ready.count(within(start), within(end))

    def skipped(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        span(start, end)
        ready = self.anchored(start)
        return heapq.merge(
            ready._ready.skipped(within(start), within(end)), ready.rule.skipped(start, end), key=lambda pair: pair[0]
        )

    def notes(self, at: datetime) -> tuple[str, ...]:
        return self._ready.notes(within(check_aware(at, "at")))

    def describe(self) -> str:
        days = f"days in {self.timezone} of " if self.timezone not in self.rule.zones else "days of "
        return f"{self.rule.describe()}, but on {days}{' or '.join(self.names)} {_WORDS[self.then]}"

    @property
    def zones(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.rule.zones, self.timezone)))

    @property
    def calendars(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.names, *self.rule.calendars)))

    @property
    def anchors(self) -> tuple[datetime, ...]:
        return self.rule.anchors if isinstance(self.rule, BaseRule) else ()

    def anchored(self, at: datetime) -> Except:
        check_aware(at, "at")
        return self._with(self.rule.anchored(at) if isinstance(self.rule, BaseRule) else self.rule, self.bound)

    def bind(self, schedule_id: str, calendars: Mapping[str, Calendar]) -> Except:
        missing = next((name for name in self.names if name not in calendars), None)
        if missing is not None:
            raise CalendarNotFound(missing)
        return self._with(self.rule.bind(schedule_id, calendars), tuple(calendars[name] for name in self.names))

    def _with(self, rule: Rule, bound: tuple[Calendar, ...] | None) -> Except:
        if rule is self.rule and bound is self.bound:
            return self
        return _restore(rule, self.names, self.then, self.timezone, bound)

    def to_document(self) -> dict[str, Any]:
        return {
            "kind": "except",
            "rule": self.rule.to_document(),
            "calendars": list(self.names),
            "then": self.then,
            "timezone": self.timezone,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Except:
        from mainspring.rules.documents import rule_from_document

        names = document.get("calendars")
        if not isinstance(names, list | tuple) or not isinstance(document.get("rule"), Mapping):
            raise InvalidSchedule('A rule of kind "except" needs a "rule" and a list of "calendars".')
        rule = rule_from_document(document["rule"])
        return cls(rule, *names, then=document.get("then", SKIP), timezone=document.get("timezone"))


def _restore(
    rule: Rule, names: tuple[str, ...], then: str, timezone: str, bound: tuple[Calendar, ...] | None
) -> Except:
    """The rule of parts that have been checked before."""
    restored = object.__new__(Except)
    restored._set(rule, names, then, timezone, bound)
    return restored


def _names(calendars: tuple[object, ...]) -> tuple[str, ...]:
    if not 1 <= len(calendars) <= MOST_CALENDARS:
        raise InvalidSchedule(f"Except takes the names of 1 to {MOST_CALENDARS} calendars, not {len(calendars)}.")
    if any(isinstance(name, Calendar) for name in calendars):
        raise InvalidSchedule(
            "Except takes names of stored calendars; store this one with calendars.put(name, …) and give its name."
        )
    try:
        return tuple(dict.fromkeys(check_name(name, "a calendar's name") for name in calendars))
    except InvalidSchedule:
        raise
    except ConfigurationError as error:
        raise InvalidSchedule(str(error)) from None


def _zone(rule: Rule, timezone: str | None) -> str:
    if timezone is not None:
        return find_zone(timezone).key
    if len(rule.zones) > 1:
        raise InvalidSchedule(
            f"This rule has the zones {', '.join(rule.zones)}; name the zone whose days count by timezone=…."
        )
    return rule.zones[0] if rule.zones else "UTC"


def _check_density(rule: Rule) -> None:
    """Refuse to move the firings of a rule that has thousands of them a day."""
    if rule.calendars:
        return  # its inner rule was checked, or cannot be evaluated yet, without its calendars
    ready = rule.bind("", {})
    for text in _SAMPLES:
        first = ready.next(datetime.fromisoformat(text))
        if first is not None and ready.count(first, first + _DAY) > MAX_PER_DAY:
            raise InvalidSchedule(
                f"This rule fires more than {MAX_PER_DAY:,} times a day, too often to be moved; use then='skip'."
            )
