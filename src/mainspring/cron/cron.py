"""`Cron`: a cron expression in a time zone, as a value that can say when it fires.

It keeps the whole interface of a rule. Making one checks everything; asking one reads no clock and cannot fail, other
than for a datetime without a zone. Patterns and the stretches of zones are shared between equal rules in a process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Never, Self
from zoneinfo import ZoneInfo

from mainspring.cron.combining import Combinable
from mainspring.cron.describe import describe
from mainspring.cron.notes import notes
from mainspring.cron.parse import check, normalise
from mainspring.cron.pattern import compile_pattern
from mainspring.cron.timeline import Firing, Timeline
from mainspring.cron.zone import DAY, EPOCH, FOLDS, GAPS, Fold, Gap, check_policy, find_zone, whole_second
from mainspring.errors import InvalidSchedule

_DEFAULT_GAP, _DEFAULT_FOLD = GAPS[0], FOLDS[0]


class Cron(Combinable):
    """Fires at the wall times that an expression names, in a time zone.

    The expression has five fields (minute, hour, day of month, month, day of week), or six with seconds first.
    `gap` says what becomes of a wall time that does not exist when clocks go forward: it fires at the first instant
    "after", or is left out by "skip". `fold` says which pass of an hour that happens twice counts: "first", "last" or
    "both". Expressions whose second, minute or hour begins with `*` follow real time instead. `seed` is what `H` is
    made of; a schedule puts its id there, unless it is given.
    """

    __slots__ = ("_key", "_timeline")

    def __init__(
        self,
        expression: str,
        timezone: str | ZoneInfo = "UTC",
        *,
        gap: Gap = _DEFAULT_GAP,
        fold: Fold = _DEFAULT_FOLD,
        seed: str | None = None,
    ) -> None:
        check(expression)
        check_policy(gap, fold)
        if seed is not None and not isinstance(seed, str):
            raise InvalidSchedule(f"seed must be text, such as the id of a schedule, not {seed!r}.")
        pattern = compile_pattern(expression, seed or "")
        zone = find_zone(timezone)
        object.__setattr__(self, "_key", (normalise(expression), zone.key, gap, fold, seed))
        object.__setattr__(self, "_timeline", Timeline(pattern, zone, gap, fold))

    _key: tuple[str, str, Gap, Fold, str | None]
    _timeline: Timeline

    @property
    def expression(self) -> str:
        """The expression in capitals, with single spaces."""
        return self._key[0]

    @property
    def timezone(self) -> str:
        """The IANA name of the zone."""
        return self._key[1]

    @property
    def gap(self) -> Gap:
        """What becomes of a wall time that does not exist."""
        return self._key[2]

    @property
    def fold(self) -> Fold:
        """Which pass counts of an hour that happens twice."""
        return self._key[3]

    @property
    def seed(self) -> str | None:
        """What H is made of; None as long as the rule belongs to no schedule."""
        return self._key[4]

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones that it depends on."""
        return (self.timezone,)

    @property
    def calendars(self) -> tuple[str, ...]:
        """It needs no calendars."""
        return ()

    def next(self, after: datetime) -> datetime | None:
        """The first firing after an instant; None when there is none any more."""
        try:
            passed = after - EPOCH
        except TypeError:
            _refuse_instant(after, "after")
        return _shown(self._timeline.first(passed.days * DAY + passed.seconds + 1))

    def previous(self, before: datetime) -> datetime | None:
        """The last firing before an instant; None when there was none."""
        return _shown(self._timeline.last(_second(before, "before") - 1))

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The firings from `start` on and before `end`, in order, one at a time."""
        return self._walk(_second(start, "start"), _second(end, "end"))

    def count(self, start: datetime, end: datetime) -> int:
        """How many firings `between` would give, without making them."""
        first, last = _second(start, "start"), _second(end, "end")
        return self._timeline.count(first, last) if first < last else 0

    def describe(self) -> str:
        """What the rule means, in English."""
        return describe(self._timeline.pattern, self.timezone, self.seed is not None)

    def notes(self, at: datetime) -> tuple[str, ...]:
        """What the zone did to the firing at this instant; mostly nothing."""
        second = _second(at, "at")
        return () if at.microsecond else notes(self._timeline, second)

    def skipped(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """No calendar takes anything away."""
        return iter(())

    def bind(self, schedule_id: str, calendars: Mapping[str, Any]) -> Self:
        """The rule with its H made of the schedule's id; itself when it has no H, or a seed already."""
        if self.seed is not None or not self._timeline.pattern.hashed:
            return self
        return type(self)(self.expression, self.timezone, gap=self.gap, fold=self.fold, seed=schedule_id)

    def to_document(self) -> dict[str, Any]:
        """The rule as plain data."""
        expression, zone, gap, fold, seed = self._key
        document = {"kind": "cron", "expression": expression, "timezone": zone, "gap": gap, "fold": fold}
        return document if seed is None else {**document, "seed": seed}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """The rule out of plain data; only the expression is needed, the rest has its defaults."""
        if "expression" not in document:
            raise InvalidSchedule('A rule of kind "cron" needs an "expression".')
        return cls(
            document["expression"],
            document.get("timezone", "UTC"),
            gap=document.get("gap", _DEFAULT_GAP),
            fold=document.get("fold", _DEFAULT_FOLD),
            seed=document.get("seed"),
        )

    def _walk(self, second: int, end: int) -> Iterator[datetime]:
        first = self._timeline.first
        while second < end and (found := first(second)) is not None and found[0] < end:
            second, span = found
            yield span.epoch + timedelta(0, second + span.offset)
            second += 1

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Cron) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        expression, zone, gap, fold, seed = self._key
        given = [repr(expression)]
        if zone != "UTC":
            given.append(repr(zone))
        options = (("gap", gap, _DEFAULT_GAP), ("fold", fold, _DEFAULT_FOLD), ("seed", seed, None))
        given += [f"{name}={value!r}" for name, value, default in options if value != default]
        return f"{type(self).__name__}({', '.join(given)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), *self._key)

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"A Cron never changes; make another one instead of setting {name!r}.")

    def __delattr__(self, name: str) -> Never:
        raise AttributeError("A Cron never changes.")


def _restore(kind: type[Cron], expression: str, zone: str, gap: Gap, fold: Fold, seed: str | None) -> Cron:
    return kind(expression, zone, gap=gap, fold=fold, seed=seed)


def _shown(firing: Firing | None) -> datetime | None:
    if firing is None:
        return None
    second, span = firing
    return span.epoch + timedelta(0, second + span.offset)


def _second(moment: datetime, name: str) -> int:
    """The first whole second at or after an aware datetime."""
    try:
        return whole_second(moment)
    except TypeError:
        _refuse_instant(moment, name)


def _refuse_instant(value: object, name: str) -> Never:
    if not isinstance(value, datetime):
        raise InvalidSchedule(f"{name} must be an aware datetime, such as datetime.now(UTC), not {value!r}.") from None
    raise InvalidSchedule(
        f"{name}={value.isoformat()} has no time zone, so that it names no instant; "
        "use datetime.now(UTC), or .replace(tzinfo=ZoneInfo('Europe/Paris'))."
    ) from None
