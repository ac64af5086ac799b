"""Notes beside a firing: the effect of a change of clocks on it, in a sentence."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.rules.english import joined
from mainspring.rules.timeline import Timeline
from mainspring.rules.zones.zone import WALL_EPOCH, instants

_MOST_NAMED = 3
_MORNING = 6
_ORDINALS = ("first", "second", "third")


def notes(timeline: Timeline, second: int) -> tuple[str, ...]:
    """The notes on the firing at this second: that it was moved, or that its wall time happens more than once."""
    firing = timeline.first(second)
    if firing is None or firing[0] != second:
        return ()
    wall = WALL_EPOCH + timedelta(0, second + firing[1].offset)
    passes = instants(wall, timeline.zone, "skip", "both")
    found = [
        _repeated(wall, place, len(passes), timeline.zone.key)
        for place, moment in enumerate(passes)
        if len(passes) > 1 and moment.timestamp() == second
    ]
    if lost := timeline.lost_at(second, _MOST_NAMED + 1):
        found.append(_missing([WALL_EPOCH + timedelta(0, one) for one in lost], wall, timeline.zone.key))
    return tuple(found)


def _missing(walls: list[datetime], fires: datetime, zone: str) -> str:
    """The note that wall times do not exist, and when they fire instead."""
    far = any(wall.date() != fires.date() for wall in walls)
    named = [_clock(wall, far) for wall in walls[:_MOST_NAMED]]
    if len(walls) > _MOST_NAMED:
        named[-1] = "others"
    verb = "does" if len(named) == 1 else "do"
    when = "" if far else f" on this {_part_of_day(walls[0])}"
    once = "fires" if len(named) == 1 else "fires once,"
    return f"{joined(named)} {verb} not exist{when} in {zone}; {once} at {_clock(fires, far)} instead"


def _repeated(wall: datetime, place: int, times: int, zone: str) -> str:
    """The note that a wall time happens more than once, and which pass this is."""
    often = "twice" if times == 2 else f"{times} times"
    return f"{_clock(wall)} happens {often} on this {_part_of_day(wall)} in {zone}; this is the {_ORDINALS[place]} pass"


def _part_of_day(wall: datetime) -> str:
    return "night" if wall.hour < _MORNING else "day"


def _clock(wall: datetime, with_date: bool = False) -> str:
    return f"{wall:{'%Y-%m-%d ' if with_date else ''}{'%H:%M:%S' if wall.second else '%H:%M'}}"
