"""Counting attempts: their starts and outcomes, their durations and their lateness. Pure.

A worker counts in a `Tally` and stores its counts once a second; `Statistics` has the stored counts, as a series in
time and in sum. Durations are also counted by their length in a few fixed bins, from which percentiles are computed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.errors import ConfigurationError
from mainspring.model.jobs.draft import check_instant
from mainspring.model.jobs.retry import Seconds, seconds

OUTCOMES = ("completed", "failed", "retried", "cancelled", "snoozed", "lost")
EXECUTED = ("completed", "failed", "retried", "cancelled", "lost")
"""The outcomes that count as an attempt at a job; a snooze does not."""
UNSUCCESSFUL = ("failed", "retried", "lost")
BOUNDS = (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 1_800_000)
"""The longest duration of each bin in milliseconds; the last bin has no end."""
BINS = len(BOUNDS) + 1
OTHERS = "(others)"
"""The name under which names and queues are counted when there are too many."""
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
MOST_POINTS = 2000
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

    @property
    def executions(self) -> int:
        """The attempts that have ended, with whatever outcome."""
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
        """The longest duration of this share of the attempts, from 0 to 1, as far as the bins tell."""
        timed = sum(self.bins)
        if not timed:
            return None
        wanted, below = share * timed - _TINY, 0
        for place, count in enumerate(self.bins):
            if count and below + count >= wanted:
                return timedelta(milliseconds=_between(place, (wanted - below) / count))
            below += count
        return timedelta(milliseconds=BOUNDS[-1])

    def began(self, lateness_ms: int) -> None:
        self.started += 1
        self.lateness_ms += max(0, lateness_ms)

    def ended(self, outcome: str, duration_ms: int | None) -> None:
        setattr(self, outcome, getattr(self, outcome) + 1)
        if duration_ms is not None:
            self.duration_ms += duration_ms
            self.bins[bisect_left(BOUNDS, duration_ms)] += 1

    def add(self, other: Counts) -> None:
        for name in FIGURES:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.bins = [mine + theirs for mine, theirs in zip(self.bins, other.bins, strict=True)]


FIGURES = ("started", *OUTCOMES, "duration_ms", "lateness_ms")
"""The counts of a span of time that are single numbers."""


def _between(place: int, share: float) -> float:
    """A duration within a bin. The last bin has no end, so that its beginning is used."""
    low = BOUNDS[place - 1] if place else 0
    return low if place == len(BOUNDS) else low + (BOUNDS[place] - low) * max(0.0, share)


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
class Point:
    """The counts of one step."""

    at: datetime
    counts: Counts


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counts between two instants, step by step and in sum. Empty steps are included."""

    start: datetime
    end: datetime
    step: timedelta
    points: tuple[Point, ...]
    total: Counts


@dataclass(frozen=True, slots=True)
class Window:
    """The instants between which counts are requested, on the grid of the steps."""

    start: datetime
    end: datetime
    step: timedelta

    @property
    def starts(self) -> list[datetime]:
        return [self.start + place * self.step for place in range((self.end - self.start) // self.step)]


def make_window(start: object, end: object, step: Seconds) -> Window:
    """The requested window, widened to whole steps; steps count from 1970 on, in UTC."""
    length = timedelta(seconds=seconds(step, "step"))
    if length < MINUTE or length % MINUTE:
        raise ConfigurationError(f"step must be a whole number of minutes, not {length.total_seconds():g} s.")
    try:
        return _widened(check_instant(start, "start"), check_instant(end, "end"), length)
    except OverflowError:
        raise ConfigurationError("start or end is beyond the years that can be counted.") from None


def _widened(start: datetime, end: datetime, step: timedelta) -> Window:
    first = _floored(start, step)
    if end <= start:
        raise ConfigurationError("end must be after start.")
    count = -(-(end - first) // step)
    if count > MOST_POINTS:
        raise ConfigurationError(
            f"From start to end there are {count:,} steps; {MOST_POINTS:,} at most are in one answer. Use longer steps."
        )
    return Window(first, first + count * step, step)


def make_statistics(window: Window, found: Iterable[tuple[datetime, Counts]]) -> Statistics:
    """A whole series from the steps that have counts."""
    points = {at: Counts() for at in window.starts}
    total = Counts()
    for at, counts in found:
        place = max(_floored(at, window.step), window.start)
        if place in points:
            points[place].add(counts)
            total.add(counts)
    return Statistics(
        window.start, window.end, window.step, tuple(Point(at, counts) for at, counts in points.items()), total
    )


def summed(counts: Sequence[Counts]) -> Counts:
    """The sum of several counts."""
    total = Counts()
    for one in counts:
        total.add(one)
    return total


def _floored(instant: datetime, step: timedelta) -> datetime:
    instant = instant.astimezone(UTC)
    return instant - (instant - _EPOCH) % step
