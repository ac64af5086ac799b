"""Handlers that wait for signals and times, and handlers that begin anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.pruning import prune
from harness.waiting import eventually
from mainspring import Continue, Fail, InvalidJob, Job, JobContext, JobStateError, Keep, Scheduler
from mainspring.clock import ManualClock
from mainspring.errors import JobNotFound
from mainspring.store.codec import document_id
from mainspring.sync import JobContext as BlockingJobContext

Make = Callable[..., Scheduler]


def with_approval(scheduler: Scheduler, timeout: str | None = None) -> list[int]:
    """A handler that waits for the signal `approved`; returns the list of its runs."""
    runs: list[int] = []

    @scheduler.job("ask")
    async def ask(ctx: JobContext) -> Any:
        runs.append(ctx.attempt)
        return await ctx.wait_for("approved", timeout)

    return runs


async def blocked(scheduler: Scheduler, job: Job) -> None:
    async def is_blocked() -> bool:
        return (await scheduler.get_job(job.id)).state == "blocked"

    await eventually(is_blocked)


async def test_a_handler_gets_the_payload_of_a_signal_and_holds_no_slot_meanwhile(make_scheduler: Make) -> None:
    scheduler = make_scheduler(concurrency=1)
    runs = with_approval(scheduler)

    @scheduler.job("other")
    async def other() -> str:
        return "ran"

    await scheduler.start()
    job = await scheduler.schedule("ask")
    await blocked(scheduler, job)
    assert (await (await scheduler.schedule("other")).wait(60)).result == "ran"
    await job.signal("approved", {"by": "ann"})
    done = await job.wait(60)
    assert (done.state, done.result, runs) == ("completed", {"by": "ann"}, [1, 1])


async def test_a_signal_that_arrives_before_the_handler_waits_is_kept(scheduler: Scheduler) -> None:
    runs = with_approval(scheduler)
    job = await scheduler.schedule("ask")
    await scheduler.signal(job.id, "approved", "early")
    await scheduler.start()
    assert (await job.wait(60)).result == "early"
    assert runs == [1]


async def test_a_signal_between_the_look_and_the_suspension_is_found(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender sees a job that is not blocked yet, and the handler has looked already. No sweep comes: the clock
    stands still."""
    scheduler = make_scheduler(clock=ManualClock())
    with_approval(scheduler)
    await scheduler.connect()
    store = inside(scheduler).open_store
    finish = store.finishing.finish
    sent: list[str] = []

    async def late(finishes: Any, **options: Any) -> Any:
        for one in finishes:
            if one.ending.outcome == "suspended" and not sent:
                sent.append(str(one.id))
                await scheduler.signal(str(one.id), "approved", "just in time")
        return await finish(finishes, **options)

    monkeypatch.setattr(store.finishing, "finish", late)
    await scheduler.start()
    job = await scheduler.schedule("ask")
    assert (await job.wait(60)).result == "just in time"
    assert sent == [job.id]


async def test_the_sweep_finds_a_signal_whose_sender_died_before_it_looked_at_the_job(make_scheduler: Make) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(clock=clock)
    with_approval(scheduler)
    await scheduler.start()
    job = await scheduler.schedule("ask")
    await blocked(scheduler, job)
    store = inside(scheduler).open_store
    await store.connection.signals.insert_one(
        {"_id": f"{job.id}/approved/x", "job": job.id, "name": "approved", "payload": "found", "at": clock.now()}
    )
    await clock.advance(timedelta(minutes=2))
    assert (await job.wait(60)).result == "found"


async def test_a_signal_is_taken_once_and_the_same_id_is_one_signal(scheduler: Scheduler, db: Database) -> None:
    @scheduler.job("twice")
    async def twice(ctx: JobContext) -> list[Any]:
        first = await ctx.wait_for("go", name="first")
        second = await ctx.wait_for("go", name="second")
        return [first, second]

    await scheduler.start()
    job = await scheduler.schedule("twice")
    for _ in range(3):
        await scheduler.signal(job.id, "go", 1, id="click-1")
    await eventually(lambda: db["jobs.signals"].count_documents({"taken": True}, hint="_id_"))
    await blocked(scheduler, job)
    assert await db["jobs.signals"].count_documents({}, hint="_id_") == 1
    await scheduler.signal(job.id, "go", 2, id="click-2")
    assert (await job.wait(60)).result == [1, 2]


async def test_a_wait_for_a_signal_ends_with_none_at_its_time(make_scheduler: Make) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(clock=clock)
    with_approval(scheduler, "3d")
    await scheduler.start()
    job = await scheduler.schedule("ask")
    await blocked(scheduler, job)
    await clock.advance(timedelta(days=2))
    await blocked(scheduler, job)
    await clock.advance(timedelta(days=1, minutes=1))
    done = await job.wait(60)
    assert (done.state, done.result) == ("completed", None)


