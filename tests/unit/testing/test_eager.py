"""The eager mode: schedule() runs the handler at once, without a database."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from mainspring import (
    Cancel,
    ChildrenFailed,
    ConfigurationError,
    Continue,
    HandlerError,
    JobContext,
    Scheduler,
    Snooze,
)
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
    with eager(scheduler):
        assert (await parent.schedule()).result == "1", "the handler that waits for a child judges how it ended"
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


async def test_a_handler_is_called_as_in_a_worker_through_the_middleware_and_anew_in_each_round() -> None:
    scheduler, through = Scheduler(NOWHERE), list[str]()

    @scheduler.middleware
    async def note(ctx: JobContext, call: Callable[[], Awaitable[Any]]) -> Any:
        through.append(ctx.name)
        return await call()

    @scheduler.job("count")
    async def count(number: int) -> int:
        if number < 3:
            raise Continue(number=number + 1)
        return number

    @scheduler.job("misspell")
    async def misspell(number: int = 0) -> None:
        raise Continue(nubmer=1)

    @scheduler.job("forget")
    def forget() -> Coroutine[Any, Any, None]:
        return asyncio.sleep(0)

    @scheduler.job("approve")
    async def approve(ctx: JobContext) -> Any:
        return await ctx.wait_for("approved")

    with eager(scheduler, propagate=False) as mode:
        assert (await scheduler.schedule("count", {"number": 1})).result == 3
        with pytest.raises(BadArguments, match="nubmer"):
            await scheduler.schedule("misspell")
        assert (await scheduler.schedule("forget")).state == "failed"
        assert (await scheduler.schedule("approve")).state == "blocked"
    assert through == ["count", "count", "count", "misspell", "forget", "approve"]
    assert [run.outcome for run in mode.runs] == ["completed", "failed", "suspended"]


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
