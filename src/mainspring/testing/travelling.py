"""Time travel: `travel()` moves a ManualClock from firing to firing, and runs what is due at each."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, overload

from mainspring.client.scheduler import Scheduler
from mainspring.clock import ManualClock, truncate
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.sync import Scheduler as BlockingScheduler
from mainspring.testing.bench import Bench, at_work
from mainspring.testing.draining import TIMEOUT, checked
from mainspring.testing.either import AnyScheduler, blocking, either, manual_clock
from mainspring.testing.runs import Journey

_MOST = 10_000


@overload
def travel(
    scheduler: Scheduler,
    *,
    to: datetime | None = None,
    by: Seconds | None = None,
    jump: bool = False,
    raise_errors: bool = False,
    unhandled: bool = False,
    most: int = _MOST,
    timeout: float = TIMEOUT,
) -> Awaitable[Journey]: ...
@overload
def travel(
    scheduler: BlockingScheduler,
    *,
    to: datetime | None = None,
    by: Seconds | None = None,
    jump: bool = False,
    raise_errors: bool = False,
    unhandled: bool = False,
    most: int = _MOST,
    timeout: float = TIMEOUT,
) -> Journey: ...
def travel(
    scheduler: AnyScheduler,
    *,
    to: datetime | None = None,
    by: Seconds | None = None,
    jump: bool = False,
    raise_errors: bool = False,
    unhandled: bool = False,
    most: int = _MOST,
    timeout: float = TIMEOUT,
) -> Any:
    """Move the scheduler's ManualClock to an instant, or forward by a duration ("3d", seconds, a timedelta). The clock
    stops at each firing and at each time at which a job is due; there, schedules fire and due jobs run. With `jump` it
    moves at once, as if no worker had run meanwhile: firings are missed, and the `misfire` policy applies. `most` is
    the maximum number of stops. The other arguments are those of `drain()`.
    """

    async def verb(inner: Scheduler) -> Journey:
        clock = manual_clock(inner, "travel()")
        target = _target(clock, to, by)
        async with at_work(inner, most, timeout) as bench:
            await bench.settle()
            await _pass_through(bench, clock, target, 0 if jump else most)
            await clock.advance(target - clock.now())
            await bench.settle()
            runs = await checked(bench, raise_errors, unhandled)
        firings = tuple(job for job in bench.created if job.schedule_id is not None)
        return Journey(clock.now(), firings, runs, tuple(bench.notices))

    outcome = either(scheduler, "travel()", verb)
    return _shown(scheduler, outcome) if isinstance(scheduler, BlockingScheduler) else outcome


def _target(clock: ManualClock, to: datetime | None, by: Seconds | None) -> datetime:
    if (to is None) == (by is None):
        raise ConfigurationError("travel() takes either to=, an instant, or by=, a duration.")
    if to is None:
        assert by is not None
        return clock.now() + timedelta(seconds=seconds(by, "by"))
    if to.tzinfo is None:
        raise ConfigurationError(f"to={to!r} has no time zone; write datetime(…, tzinfo=ZoneInfo('Europe/Berlin')).")
    target = truncate(to)
    if target < clock.now():
        raise ConfigurationError(f"travel() goes forwards only: it is {clock.now()} already, and to= is {target}.")
    return target


async def _pass_through(bench: Bench, clock: ManualClock, target: datetime, most: int) -> None:
    """Stop at each instant before the target at which a schedule fires or a job is due."""
    for _ in range(most):
        now = clock.now()
        known = (await bench.next_firing_at(now), await bench.next_job_at(now))
        stop = min((one for one in known if one is not None), default=None)
        if bench.crashed or stop is None or stop >= target:
            return
        await clock.advance(stop - now)
        await bench.settle()
    if most:
        raise AssertionError(
            f"After {most:,} stops the clock has come to {clock.now()}, and not to {target}: a schedule fires very "
            "often. Travel less far, or give most=…, or jump=True to miss the firings in between."
        )


def _shown(scheduler: BlockingScheduler, journey: Journey) -> Journey:
    """The journey with jobs whose verbs block."""
    firings = tuple(blocking(scheduler, job) for job in journey.firings)
    return replace(journey, firings=firings, runs=journey.runs.with_jobs(lambda job: blocking(scheduler, job)))