async def test_a_signal_and_a_call_are_gathered(scheduler: Scheduler) -> None:
    runs: list[int] = []

    @scheduler.job("double")
    async def double(n: int) -> int:
        return 2 * n

    @scheduler.job("both")
    async def both(ctx: JobContext) -> list[Any]:
        runs.append(1)
        return await ctx.gather(ctx.call("two", "double", {"n": 2}), ctx.wait_for("go"))

    await scheduler.start()
    job = await scheduler.schedule("both")

    async def waits_for_the_signal_alone() -> bool:
        stored = await inside(scheduler).open_store.jobs.get(document_id(job.id))
        return bool(stored["state"] == "blocked" and stored["waits"]["ids"] == [])

    await eventually(waits_for_the_signal_alone)
    assert len(runs) == 2  # no run for nothing while the signal is open
    await job.signal("go", "now")
    assert (await job.wait(60)).result == [4, "now"]


async def test_a_sync_handler_waits_for_a_signal_and_sleeps(make_scheduler: Make) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(clock=clock)

    @scheduler.job("ask")
    def ask(ctx: BlockingJobContext) -> Any:
        payload = ctx.wait_for("approved")
        ctx.sleep("cool down", "1h")
        return payload

    await scheduler.start()
    job = await scheduler.schedule("ask")
    await blocked(scheduler, job)
    await job.signal("approved", 7)

    async def sleeps() -> bool:
        return bool((await job.refresh()).snoozes)

    await eventually(sleeps)
    await clock.advance(timedelta(hours=1, seconds=1))
    assert (await job.wait(60)).result == 7


async def test_a_sleep_is_kept_over_a_restart_of_the_worker(make_scheduler: Make) -> None:
    clock = ManualClock()

    def worker() -> Scheduler:
        scheduler = make_scheduler(clock=clock)

        @scheduler.job("slow")
        async def slow(ctx: JobContext) -> str:
            await ctx.sleep("a day", "1d")
            return "rested"

        return scheduler

    first = worker()
    await first.start()
    job = await first.schedule("slow")

    async def sleeps() -> bool:
        found = await first.get_job(job.id)
        return found.state == "pending" and bool(found.snoozes)

    await eventually(sleeps)
    await first.stop()
    second = worker()
    await second.start()
    await clock.advance(timedelta(hours=23))
    assert (await second.get_job(job.id)).state == "pending"
    await clock.advance(timedelta(hours=2))
    assert (await second.wait(job.id, 60)).result == "rested"


@pytest.mark.slow
async def test_a_handler_that_begins_anew_forgets_its_steps_and_has_new_children(scheduler: Scheduler) -> None:
    @scheduler.job("double")
    async def double(n: int) -> int:
        return 2 * n

    @scheduler.job("loop")
    async def loop(ctx: JobContext, n: int) -> int:
        n = await ctx.call("double", "double", {"n": n})
        if n < 20:
            raise Continue(n=n)
        return n

    await scheduler.start()
    job = await scheduler.schedule("loop", {"n": 3})
    done = await job.wait(60)
    assert (done.state, done.result, dict(done.data), done.tries) == ("completed", 24, {"n": 12}, 1)
    children = [job.id async for job in scheduler.jobs(name="double")]
    assert sorted(children) == sorted([f"{done.id}.double", f"{done.id}.~r2.double", f"{done.id}.~r3.double"])


async def test_a_signal_of_an_earlier_round_is_not_taken_again(scheduler: Scheduler) -> None:
    @scheduler.job("loop")
    async def loop(ctx: JobContext, heard: list[int]) -> list[int]:
        if len(heard) == 2:
            return heard
        raise Continue(heard=[*heard, await ctx.wait_for("go")])

    await scheduler.start()
    job = await scheduler.schedule("loop", {"heard": []})
    await job.signal("go", 1, id="a")
    await job.signal("go", 1, id="a")

    async def second_round() -> bool:
        found = await job.refresh()
        return found.state == "blocked" and found.data["heard"] == [1]

    await eventually(second_round)
    await job.signal("go", 2, id="b")
    assert (await job.wait(60)).result == [1, 2]


async def test_data_that_does_not_fit_the_handler_fails_the_job_that_begins_anew(scheduler: Scheduler) -> None:
    @scheduler.job("loop")
    async def loop(ctx: JobContext, n: int) -> None:
        raise Continue(m=1)

    await scheduler.start()
    done = await (await scheduler.schedule("loop", {"n": 1})).wait(60)
    assert done.state == "failed" and done.error is not None and "m" in done.error.message


