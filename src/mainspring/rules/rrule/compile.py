"""Compilation of a pattern and its start into a timeline. Equal rules of a process share it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import product

from mainspring.errors import InvalidSchedule
from mainspring.rules.rrule.days import RecurringDays
from mainspring.rules.rrule.pattern import DAILY, HOURLY, MINUTELY, Pattern
from mainspring.rules.rrule.wall_times import ChosenTimes, FlowingTimes, positions
from mainspring.rules.timeline import Timeline
from mainspring.rules.wall_times import HOUR, MINUTE, DailyTimes, WallTimes, bits, clock_times, listed_times
from mainspring.rules.zones.zone import EPOCH as UTC_EPOCH
from mainspring.rules.zones.zone import LATEST, WALL_EPOCH, Fold, Gap, find_zone, in_zone, instants, whole_second

MOST_TIMES = 1440
_UNITS = {HOURLY: HOUR, MINUTELY: MINUTE}
_DAY = timedelta(days=1)


@lru_cache(maxsize=1024)
def compiled(pattern: Pattern, zone_key: str, gap: Gap, fold: Fold, start: int) -> Timeline:
    """The timeline of a rule that starts at an instant, in seconds since 1970."""
    zone = find_zone(zone_key)
    began = in_zone(UTC_EPOCH + timedelta(0, start), zone).replace(tzinfo=None)
    if pattern.follows_real_time:
        gap, fold = "skip", "both"
    times = _wall_times(pattern.completed(began), began, start)
    end = LATEST if pattern.until is None else last_instant(pattern.until, zone_key) + 1
    timeline = Timeline(times, zone, gap, fold, start, end)
    last = None if pattern.count is None else timeline.nth(pattern.count)
    return timeline if last is None else timeline.until(last + 1)


def last_instant(until: str, zone_key: str) -> int:
    """The last second that UNTIL allows. A mere date allows all of that day in the rule's zone."""
    wall = read_wall(until, "UNTIL")
    if until.endswith("Z"):
        return (wall - WALL_EPOCH) // timedelta(seconds=1)
    if "T" in until:
        found = instants(wall, find_zone(zone_key), "after", "last")
        return whole_second(found[-1]) if found else LATEST
    found = instants(wall + _DAY, find_zone(zone_key), "after", "first")
    return whole_second(found[0]) - 1 if found else LATEST


def read_wall(text: str, name: str) -> datetime:
    """A date, or a date and a time, as RFC 5545 writes them."""
    try:
        return datetime.strptime(text.removesuffix("Z"), "%Y%m%dT%H%M%S" if "T" in text else "%Y%m%d")
    except ValueError:
        raise InvalidSchedule(f"{name}={text} names a day or a time that does not exist.") from None


def check_times(pattern: Pattern) -> None:
    """Refuse a rule of days with very many times: FREQ=MINUTELY and SECONDLY are for those."""
    times = max(1, len(pattern.hours)) * max(1, len(pattern.minutes)) * max(1, len(pattern.seconds))
    if pattern.freq <= DAILY and times > MOST_TIMES:
        raise InvalidSchedule(
            f"BYHOUR, BYMINUTE and BYSECOND make {times:,} times a day, and {MOST_TIMES:,} are the most; "
            "use FREQ=MINUTELY or FREQ=SECONDLY."
        )


def _wall_times(pattern: Pattern, began: datetime, start: int) -> WallTimes:
    days = RecurringDays(pattern, began.date())
    if pattern.freq >= HOURLY:
        unit = _UNITS.get(pattern.freq, 1)
        second = began.hour * HOUR + began.minute * MINUTE + began.second
        return FlowingTimes(days, _mask(pattern), unit, pattern.interval, start - second % unit)
    if not pattern.positions:
        return DailyTimes(days, clock_times(pattern.hours, pattern.minutes, pattern.seconds))
    clock = product(pattern.hours, pattern.minutes, pattern.seconds)
    times = tuple(hour * HOUR + minute * MINUTE + second for hour, minute, second in clock)
    if pattern.freq == DAILY:
        return DailyTimes(days, listed_times(_chosen(times, pattern)))
    return ChosenTimes(days, times, pattern)


@lru_cache(maxsize=64)
def _mask(pattern: Pattern) -> int:
    """The seconds of a day, as bits, that BYHOUR, BYMINUTE, BYSECOND and BYSETPOS allow."""
    seconds, minutes = pattern.seconds or range(60), pattern.minutes or range(60)
    if pattern.freq == HOURLY:
        hour = bits(_chosen([minute * MINUTE + second for minute, second in product(minutes, seconds)], pattern))
    elif pattern.freq == MINUTELY:
        hour = _tiled(bits(_chosen(seconds, pattern)), minutes, MINUTE)
    else:
        alone = _chosen([0], pattern)  # of a single second, BYSETPOS can choose the first or nothing
        hour = _tiled(bits(seconds if alone else ()), minutes, MINUTE)
    return _tiled(hour, pattern.hours or range(24), HOUR)


def _chosen(places: Sequence[int], pattern: Pattern) -> Sequence[int]:
    if not pattern.positions:
        return places
    return [places[place] for place in positions(pattern.positions, len(places))]


def _tiled(mask: int, places: Iterable[int], size: int) -> int:
    """The mask repeated at each of these places, in units of `size` bits."""
    return mask * bits(place * size for place in places)
