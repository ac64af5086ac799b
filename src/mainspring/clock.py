"""The only reader of clocks.

Instants come from the database's clock: `ServerClock` keeps the offset between the server's wall clock and this
process's monotonic one, so that a worker whose own wall clock is wrong, or jumps, still writes and waits by the
server's. Durations come from `monotonic()`. `ManualClock` replaces both in tests.

The store compares times on the server: `expression()` is "now" in a query, `$$NOW` in production and a literal under a
ManualClock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from mainspring.durations import Duration, duration_ms

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# It goes on while the machine is suspended, as leases do; CLOCK_MONOTONIC stands still meanwhile.
_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def monotonic() -> float:
    """Seconds for measuring durations; never goes back, and has no relation to the time of day."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


def wall() -> datetime:
    """This machine's own wall clock, only to be compared with the server's."""
    return datetime.now(UTC)


def truncate(instant: datetime) -> datetime:
    """The instant as BSON keeps it: in whole milliseconds, rounded down, in UTC."""
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


class Clock(Protocol):
    """The clock that the store and the engine use."""

    def now(self) -> datetime:
        """The server's time, as far as this process knows it."""

    def at(self, instant: float) -> datetime:
        """The server's time at an instant of `monotonic()`."""

    def expression(self) -> Any:
        """The server's "now" as an expression inside a query or an update."""

    def learn(self, server_time: datetime, sent: float, received: float) -> None:
        """Use a reading of the server's clock: the request was sent at `sent`, the answer came at `received`."""


class ServerClock:
    """The database's clock, read through the offset to this process's monotonic clock."""

    def __init__(self) -> None:
        self.offset = datetime.now(UTC).timestamp() - monotonic()
        self._error = float("inf")
        self._learned_at = float("-inf")

    @property
    def age(self) -> float:
        """Seconds since the last reading."""
        return monotonic() - self._learned_at

    def learn(self, server_time: datetime, sent: float, received: float) -> None:
        # The shorter the round trip, the better the reading. The error of an older reading grows by 1 ms a second, so
        # that the clock soon follows a new primary.
        error = (received - sent) / 2
        if error <= self._error + self.age * 0.001:
            self.offset = server_time.timestamp() - (sent + received) / 2
            self._error = error
            self._learned_at = received

    def forget(self) -> None:
        """Drop the reading (the server may have changed); the next one is used whatever its round trip."""
        self._error = float("inf")
        self._learned_at = float("-inf")

    def now(self) -> datetime:
        return self.at(monotonic())

    def at(self, instant: float) -> datetime:
        """The server's time at an instant of `monotonic()`."""
        return datetime.fromtimestamp(instant + self.offset, UTC)

    def expression(self) -> Any:
        return "$$NOW"


class Follower(Protocol):
    """A worker that uses a manual clock. Both methods are called on the worker's event loop."""

    def clock_moved(self) -> None:
        """Poll at once for jobs and schedules that may be due now."""

    async def catch_up(self) -> None:
        """Return when the schedules that are due now have fired."""


class Moment(datetime):
    """The time to which a clock was moved. Awaited, it lets the workers of that clock catch up first."""

    _clock: ManualClock

    @classmethod
    def of(cls, clock: ManualClock) -> Moment:
        now = clock.now()
        moment = cls(*now.timetuple()[:6], now.microsecond, tzinfo=now.tzinfo)
        moment._clock = clock
        return moment

    def __await__(self) -> Generator[Any, Any, datetime]:
        return self._clock.catch_up().__await__()


class ManualClock:
    """A clock that stands still until it is moved. For tests: days pass in no time.

    `clock.advance("1d")` moves it and wakes the workers that use it. `await clock.advance("1d")` also returns only when
    the schedules that are due then have made their jobs. One move is one jump: firings in between are missed, as they
    are while no worker runs, and follow the schedule's `misfire`; to fire each, move from one to the next.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._now = truncate(start or datetime(2030, 1, 1, tzinfo=UTC))
        self._followers: dict[Follower, asyncio.AbstractEventLoop] = {}

    def now(self) -> datetime:
        return self._now

    def at(self, instant: float) -> datetime:
        return self._now

    def expression(self) -> Any:
        return self._now

    def learn(self, server_time: datetime, sent: float, received: float) -> None:
        """Do nothing: a manual clock ignores the server's."""

    def advance(self, by: Duration) -> Moment:
        """Move on by a duration, such as "1d", and return the new time; await it to wait for the firings that are
        due."""
        if isinstance(by, str):
            step = timedelta(milliseconds=duration_ms(by, "by"))
        else:
            step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        self._now = truncate(self._now + step)
        for follower, loop in list(self._followers.items()):
            with suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(follower.clock_moved)
        return Moment.of(self)

    async def catch_up(self) -> datetime:
        """Return when the schedules that are due now have fired, in all workers that use this clock."""
        here = asyncio.get_running_loop()
        for follower, loop in list(self._followers.items()):
            if loop is here:
                await follower.catch_up()
            else:
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(follower.catch_up(), loop))
        return self._now

    def follow(self, follower: Follower) -> None:
        """Notify a worker, which runs on this event loop, of each move."""
        self._followers[follower] = asyncio.get_running_loop()

    def unfollow(self, follower: Follower) -> None:
        """Stop notifying it."""
        self._followers.pop(follower, None)
