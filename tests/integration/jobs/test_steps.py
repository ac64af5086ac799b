"""Checkpoints: a finished step is kept with its job and not run again, whatever befalls the job after it."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from harness.apps import isolated
from harness.inside import documents_of
from harness.looking import Database
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import Cancel, Fail, Job, JobContext, Retry, Scheduler, Snooze, Step, StepError
from mainspring.clock import ManualClock
from mainspring.config.settings import Settings
from mainspring.engine.run import steps as engine_steps
from mainspring.engine.run.steps import Steps
from mainspring.model.jobs.draft import make_draft
from mainspring.store import Store
from mainspring.store.codec import MAX_STEPS, document_id
from mainspring.store.connection import Connection
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.sync import JobContext as BlockingJobContext

Make = Callable[..., Scheduler]
SOON = Retry(attempts=3, delay=0.01)


async def ended(scheduler: Scheduler, name: str = "work", data: dict[str, Any] | None = None, **options: Any) -> Job:
    job = await scheduler.schedule(name, data, **options)
    return await scheduler.wait(job.id, timeout=60)


def noted(ran: list[Any], what: Any, result: Any) -> Any:
    """A step that notes that it was run."""
    ran.append(what)
    return result


def said(job: Job) -> str:
    """What the job's error says, with its type."""
    return "" if job.error is None else f"{job.error.type}: {job.error.message}"


# -- what is kept ----------------------------------------------------------------------------------------------------


async def test_a_finished_step_is_not_run_again_by_the_next_attempt(scheduler: Scheduler) -> None:
    ran: list[str] = []

    async def fetch(url: str, *, times: int) -> list[str]:
        ran.append("fetch")
        return [url] * times

    def sort(values: list[str]) -> dict[str, Any]:
        ran.append("sort")
        return {"sorted": sorted(values)}

    @scheduler.job("work", retry=SOON)
    async def work(ctx: JobContext) -> Any:
        fetched = await ctx.step("fetch", fetch, "b", times=2)
        result = await ctx.step("sort", sort, [*fetched, "a"])
        if ctx.attempt < 3:
            raise ValueError("not yet")
        return result

    await scheduler.start()
    done = await ended(scheduler)
    assert (done.state, done.result, len(done.attempts)) == ("completed", {"sorted": ["a", "b", "b"]}, 3)
    assert ran == ["fetch", "sort"]
    assert [(step.name, step.attempt, step.result) for step in done.steps] == [
        ("fetch", 1, ["b", "b"]),
        ("sort", 1, {"sorted": ["a", "b", "b"]}),
    ]
    assert all(isinstance(step, Step) and step.at is not None and step.at >= done.created_at for step in done.steps)


async def test_a_step_that_raises_keeps_nothing_and_runs_again(scheduler: Scheduler) -> None:
    ran: list[int] = []

    @scheduler.job("work", retry=SOON)
    async def work(ctx: JobContext) -> Any:
        async def once_bitten() -> str:
            ran.append(ctx.attempt)
            if ctx.attempt == 1:
                raise ValueError("bitten")
            return "done"

        return await ctx.step("bite", once_bitten)

    await scheduler.start()
    done = await ended(scheduler)
    assert (done.result, ran) == ("done", [1, 2])
    assert done.attempts[0].error is not None and done.attempts[0].error.type == "ValueError"
    assert [(step.name, step.attempt) for step in done.steps] == [("bite", 2)]


async def test_a_step_that_raised_may_be_tried_again_at_once(scheduler: Scheduler) -> None:
    calls: list[int] = []

    def flaky() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("again")
        return len(calls)

    @scheduler.job("work")
    async def work(ctx: JobContext) -> Any:
        while True:
            try:
                return await ctx.step("flaky", flaky)
            except ConnectionError:
                pass

    await scheduler.start()
    assert (await ended(scheduler)).result == 3


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    "value",
    [
        None,
        (1, 2),
        {"a": (1,), "$b.c": {3}},
        datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC),
        Point(3),
        b"bytes",
        "ü\u2028",
        2**62,
        [],
    ],
    ids=repr,
)
async def test_the_first_run_sees_the_same_as_the_next_attempt(scheduler: Scheduler, value: Any) -> None:
    seen: list[Any] = []

    @scheduler.job("work", retry=SOON)
    async def work(ctx: JobContext) -> None:
        seen.append(await ctx.step("value", lambda: value))
        if ctx.attempt == 1:
            raise ValueError("again")

    await scheduler.start()
    done = await ended(scheduler)
    assert done.state == "completed"
    assert len(seen) == 2 and seen[0] == seen[1] and type(seen[0]) is type(seen[1])
    assert done.steps[0].result == seen[0]


