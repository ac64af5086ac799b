"""The changes of a zone's clocks within a span of time, for calendars that mark such nights."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from mainspring.errors import InvalidSchedule
from mainspring.rules.instants import from_ms
from mainspring.rules.zones.zone import BLOCK, WALL_EPOCH, find_zone, segments, whole_second


@dataclass(frozen=True, slots=True)
class ClockChange:
    """An instant at which the clocks of a zone are set forward or back, and by how much."""

    zone: str
    at: datetime
    by: timedelta

    @property
    def words(self) -> str:
        """The change in a sentence, such as "02:00 becomes 03:00 in Europe/Paris"."""
        return f"{_clock(self._before)} becomes {_clock(self._before + self.by)} in {self.zone}: {self._effect}"

    @property
    def _before(self) -> datetime:
        """The wall time that the old offset would have shown."""
        after = self.at.astimezone(find_zone(self.zone)).replace(tzinfo=None)
        return after - self.by

    @property
    def _effect(self) -> str:
        if self.by > timedelta(0):
            return "the times between do not exist on this day"
        return "the times between happen twice on this day"


def clock_changes(zone: str, start: datetime, end: datetime) -> list[ClockChange]:
    """The changes of offset from `start` on and before `end`, in order; none for a name that is no zone."""
    first, last = whole_second(start), whole_second(end)
    try:
        known = find_zone(zone)
    except InvalidSchedule:
        return []
    found: dict[int, ClockChange] = {}
    for number in range(first // BLOCK, last // BLOCK + 1):
        for before, after in pairwise(segments(known, number)):
            if before.offset != after.offset and first <= after.start < last:
                by = timedelta(seconds=after.offset - before.offset)
                found[after.start] = ClockChange(known.key, from_ms(after.start * 1000), by)
    return [found[at] for at in sorted(found)]


def _clock(wall: datetime) -> str:
    return f"{wall:%H:%M:%S}" if (wall - WALL_EPOCH).seconds % 60 else f"{wall:%H:%M}"
