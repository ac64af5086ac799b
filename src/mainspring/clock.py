"""The only reader of clocks.

Instants come from the database's clock: `ServerClock` keeps the offset between the server's wall clock and this
process's monotonic one, so that a worker whose own wall clock is wrong, or jumps, still writes and waits by the
server's. Durations come from `monotonic()`. `ManualClock` takes the place of both in tests.

The store compares times on the server: `expression()` is what stands for "now" in a query, `$$NOW` in production
and a literal under a ManualClock.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def monotonic() -> float:
    """Seconds for measuring durations; never goes back, and has no relation to the time of day."""
    return time.monotonic()


def truncate(instant: datetime) -> datetime:
    """The instant as BSON keeps it: in whole milliseconds, rounded down, in UTC."""
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


class Clock(Protocol):
    """What the store and the engine need to know of time."""

    def now(self) -> datetime:
        """The server's time, as well as this process can tell."""

    def at(self, instant: float) -> datetime:
        """The server's time at an instant of `monotonic()`."""

    def expression(self) -> Any:
        """What stands for the server's "now" inside a query or an update."""

    def learn(self, server_time: datetime, sent: float, received: float) -> None:
        """Take a reading of the server's clock that was asked for at `sent` and answered at `received`."""


class ServerClock:
    """The database's clock, read through the offset to this process's monotonic clock."""

    def __init__(self) -> None:
        self._offset = datetime.now(UTC).timestamp() - monotonic()
        self._error = float("inf")
        self._learned_at = float("-inf")

    @property
    def age(self) -> float:
        """Seconds since the last reading."""
        return monotonic() - self._learned_at

    def learn(self, server_time: datetime, sent: float, received: float) -> None:
        # A reading is as good as its round trip is short. An older one loses its worth (1 ms a second), so that a
        # new primary with another clock is followed soon.
        error = (received - sent) / 2
        if error <= self._error + self.age * 0.001:
            self._offset = server_time.timestamp() - (sent + received) / 2
            self._error = error
            self._learned_at = received

    def forget(self) -> None:
        """Drop the reading (the server may have changed); the next one counts whatever its round trip."""
        self._error = float("inf")
        self._learned_at = float("-inf")

    def now(self) -> datetime:
        return self.at(monotonic())

    def at(self, instant: float) -> datetime:
        """The server's time at an instant of `monotonic()`."""
        return datetime.fromtimestamp(instant + self._offset, UTC)

    def expression(self) -> Any:
        return "$$NOW"


class ManualClock:
    """A clock that stands still until it is moved. For tests: days pass in no time."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = truncate(start or datetime(2030, 1, 1, tzinfo=UTC))

    def now(self) -> datetime:
        return self._now

    def at(self, instant: float) -> datetime:
        return self._now

    def expression(self) -> Any:
        return self._now

    def learn(self, server_time: datetime, sent: float, received: float) -> None:
        """A manual clock learns nothing."""

    def advance(self, by: float | timedelta) -> datetime:
        """Move on by seconds or a timedelta, and return the new time."""
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        self._now = truncate(self._now + step)
        return self._now