@pytest.mark.parametrize("attempts", [1, 2])
async def test_what_a_handler_does_to_a_result_changes_nothing_that_is_kept(
    scheduler: Scheduler, attempts: int
) -> None:
    seen: list[list[int]] = []
    told: list[Any] = []
    scheduler.on("job:success", lambda job: told.append(job.steps[0].result))

    @scheduler.job("work", retry=SOON)
    async def work(ctx: JobContext) -> None:
        numbers = await ctx.step("numbers", lambda: [1])
        seen.append(list(numbers))
        numbers.append(2)
        if ctx.attempt < attempts:
            raise ValueError("again")

    await scheduler.start()
    assert (await ended(scheduler)).steps[0].result == [1]
    await eventually(lambda: told == [[1]])
    assert seen == [[1]] * attempts


@pytest.mark.parametrize("name", ["a.b", "$set", "", " ", "ünï", "x" * 200, "a-1"], ids=repr)
async def test_any_printable_name_will_do(scheduler: Scheduler, name: str) -> None:
    @scheduler.job("work", retry=SOON)
    async def work(ctx: JobContext) -> str:
        result = await ctx.step(name, lambda: f"$ran at attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise ValueError("again")
        return str(result)

    await scheduler.start()
    done = await ended(scheduler)
    if name:
        assert (done.result, done.steps[0].name) == ("$ran at attempt 1", name)
    else:
        assert (done.state, said(done).startswith("StepError: A step's name")) == ("failed", True)


async def test_steps_may_run_side_by_side(scheduler: Scheduler) -> None:
    ran: list[int] = []

    async def slow(number: int) -> int:
        ran.append(number)
        await asyncio.sleep(0)
        return number * number

    @scheduler.job("work", retry=SOON)
    async def work(ctx: JobContext) -> list[int]:
        squares = await asyncio.gather(*(ctx.step(f"square-{n}", slow, n) for n in range(20)))
        if ctx.attempt == 1:
            raise ValueError("again")
        return squares

    await scheduler.start()
    done = await ended(scheduler)
    assert done.result == [n * n for n in range(20)]
    assert sorted(ran) == list(range(20))
    assert sorted(step.name for step in done.steps) == sorted(f"square-{n}" for n in range(20))


async def test_a_step_is_stored_before_it_returns(scheduler: Scheduler, db: Database) -> None:
    found: list[Any] = []

    @scheduler.job("work")
    async def work(ctx: JobContext) -> None:
        await ctx.step("first", lambda: "kept")
        document = await db.jobs.find_one({"_id": document_id(ctx.id)})
        assert document is not None
        found.append([(one["name"], one["result"]) for one in document["steps"]])

    await scheduler.start()
    await ended(scheduler)
    assert found == [[("first", "kept")]]


async def test_a_job_without_steps_has_no_such_field(scheduler: Scheduler, db: Database) -> None:
    @scheduler.job("work")
    async def work(ctx: JobContext) -> None: ...

    await scheduler.start()
    done = await ended(scheduler)
    document = await db.jobs.find_one({"_id": document_id(done.id)})
    assert document is not None and "steps" not in document and done.steps == ()


# -- a sync handler --------------------------------------------------------------------------------------------------


async def test_a_sync_handler_runs_its_steps_in_its_thread_and_waits_for_them(scheduler: Scheduler) -> None:
    ran: list[str] = []

    def add(a: int, *, b: int) -> int:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        ran.append("add")
        return a + b

    @scheduler.job("work", retry=SOON)
    def work(ctx: BlockingJobContext) -> int:
        total = ctx.step("add", add, 1, b=2)
        if ctx.attempt == 1:
            raise ValueError("again")
        return int(total)

    await scheduler.start()
    done = await ended(scheduler)
    assert (done.result, ran, [step.name for step in done.steps]) == (3, ["add"], ["add"])


async def test_an_async_function_is_no_step_of_a_sync_handler(scheduler: Scheduler) -> None:
    async def later() -> int:
        return 1

    @scheduler.job("work", retry=SOON)
    def work(ctx: BlockingJobContext) -> None:
        ctx.step("later", later)

    await scheduler.start()
    done = await ended(scheduler)
    assert (done.state, len(done.attempts), "must be a plain function" in said(done)) == ("failed", 1, True)


# -- what is refused ---------------------------------------------------------------------------------------------------


async def refused(scheduler: Scheduler, body: Callable[[JobContext], Any], **settings: Any) -> str:
    """What the error of a job says that fails at once."""

    @scheduler.job("work", retry=SOON)
    async def work(ctx: JobContext) -> None:
        await body(ctx)

    await scheduler.start()
    done = await ended(scheduler)
    assert (done.state, len(done.attempts)) == ("failed", 1)
    assert said(done).startswith("StepError: ")
    return said(done)


async def test_one_name_for_two_steps_is_refused_and_the_cure_is_shown(scheduler: Scheduler) -> None:
    async def twice(ctx: JobContext) -> None:
        await ctx.step("mail", lambda: 1)
        await ctx.step("mail", lambda: 2)

    assert "f'mail-{number}'" in await refused(scheduler, twice)


async def test_one_name_for_two_steps_at_once_is_refused(scheduler: Scheduler) -> None:
    async def slow() -> None:
        await asyncio.sleep(0.01)

    async def at_once(ctx: JobContext) -> None:
        await asyncio.gather(ctx.step("slow", slow), ctx.step("slow", slow))

    assert "two steps 'slow'" in await refused(scheduler, at_once)


async def test_a_result_that_cannot_be_stored_is_an_error_and_not_forgotten_in_silence(scheduler: Scheduler) -> None:
    async def unstorable(ctx: JobContext) -> None:
        await ctx.step("open", object)

    assert "of type object, cannot be kept" in await refused(scheduler, unstorable)


async def test_a_result_that_is_too_large_is_an_error(make_scheduler: Make) -> None:
    async def large(ctx: JobContext) -> None:
        assert await ctx.step("small", lambda: "x" * 800) == "x" * 800
        await ctx.step("large", lambda: "x" * 1100)

    assert "over the limit of 1,000" in await refused(make_scheduler(max_result=1000), large)


async def test_the_steps_of_a_job_are_bounded_together(scheduler: Scheduler) -> None:
    async def many(ctx: JobContext) -> None:
        for number in range(100):
            await ctx.step(f"large-{number}", lambda: "x" * 60_000)

    message = await refused(scheduler, many)
    assert "'large-17'" in message and "1,048,576" in message


async def test_the_number_of_steps_is_bounded(monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler) -> None:
    monkeypatch.setattr(engine_steps, "MAX_STEPS", 5)

    async def many(ctx: JobContext) -> None:
        for number in range(MAX_STEPS):
            await ctx.step(f"step-{number}", lambda: None)

    assert "at most 5 steps" in await refused(scheduler, many)


async def test_a_call_instead_of_a_function_is_refused(scheduler: Scheduler) -> None:
    async def fetch() -> None: ...

    async def called(ctx: JobContext) -> None:
        await ctx.step("fetch", fetch())  # type: ignore[arg-type]

    assert "a function and its arguments" in await refused(scheduler, called)


async def test_a_step_inside_a_transaction_is_refused(scheduler: Scheduler) -> None:
    async def inside(ctx: JobContext) -> None:
        async with ctx.transaction():
            await ctx.step("inside", lambda: 1)

    assert "cannot run inside ctx.transaction()" in await refused(scheduler, inside)


async def test_a_handler_may_go_on_after_a_step_that_was_refused(scheduler: Scheduler) -> None:
    @scheduler.job("work")
    async def work(ctx: JobContext) -> str:
        try:
            await ctx.step("open", object)
        except StepError:
            return "without it"
        return "with it"

    await scheduler.start()
    assert (await ended(scheduler)).result == "without it"


# -- transactions ------------------------------------------------------------------------------------------------------


async def test_a_step_before_a_transaction_is_run_once_however_often_the_transaction_is(
    scheduler: Scheduler, db: Database
) -> None:
    ran: list[str] = []
    runs: list[int] = []
    await db["counters"].insert_one({"_id": "hot", "n": 0})

    @scheduler.job("work")
    async def work(ctx: JobContext) -> None:
        runs.append(ctx.attempt)
        price = await ctx.step("price", noted, ran, "price", 7)
        async with ctx.transaction() as tx:
            await tx.db["counters"].find_one({"_id": "hot"}, session=tx.session)
            if len(runs) == 1:  # another client writes what the transaction is about to write
                await db["counters"].update_one({"_id": "hot"}, {"$inc": {"n": 1}})
            await tx.db["counters"].update_one({"_id": "hot"}, {"$inc": {"n": price}}, session=tx.session)

    await scheduler.start()
    done = await ended(scheduler)
    assert (done.state, len(done.attempts), runs, ran) == ("completed", 1, [1, 1], ["price"])
    counter = await db["counters"].find_one({"_id": "hot"})
    assert counter is not None and counter["n"] == 8
    assert [step.name for step in done.steps] == ["price"]


async def test_after_a_transaction_has_completed_the_job_no_step_is_run(scheduler: Scheduler) -> None:
    told: list[str] = []

    @scheduler.job("work")
    async def work(ctx: JobContext) -> None:
        async with ctx.transaction():
            pass
        try:
            await ctx.step("late", lambda: told.append("ran"))
        except StepError as error:
            told.append(str(error))

    await scheduler.start()
    assert (await ended(scheduler)).state == "completed"
    await eventually(lambda: told)  # the handler goes on behind its transaction
    assert len(told) == 1 and "has completed in its transaction" in told[0]


async def test_after_a_transaction_that_was_given_up_steps_can_be_run(scheduler: Scheduler) -> None:
    @scheduler.job("work")
    async def work(ctx: JobContext) -> Any:
        with pytest.raises(KeyError):
            async with ctx.transaction():
                raise KeyError("no")
        return await ctx.step("after", lambda: "ran")

    await scheduler.start()
    assert (await ended(scheduler)).result == "ran"


# -- what becomes of them ------------------------------------------------------------------------------------------


def count_runs(scheduler: Scheduler, after: Callable[[JobContext], Any]) -> list[int]:
    """A handler with one step, which notes the claims that it ran under, and what follows it."""
    ran: list[int] = []

    @scheduler.job("work", retry=Retry(attempts=1))
    async def work(ctx: JobContext, n: int = 0) -> int:
        return int(await ctx.step("count", noted, ran, ctx.token, n)) + (await after(ctx) or 0)

    return ran


async def test_a_snoozed_job_keeps_its_steps(scheduler: Scheduler) -> None:
    async def snooze(ctx: JobContext) -> None:
        if ctx.token == 1:
            raise Snooze(0.01)

    ran = count_runs(scheduler, snooze)
    await scheduler.start()
    assert (await ended(scheduler, data={"n": 3})).result == 3
    assert ran == [1]


async def test_a_released_job_keeps_its_steps(make_scheduler: Make) -> None:
    first, second = make_scheduler(), make_scheduler()
    waiting = asyncio.Event()

    async def wait_for_ever(ctx: JobContext) -> None:
        waiting.set()
        await asyncio.sleep(600)

    async def go_on(ctx: JobContext) -> None: ...

    ran = [count_runs(first, wait_for_ever), count_runs(second, go_on)]
    await first.start()
    job = await second.schedule("work")
    await waiting.wait()
    await first.stop(graceful=False)
    await second.start()
    assert (await second.wait(job.id, timeout=60)).state == "completed"
    assert ran == [[1], []]


@pytest.mark.parametrize("signal", [Fail, Cancel])
async def test_a_job_that_failed_or_was_cancelled_goes_on_where_it_was_when_run_again(
    scheduler: Scheduler, signal: type[Fail | Cancel]
) -> None:
    async def give_up_once(ctx: JobContext) -> None:
        if ctx.token == 1:
            raise signal("for now")

    ran = count_runs(scheduler, give_up_once)
    await scheduler.start()
    given_up = await ended(scheduler)
    again = await scheduler.retry(given_up.id)
    assert [step.name for step in again.steps] == ["count"]
    assert (await scheduler.wait(again.id, timeout=60)).state == "completed"
    assert ran == [1]


async def test_a_job_that_was_done_is_done_again_when_run_again(scheduler: Scheduler) -> None:
    async def nothing(ctx: JobContext) -> None: ...

    ran = count_runs(scheduler, nothing)
    await scheduler.start()
    done = await ended(scheduler)
    assert (await scheduler.retry(done.id)).steps == ()
    again = await scheduler.wait(done.id, timeout=60)
    assert (again.state, ran, [step.name for step in again.steps]) == ("completed", [1, 2], ["count"])


async def test_steps_are_dropped_when_the_data_is_changed_and_not_when_something_else_is(scheduler: Scheduler) -> None:
    async def fail_twice(ctx: JobContext) -> None:
        if ctx.token < 3:
            raise Fail("wrong")

    ran = count_runs(scheduler, fail_twice)
    await scheduler.start()
    job = await ended(scheduler, data={"n": 1})
    await scheduler.queues.pause("default")
    await scheduler.retry(job.id)
    assert len((await scheduler.update(job.id, priority=1)).steps) == 1
    assert (await scheduler.update(job.id, data={"n": 2})).steps == ()
    await scheduler.queues.resume("default")
    assert (await scheduler.wait(job.id, timeout=60)).state == "failed"
    await scheduler.retry(job.id)
    assert (await scheduler.wait(job.id, timeout=60)).result == 2
    assert ran == [1, 2]


async def test_the_announced_job_has_its_steps(scheduler: Scheduler) -> None:
    told: list[list[str]] = []
    scheduler.on("job:success", lambda job: told.append([step.name for step in job.steps]))

    async def nothing(ctx: JobContext) -> None: ...

    count_runs(scheduler, nothing)
    await scheduler.start()
    await ended(scheduler)
    await eventually(lambda: told == [["count"]])


# -- the fence ---------------------------------------------------------------------------------------------------------


@pytest.fixture
async def store(uri: str, clock: ManualClock) -> AsyncIterator[Store]:
    connection = await Connection.open(Settings(), clock, uri=uri)
    yield Store(connection)
    await connection.close()


async def claimed(store: Store) -> dict[str, Any]:
    candidates = await store.claims.candidates("default", 1)
    (document,) = documents_of(await store.claims.claim(candidates, "A", 60.0, lambda job: 3))
    return document


async def test_only_the_holder_of_the_claim_keeps_a_step(store: Store, clock: ManualClock) -> None:
    await store.inserts.insert(make_draft("x", None))
    first = await claimed(store)
    clock.advance(timedelta(seconds=3600))
    assert len(await store.rescues.rescue()) == 1
    assert await store.steps.keep(first["_id"], first["token"], "late", 1, "late") is None
    second = await claimed(store)
    assert await store.steps.keep(first["_id"], first["token"], "late", 1, "late") is None
    assert await store.steps.keep(second["_id"], second["token"], "mine", 2, "mine") is not None
    stored = await store.jobs.get(first["_id"])
    assert [(step["name"], step["attempt"]) for step in stored["steps"]] == [("mine", 2)]


async def test_a_rescued_job_has_its_steps_in_the_next_claim(store: Store, clock: ManualClock) -> None:
    await store.inserts.insert(make_draft("x", None))
    first = await claimed(store)
    await store.steps.keep(first["_id"], first["token"], "one", 1, {"a": 1})
    clock.advance(timedelta(seconds=3600))
    await store.rescues.rescue()
    assert [(step["name"], step["result"]) for step in (await claimed(store))["steps"]] == [("one", {"a": 1})]


async def test_a_step_that_is_written_twice_after_an_unclear_error_is_kept_once(store: Store) -> None:
    await store.inserts.insert(make_draft("x", None))
    job = await claimed(store)
    for name in ("other", "same", "same"):
        await store.steps.keep(job["_id"], job["token"], name, 1, name)
    assert [step["name"] for step in (await store.jobs.get(job["_id"]))["steps"]] == ["other", "same"]


async def test_a_handler_that_has_lost_its_job_keeps_no_step_and_does_no_harm(
    scheduler: Scheduler, db: Database
) -> None:
    lost: list[Any] = []
    scheduler.on("job:lost", lambda job: lost.append(job.id))

    @scheduler.job("work")
    async def work(ctx: JobContext) -> None:
        # Another worker has got the job meanwhile.
        taken = {"$inc": {"token": 1}, "$set": {"worker": "another", "claim": "another"}}
        await db.jobs.update_one({"_id": document_id(ctx.id)}, taken)
        await ctx.step("late", lambda: "late")

    await scheduler.start()
    job = await scheduler.schedule("work")
    await eventually(lambda: lost == [job.id])
    document = await db.jobs.find_one({"_id": document_id(job.id)})
    assert document is not None
    assert (document["state"], document["worker"], "steps" in document) == ("running", "another", False)


async def test_a_thread_that_was_left_behind_runs_no_further_step(scheduler: Scheduler, db: Database) -> None:
    ran: list[str] = []
    told: list[str] = []
    kept = threading.Event()

    @scheduler.job("work")
    def work(ctx: BlockingJobContext) -> None:
        ctx.step("first", lambda: ran.append("first"))
        kept.set()
        while not ctx.is_cancelled:
            time.sleep(0.01)
        try:
            ctx.step("second", lambda: ran.append("second"))
        except Exception as error:
            told.append(type(error).__name__)
            raise

    short = scheduler.configure(lease=1.0)
    await short.start()
    job = await short.schedule("work")
    await eventually(kept.is_set)
    taken = {"$inc": {"token": 1}, "$set": {"worker": "another", "claim": "another"}}
    await db.jobs.update_one({"_id": document_id(job.id)}, taken)
    await eventually(lambda: told == ["ClaimLost"])
    assert ran == ["first"]


async def test_a_handler_that_is_cancelled_while_a_step_is_being_stored_still_keeps_it() -> None:
    stored: list[str] = []
    storing = asyncio.Event()

    async def keep(name: str, result: Any) -> dict[str, Any]:
        storing.set()
        await asyncio.sleep(0.01)
        stored.append(name)
        return {"name": name, "result": result}

    task = asyncio.create_task(Steps(StoredJob({}), Settings(), keep).run("charge", lambda: 1, (), {}))
    await storing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stored == ["charge"]


# -- in a process of its own -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def worker(servers: Servers, side_client: AsyncMongoClient[dict[str, Any]]) -> AsyncIterator[Scheduler]:
    """One worker for the tests with processes, which take a second to start."""
    name = f"t_{secrets.token_hex(4)}"
    scheduler = Scheduler(servers.uri(name), poll_interval=0.2, concurrency=4)
    for function in (isolated.step, isolated.step_async, isolated.step_and_count, isolated.step_badly):
        scheduler.job(isolation="process", retry=SOON)(function)
    await scheduler.start()
    yield scheduler
    await scheduler.stop(graceful=False)
    await side_client.drop_database(name)


@pytest.mark.parametrize("name", ["step", "step_async"])
@pytest.mark.slow
async def test_a_step_in_a_process_is_kept_over_its_death(worker: Scheduler, name: str, tmp_path: Path) -> None:
    file = tmp_path / "ran"
    job = await worker.schedule(name, {"file": str(file)})
    done = await worker.wait(job.id, timeout=60)
    assert (done.state, done.result) == ("completed", [[1, 1], [1, 2]])
    assert sorted(file.read_text().split()) == ["1", "2"]
    assert [attempt.outcome for attempt in done.attempts] == ["retried", "completed"]
    assert sorted((step.name, step.attempt) for step in done.steps) == [("one", 1), ("two", 1)]


@pytest.mark.slow
async def test_a_step_in_a_process_is_kept_when_its_transaction_is_run_again(worker: Scheduler, tmp_path: Path) -> None:
    file = tmp_path / "ran"
    await worker.client.get_default_database()["counters"].insert_one({"_id": "hot", "n": 0})
    job = await worker.schedule("step_and_count", {"key": "hot", "file": str(file)})
    done = await worker.wait(job.id, timeout=60)
    assert (done.state, done.result, len(done.attempts)) == ("completed", 5, 1)
    assert file.read_text().split() == ["5", "0", "0"]
    assert [step.name for step in done.steps] == ["number"]


async def test_a_step_that_is_refused_in_a_process_fails_the_job_at_once(worker: Scheduler) -> None:
    job = await worker.schedule("step_badly", {"how": "unstorable"})
    done = await worker.wait(job.id, timeout=60)
    assert (done.state, len(done.attempts)) == ("failed", 1)
    assert said(done).startswith("StepError: The result of step 'bad'")


async def test_what_is_given_up_in_a_process_leaves_the_way_to_the_worker_open(worker: Scheduler) -> None:
    job = await worker.schedule("step_badly", {"how": "cancelled"})
    done = await worker.wait(job.id, timeout=60)
    assert (done.state, done.result) == ("completed", "after")


async def test_a_step_inside_a_transaction_in_a_process_is_refused(worker: Scheduler) -> None:
    job = await worker.schedule("step_badly", {"how": "transaction"})
    done = await worker.wait(job.id, timeout=60)
    assert (done.state, "cannot run inside ctx.transaction()" in said(done)) == ("failed", True)
