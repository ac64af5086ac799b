"""Run jobs in the process of a test: `drain()` what is due now, `run_until_idle()` also what is due later."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, overload

from mainspring.client.scheduler import Scheduler
from mainspring.sync import Scheduler as BlockingScheduler
from mainspring.testing.bench import Bench, at_work
from mainspring.testing.either import AnyScheduler, blocking, either, manual_clock
from mainspring.testing.runs import AttemptRaised, Runs, first_raised

MOST, TIMEOUT = 1000, 30.0


@overload
def drain(
    scheduler: Scheduler,
    *,
    raise_errors: bool = False,
    unhandled: bool = False,
    most: int = MOST,
    timeout: float = TIMEOUT,
) -> Awaitable[Runs]: ...
@overload
def drain(
    scheduler: BlockingScheduler,
    *,
    raise_errors: bool = False,
    unhandled: bool = False,
    most: int = MOST,
    timeout: float = TIMEOUT,
) -> Runs: ...
def drain(
    scheduler: AnyScheduler,
    *,
    raise_errors: bool = False,
    unhandled: bool = False,
    most: int = MOST,
    timeout: float = TIMEOUT,
) -> Any:
    """Run all due jobs in this process until none is left, and return the attempts in the order in which they ended.
    Jobs that these jobs schedule run, too. Retries with a delay are due later and do not run. With `raise_errors`, this
    raises AttemptRaised at the end if an attempt raised; its cause is the first handler's exception. A due job without
    a handler is an error, unless `unhandled` allows it.
    """

    async def verb(inner: Scheduler) -> Runs:
        async with at_work(inner, most, timeout) as bench:
            await bench.settle()
            return await checked(bench, raise_errors, unhandled)

    return _shown(scheduler, either(scheduler, "drain()", verb))


@overload
def run_until_idle(
    scheduler: Scheduler,
    *,
    raise_errors: bool = False,
    unhandled: bool = False,
    most: int = MOST,
    timeout: float = TIMEOUT,
) -> Awaitable[Runs]: ...
@overload
def run_until_idle(
    scheduler: BlockingScheduler,
    *,
    raise_errors: bool = False,
    unhandled: bool = False,
    most: int = MOST,
    timeout: float = TIMEOUT,
) -> Runs: ...
def run_until_idle(
    scheduler: AnyScheduler,
    *,
    raise_errors: bool = False,
    unhandled: bool = False,
    most: int = MOST,
    timeout: float = TIMEOUT,
) -> Any:
    """Run jobs until none is left that will become due: this moves the clock to each retry, each delayed job and the
    end of each sleep. It needs a ManualClock. Schedules fire on the way, but their future firings do not keep this
    running. The arguments are those of `drain()`.
    """

    async def verb(inner: Scheduler) -> Runs:
        clock = manual_clock(inner, "run_until_idle()")
        async with at_work(inner, most, timeout) as bench:
            await bench.settle()
            while not bench.crashed and (stop := await bench.next_job_at(clock.now())) is not None:
                firing = await bench.next_firing_at(clock.now())
                await clock.advance(min(stop, firing or stop) - clock.now())
                await bench.settle()
            return await checked(bench, raise_errors, unhandled)

    return _shown(scheduler, either(scheduler, "run_until_idle()", verb))


async def checked(bench: Bench, raise_errors: bool, unhandled: bool) -> Runs:
    """The attempts of a bench; raises where a job has no handler, or where an attempt raised and that was asked for."""
    raised = first_raised(bench.runs) if raise_errors else None
    if raised is not None:
        raise AttemptRaised(raised) from raised.exception
    if not unhandled:
        await bench.check_handlers()
    return bench.result


def _shown(scheduler: AnyScheduler, outcome: Any) -> Any:
    """The attempts with jobs whose verbs block, for a blocking scheduler."""
    if isinstance(scheduler, BlockingScheduler):
        runs: Runs = outcome
        return runs.with_jobs(lambda job: blocking(scheduler, job))
    return outcome
