"""Counting attempts: their starts and outcomes, their durations and their lateness. Pure.

A worker counts in a `Tally` and stores its counts once a second; `Statistics` has the stored counts, as a series in
time and in sum. Durations and lateness are also counted by their length in a few fixed bins, from which percentiles are
computed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.model.views.windows import HOUR as HOUR
from mainspring.model.views.windows import MINUTE as MINUTE
from mainspring.model.views.windows import Window, floored

OUTCOMES = ("completed", "failed", "retried", "cancelled", "snoozed", "lost")
EXECUTED = ("completed", "failed", "retried", "cancelled", "lost")
"""The outcomes that count as an attempt at a job; a snooze does not."""
UNSUCCESSFUL = ("failed", "retried", "lost")
BOUNDS = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 1_800_000)
"""The longest duration of each bin in milliseconds; the last bin has no end."""
BINS = len(BOUNDS) + 1
WAIT_BOUNDS = (*BOUNDS[1:], 7_200_000, 28_800_000, 86_400_000)
"""The longest lateness of each bin in milliseconds; the last bin has no end. Jobs may wait longer than they run."""
WAIT_BINS = len(WAIT_BOUNDS) + 1
OTHERS = "(others)"
"""The name under which names and queues are counted when there are too many."""
_MOST_KINDS = 500
# The rounding error of a share times a count.
_TINY = 1e-6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Counts:
    """The counts of a span of time. Each attempt that has ended is in exactly one of the outcomes."""

    started: int = 0
    completed: int = 0
    failed: int = 0
    """Attempts after which their job was a dead letter."""
    retried: int = 0
    cancelled: int = 0
    snoozed: int = 0
    lost: int = 0
    """Attempts whose worker died, or lost its lease."""
    duration_ms: int = 0
    """The durations of all ended attempts, in sum."""
    lateness_ms: int = 0
    """The times for which started attempts had been due, in sum."""
    bins: list[int] = field(default_factory=lambda: [0] * BINS)
    """The number of attempts by duration: see `BOUNDS`."""
    waits: list[int] = field(default_factory=lambda: [0] * WAIT_BINS)
    """The number of started attempts by lateness: see `WAIT_BOUNDS`."""

    @property
    def executions(self) -> int:
        """The attempts that have ended, with any outcome."""
        return sum(getattr(self, outcome) for outcome in EXECUTED)

    @property
    def unsuccessful(self) -> int:
        return sum(getattr(self, outcome) for outcome in UNSUCCESSFUL)

    @property
    def mean_duration(self) -> timedelta | None:
        timed = sum(self.bins)
        return timedelta(milliseconds=self.duration_ms / timed) if timed else None

    @property
    def mean_lateness(self) -> timedelta | None:
        return timedelta(milliseconds=self.lateness_ms / self.started) if self.started else None

    def percentile(self, share: float) -> timedelta | None:
        """A percentile of the durations: `share` is from 0 to 1, and the precision is that of the bins."""
        return _percentile(self.bins, BOUNDS, share)

    def wait_percentile(self, share: float) -> timedelta | None:
        """A percentile of the delays of started attempts: `share` is from 0 to 1, and the precision is that of the
        bins."""
        return _percentile(self.waits, WAIT_BOUNDS, share)

    def began(self, lateness_ms: int) -> None:
        waited = max(0, lateness_ms)
        self.started += 1
        self.lateness_ms += waited
        self.waits[bisect_left(WAIT_BOUNDS, waited)] += 1

    def ended(self, outcome: str, duration_ms: int | None) -> None:
        setattr(self, outcome, getattr(self, outcome) + 1)
        if duration_ms is not None:
            self.duration_ms += duration_ms
            self.bins[bisect_left(BOUNDS, duration_ms)] += 1

    def add(self, other: Counts) -> None:
        for name in FIGURES:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.bins = [mine + theirs for mine, theirs in zip(self.bins, other.bins, strict=True)]
        self.waits = [mine + theirs for mine, theirs in zip(self.waits, other.waits, strict=True)]


FIGURES = ("started", *OUTCOMES, "duration_ms", "lateness_ms")
"""The counts of a span of time that are single numbers."""


def _percentile(bins: Sequence[int], bounds: Sequence[int], share: float) -> timedelta | None:
    counted = sum(bins)
    if not counted:
        return None
    wanted, below = share * counted - _TINY, 0
    for place, count in enumerate(bins):
        if count and below + count >= wanted:
            return timedelta(milliseconds=_between(bounds, place, (wanted - below) / count))
        below += count
    return timedelta(milliseconds=bounds[-1])


def _between(bounds: Sequence[int], place: int, share: float) -> float:
    """A length within a bin. The last bin has no end, so that its beginning is used."""
    low = bounds[place - 1] if place else 0
    return low if place == len(bounds) else low + (bounds[place] - low) * max(0.0, share)


@dataclass(frozen=True, slots=True)
class Kind:
    """One counter: the attempts of jobs of one name and queue, in one minute."""

    at: datetime
    queue: str
    name: str


class Tally:
    """The counts of one worker since it last stored them. Counting costs one dictionary lookup."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, Any, Any], Counts] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def began(self, at: datetime, queue: str, name: str, lateness: timedelta) -> None:
        """Count an attempt that was started, this long after it was due."""
        self._of(at, queue, name).began(int(lateness.total_seconds() * 1000))

    def ended(self, at: datetime, queue: str, name: str, outcome: str, took: float | None = None) -> None:
        """Count an attempt that has ended, once that is stored; `took` is its seconds, where they are known."""
        self._of(at, queue, name).ended(outcome, None if took is None else int(took * 1000))

    def take(self) -> list[tuple[Kind, Counts]]:
        """Return all counts and begin anew."""
        counted, self._counts = self._counts, {}
        return [(Kind(_EPOCH + minute * MINUTE, queue, name), one) for (minute, queue, name), one in counted.items()]

    def _of(self, at: datetime, queue: Any, name: Any) -> Counts:
        minute = int(at.timestamp()) // 60
        found = self._counts.get((minute, queue, name))
        if found is not None:
            return found
        if len(self._counts) >= _MOST_KINDS:
            queue = name = OTHERS
        return self._counts.setdefault((minute, queue, name), Counts())


