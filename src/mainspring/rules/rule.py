"""The interface of rules: values that define when a schedule fires. Pure: a rule reads no clock and keeps no state.

`Rule` is the whole interface; the engine, the ledger and the previews use nothing else. `BaseRule` is the base class of
the rules in this package. `TickRule` derives the interface from three methods in milliseconds (`At`, `Every`), and
`WallClockRule` from wall times in a zone (`Cron`, `RRule`). Arguments are aware datetimes. Results have a fixed offset,
so that they compare correctly in every hour.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from mainspring.errors import InvalidSchedule
from mainspring.rules.calendars.calendar import Calendar
from mainspring.rules.instants import FIRST_MS, LAST_MS, ceil_ms, check_aware, floor_ms, from_ms

if TYPE_CHECKING:
    from mainspring.rules.any_of import AnyOf
    from mainspring.rules.exclusion import Except


@runtime_checkable
class Rule(Protocol):
    """Says when a schedule fires. An immutable value: hashable, compared by meaning, and picklable."""

    def next(self, after: datetime) -> datetime | None:
        """The first firing after an instant; None when there is none."""

    def previous(self, before: datetime) -> datetime | None:
        """The last firing before an instant; None when there was none."""

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Iterate over the firings from `start` (inclusive) to `end` (exclusive), in order."""

    def count(self, start: datetime, end: datetime) -> int:
        """The number of firings that `between` would return."""

    def describe(self) -> str:
        """The meaning of the rule, in English."""

    def notes(self, at: datetime) -> tuple[str, ...]:
        """The reasons why the firing at this instant was moved; usually empty."""

    @property
    def zones(self) -> tuple[str, ...]:
        """The IANA names of the zones that the rule depends on."""

    @property
    def calendars(self) -> tuple[str, ...]:
        """The names of the stored calendars that the rule needs."""

    def bind(self, schedule_id: str, calendars: Mapping[str, Calendar]) -> Rule:
        """The rule with the id of its schedule and with its calendars, ready for use."""

    def to_document(self) -> dict[str, Any]:
        """The rule as plain data; "kind" names its class."""

    def skipped(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """The firings in the same span that a calendar left out, each with the calendar's name."""


class BaseRule:
    """The base of the rules: without a zone and a calendar unless a subclass has them; rules can be combined."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A rule never changes; make another one instead of setting {name!r}.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("A rule never changes.")

    @property
    def zones(self) -> tuple[str, ...]:
        return ()

    @property
    def calendars(self) -> tuple[str, ...]:
        return ()

    @property
    def anchors(self) -> tuple[datetime, ...]:
        """The instants that the rule counts from."""
        return ()

    def anchored(self, at: datetime) -> Self:
        """The rule, counting from `at` unless it already has an instant to count from."""
        check_aware(at, "at")
        return self

    def bind(self, schedule_id: str, calendars: Mapping[str, Calendar]) -> Self:
        return self

    def notes(self, at: datetime) -> tuple[str, ...]:
        check_aware(at, "at")
        return ()

    def skipped(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        return iter(())

    def excluding(self, *calendars: str, then: str = "skip", timezone: str | None = None) -> Except:
        """This rule without the days of these calendars; see `Except`."""
        from mainspring.rules.exclusion import Except

        return Except(as_rule(self, "a rule"), *calendars, then=then, timezone=timezone)

    def __or__(self, other: object) -> AnyOf:
        from mainspring.rules.any_of import AnyOf

        return AnyOf(as_rule(self, "a rule"), other) if isinstance(other, Rule) else NotImplemented

    def __ror__(self, other: object) -> AnyOf:
        from mainspring.rules.any_of import AnyOf

        return AnyOf(other, as_rule(self, "a rule")) if isinstance(other, Rule) else NotImplemented


class TickRule(BaseRule):
    """A rule with three methods in whole milliseconds, from which the rest of the interface is derived."""

    @abstractmethod
    def _after(self, instant: int) -> int | None:
        """The first firing after an instant."""

    @abstractmethod
    def _before(self, instant: int) -> int | None:
        """The last firing before an instant."""

    @abstractmethod
    def _count(self, start: int, end: int) -> int:
        """The number of firings from `start` on and before `end`, which is later."""

    def _show(self, instant: int) -> datetime:
        return from_ms(instant)

    def next(self, after: datetime) -> datetime | None:
        return self._shown(self._after(floor_ms(check_aware(after, "after"))))

    def previous(self, before: datetime) -> datetime | None:
        return self._shown(self._before(ceil_ms(check_aware(before, "before"))))

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        first, last = span(start, end)
        return self._walk(first, last)

    def count(self, start: datetime, end: datetime) -> int:
        first, last = span(start, end)
        return self._count(first, last) if first < last else 0

    def _walk(self, start: int, end: int) -> Iterator[datetime]:
        at = self._after(start - 1)
        while at is not None and at < end and (shown := self._shown(at)) is not None:
            yield shown
            at = self._after(at)

    def _shown(self, instant: int | None) -> datetime | None:
        return None if instant is None or not FIRST_MS <= instant <= LAST_MS else self._show(instant)


def span(start: datetime, end: datetime) -> tuple[int, int]:
    """A span of time, checked, in milliseconds; its end is not part of it."""
    first, last = ceil_ms(check_aware(start, "start")), ceil_ms(check_aware(end, "end"))
    return max(first, FIRST_MS), min(last, LAST_MS + 1)


def as_rule(value: object, what: str) -> Rule:
    """The value as a rule; anything else is refused with an example of one."""
    if isinstance(value, type) or not isinstance(value, Rule):
        raise InvalidSchedule(f'{what} must be a rule, such as Cron("0 9 * * *") or Every("5m"), not {value!r}.')
    return value


def anchored(rule: Rule, at: datetime, before: Rule | None = None) -> Rule:
    """The rule, counting from `at` unless it already has an instant to count from.

    `before` is the rule that it replaces. If both differ in that instant alone, the old one stays: a rule that is
    declared again at a deployment does not begin its grid anew.
    """
    if not isinstance(rule, BaseRule):
        return rule
    starts: tuple[datetime, ...] = before.anchors if isinstance(before, BaseRule) else ()
    for start in starts:
        if rule.anchored(start) == before:
            return rule.anchored(start)
    return rule.anchored(at)
