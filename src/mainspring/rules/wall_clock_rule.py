"""The base of `Cron` and `RRule`: rules of wall times in a time zone, with a policy for changes of clocks.

A subclass has the timeline; the methods of the interface are here, in whole seconds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Self

from mainspring.rules.dst_notes import notes
from mainspring.rules.instants import check_aware
from mainspring.rules.rule import BaseRule
from mainspring.rules.timeline import Firing, Timeline
from mainspring.rules.zones.zone import DAY, EPOCH, Fold, Gap, whole_second


class WallClockRule(BaseRule):
    """Fires at wall times of a zone. `_key` has the rule's own text, zone, gap and fold, and its origin."""

    _key: tuple[Any, str, Gap, Fold, Any]

    @abstractmethod
    def _timeline(self, asked: int) -> Timeline:
        """The firings; a rule without a start counts from the second that its caller asks about."""

    @abstractmethod
    def to_document(self) -> dict[str, Any]: ...

    @classmethod
    @abstractmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self: ...

    @property
    def timezone(self) -> str:
        """The IANA name of the zone."""
        return self._key[1]

    @property
    def gap(self) -> Gap:
        """The policy for a wall time that does not exist: "after" fires after the gap, "skip" leaves the firing out."""
        return self._key[2]

    @property
    def fold(self) -> Fold:
        """The policy for an hour that happens twice: "first", "last" or "both"."""
        return self._key[3]

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones that the rule depends on."""
        return (self.timezone,)

    def next(self, after: datetime) -> datetime | None:
        """The first firing after an instant; None when there is none."""
        try:
            passed = after - EPOCH
        except TypeError:
            check_aware(after, "after")
            raise
        second = passed.days * DAY + passed.seconds
        return _shown(self._timeline(second).first(second + 1))

    def previous(self, before: datetime) -> datetime | None:
        """The last firing before an instant; None when there was none."""
        second = _second(before, "before")
        return _shown(self._timeline(second - (before.microsecond > 0)).last(second - 1))

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Iterate over the firings from `start` (inclusive) to `end` (exclusive), in order."""
        first, last = _second(start, "start"), _second(end, "end")
        return _walk(self._timeline(first - (start.microsecond > 0)), first, last)

    def count(self, start: datetime, end: datetime) -> int:
        """The number of firings that `between` would return, computed without making them."""
        first, last = _second(start, "start"), _second(end, "end")
        return self._timeline(first - (start.microsecond > 0)).count(first, last) if first < last else 0

    def notes(self, at: datetime) -> tuple[str, ...]:
        """The effect of the zone's clocks on the firing at this instant; mostly none."""
        second = _second(at, "at")
        return () if at.microsecond else notes(self._timeline(second), second)

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, WallClockRule) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_document, (self.to_document(),)


def _walk(timeline: Timeline, second: int, end: int) -> Iterator[datetime]:
    first = timeline.first
    while second < end and (found := first(second)) is not None and found[0] < end:
        second, span = found
        yield span.epoch + timedelta(0, second + span.offset)
        second += 1


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
        check_aware(moment, name)
        raise