@dataclass(frozen=True, slots=True)
class Counted:
    """The stored counts of one span of time. `oldest` is the longest time for which a job was seen to have been due."""

    at: datetime
    counts: Counts
    oldest: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """The counts of one step."""

    at: datetime
    counts: Counts
    oldest: timedelta | None = None
    """The longest time for which a ready job was seen to have been due; None where none was, or with a filter by name.
    The queues are looked at once a minute."""


@dataclass(frozen=True, slots=True)
class Deploy:
    """The first appearance of a release or a version of workers."""

    at: datetime
    version: str


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counts between two instants, per step and in total. Empty steps are included."""

    start: datetime
    end: datetime
    step: timedelta
    points: tuple[Point, ...]
    total: Counts
    deploys: tuple[Deploy, ...] = ()
    """The releases and versions of workers that appeared first between the two instants."""


def make_statistics(window: Window, found: Iterable[Counted], deploys: Iterable[Deploy] = ()) -> Statistics:
    """A whole series from the steps that have counts."""
    counts = {at: Counts() for at in window.starts}
    oldest: dict[datetime, timedelta] = {}
    total = Counts()
    for one in found:
        place = max(floored(one.at, window.step), window.start)
        if place in counts:
            counts[place].add(one.counts)
            total.add(one.counts)
            if one.oldest is not None:
                oldest[place] = max(one.oldest, oldest.get(place, one.oldest))
    points = tuple(Point(at, step, oldest.get(at)) for at, step in counts.items())
    return Statistics(window.start, window.end, window.step, points, total, tuple(deploys))


def summed(counts: Iterable[Counts]) -> Counts:
    """The sum of several counts."""
    total = Counts()
    for one in counts:
        total.add(one)
    return total
