"""A pattern with its start, made ready to be asked. Shared by equal rules of a process."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import product

from mainspring.cron.zone import EPOCH as UTC_EPOCH
from mainspring.cron.zone import LATEST, WALL_EPOCH, Fold, Gap, find_zone, in_zone, instants, whole_second
from mainspring.errors import InvalidSchedule
from mainspring.model.recurrence.days import RecurringDays
from mainspring.model.recurrence.pattern import DAILY, HOURLY, MINUTELY, Pattern
from mainspring.model.recurrence.timeline import EPOCH, Timeline
from mainspring.model.recurrence.walls import ChosenWalls, DailyWalls, FlowingWalls, Walls, positions

MOST_TIMES = 1440
_UNITS = {HOURLY: 3600, MINUTELY: 60}
_DAY = timedelta(days=1)


@lru_cache(maxsize=1024)
def compiled(pattern: Pattern, zone_key: str, gap: Gap, fold: Fold, start: int) -> Timeline:
    """The timeline of a rule that starts at an instant, in seconds since 1970."""
    zone = find_zone(zone_key)
    began = in_zone(UTC_EPOCH + timedelta(0, start), zone).replace(tzinfo=None)
    whole = pattern.completed(began)
    if pattern.follows_real_time:
        gap, fold = "skip", "both"
    walls = _walls(whole, began, start)
    end = LATEST if pattern.until is None else last_instant(pattern.until, zone_key) + 1
    timeline = Timeline(walls, zone, gap, fold, start, end)
    if pattern.count is None:
        return timeline
    last = timeline.nth(pattern.count)
    return timeline if last is None else Timeline(walls, zone, gap, fold, start, last + 1)


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
    """Refuse a day full of times: what fires so often is a matter of minutes or seconds."""
    times = max(1, len(pattern.hours)) * max(1, len(pattern.minutes)) * max(1, len(pattern.seconds))
    if pattern.freq <= DAILY and times > MOST_TIMES:
        raise InvalidSchedule(
            f"BYHOUR, BYMINUTE and BYSECOND make {times:,} times a day, and {MOST_TIMES:,} are the most; "
            "use FREQ=MINUTELY or FREQ=SECONDLY."
        )


def _walls(pattern: Pattern, began: datetime, start: int) -> Walls:
    days = RecurringDays(pattern, began.date())
    if pattern.freq >= HOURLY:
        unit = _UNITS.get(pattern.freq, 1)
        second = began.hour * 3600 + began.minute * 60 + began.second
        origin = start + EPOCH - second % unit
        return FlowingWalls(days, _mask(pattern), unit, pattern.interval, origin)
    times = tuple(sorted(h * 3600 + m * 60 + s for h, m, s in product(pattern.hours, pattern.minutes, pattern.seconds)))
    if not pattern.positions:
        return DailyWalls(days, times)
    if pattern.freq == DAILY:
        return DailyWalls(days, tuple(times[place] for place in positions(pattern.positions, len(times))))
    return ChosenWalls(days, times, pattern)


@lru_cache(maxsize=64)
def _mask(pattern: Pattern) -> int:
    """The seconds of a day, as bits, that BYHOUR, BYMINUTE, BYSECOND and BYSETPOS allow."""
    seconds, minutes = pattern.seconds or range(60), pattern.minutes or range(60)
    if pattern.freq == HOURLY:
        hour = _bits(_chosen([minute * 60 + second for minute, second in product(minutes, seconds)], pattern))
    elif pattern.freq == MINUTELY:
        hour = _tiled(_bits(_chosen(list(seconds), pattern)), minutes, 60)
    else:
        alone = _chosen([0], pattern)  # of one second, BYSETPOS can choose the first or nothing
        hour = _tiled(_bits(list(seconds) if alone else []), minutes, 60)
    return _tiled(hour, pattern.hours or range(24), 3600)


def _chosen(places: list[int], pattern: Pattern) -> list[int]:
    if not pattern.positions:
        return places
    return [places[place] for place in positions(pattern.positions, len(places))]


def _bits(places: Iterable[int]) -> int:
    return sum(1 << place for place in places)


def _tiled(mask: int, places: Iterable[int], size: int) -> int:
    """The mask at each of these places, which are so far apart."""
    return sum(mask << place * size for place in places)
