"""Draining: the jobs that are due are run in the process of the test, by a real worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from mainspring import Every, HandlerError, JobContext, Retry, Scheduler
from mainspring.clock import ManualClock
from mainspring.errors import ConfigurationError
from mainspring.sync import Scheduler as BlockingScheduler
from mainspring.testing import AttemptRaised, drain, run_until_idle

Make = Callable[..., Scheduler]


@pytest.mark.slow
async def test_drain_runs_what_is_due_with_the_jobs_that_these_schedule_and_leaves_the_rest(
    timed: Scheduler, clock: ManualClock
) -> None:
    @timed.job("parent")
    async def parent(ctx: JobContext) -> str:
        await ctx.schedule("child", {"number": 1})
        return "done"

    @timed.job("child")
    def child(number: int) -> int:
        return number + 1

    await timed.schedule("parent")
    later = await timed.schedule("child", {"number": 9}, delay=60)
    runs = await drain(timed)
    assert runs.names == ["parent", "child"]
    assert [run.result for run in runs.completed] == ["done", 2]
    assert (await later.refresh()).state == "pending"
    assert not timed.running
    assert (await runs[0].job.refresh()).state == "completed"
    assert await drain(timed) == ()
    clock.advance(60)
    assert [run.result for run in await drain(timed)] == [10]


async def test_drain_uses_the_worker_that_runs_already_and_leaves_it_running(scheduler: Scheduler) -> None:
    @scheduler.job("double")
    async def double(number: int) -> int:
        return 2 * number

    async with scheduler:
        await scheduler.schedule("double", {"number": 4})
        assert all(run.result == 8 for run in await drain(scheduler))
        assert scheduler.running
        assert [job.result async for job in scheduler.jobs(name="double")] == [8]


async def test_an_attempt_that_raised_is_raised_with_the_exception_of_the_handler_where_that_is_asked_for(
    timed: Scheduler,
) -> None:
    @timed.job("charge", retry=1)
    async def charge() -> None:
        raise LookupError("no such card")

    await timed.schedule("charge")
    with pytest.raises(AttemptRaised, match=r"'charge'\) failed in attempt 1: LookupError: no such card") as raised:
        await drain(timed, raise_errors=True)
    assert isinstance(raised.value.__cause__, LookupError)
    assert raised.value.__cause__.__traceback__ is not None
    await timed.schedule("charge")
    (run,) = await drain(timed)
    assert (run.outcome, str(run.error)) == ("failed", "LookupError: no such card")
    assert "attempt 1: LookupError: no such card" in repr(run)


async def test_a_due_job_without_a_handler_is_an_error_that_names_the_handler_that_was_meant(timed: Scheduler) -> None:
    @timed.job("send-email")
    async def send_email() -> None: ...

    await timed.schedule("of-another-program", delay=60)
    assert await drain(timed) == (), "a job that is not due yet is no error"
    await timed.schedule("send-mail")
    with pytest.raises(HandlerError, match=r"no handler for 'send-mail'\. Did you mean 'send-email'\?"):
        await drain(timed)
    assert await drain(timed, unhandled=True) == ()


async def test_a_job_that_schedules_itself_at_once_ends_the_drain_with_an_error_that_names_it(
    timed: Scheduler,
) -> None:
    @timed.job("again")
    async def again(ctx: JobContext) -> None:
        await ctx.schedule("again")

    await timed.schedule("again")
    with pytest.raises(AssertionError, match=r"10 attempts have ended and jobs are still due; .* 'again'"):
        await drain(timed, most=10)
    await timed.delete((await anext(timed.jobs(state="pending"))).id)


@pytest.mark.slow
async def test_a_job_that_does_not_end_ends_the_drain_with_an_error_that_names_it(timed: Scheduler) -> None:
    @timed.job("hang")
    async def hang() -> None:
        await asyncio.Event().wait()

    job = await timed.schedule("hang")
    with pytest.raises(AssertionError, match=rf"did not end within 3 s; still running: 'hang' \({job.id}\)\."):
        await drain(timed, timeout=3)
    assert (await job.refresh()).state == "pending"


@pytest.mark.slow
async def test_run_until_idle_moves_the_clock_to_each_retry_and_each_delayed_job(
    timed: Scheduler, clock: ManualClock
) -> None:
    began = clock.now()
    tried = []

    @timed.job("flaky", retry=Retry(attempts=3, delay=60, backoff="fixed", jitter=0))
    async def flaky(ctx: JobContext) -> str:
        tried.append(clock.now() - began)
        if ctx.attempt < 3:
            raise ConnectionError("down")
        return "up"

    @timed.job("nap")
    async def nap(ctx: JobContext) -> str:
        await ctx.sleep("rest", "2h")
        return "rested"

    await timed.schedule("flaky", delay=3600)
    await timed.schedule("nap")
    runs = await run_until_idle(timed)
    assert [run.outcome for run in runs.named("flaky")] == ["retried", "retried", "completed"]
    assert tried == [timedelta(seconds=3600 + wait) for wait in (0, 60, 120)]
    assert [run.outcome for run in runs.named("nap")] == ["snoozed", "completed"]
    assert clock.now() - began == timedelta(hours=2)


async def test_run_until_idle_lets_schedules_fire_at_their_instants_on_the_way(
    timed: Scheduler, clock: ManualClock
) -> None:
    began, fired = clock.now(), []

    @timed.job("hourly")
    async def hourly() -> None:
        fired.append(clock.now() - began)

    timed.job("late")(lambda: None)
    await timed.schedule("hourly", repeat=Every("1h", anchor=began + timedelta(hours=1)), schedule_id="hourly")
    await timed.schedule("late", delay="150m")
    await run_until_idle(timed)
    assert fired == [timedelta(hours=1), timedelta(hours=2)]


async def test_run_until_idle_needs_a_clock_that_can_be_moved(scheduler: Scheduler) -> None:
    with pytest.raises(ConfigurationError, match="mainspring_clock"):
        await run_until_idle(scheduler)


def test_a_blocking_scheduler_is_drained_without_an_event_loop(uri: str) -> None:
    scheduler = BlockingScheduler(uri)

    @scheduler.job("double")
    def double(number: int) -> int:
        return 2 * number

    try:
        job = scheduler.schedule("double", {"number": 4})
        (run,) = drain(scheduler)
        assert (run.result, run.job.refresh().id) == (8, job.id)  # type: ignore[attr-defined]
    finally:
        scheduler.stop()


async def test_the_jobs_of_a_flow_and_of_a_limited_handler_all_run_in_one_drain(timed: Scheduler) -> None:
    @timed.job("page", concurrency=1)
    async def page(number: int) -> int:
        return number

    @timed.job("site")
    async def site(ctx: JobContext) -> int:
        pages = await ctx.map("pages", "page", [{"number": number} for number in range(5)])
        return sum([job.result async for job in pages])

    await timed.schedule("site")
    runs = await drain(timed)
    assert [run.outcome for run in runs.named("site")] == ["suspended", "completed"]
    assert len(runs.named("page").completed) == 5
    assert runs[-1].result == 10
