"""Around a run: hooks at start and stop, middleware, the catch-all handler, and child jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness.waiting import eventually
from mainspring import (
    ConfigurationError,
    InvalidJob,
    Job,
    JobContext,
    MainspringError,
    Retry,
    Scheduler,
    sync,
)

Make = Callable[..., Scheduler]
Run = Callable[[], Awaitable[Any]]


async def ended(scheduler: Scheduler, name: str, data: dict[str, Any] | None = None, **options: Any) -> Job:
    job = await scheduler.schedule(name, data, **options)
    return await scheduler.wait(job.id, timeout=60)


# -- hooks ---------------------------------------------------------------------------------------------------------


async def test_hooks_run_before_the_first_job_and_after_the_last(scheduler: Scheduler) -> None:
    said: list[str] = []

    @scheduler.on_start
    def begin() -> None:
        said.append("start")

    @scheduler.on_start
    async def begin_too() -> None:
        said.append("start, async")

    @scheduler.on_stop
    async def end() -> None:
        said.append("stop")

    @scheduler.job("x")
    async def x() -> None:
        said.append("job")

    job = await scheduler.schedule("x")
    await scheduler.start()
    await scheduler.wait(job.id, 60)
    await scheduler.stop()
    assert said == ["start", "start, async", "job", "stop"]
    begin()
    assert said[-1] == "start"


async def test_a_start_hook_that_raises_keeps_the_worker_from_starting(scheduler: Scheduler) -> None:
    ready = False

    @scheduler.on_start
    def begin() -> None:
        if not ready:
            raise RuntimeError("the model is not there")

    @scheduler.job("x")
    async def x() -> None: ...

    with pytest.raises(RuntimeError, match="the model is not there"):
        await scheduler.start()
    assert repr(scheduler) == "<Scheduler stopped>"
    ready = True
    await scheduler.start()
    assert (await ended(scheduler, "x")).state == "completed"


async def test_the_stop_hook_runs_and_the_scheduler_closes_even_when_it_raises(scheduler: Scheduler) -> None:
    heard: list[str] = []
    scheduler.on("scheduler:stop", lambda: heard.append("stop"))

    @scheduler.on_stop
    def end() -> None:
        raise RuntimeError("broken hook")

    await scheduler.start()
    with pytest.raises(RuntimeError, match="broken hook"):
        await scheduler.stop()
    assert heard == ["stop"]
    with pytest.raises(MainspringError, match="not connected"):
        _ = scheduler.client


@pytest.mark.parametrize("timeout", [-1, "soon"])
async def test_a_stop_with_a_wrong_timeout_is_refused_and_the_worker_goes_on(
    scheduler: Scheduler, timeout: Any
) -> None:
    @scheduler.job("x")
    async def x() -> None: ...

    await scheduler.start()
    with pytest.raises(ConfigurationError, match=r"timeout must be|timeout=.soon. is not a duration"):
        await scheduler.stop(timeout=timeout)
    assert (await ended(scheduler, "x")).state == "completed"


# -- middleware ----------------------------------------------------------------------------------------------------


async def test_middleware_is_laid_around_the_run_in_the_order_of_its_registration(scheduler: Scheduler) -> None:
    said: list[str] = []

    @scheduler.middleware
    async def outer(ctx: JobContext, run: Run) -> Any:
        said.append(f"outer {ctx.name} {ctx.attempt}")
        result = await run()
        said.append("outer after")
        return result

    @scheduler.middleware
    async def inner(ctx: JobContext, run: Run) -> Any:
        said.append("inner")
        result = await run()
        said.append("inner after")
        return f"<{result}>"

    @scheduler.job("async")
    async def handler() -> str:
        said.append("handler")
        return "result"

    @scheduler.job("thread")
    def in_thread() -> str:
        said.append("handler")
        return "result"

    await scheduler.start()
    for name in ("async", "thread"):
        said.clear()
        assert (await ended(scheduler, name)).result == "<result>"
        assert said == [f"outer {name} 1", "inner", "handler", "inner after", "outer after"]


async def test_middleware_that_raises_fails_the_attempt_and_the_handler_does_not_run(scheduler: Scheduler) -> None:
    ran: list[int] = []

    @scheduler.middleware
    async def guard(ctx: JobContext, run: Run) -> Any:
        if ctx.attempt < 3:
            raise PermissionError("not yet")
        return await run()

    @scheduler.job("x", retry=Retry(attempts=3, delay=0))
    async def x(ctx: JobContext) -> None:
        ran.append(ctx.attempt)

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, ran) == ("completed", [3])
    assert done.attempts[0].error is not None and done.attempts[0].error.message == "not yet"


async def test_middleware_may_swallow_an_error_or_not_run_the_handler_at_all(scheduler: Scheduler) -> None:
    ran: list[str] = []

    @scheduler.middleware
    async def lenient(ctx: JobContext, run: Run) -> Any:
        if ctx.name == "skipped":
            return "skipped"
        try:
            return await run()
        except ValueError as error:
            return f"swallowed {error}"

    @scheduler.job("bad")
    async def bad() -> None:
        raise ValueError("no")

    @scheduler.job("skipped")
    async def skipped() -> None:
        ran.append("skipped")

    await scheduler.start()
    assert (await ended(scheduler, "bad")).result == "swallowed no"
    assert (await ended(scheduler, "skipped")).result == "skipped" and ran == []


async def test_middleware_counts_within_the_timeout_and_is_cancelled_with_the_run(scheduler: Scheduler) -> None:
    seen: list[str] = []

    @scheduler.middleware
    async def slow(ctx: JobContext, run: Run) -> Any:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return await run()

    @scheduler.job("x", timeout=0.05, retry=1)
    async def x() -> None: ...

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert done.error is not None and done.error.type == "Timeout" and seen == ["cancelled"]


async def test_middleware_that_is_no_async_function_fails_the_attempt_and_not_the_worker(
    make_scheduler: Make,
) -> None:
    scheduler = make_scheduler(retry=1)

    @scheduler.middleware  # type: ignore[arg-type]
    def plain(ctx: JobContext, run: Run) -> str:
        return "not awaitable"

    @scheduler.job("x")
    async def x() -> None: ...

    await scheduler.start()
    for _ in range(2):
        done = await ended(scheduler, "x")
        assert done.state == "failed" and done.error is not None and done.error.type == "TypeError"


# -- the catch-all -------------------------------------------------------------------------------------------------


async def test_a_catch_all_gets_every_job_that_has_no_handler_of_its_own(make_scheduler: Make) -> None:
    seen: list[tuple[str, Any]] = []

    async def anything(ctx: JobContext) -> str:
        seen.append((ctx.name, dict(ctx.data)))
        return "caught"

    scheduler = make_scheduler(handler=anything)

    @scheduler.job("own")
    async def own() -> str:
        return "own"

    await scheduler.start()
    assert (await ended(scheduler, "own")).result == "own"
    assert (await ended(scheduler, "whatever", {"a": 1})).result == "caught"
    assert (await ended(scheduler, "anything else", {"b": [2]}, queue="q")).result == "caught"
    assert seen == [("whatever", {"a": 1}), ("anything else", {"b": [2]})]


async def test_a_catch_all_may_be_a_plain_function_and_may_take_the_data_by_name(make_scheduler: Make) -> None:
    def anything(ctx: sync.JobContext, **data: Any) -> Any:
        return [ctx.name, data]

    scheduler = make_scheduler(handler=anything)
    await scheduler.start()
    assert (await ended(scheduler, "x", {"a": 1, "b": 2})).result == ["x", {"a": 1, "b": 2}]


async def test_what_a_catch_all_raises_is_retried_by_the_default_policy(make_scheduler: Make) -> None:
    def anything(ctx: sync.JobContext) -> None:
        raise ValueError(ctx.name)

    scheduler = make_scheduler(handler=anything, retry=Retry(attempts=2, delay=0))
    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, done.tries) == ("failed", 2)


# -- child jobs ----------------------------------------------------------------------------------------------------


async def test_a_child_knows_its_parent(scheduler: Scheduler) -> None:
    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> str:
        return (await ctx.schedule("child", {"n": 1}, priority=2, tags=["c"])).id

    @scheduler.job("parent-thread")
    def parent_in_thread(ctx: sync.JobContext) -> str:
        return ctx.schedule("child", {"n": 2}).id

    @scheduler.job("child")
    async def child(n: int) -> int:
        return n

    await scheduler.start()
    for number, name in enumerate(("parent", "parent-thread"), 1):
        done = await ended(scheduler, name)
        grown = await scheduler.wait(done.result, 60)
        assert (grown.parent_id, grown.result, grown.name) == (done.id, number, "child")
    assert (await scheduler.get_job(done.id)).parent_id is None


async def test_a_child_that_is_refused_is_an_error_in_the_handler(scheduler: Scheduler) -> None:
    caught: list[str] = []

    @scheduler.job("child")
    async def child(n: int) -> None: ...

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> None:
        try:
            await ctx.schedule("child", {"n": "many"})
        except InvalidJob as error:
            caught.append(str(error))

    await scheduler.start()
    assert (await ended(scheduler, "parent")).state == "completed"
    assert "of the wrong type" in caught[0]


async def test_children_are_deduplicated_like_others(scheduler: Scheduler) -> None:
    @scheduler.job("parent", retry=Retry(attempts=2, delay=0))
    async def parent(ctx: JobContext) -> bool:
        job = await ctx.schedule("child", dedupe_key=f"child of {ctx.id}", delay=3600)
        if ctx.attempt == 1:
            raise ValueError("after the child")
        return job.deduplicated

    await scheduler.start()
    assert (await ended(scheduler, "parent")).result is True
    assert len([job async for job in scheduler.jobs(name="child")]) == 1


# -- stopping ------------------------------------------------------------------------------------------------------


async def test_a_graceful_stop_lets_handlers_finish(scheduler: Scheduler) -> None:
    started = asyncio.Event()

    @scheduler.job("x")
    async def x() -> str:
        started.set()
        await asyncio.sleep(0.1)
        return "finished"

    await scheduler.start()
    job = await scheduler.schedule("x")
    await started.wait()
    await scheduler.stop(timeout=10)
    done = await scheduler.get_job(job.id)
    assert (done.state, done.result) == ("completed", "finished")


@pytest.mark.parametrize("how", ["not graceful", "out of time", "hurried"])
async def test_what_does_not_finish_is_given_back_and_costs_no_attempt(make_scheduler: Make, how: str) -> None:
    scheduler = make_scheduler(concurrency=1)
    started = asyncio.Event()

    @scheduler.job("x")
    async def x() -> None:
        started.set()
        await asyncio.sleep(60)

    await scheduler.start()
    running, waiting = await scheduler.schedule_bulk([{"name": "x"}, {"name": "x"}])
    await started.wait()
    if how == "hurried":
        stopping = asyncio.create_task(scheduler.stop(timeout=60))
        await asyncio.sleep(0.05)
        scheduler.stop_now()
        await stopping
    else:
        await scheduler.stop(graceful=how != "not graceful", timeout=0.05)
    for job in (running, waiting):
        given_back = await scheduler.get_job(job.id)
        assert (given_back.state, given_back.tries, given_back.worker) == ("pending", 0, None)
        assert given_back.attempts == ()


async def test_a_thread_that_does_not_stop_is_left_behind_and_its_late_result_refused(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    let_go: list[bool] = []
    returned: list[bool] = []
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    @scheduler.job("x")
    def x() -> str:
        loop.call_soon_threadsafe(started.set)
        while not let_go:
            time.sleep(0.005)
        returned.append(True)
        return "too late"

    await scheduler.start()
    job = await scheduler.schedule("x")
    await started.wait()
    await scheduler.stop(graceful=False)
    let_go.append(True)
    await eventually(lambda: returned)
    given_back = await scheduler.get_job(job.id)
    assert (given_back.state, given_back.result, given_back.tries) == ("pending", None, 0)


async def test_a_worker_leaves_the_registry_when_it_stops(scheduler: Scheduler, db: Any) -> None:
    workers: list[str] = []
    scheduler.on("worker:start", workers.append)
    await scheduler.start()
    (document,) = [found async for found in db["jobs.workers"].find({"_id": workers[0]})]
    assert document["concurrency"] == 10 and document["handlers"] == [] and document["queues"] is None
    await scheduler.stop()
    assert await db["jobs.workers"].find_one({"_id": workers[0]}) is None
