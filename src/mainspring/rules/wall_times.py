"""Wall times: the sets that a `Timeline` searches, as seconds since 1970-01-01 00:00 in local time.

`WallTimes` is the interface. `DailyTimes` has the same times on each of its days: every cron expression and most
recurrence rules are such a set. The other two kinds of recurrence rules are in rrule/wall_times.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate

from mainspring.rules.year_days import YearDays
from mainspring.rules.zones.zone import DAY

HOUR, MINUTE = 3600, 60
_HOURS = 24


class WallTimes(ABC):
    """A set of wall times. `offset` is the zone's offset to UTC, in seconds, at the times in question.

    A search may stop where its limit is reached. It then returns a wall time at or beyond the limit, and the set has
    no wall time between the start of the search and that one. None means that the set has none in that direction.
    """

    patience = 60
    """The number of years with a possible day, but without a firing, after which a search gives up."""

    @abstractmethod
    def first(self, wall: int, end: int, offset: int) -> int | None:
        """The first wall time at or after `wall`, which is before `end`; the search may stop at `end`."""

    @abstractmethod
    def last(self, wall: int, start: int, offset: int) -> int | None:
        """The last wall time at or before `wall`; the search may stop before `start`."""

    @abstractmethod
    def count(self, start: int, end: int, offset: int) -> int:
        """The number of wall times from `start` to before `end`, which is later."""


class DailyTimes(WallTimes):
    """The same times on each of some days."""

    def __init__(self, days: YearDays, times: TimesOfDay, patience: int = WallTimes.patience) -> None:
        self._days = days
        self._times = times
        self.patience = patience

    def first(self, wall: int, end: int, offset: int) -> int | None:
        day = wall // DAY
        found = self._days.first(day)
        if found == day:
            time = self._times.first(wall - day * DAY)
            if time is not None:
                return day * DAY + time
            found = self._days.first(day + 1)
        earliest = self._times.earliest
        return None if found is None or earliest is None else found * DAY + earliest

    def last(self, wall: int, start: int, offset: int) -> int | None:
        day = wall // DAY
        found = self._days.last(day)
        if found == day:
            time = self._times.last(wall - day * DAY)
            if time is not None:
                return day * DAY + time
            found = self._days.last(day - 1)
        latest = self._times.latest
        return None if found is None or latest is None else found * DAY + latest

    def count(self, start: int, end: int, offset: int) -> int:
        first, last = start // DAY, end // DAY
        whole = self._days.count(first, last) * self._times.number
        return whole + self._before(last, end) - self._before(first, start)

    def _before(self, day: int, wall: int) -> int:
        """The number of times of a day before a wall time on that day."""
        return self._times.before(wall - day * DAY) if day in self._days else 0


class TimesOfDay:
    """Seconds of a day, as one mask of 3,600 bits per hour."""

    def __init__(self, hours: Iterable[int]) -> None:
        self._hours = tuple(hours)
        self._present = bits(hour for hour, mask in enumerate(self._hours) if mask)
        self._passed = (0, *accumulate(mask.bit_count() for mask in self._hours))
        self.number = self._passed[-1]
        self.earliest, self.latest = self.first(0), self.last(DAY - 1)

    def first(self, second: int) -> int | None:
        """The first second of the set at or after this one."""
        hour = second // HOUR
        if rest := self._hours[hour] >> second - hour * HOUR:
            return second + (rest & -rest).bit_length() - 1
        if rest := self._present >> hour + 1:
            hour += (rest & -rest).bit_length()
            mask = self._hours[hour]
            return hour * HOUR + (mask & -mask).bit_length() - 1
        return None

    def last(self, second: int) -> int | None:
        """The last second of the set at or before this one."""
        hour = second // HOUR
        if rest := self._hours[hour] & (2 << second - hour * HOUR) - 1:
            return hour * HOUR + rest.bit_length() - 1
        if rest := self._present & (1 << hour) - 1:
            hour = rest.bit_length() - 1
            return hour * HOUR + self._hours[hour].bit_length() - 1
        return None

    def before(self, second: int) -> int:
        """The number of seconds in the set before this one."""
        hour = second // HOUR
        return self._passed[hour] + (self._hours[hour] & (1 << second - hour * HOUR) - 1).bit_count()


@lru_cache(maxsize=1024)
def clock_times(hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> TimesOfDay:
    """Each of these hours with each of the minutes and each of the seconds."""
    hour = bits(seconds) * bits(minute * MINUTE for minute in minutes)
    return TimesOfDay(hour if number in hours else 0 for number in range(_HOURS))


def listed_times(seconds: Iterable[int]) -> TimesOfDay:
    """These seconds of the day."""
    day, hour = bits(seconds), (1 << HOUR) - 1
    return TimesOfDay(day >> number * HOUR & hour for number in range(_HOURS))


def bits(places: Iterable[int]) -> int:
    """The number in which these bits are set."""
    mask = 0
    for place in places:
        mask |= 1 << place
    return mask
