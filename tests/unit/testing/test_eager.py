"""The eager mode: schedule() runs the handler at once, without a database."""

from __future__ import annotations

import pytest

from mainspring import Cancel, ChildrenFailed, ConfigurationError, HandlerError, JobContext, Scheduler, Snooze
from mainspring.errors import BadArguments
from mainspring.sync import JobContext as BlockingJobContext
from mainspring.sync import Scheduler as BlockingScheduler
from mainspring.testing import assert_scheduled, eager, fail_job

NOWHERE = "mongodb://127.0.0.1:1/nothing?serverSelectionTimeoutMS=10"


async def test_a_job_and_the_jobs_that_it_schedules_and_waits_for_run_at_once() -> None:
    scheduler = Scheduler(NOWHERE)

    @scheduler.job("square", queue="maths")
    def square(ctx: BlockingJobContext, number: int) -> int:
        ctx.log("squared")
        return number * number

    @scheduler.job("sum")
    async def total(ctx: JobContext, numbers: list[int]) -> int:
        first = await ctx.call("first", "square", {"number": numbers[0]})
        others = await ctx.map("others", square, [{"number": number} for number in numbers[1:]])
        await ctx.schedule("note", {"text": "done"})
        return int(first + sum([job.result async for job in others]))

    @scheduler.job("note")
    async def note(text: str) -> str:
        return text

    with eager(scheduler) as mode:
        job = await total.schedule(numbers=[1, 2, 3])
        assert (job.state, job.result) == ("completed", 14)
        assert await job.wait() is job
        assert [one.result for one in await scheduler.schedule_bulk([{"name": "note", "data": {"text": "b"}}])] == ["b"]
    assert mode.runs.names == ["square", "square", "square", "note", "sum", "note"]
    assert_scheduled(mode, "square", {"number": 3}, queue="maths")
    assert not scheduler._core.link.connected


async def test_an_error_is_raised_by_schedule_or_recorded() -> None:
    scheduler = Scheduler(NOWHERE)

    @scheduler.job("fail")
    async def fail(how: str) -> None:
        raise {"error": LookupError("gone"), "cancel": Cancel("enough"), "snooze": Snooze(5)}[how]

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> str:
        try:
            await ctx.call("child", "fail", {"how": "error"})
        except ChildrenFailed as failed:
            return str(failed.failed)
        return "no error"

    with eager(scheduler), pytest.raises(LookupError, match="gone"):
        await fail.schedule("error")
    with eager(scheduler, propagate=False) as mode:
        states = [(await fail.schedule(how)).state for how in ("error", "cancel", "snooze")]
        assert (await parent.schedule()).result == "1"
        with pytest.raises(HandlerError, match=r"no handler for 'fial'\. Did you mean 'fail'\?"):
            await scheduler.schedule("fial")
        with pytest.raises(BadArguments):
            await scheduler.schedule("fail", {"what": 1})
        with pytest.raises(ConfigurationError, match="in eager mode already"), eager(scheduler):
            pass
    assert states == ["failed", "cancelled", "pending"]
    assert str(mode.runs[0].error) == "LookupError: gone"
    with eager(scheduler), fail_job(scheduler, "parent", KeyError("x")), pytest.raises(KeyError):
        await parent.schedule()


def test_a_blocking_scheduler_runs_its_jobs_at_once_too() -> None:
    scheduler = BlockingScheduler(NOWHERE)

    @scheduler.job("double")
    def double(number: int) -> int:
        return 2 * number

    try:
        with eager(scheduler):
            job = double.schedule(number=4)
            assert (job.result, job.wait().result) == (8, 8)
    finally:
        scheduler.stop()
