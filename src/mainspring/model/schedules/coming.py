"""The coming firings of many schedules, counted in buckets of time. Pure.

Schedules whose rules mean the same are counted once, as a group: ten thousand schedules have a few hundred rules. A
group is counted by arithmetic where its rule is dense, and firing by firing where it is sparse. `Counting` keeps the
counts of groups for a few windows and does a bounded amount of work per call, so that no request waits for all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from heapq import nsmallest
from weakref import WeakValueDictionary

from mainspring.config.checks import check_whole
from mainspring.durations import duration_ms
from mainspring.errors import InvalidSchedule
from mainspring.model.access.api_keys import Scope
from mainspring.model.schedules.times import Times, is_after_end
from mainspring.rules.cron import Cron
from mainspring.rules.every import Every
from mainspring.rules.instants import floor_ms
from mainspring.rules.zones.changes import ClockChange, clock_changes

MOST_BUCKETS = 1000
MOST_HEAVIEST = 20
SHORTEST_STEP, LONGEST_STEP = timedelta(minutes=1), timedelta(days=7)
WORK = 4_000
"""How many firings or buckets of rules are computed by one call, about a fortieth of a second."""
_MINUTE = timedelta(minutes=1)
_MOMENT = timedelta(milliseconds=1)
_DENSE = 3
"""A rule with more firings per bucket than this is counted by bucket."""
_WINDOWS_KEPT = 6
Counts = Mapping[int, tuple[int, int]]
"""By the number of a bucket: the firings in it, and those in its first minute."""


@dataclass(frozen=True, slots=True)
class Window:
    """Buckets of equal length."""

    start: datetime
    step: timedelta
    buckets: int

    @property
    def end(self) -> datetime:
        return self.start + self.buckets * self.step

    def edge(self, number: int) -> datetime:
        return self.start + number * self.step

    def rest(self, now: datetime) -> Window | None:
        """The current bucket from the current minute on; None where no minute of it has passed."""
        number, into = divmod(now - self.start, self.step)
        gone = into - into % _MINUTE
        if not gone or not 0 <= number < self.buckets:
            return None
        return Window(self.edge(number) + gone, self.step - gone, 1)


def make_window(start: datetime | None, end: datetime | None, step: object, now: datetime) -> Window:
    """The checked window. Without a start it begins with the bucket of now, without an end it has a day."""
    length = timedelta(milliseconds=duration_ms(step, "step", InvalidSchedule))
    if not SHORTEST_STEP <= length <= LONGEST_STEP:
        raise InvalidSchedule("step must be between a minute and seven days.")
    if start is None:
        start = now - timedelta(milliseconds=floor_ms(now) % (length // _MOMENT))
        start -= timedelta(microseconds=start.microsecond % 1000)
    end = start + timedelta(days=1) if end is None else end
    if end <= start:
        raise InvalidSchedule(f"The window ends ({end.isoformat()}) before it begins ({start.isoformat()}).")
    buckets = -((start - end) // length)
    if buckets > MOST_BUCKETS:
        raise InvalidSchedule(
            f"This window has {buckets:,} buckets, and {MOST_BUCKETS:,} are the most; take a longer step or an earlier "
            "end."
        )
    return Window(start, length, buckets)


def check_heaviest(value: object) -> int:
    return check_whole(value, "heaviest", 0, MOST_HEAVIEST, InvalidSchedule)


@dataclass(frozen=True, slots=True)
class Timed:
    """A schedule, as far as its coming firings are concerned."""

    id: str
    name: str
    queue: str
    times: Times
    group: Hashable
    """Equal for schedules with the same firings."""
    paused: bool = False
    left: int | None = None
    """The jobs that its firings may still make."""
    only: datetime | None = None
    """Where the rule counts from the end of runs: the next firing, the only one that is known."""
    decided: datetime | None = None
    """Firings up to this instant in the future were skipped by hand."""
    key: Hashable = field(init=False, compare=False)
    """Equal for schedules that are counted as one: those of a group, unless a firing of the group is left out."""

    def __post_init__(self) -> None:
        whole = self.left is None and self.decided is None and not is_after_end(self.times.rule)
        key = self.group if whole else (self.id, self.group, self.left, self.decided, self.only)
        object.__setattr__(self, "key", key)  # once, since every look asks for the keys of all schedules


class _Group:
    """A value with its hash: every look asks for the hash of every group, and that of a rule is slow."""

    __slots__ = ("__weakref__", "_hash", "_meaning")

    def __init__(self, meaning: Hashable) -> None:
        self._meaning, self._hash = meaning, hash(meaning)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Group) and self._meaning == other._meaning)


_GROUPS: WeakValueDictionary[_Group, _Group] = WeakValueDictionary()
"""One object for each group in use, so that two equal groups are compared by their identity."""


def group_of(times: Times) -> Hashable:
    """A value that is equal for schedules with the same nominal times. `H` counts as the minute that it stands for."""
    rule = times.rule
    meaning: object = rule.meaning if isinstance(rule, Cron) else rule
    group = _Group((meaning, times.start_at, times.end_at, times.jitter > 0))
    return _GROUPS.setdefault(group, group)


@dataclass(frozen=True, slots=True)
class Heavy:
    """A schedule and the number of its firings in a bucket."""

    id: str
    name: str
    firings: int


@dataclass(frozen=True, slots=True)
class ComingBucket:
    """The firings from `at` on, for one step. The bucket that contains the present counts from the current minute
    on."""

    at: datetime
    firings: int
    herd: int
    """Firings in the first minute of the bucket that no jitter spreads."""
    schedules: int
    """The number of schedules that fire."""
    heaviest: tuple[Heavy, ...] = ()


@dataclass(frozen=True, slots=True)
class Coming:
    """The coming firings of the schedules in a scope, in buckets. Buckets without a firing are left out."""

    start: datetime
    end: datetime
    step: timedelta
    buckets: tuple[ComingBucket, ...]
    schedules: int
    """The schedules that were counted."""
    paused: int
    """The paused ones among them, which do not fire."""
    clock_changes: tuple[tuple[ClockChange, int], ...]
    """The changes of clocks in the zones of these schedules, each with the number of schedules in that zone."""
    complete: bool
    """False as long as some schedules have not been read or counted yet: ask again."""
    read_since: datetime
    """Every schedule is counted as it was at this instant or later."""


@dataclass(slots=True)
class _Members:
    """The schedules of one group that are within a scope."""

    counts: Counts
    spread: bool
    rest: int | None = None
    """The firings that the current bucket still has; None where it has all of them."""
    schedules: list[Timed] = field(default_factory=list)

    def from_bucket(self, first: int) -> Iterator[tuple[int, int, int]]:
        """The numbers of the current bucket and later ones, with their firings and those in the first minute."""
        for number, (count, herd) in self.counts.items():
            if number > first or (number == first and self.rest is None):
                yield number, count, herd
            elif number == first and self.rest:
                yield number, self.rest, 0


class Counting:
    """Counts groups in windows, and keeps the counts of the last few windows."""

    def __init__(self) -> None:
        self._windows: OrderedDict[Window, dict[Hashable, Counts]] = OrderedDict()

    def count(self, schedules: Iterable[Timed], window: Window, now: datetime, work: int = WORK) -> bool:
        """Count the groups that are not counted yet, until about `work` firings are computed. Returns whether all
        are counted."""
        rest = window.rest(now)
        counted, left = self._count(schedules, window, now, work)
        return counted and (rest is None or self._count(schedules, rest, now, left)[0])

    def _count(self, schedules: Iterable[Timed], window: Window, now: datetime, left: int) -> tuple[bool, int]:
        known = self._windows.setdefault(window, {})
        self._windows.move_to_end(window)
        while len(self._windows) > _WINDOWS_KEPT:
            self._windows.popitem(last=False)
        wanted: set[Hashable] = set()
        for one in schedules:
            if one.paused:
                continue
            wanted.add(one.key)
            if one.key not in known and left > 0:
                known[one.key], cost = _counts_of(one, window, now)
                left -= cost
        for key in known.keys() - wanted:
            del known[key]
        return len(known) == len(wanted), left

    def coming(
        self, schedules: Iterable[Timed], window: Window, now: datetime, scope: Scope, heaviest: int
    ) -> tuple[tuple[ComingBucket, ...], int, int, dict[str, int]]:
        """The buckets of the schedules within a scope, the number of these and of the paused ones, and their zones."""
        groups: dict[Hashable, _Members] = {}
        seen, paused, zones = 0, 0, dict[str, int]()
        known, everything, rest = self._windows.get(window, {}), scope.everything, self._rest(window, now)
        for one in schedules:
            if not everything and not scope.allows(one.queue, one.name):
                continue
            seen, paused = seen + 1, paused + one.paused
            if one.paused:
                continue
            for zone in one.times.rule.zones:
                zones[zone] = zones.get(zone, 0) + 1
            members = groups.get(one.key)
            if members is None:
                counts, spread = known.get(one.key, {}), one.times.jitter > 0
                members = groups[one.key] = _Members(counts, spread, rest.get(one.key))
            members.schedules.append(one)
        first = max(0, (now - window.start) // window.step)
        return _buckets(groups.values(), window, first, heaviest), seen, paused, zones

    def _rest(self, window: Window, now: datetime) -> Mapping[Hashable, int]:
        """By group, the firings that the current bucket still has."""
        rest = window.rest(now)
        known = {} if rest is None else self._windows.get(rest, {})
        return {key: counts.get(0, (0, 0))[0] for key, counts in known.items()}


def changes_of(zones: Mapping[str, int], window: Window) -> tuple[tuple[ClockChange, int], ...]:
    """The changes of clocks in a window, in order, each with the number of schedules in its zone."""
    found = [(change, number) for zone, number in zones.items() for change in clock_changes(zone, *_span(window))]
    return tuple(sorted(found, key=lambda pair: (pair[0].at, pair[0].zone)))


def _span(window: Window) -> tuple[datetime, datetime]:
    return window.start, window.end


def _counts_of(one: Timed, window: Window, now: datetime) -> tuple[Counts, int]:
    """The counts of a schedule, which are those of its group, and what they cost to compute, in firings."""
    if is_after_end(one.times.rule):
        known = [one.only] if one.only is not None and window.start <= one.only < window.end else []
        return _one_by_one(known, window), 1
    times = one.times
    decided = now if one.decided is None else one.decided
    if one.key != one.group:
        times = replace(times, start_at=max(decided + _MOMENT, times.start_at or decided))
    counts, cost = _counted(times, window)
    if one.left is None:
        return counts, cost
    used = times.count(now, window.start) if now < window.start else 0
    return _first_of(counts, max(0, one.left - used)), cost + 1


def _first_of(counts: Counts, left: int) -> Counts:
    """The counts of the first firings of a window."""
    found: dict[int, tuple[int, int]] = {}
    for number in sorted(counts):
        firings, herd = counts[number]
        if left > 0:
            found[number] = min(firings, left), min(herd, left)
        left -= firings
    return found


def _counted(times: Times, window: Window) -> tuple[Counts, int]:
    """The counts of a rule in a window, and what they cost to compute, in firings."""
    if isinstance(times.rule, Every) and times.rule.anchor is not None:
        return _of_grid(times, times.rule, window), 1 + window.buckets // 15
    total = times.count(*_span(window))
    if total > _DENSE * window.buckets:
        return _by_bucket(times, window), 2 * window.buckets
    return _one_by_one(times.between(*_span(window)), window), 1 + total


def _of_grid(times: Times, rule: Every, window: Window) -> Counts:
    """The counts of a grid, by arithmetic on whole milliseconds."""
    period, anchor = rule.period // _MOMENT, floor_ms(rule.anchor)  # type: ignore[arg-type]
    low = anchor if times.start_at is None else max(anchor, floor_ms(times.start_at))
    high = None if times.end_at is None else floor_ms(times.end_at) + 1
    start, step = floor_ms(window.start), window.step // _MOMENT
    minute = min(60_000, step)

    def before(instant: int) -> int:
        """The firings of the grid before an instant, from the anchor on."""
        bounded = instant if high is None or instant < high else high
        return -((anchor - bounded) // period) if bounded > anchor else 0

    skipped = before(low)
    edges = [max(skipped, before(start + number * step)) for number in range(window.buckets + 1)]
    return {
        number: (
            edges[number + 1] - edges[number],
            max(skipped, before(start + number * step + minute)) - edges[number],
        )
        for number in range(window.buckets)
        if edges[number + 1] > edges[number]
    }


def _by_bucket(times: Times, window: Window) -> Counts:
    found: dict[int, tuple[int, int]] = {}
    for number in range(window.buckets):
        here, there = window.edge(number), window.edge(number + 1)
        firings = times.count(here, there)
        if firings:
            found[number] = firings, times.count(here, min(there, here + _MINUTE))
    return found


def _one_by_one(firings: Iterable[datetime], window: Window) -> Counts:
    found: dict[int, tuple[int, int]] = {}
    for at in firings:
        number, into = divmod(at - window.start, window.step)
        count, herd = found.get(number, (0, 0))
        found[number] = count + 1, herd + (into < _MINUTE)
    return found


def _buckets(groups: Iterable[_Members], window: Window, first: int, heaviest: int) -> tuple[ComingBucket, ...]:
    firings, herds, numbers = ([0] * window.buckets for _ in range(3))
    inside: list[list[tuple[int, _Members]]] = [[] for _ in range(window.buckets)]
    for group in groups:
        size = len(group.schedules)
        for number, count, herd in group.from_bucket(first):
            if number >= window.buckets:
                continue
            firings[number] += count * size
            numbers[number] += size
            herds[number] += 0 if group.spread else herd * size
            if heaviest:
                inside[number].append((count, group))
    return tuple(
        ComingBucket(
            window.edge(number), firings[number], herds[number], numbers[number], _heaviest(inside[number], heaviest)
        )
        for number in range(window.buckets)
        if firings[number]
    )


def _heaviest(groups: Iterable[tuple[int, _Members]], most: int) -> tuple[Heavy, ...]:
    found: list[Heavy] = []
    for count, group in groups:
        chosen = nsmallest(most, group.schedules, key=lambda one: one.id)
        found += [Heavy(one.id, one.name, count) for one in chosen]
        if len(found) > 50 * most:
            found = nsmallest(most, found, key=_by_weight)
    return tuple(nsmallest(most, found, key=_by_weight))


def _by_weight(one: Heavy) -> tuple[int, str]:
    return -one.firings, one.id