async def test_a_signal_to_a_declared_flow_is_refused_and_says_which_job_takes_it(scheduler: Scheduler) -> None:
    flow = scheduler.flow("approved")
    flow.add("approve")
    run = await flow.start()
    with pytest.raises(InvalidJob, match=f"Send the signal to the job .*; the id of a node is {run.id}.NODE"):
        await scheduler.signal(run.id, "approval", {"by": "ann"})


async def test_a_signal_to_a_job_that_is_over_or_missing_is_refused(scheduler: Scheduler) -> None:
    @scheduler.job("quick")
    async def quick() -> None: ...

    await scheduler.start()
    done = await (await scheduler.schedule("quick")).wait(60)
    with pytest.raises(JobStateError):
        await scheduler.signal(done.id, "go")
    with pytest.raises(JobNotFound):
        await scheduler.signal("0" * 24, "go")
    job = await scheduler.schedule("nobody-runs-this")
    with pytest.raises(InvalidJob, match=r"The payload of signal 'go', .*; send plain values"):
        await scheduler.signal(job.id, "go", object())


async def test_signals_of_ended_jobs_are_deleted_after_a_while(make_scheduler: Make, db: Database) -> None:
    clock = ManualClock()
    scheduler = make_scheduler(clock=clock)
    with_approval(scheduler)
    live = await scheduler.schedule("nobody-runs-this")
    await live.signal("go", 1)
    await scheduler.start()
    job = await scheduler.schedule("ask")
    await job.signal("approved", 1)
    await job.wait(60)
    await clock.advance(timedelta(hours=2))
    store = inside(scheduler).open_store
    await store.signals.prune(100)
    assert [one["job"] async for one in db["jobs.signals"].find({}, hint="_id_")] == [live.id]


async def test_a_suspended_job_keeps_its_place_in_its_sequence(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    order: list[str] = []

    @scheduler.job("step", sequence="line")
    async def step(ctx: JobContext, line: str, n: int) -> None:
        if n == 1:
            await ctx.wait_for("go")
        order.append(f"{line}{n}")

    await scheduler.start()
    first = await scheduler.schedule("step", {"line": "a", "n": 1})
    await blocked(scheduler, first)
    second = await scheduler.schedule("step", {"line": "a", "n": 2})
    await (await scheduler.schedule("step", {"line": "b", "n": 2})).wait(60)
    await asyncio.sleep(0.5)
    assert order == ["b2"]
    await first.signal("go")
    await second.wait(60)
    assert order == ["b2", "a1", "a2"]


@pytest.mark.slow
async def test_results_of_members_are_kept_until_the_root_has_ended(scheduler: Scheduler, db: Database) -> None:
    @scheduler.job("double")
    async def double(n: int) -> int:
        return 2 * n

    @scheduler.job("root")
    async def root(ctx: JobContext) -> list[int]:
        results = await ctx.map("all", "double", [{"n": n} for n in range(3)])
        await ctx.wait_for("go")
        return [child.result async for child in results]

    await scheduler.start()
    job = await scheduler.schedule("root")

    async def waits_for_the_signal() -> bool:
        found = await inside(scheduler).open_store.jobs.get(document_id(job.id))
        return bool(found["state"] == "blocked" and found["waits"].get("signals") == ["go"])

    await eventually(waits_for_the_signal)
    rules = [Keep(name="double", count=0)]
    assert await prune(scheduler, rules) == 0
    await job.signal("go")
    assert (await job.wait(60)).result == [0, 2, 4]

    async def none_is_left() -> bool:
        await prune(scheduler, rules)
        return await db.jobs.count_documents({"name": "double"}, hint="_id_") == 0

    await eventually(none_is_left)


async def test_signals_whose_names_and_ids_look_alike_are_two(scheduler: Scheduler) -> None:
    @scheduler.job("both")
    async def both(ctx: JobContext) -> list[Any]:
        return await ctx.gather(ctx.wait_for("a/b"), ctx.wait_for("a"))

    await scheduler.start()
    job = await scheduler.schedule("both")
    await job.signal("a/b", 1, id="c")
    await job.signal("a", 2, id="b/c")
    assert (await job.wait(60)).result == [1, 2]


async def test_a_fraction_of_children_is_tolerated_as_it_is_written(scheduler: Scheduler) -> None:
    @scheduler.job("odd")
    async def odd(n: int) -> None:
        if n < 29:
            raise Fail("no")

    @scheduler.job("parent")
    async def parent(ctx: JobContext) -> int:
        return (await ctx.map("all", "odd", [{"n": n} for n in range(100)], tolerate=0.29)).failed

    await scheduler.start()
    assert (await (await scheduler.schedule("parent")).wait(60)).result == 29
