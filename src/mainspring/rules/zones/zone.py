"""Time zones: the instants of a wall time, under a declared policy for changes of clocks.

An instant is whole seconds since 1970 in UTC; a wall time is whole seconds since 1970 in local time. Python's
`zoneinfo` is the only source: the offset of a zone is read once a day over a year, and a change in between is found to
the second by binary search. No two changes of a zone are less than four days apart. The changes are kept in memory
only, so that new zone rules take effect with the next start of the process.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple, get_args
from zoneinfo import ZoneInfo, available_timezones

from mainspring.errors import InvalidSchedule

Gap = Literal["after", "skip"]
Fold = Literal["first", "last", "both"]
GAPS: tuple[Gap, ...] = get_args(Gap)
FOLDS: tuple[Fold, ...] = get_args(Fold)

DAY = 86400
BLOCK = 365 * DAY + DAY // 4
MARGIN = 3 * DAY
"""More than any two offsets differ by, so that wall times this far apart are in the same order as their instants."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WALL_EPOCH = datetime(1970, 1, 1)
EARLIEST = int((datetime.min - WALL_EPOCH).total_seconds()) + 2 * MARGIN
LATEST = int((datetime.max - WALL_EPOCH).total_seconds()) - 2 * MARGIN
"""No search goes beyond these: in some zone, such instants would be out of the range of datetimes."""
_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)
_Kind = tuple[timedelta, str]
"""An offset and an abbreviation."""
_NOT_PORTABLE = ("posix/", "right/", "localtime")
_NEVER_CHANGED = frozenset(("UTC", "Etc/UTC"))
"""Names whose offsets need not be read; UTC is the default, and most rules use nothing else."""


class Segment(NamedTuple):
    """A span of time, from `start` to before `end`, in which a zone has one offset and one abbreviation."""

    start: int
    end: int
    offset: int
    name: str


def find_zone(zone: object) -> ZoneInfo:
    """The zone of an IANA name; an unknown name is refused, with the names that are close to it."""
    if zone is UTC:
        zone = "UTC"
    if isinstance(zone, ZoneInfo):
        if zone.key is None:
            raise InvalidSchedule("A time zone without a name cannot be stored; use one by its IANA name.")
        return zone
    if not isinstance(zone, str):
        raise InvalidSchedule(f"timezone must be an IANA name such as 'Europe/Berlin', or a ZoneInfo, not {zone!r}.")
    try:
        if not zone.startswith(_NOT_PORTABLE):
            return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):  # no such file, a path, a folder, or a file that is not a zone
        pass
    raise InvalidSchedule(f"There is no time zone {zone!r}.{_near(zone)}")


def _near(zone: str) -> str:
    names = {name.lower(): name for name in available_timezones() if not name.startswith(_NOT_PORTABLE)}
    places = {name.rpartition("/")[2]: name for name in names}
    wanted = zone.lower().replace(" ", "_")
    close = get_close_matches(wanted, names, 3) or [places[name] for name in get_close_matches(wanted, places, 3)]
    if not close:
        return " Use an IANA name such as 'Europe/Berlin'."
    return f" Did you mean {' or '.join(repr(names[name]) for name in close)}?"


def check_policy(gap: object, fold: object) -> None:
    """Refuse values that are not policies."""
    if gap not in GAPS:
        raise InvalidSchedule(f"gap must be one of {', '.join(map(repr, GAPS))}, not {gap!r}.")
    if fold not in FOLDS:
        raise InvalidSchedule(f"fold must be one of {', '.join(map(repr, FOLDS))}, not {fold!r}.")


