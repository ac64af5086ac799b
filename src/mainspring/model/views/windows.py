"""Spans of time for which statistics are requested: from, until, and in which steps. Pure.

A request reads at most about two thousand stored spans: `make_window` bounds the number of steps, and a short step
needs a short window. Whole days, hours and five minutes are stored in sum, so that longer steps cost no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mainspring.errors import ConfigurationError
from mainspring.model.jobs.draft import check_instant
from mainspring.model.jobs.retry import Seconds, seconds

MINUTE, FIVE_MINUTES, HOUR, DAY = timedelta(minutes=1), timedelta(minutes=5), timedelta(hours=1), timedelta(days=1)
MOST_POINTS = 2000
_MOST_MINUTES = timedelta(minutes=MOST_POINTS)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEPS = (
    (timedelta(hours=2), MINUTE),
    (timedelta(hours=6), FIVE_MINUTES),
    (timedelta(hours=25), 2 * FIVE_MINUTES),
    (timedelta(days=10), HOUR),
    (timedelta(days=40), 6 * HOUR),
)


@dataclass(frozen=True, slots=True)
class Window:
    """The instants between which counts are requested, on the grid of the steps."""

    start: datetime
    end: datetime
    step: timedelta

    @property
    def starts(self) -> list[datetime]:
        return [self.start + place * self.step for place in range((self.end - self.start) // self.step)]


def make_window(start: object, end: object, step: Seconds | None = None) -> Window:
    """The requested window, widened to whole steps; steps count from 1970 on, in UTC. Without a step, one is chosen by
    the length of the window."""
    try:
        first, last = check_instant(start, "start"), check_instant(end, "end")
        return _widened(first, last, _step(last - first) if step is None else _checked(step))
    except OverflowError:
        raise ConfigurationError("start or end is beyond the years that can be counted.") from None


def floored(instant: datetime, step: timedelta) -> datetime:
    """The beginning of the step that an instant is in."""
    instant = instant.astimezone(UTC)
    return instant - (instant - _EPOCH) % step


def _checked(step: Seconds) -> timedelta:
    length = timedelta(seconds=seconds(step, "step"))
    if length < MINUTE or length % MINUTE:
        raise ConfigurationError(f"step must be a whole number of minutes, not {length.total_seconds():g} s.")
    return length


def _step(length: timedelta) -> timedelta:
    """A step that divides a window into some 25 to 250 parts, or whole days."""
    fitting = (step for longest, step in _STEPS if length <= longest)
    return next(fitting, max(DAY, -(-length // (250 * DAY)) * DAY))


def _widened(start: datetime, end: datetime, step: timedelta) -> Window:
    first = floored(start, step)
    if end <= start:
        raise ConfigurationError("end must be after start.")
    count = -(-(end - first) // step)
    if count > MOST_POINTS:
        raise ConfigurationError(
            f"From start to end there are {count:,} steps; {MOST_POINTS:,} at most are in one answer. Use longer steps."
        )
    if step % FIVE_MINUTES and end - first > _MOST_MINUTES:
        raise ConfigurationError(
            "Between start and end there are more than 33 hours; use steps of 5 minutes, or a multiple of them."
        )
    return Window(first, first + count * step, step)
