"""Handlers that wait for children: what a wait returns, that it holds nothing, and that it is over exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.waiting import eventually
from mainspring import ChildrenFailed, Fail, Job, JobContext, Retry, Scheduler, StepError
from mainspring.engine.flows.children import Children
from mainspring.store.codec import document_id
from mainspring.sync import JobContext as BlockingJobContext

Make = Callable[..., Scheduler]


async def ended(scheduler: Scheduler, name: str = "parent", data: dict[str, Any] | None = None, **options: Any) -> Job:
    job = await scheduler.schedule(name, data, **options)
    return await scheduler.wait(job.id, timeout=60)


def with_doubling(scheduler: Scheduler) -> list[int]:
    """A child that doubles its number; returns the list of the numbers that were doubled."""
    ran: list[int] = []

    @scheduler.job("double")
    async def double(n: int) -> int:
        ran.append(n)
        if n < 0:
            raise Fail("negative")
        return 2 * n

    return ran


async def test_a_call_returns_the_result_of_its_child_and_the_child_runs_once(scheduler: Scheduler) -> None:
    ran = with_doubling(scheduler)
    runs: list[int] = []

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> int:
        runs.append(ctx.attempt)
        first = await ctx.call("first", "double", {"n": 1})
        second = await ctx.call("second", "double", {"n": first})
        return int(second)

    await scheduler.start()
    done = await ended(scheduler)
    assert (done.state, done.result, ran) == ("completed", 4, [1, 2])
    assert runs == [1, 1, 1]  # a suspension costs no attempt
    assert [(step.name, step.result["result"]) for step in done.steps] == [("first", 2), ("second", 4)]
    child = await scheduler.get_job(f"{done.id}.first")
    assert (child.parent_id, child.state) == (done.id, "completed")


async def test_a_map_streams_the_results_of_its_children_in_order(scheduler: Scheduler) -> None:
    with_doubling(scheduler)

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        results = await ctx.map("all", "double", ({"n": n} for n in range(25)))
        return [len(results), [(child.data["n"], child.result) async for child in results]]

    await scheduler.start()
    done = await ended(scheduler)
    assert done.result == [25, [[n, 2 * n] for n in range(25)]]


async def test_a_map_that_is_not_awaited_says_how_it_is_read(scheduler: Scheduler) -> None:
    ran = with_doubling(scheduler)

    @scheduler.job("parent", retry=1)
    async def parent(ctx: JobContext) -> None:
        async for _ in ctx.map("all", "double", [{"n": 1}]):  # type: ignore[attr-defined]
            pass

    await scheduler.start()
    done = await ended(scheduler)
    assert done.error is not None and not ran
    assert done.error.message == "Await it first: async for child in await ctx.map('all', …)."


async def test_an_empty_map_is_over_at_once(scheduler: Scheduler) -> None:
    runs: list[int] = []

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        runs.append(1)
        results = await ctx.map("none", "double", [])
        return [len(results), [child.id async for child in results]]

    await scheduler.start()
    assert (await ended(scheduler)).result == [0, []]
    assert runs == [1]


async def test_gather_waits_once_for_several(scheduler: Scheduler) -> None:
    with_doubling(scheduler)
    runs: list[int] = []

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        runs.append(1)
        one, many = await ctx.gather(
            ctx.call("one", "double", {"n": 1}), ctx.map("many", "double", [{"n": 2}, {"n": 3}])
        )
        return [one, [child.result async for child in many]]

    await scheduler.start()
    assert (await ended(scheduler)).result == [2, [4, 6]]
    assert len(runs) == 2


async def test_the_data_of_a_call_is_what_it_was_when_the_call_was_made(scheduler: Scheduler) -> None:
    with_doubling(scheduler)

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        data, calls = {}, []
        for number in range(3):
            data["n"] = number
            calls.append(ctx.call(f"call-{number}", "double", data))
        return await ctx.gather(*calls)

    await scheduler.start()
    assert (await ended(scheduler)).result == [0, 2, 4]


async def test_a_sync_handler_waits_in_the_same_way(scheduler: Scheduler) -> None:
    with_doubling(scheduler)

    @scheduler.job("parent")
    def parent(ctx: BlockingJobContext) -> Any:
        first = ctx.call("first", "double", {"n": 1})
        results = ctx.map("all", "double", ({"n": n} for n in range(first + 1)), key="n")
        a, b = ctx.gather(ctx.waits.call("a", "double", {"n": 5}), ctx.waits.map("b", "double", [{"n": 6}]))
        try:
            ctx.map("bad", "double", [{"n": -1}, {"n": 7}])
        except ChildrenFailed as failed:
            completed = [child.result for child in failed.completed()]
        return [[child.result for child in results], a, [child.result for child in b], completed]

    await scheduler.start()
    done = await ended(scheduler)
    assert (done.state, done.result) == ("completed", [[0, 2, 4], 10, [12], [14]])


async def test_a_sync_handler_reads_the_completed_children_of_an_error_as_often_as_it_likes(
    scheduler: Scheduler,
) -> None:
    @scheduler.job("odd", retry=1)
    async def odd(n: int) -> int:
        if n % 2 == 0:
            raise Fail("even")
        return n

    @scheduler.job("parent")
    def parent(ctx: BlockingJobContext) -> Any:
        try:
            ctx.map("many", odd, [{"n": 1}, {"n": 2}, {"n": 3}])
        except ChildrenFailed as failed:
            return [[child.result for child in failed.completed()] for _ in range(2)]

    await scheduler.start()
    assert (await ended(scheduler)).result == [[1, 3], [1, 3]]


async def test_a_sync_handler_that_gathers_results_is_told_of_waits(scheduler: Scheduler) -> None:
    with_doubling(scheduler)

    @scheduler.job("parent", retry=1)
    def parent(ctx: BlockingJobContext) -> Any:
        return ctx.gather(ctx.call("one", "double", {"n": 1}))

    await scheduler.start()
    assert "such as ctx.waits.call(…), ctx.waits.map(…)" in str((await ended(scheduler)).error)


async def test_a_keyed_map_has_a_child_per_key_in_the_order_of_the_items(scheduler: Scheduler) -> None:
    ran = with_doubling(scheduler)
    orders = [[3, 1, 2], [2, 3, 1]]

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        order = orders.pop(0) if len(orders) > 1 else orders[0]
        results = await ctx.map("keyed", "double", ({"n": n} for n in order), key="n")
        return [child.result async for child in results]

    await scheduler.start()
    assert (await ended(scheduler)).result == [4, 6, 2]
    assert sorted(ran) == [1, 2, 3]


async def test_children_that_fail_raise_with_their_errors_and_the_others_can_be_read(scheduler: Scheduler) -> None:
    with_doubling(scheduler)

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        try:
            await ctx.map("all", "double", [{"n": 1}, {"n": -1}, {"n": 2}])
        except ChildrenFailed as failed:
            told = [failed.name, failed.total, failed.failed, [list(one) for one in failed.errors]]
            return [told, [child.result async for child in failed.completed()]]
        return None

    await scheduler.start()
    done = await ended(scheduler)
    assert done.result == [["all", 3, 1, [[f"{done.id}.all.00000001", "Fail: negative"]]], [2, 4]]


async def test_a_handler_goes_on_after_a_caught_failure_and_waits_again(scheduler: Scheduler) -> None:
    ran = with_doubling(scheduler)

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        try:
            await ctx.map("bad", "double", [{"n": -1}])
        except ChildrenFailed:
            return await ctx.call("instead", "double", {"n": 4})

    await scheduler.start()
    assert (await ended(scheduler)).result == 8
    assert sorted(ran) == [-1, 4]


async def test_an_uncaught_failure_of_children_fails_the_job_at_once(scheduler: Scheduler) -> None:
    with_doubling(scheduler)

    @scheduler.job("parent", retry=5)
    async def parent(ctx: JobContext) -> Any:
        await ctx.call("bad", "double", {"n": -1})

    await scheduler.start()
    done = await ended(scheduler)
    assert (done.state, done.error and done.error.type) == ("failed", "ChildrenFailed")


@pytest.mark.parametrize("tolerate", [1, 0.4])
async def test_tolerated_failures_do_not_raise(scheduler: Scheduler, tolerate: float) -> None:
    with_doubling(scheduler)

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        results = await ctx.map("all", "double", [{"n": 1}, {"n": -1}, {"n": 2}], tolerate=tolerate)
        return [results.failed, [child.result async for child in results]]

    await scheduler.start()
    assert (await ended(scheduler)).result == [1, [2, None, 4]]


@pytest.mark.slow
async def test_fail_fast_ends_the_wait_and_cancels_the_other_children(scheduler: Scheduler) -> None:
    @scheduler.job("work")
    async def work(n: int) -> None:
        if n == 0:
            raise Fail("first")
        await asyncio.sleep(600)

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        try:
            await ctx.map("all", "work", ({"n": n} for n in range(30)), fail_fast=True)
        except ChildrenFailed as failed:
            return failed.total

    await scheduler.start()
    done = await ended(scheduler)
    assert done.result == 30

    async def all_cancelled() -> bool:
        jobs = [await scheduler.get_job(f"{done.id}.all.{n:08d}") for n in range(1, 30)]
        return all(job.state == "cancelled" for job in jobs)

    await eventually(all_cancelled)


async def test_a_suspended_job_holds_no_slot_lease_or_attempt(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(concurrency=1)  # with one slot, the child could not run beside a parent that holds it
    with_doubling(scheduler)

    @scheduler.job("parent", concurrency=1)
    async def parent(ctx: JobContext) -> Any:
        return await ctx.call("one", "double", {"n": 1}, delay=0.5)

    await scheduler.start()
    job = await scheduler.schedule("parent")
    blocked = await eventually(lambda: db.jobs.find_one({"_id": document_id(job.id), "state": "blocked"}))
    assert not {"claim", "worker", "lease_until", "claimed_at", "ready"} & blocked.keys()
    assert blocked["tries"] == 0
    assert (await scheduler.wait(job.id, timeout=60)).result == 2


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_suspended_jobs_hold_no_slot_of_a_limit_and_no_thread(
    make_scheduler: Make, db: Database, sync: bool
) -> None:
    scheduler = make_scheduler(concurrency=1)
    if sync:

        @scheduler.job("ask", concurrency=1)
        def ask(ctx: BlockingJobContext) -> Any:
            return ctx.wait_for("go")
    else:

        @scheduler.job("ask", concurrency=1)
        async def ask_async(ctx: JobContext) -> Any:
            return await ctx.wait_for("go")

    await scheduler.start()
    jobs = [await scheduler.schedule("ask") for _ in range(3)]

    async def all_wait() -> bool:
        return await db.jobs.count_documents({"state": "blocked"}, hint="_id_") == len(jobs)

    await eventually(all_wait)  # one at a time would not get to the second

    async def no_slot_is_taken() -> bool:
        return await db["jobs.gates"].count_documents({"grants.0": {"$exists": True}}, hint="_id_") == 0

    await eventually(no_slot_is_taken)
    threads = inside(scheduler).worker.executor._threads
    await eventually(lambda: threads._idle == threads._made == int(sync))
    for number, job in enumerate(jobs):
        await job.signal("go", number)
    assert [(await job.wait(60)).result for job in jobs] == [0, 1, 2]


async def test_a_handler_that_swallows_its_suspension_is_suspended_all_the_same(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    with_doubling(scheduler)
    cleaned: list[int] = []

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        try:
            return await ctx.call("one", "double", {"n": 1})
        except BaseException:
            return "swallowed"
        finally:
            cleaned.append(1)

    await scheduler.start()
    assert (await ended(scheduler)).result == 2
    assert len(cleaned) == 2
    assert "caught its Suspension" in caplog.text


async def test_a_job_that_may_start_once_only_cannot_wait(scheduler: Scheduler) -> None:
    with_doubling(scheduler)

    @scheduler.job("parent", guarantee="at_most_once")
    async def parent(ctx: JobContext) -> Any:
        return await ctx.call("one", "double", {"n": 1})

    await scheduler.start()
    done = await ended(scheduler)
    assert done.error is not None and "at_most_once" in done.error.message


async def test_a_name_is_used_once_in_a_run(scheduler: Scheduler) -> None:
    with_doubling(scheduler)

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        await ctx.call("one", "double", {"n": 1})
        await ctx.call("one", "double", {"n": 2})

    await scheduler.start()
    done = await ended(scheduler)
    assert done.error is not None and done.error.type == StepError.__name__


async def test_items_may_be_an_async_iterable(scheduler: Scheduler) -> None:
    with_doubling(scheduler)

    async def numbers() -> AsyncIterator[dict[str, Any]]:
        for n in range(3):
            yield {"n": n}

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> Any:
        return [child.result async for child in await ctx.map("all", "double", numbers())]

    await scheduler.start()
    assert (await ended(scheduler)).result == [0, 2, 4]


@pytest.mark.slow
async def test_a_job_grows_the_wait_it_belongs_to_three_levels_deep(scheduler: Scheduler) -> None:
    order: list[Any] = []

    @scheduler.job("grow")
    async def grow(ctx: JobContext, level: int) -> None:
        if level < 3:
            await ctx.grow("grow", {"level": level + 1}, delay=0.1)
        order.append(level)

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> str:
        await ctx.map("all", "grow", [{"level": 0}])
        order.append("parent")
        return "done"

    await scheduler.start()
    assert (await ended(scheduler)).result == "done"
    assert order == [0, 1, 2, 3, "parent"]


async def test_a_handler_whose_children_ended_before_its_first_suspension_is_the_root_of_a_flow(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_doubling(scheduler)
    settle = Children.settle

    async def settle_late(children: Children, asked: Any) -> Any:
        """The first time, fail when the children have ended, as a worker that dies between storing and suspending."""
        monkeypatch.setattr(Children, "settle", settle)
        child = f"{children._claimed.id}.all.00000000"
        await scheduler.wait(child, timeout=60)
        raise RuntimeError("as planned")

    monkeypatch.setattr(Children, "settle", settle_late)

    @scheduler.job("parent", retry=Retry(attempts=2, delay=0.1))
    async def parent(ctx: JobContext) -> int:
        return len(await ctx.map("all", "double", [{"n": 1}]))

    await scheduler.start()
    done = await ended(scheduler)
    assert (done.state, done.result) == ("completed", 1)
    assert (await scheduler.flows.get(done.id)).counts == {"completed": 1}
    assert [flow.id for flow in await scheduler.flows.all()] == [done.id]