def instants(wall: datetime, zone: ZoneInfo, gap: Gap = "after", fold: Fold = "first") -> tuple[datetime, ...]:
    """The instants at which a wall time (a naive datetime) fires: none, one or, for `fold="both"`, two.

    A wall time that does not exist fires at the first instant after the gap, or not at all. The results have fixed
    offsets.
    """
    second, rest = divmod(wall - WALL_EPOCH, _SECOND)
    if not EARLIEST + MARGIN <= second < LATEST - MARGIN:
        return ()
    around = segments(zone, second // BLOCK)
    found = [part for part in around if part.start <= second - part.offset < part.end]
    if not found:
        after = next(part for part in around if part.start + part.offset > second)
        return (local(after.start, after),) if gap == "after" else ()
    chosen = {"first": found[:1], "last": found[-1:], "both": found}[fold]
    return tuple(local(second - part.offset, part) + rest for part in chosen)


def whole_second(moment: datetime) -> int:
    """The first whole second at or after an aware datetime."""
    passed = moment - EPOCH
    return passed.days * DAY + passed.seconds + (passed.microseconds > 0)


def in_zone(moment: datetime, zone: ZoneInfo) -> datetime:
    """The same instant with the zone's offset at that time, fixed."""
    offset, name = _kind(zone, moment.astimezone(UTC).replace(tzinfo=zone))
    return moment.astimezone(fixed(offset.days * DAY + offset.seconds, name))


def local(instant: int, part: Segment) -> datetime:
    """An instant as a datetime with the fixed offset of a segment."""
    return wall_epoch(part.offset, part.name) + timedelta(0, instant + part.offset)


@lru_cache(maxsize=4096)
def fixed(offset: int, name: str) -> timezone:
    """A fixed offset with an abbreviation; equal ones share one object."""
    return UTC if offset == 0 and name == "UTC" else timezone(timedelta(seconds=offset), name)


@lru_cache(maxsize=4096)
def wall_epoch(offset: int, name: str) -> datetime:
    """1970-01-01 00:00 by a clock with this offset."""
    return datetime(1970, 1, 1, tzinfo=fixed(offset, name))


@lru_cache(maxsize=8192)
def segments(zone: ZoneInfo, number: int) -> tuple[Segment, ...]:
    """The segments of one block (about a year, counted from 1970) and a margin of three days on both of its sides."""
    start = max(number * BLOCK, EARLIEST) - MARGIN
    end = min((number + 1) * BLOCK, LATEST) + MARGIN
    if zone.key in _NEVER_CHANGED:
        return (Segment(start, end, 0, "UTC"),)
    changes = _changes(zone, start, end)
    bounds = pairwise([start, *(at for at, _ in changes[1:]), end])
    return tuple(
        Segment(low, high, offset.days * DAY + offset.seconds, name)
        for (low, high), (_, (offset, name)) in zip(bounds, changes, strict=True)
    )


def _changes(zone: ZoneInfo, start: int, end: int) -> list[tuple[int, _Kind]]:
    """The kind of time at the start, and at each instant until the end at which another one begins."""
    here = _moment(zone, start)
    last = _moment(zone, end)
    kind = _kind(zone, here)
    found = [(start, kind)]
    while here < last:
        then = min(here + _DAY, last)
        if _kind(zone, then) == kind:
            here = then
            continue
        here = _first_other(zone, here, then)
        kind = _kind(zone, here)
        passed = here - _moment(zone, 0)
        found.append((passed.days * DAY + passed.seconds, kind))
    return found


def _moment(zone: ZoneInfo, instant: int) -> datetime:
    """An instant as `fromutc` takes it: in UTC, but with the zone as its tzinfo."""
    return datetime(1970, 1, 1, tzinfo=zone) + timedelta(0, instant)


def _kind(zone: ZoneInfo, moment: datetime) -> _Kind:
    """The offset and abbreviation at an instant. The offset is the wall time less UTC; `utcoffset()` would have to
    guess where an hour happens three times."""
    shown = zone.fromutc(moment)
    return shown - moment, shown.tzname() or ""


def _first_other(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The first second of another kind than `low`'s, which `high` is, too."""
    kind = _kind(zone, low)
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        if _kind(zone, middle) == kind:
            low = middle
        else:
            high = middle
    return high
