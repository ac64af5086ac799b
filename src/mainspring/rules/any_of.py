"""Several rules as one, which fires whenever any of them does, and once where several fire at one instant."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from mainspring.errors import InvalidSchedule
from mainspring.rules.calendars.calendar import Calendar
from mainspring.rules.every import END, Every
from mainspring.rules.instants import check_aware
from mainspring.rules.rule import BaseRule, Rule, as_rule, span

MOST_RULES = 32
DEEPEST = 4
_MOMENT = timedelta(milliseconds=1)
T = TypeVar("T")


class AnyOf(BaseRule):
    """Fires when any of its rules fires. If several fire at the same instant, that is one firing."""

    rules: tuple[Rule, ...]

    def __init__(self, *rules: Rule) -> None:
        flat: dict[Rule, None] = {}
        for rule in rules:
            checked = combinable(rule)
            flat |= dict.fromkeys(checked.rules if isinstance(checked, AnyOf) else (checked,))
        if not 1 <= len(flat) <= MOST_RULES:
            raise InvalidSchedule(f"AnyOf takes from 1 to {MOST_RULES} different rules, not {len(flat)}.")
        object.__setattr__(self, "rules", tuple(flat))
        check_depth(parts(self), parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyOf) and set(self.rules) == set(other.rules)

    def __hash__(self) -> int:
        return hash(frozenset(self.rules))

    def __repr__(self) -> str:
        return f"AnyOf({', '.join(map(repr, self.rules))})"

    def next(self, after: datetime) -> datetime | None:
        check_aware(after, "after")
        found = (rule.next(after) for rule in self.rules)
        return min((instant for instant in found if instant is not None), default=None)

    def previous(self, before: datetime) -> datetime | None:
        check_aware(before, "before")
        found = (rule.previous(before) for rule in self.rules)
        return max((instant for instant in found if instant is not None), default=None)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        span(start, end)
        return once(heapq.merge(*(rule.between(start, end) for rule in self.anchored(start).rules)))

    def count(self, start: datetime, end: datetime) -> int:
        """Count the firings of the busiest rule by arithmetic, and those of the others one by one."""
        span(start, end)
        busiest, *others = sorted(self.anchored(start).rules, key=lambda rule: rule.count(start, end), reverse=True)
        rest = once(heapq.merge(*(rule.between(start, end) for rule in others)))
        return busiest.count(start, end) + sum(1 for instant in rest if not fires_at(busiest, instant))

    def describe(self) -> str:
        return "; or ".join(rule.describe() for rule in self.rules)

    def notes(self, at: datetime) -> tuple[str, ...]:
        check_aware(at, "at")
        said = (note for rule in self.rules if fires_at(rule, at) for note in rule.notes(at))
        return tuple(dict.fromkeys(said))

    def skipped(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """The firings that a calendar left out of one rule, unless another rule fires at that very instant."""
        span(start, end)
        taken = heapq.merge(*(rule.skipped(start, end) for rule in self.rules), key=lambda pair: pair[0])
        last = None
        for instant, name in taken:
            if instant != last and not any(fires_at(rule, instant) for rule in self.rules):
                yield instant, name
            last = instant

    @property
    def zones(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(zone for rule in self.rules for zone in rule.zones))

    @property
    def calendars(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for rule in self.rules for name in rule.calendars))

    @property
    def anchors(self) -> tuple[datetime, ...]:
        found = (at for rule in self.rules if isinstance(rule, BaseRule) for at in rule.anchors)
        return tuple(dict.fromkeys(found))

    def anchored(self, at: datetime) -> AnyOf:
        check_aware(at, "at")
        return self._with(rule.anchored(at) if isinstance(rule, BaseRule) else rule for rule in self.rules)

    def bind(self, schedule_id: str, calendars: Mapping[str, Calendar]) -> AnyOf:
        return self._with(rule.bind(schedule_id, calendars) for rule in self.rules)

    def _with(self, rules: Iterable[Rule]) -> AnyOf:
        changed = tuple(rules)
        same = all(one is other for one, other in zip(changed, self.rules, strict=True))
        return self if same else AnyOf(*changed)

    def to_document(self) -> dict[str, Any]:
        return {"kind": "any", "rules": [rule.to_document() for rule in self.rules]}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> AnyOf:
        from mainspring.rules.documents import rule_from_document

        rules = document.get("rules")
        if not isinstance(rules, list | tuple) or len(rules) > MOST_RULES:
            raise InvalidSchedule(f'A rule of kind "any" needs a list of at most {MOST_RULES} "rules".')
        return cls(*map(rule_from_document, rules))


def combinable(rule: object) -> Rule:
    """A rule that can be a part of another one."""
    checked = as_rule(rule, "a part of a rule")
    if isinstance(checked, Every) and checked.after == END:
        raise InvalidSchedule('A rule with after="end" depends on its runs; it cannot be a part of another rule.')
    return checked


def check_depth(level: Iterable[T], parts_of: Callable[[T], Iterable[T]]) -> None:
    """Refuse parts of a rule, or of its document, that are nested too deep: each level costs time."""
    for _ in range(DEEPEST):
        level = [part for one in level for part in parts_of(one)]
        if not level:
            return
    raise InvalidSchedule(f"Rules can be combined {DEEPEST} levels deep; this one is deeper. Make several schedules.")


def parts(rule: Rule) -> tuple[Rule, ...]:
    """The rules that a rule is made of."""
    inner = getattr(rule, "rules", None)
    return inner if isinstance(inner, tuple) else tuple(filter(None, (getattr(rule, "rule", None),)))


def once(instants: Iterable[datetime]) -> Iterator[datetime]:
    """Instants in order, each once."""
    last = None
    for instant in instants:
        if instant != last:
            yield instant
        last = instant


def fires_at(rule: Rule, instant: datetime) -> bool:
    """Whether a rule fires at this very instant."""
    return rule.next(instant - _MOMENT) == instant
