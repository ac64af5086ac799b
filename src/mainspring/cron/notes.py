"""Notes beside a firing: what the clocks of its zone did to it, in a sentence."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.cron.search import first_from
from mainspring.cron.spans import Range
from mainspring.cron.timeline import Timeline
from mainspring.cron.zone import WALL_EPOCH, instants

_MOST_NAMED = 3
_MORNING = 6
_ORDINALS = ("first", "second", "third")


def notes(timeline: Timeline, second: int) -> tuple[str, ...]:
    """What moved the firing at this second, or that its wall time happens more than once."""
    firing = timeline.first(second)
    if firing is None or firing[0] != second:
        return ()
    wall = WALL_EPOCH + timedelta(0, second + firing[1].offset)
    key = timeline.zone.key
    found = [repeated(wall, place, len(passes), key) for place, passes in _passes(timeline, wall, second)]
    if lost := timeline.lost_at(second):
        found.append(missing(_matching(timeline, lost), wall, key))
    return tuple(found)


def missing(walls: list[datetime], fires: datetime, zone: str) -> str:
    """That wall times do not exist, and when they fire instead."""
    far = any(wall.date() != fires.date() for wall in walls)
    named = [_clock(wall, far) for wall in walls[:_MOST_NAMED]]
    if len(walls) > _MOST_NAMED:
        named[-1] = "others"
    verb = "does" if len(named) == 1 else "do"
    times = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    when = "" if far else f" on this {_part_of_day(walls[0])}"
    once = "fires" if len(named) == 1 else "fires once,"
    return f"{times} {verb} not exist{when} in {zone}; {once} at {_clock(fires, far)} instead"


def repeated(wall: datetime, place: int, times: int, zone: str) -> str:
    """That a wall time happens more than once, and which pass this is."""
    often = "twice" if times == 2 else f"{times} times"
    return f"{_clock(wall)} happens {often} on this {_part_of_day(wall)} in {zone}; this is the {_ORDINALS[place]} pass"


def _passes(timeline: Timeline, wall: datetime, second: int) -> list[tuple[int, tuple[datetime, ...]]]:
    """Which of several passes a firing is; nothing where there is only one."""
    passes = instants(wall, timeline.zone, "skip", "both")
    return [(place, passes) for place, moment in enumerate(passes) if len(passes) > 1 and moment.timestamp() == second]


def _matching(timeline: Timeline, lost: tuple[Range, ...]) -> list[datetime]:
    """The first few wall times out of these ranges that match."""
    found: list[datetime] = []
    for low, high in lost:
        wall = first_from(timeline.pattern, low)
        while wall is not None and wall < high and len(found) <= _MOST_NAMED:
            found.append(WALL_EPOCH + timedelta(0, wall))
            wall = first_from(timeline.pattern, wall + 1)
    return found


def _part_of_day(wall: datetime) -> str:
    return "night" if wall.hour < _MORNING else "day"


def _clock(wall: datetime, with_date: bool = False) -> str:
    return f"{wall:{'%Y-%m-%d ' if with_date else ''}{'%H:%M:%S' if wall.second else '%H:%M'}}"
