"""Transactions: a handler's writes and its job's completion together, and jobs scheduled inside the caller's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure

from harness.apps import guaranteed
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import (
    ClaimLost,
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


async def ended(scheduler: Scheduler, name: str, data: dict[str, Any] | None = None, **options: Any) -> Job:
    job = await scheduler.schedule(name, data, **options)
    return await scheduler.wait(job.id, timeout=60)


async def effects(db: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await db.effects.find({"_id": {"$gte": 0}}).to_list(None)
    return found


@pytest.fixture
async def ready(db: Any) -> Any:
    """The database with an empty collection of effects."""
    await db.create_collection("effects")
    return db


# -- the handler's transaction -------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_effect_and_the_completion_commit_together(scheduler: Scheduler, ready: Any) -> None:
    inside: list[Any] = []

    @scheduler.job("x")
    async def x(ctx: JobContext) -> str:
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"_id": 1, "token": ctx.token}, session=tx.session)
            inside.append(await effects(ready))
            tx.result = "kept"
        inside.append((await scheduler.get_job(ctx.id)).state)
        return "not this one"

    heard: list[Job] = []
    scheduler.on("job:success", heard.append)
    await scheduler.start()
    done = await ended(scheduler, "x")
    await eventually(lambda: len(inside) == 2)
    assert inside == [[], "completed"]
    assert await effects(ready) == [{"_id": 1, "token": 1}]
    assert (done.state, done.result, done.token) == ("completed", "kept", 1)
    assert [attempt.outcome for attempt in done.attempts] == ["completed"]
    await eventually(lambda: heard)
    assert [job.id for job in heard] == [done.id]


@pytest.mark.slow
async def test_a_sync_handler_has_the_same_transaction(scheduler: Scheduler, ready: Any) -> None:
    @scheduler.job("x")
    def x(ctx: sync.JobContext) -> None:
        with ctx.transaction() as tx:
            tx.db.effects.insert_one({"_id": 1}, session=tx.session)
            assert tx.db.effects.find_one({"_id": 1}, session=tx.session) == {"_id": 1}
            assert list(tx.db.effects.find({"_id": 1}, session=tx.session)) == [{"_id": 1}]
            tx.result = [1, 2]
            assert tx.result == [1, 2]

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, done.result) == ("completed", [1, 2])
    assert await effects(ready) == [{"_id": 1}]


async def test_a_transaction_that_raises_rolls_back_both_and_the_attempt_fails(
    scheduler: Scheduler, ready: Any
) -> None:
    @scheduler.job("x", retry=Retry(attempts=2, delay=0))
    async def x(ctx: JobContext) -> None:
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"_id": ctx.attempt}, session=tx.session)
            if ctx.attempt == 1:
                raise ValueError("after the write")

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, done.tries) == ("completed", 2)
    assert await effects(ready) == [{"_id": 2}]
    assert done.attempts[0].error is not None and done.attempts[0].error.message == "after the write"


async def test_log_lines_and_progress_are_kept_with_a_completion_in_a_transaction(
    scheduler: Scheduler, ready: Any
) -> None:
    @scheduler.job("x")
    async def x(ctx: JobContext) -> None:
        ctx.log("before")
        ctx.progress(100)
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"_id": 1}, session=tx.session)

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert done.attempts[0].log == ("before",)
    assert done.progress is not None and done.progress.percent == 100


async def test_a_result_that_cannot_be_kept_leaves_a_note_here_too(make_scheduler: Make, ready: Any) -> None:
    scheduler = make_scheduler(max_result=100)

    @scheduler.job("x")
    async def x(ctx: JobContext) -> None:
        async with ctx.transaction() as tx:
            tx.result = "x" * 1000

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, done.result) == ("completed", None) and "over the limit" in (done.result_note or "")


async def test_a_job_is_completed_whatever_its_handler_does_after_the_commit(scheduler: Scheduler, ready: Any) -> None:
    @scheduler.job("x", retry=3)
    async def x(ctx: JobContext) -> None:
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"_id": 1}, session=tx.session)
        raise ValueError("after the commit")

    @scheduler.job("twice", retry=1)
    async def twice(ctx: JobContext) -> None:
        async with ctx.transaction():
            pass
        async with ctx.transaction():
            raise AssertionError("a job has one transaction only")

    await scheduler.start()
    for name in ("x", "twice"):
        done = await ended(scheduler, name)
        assert (done.state, done.token) == ("completed", 1)


@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.slow
async def test_a_handler_goes_on_after_the_commit_for_longer_than_a_lease(
    make_scheduler: Make, tmp_path: Path, isolation: Literal["thread", "process"]
) -> None:
    lease = 2.0
    scheduler = make_scheduler(lease=lease)
    scheduler.job("x", retry=1, isolation=isolation)(guaranteed.commit_and_go_on)
    file = tmp_path / "after"
    await scheduler.start()
    done = await ended(scheduler, "x", {"file": str(file), "seconds": 2 * lease})
    assert (done.state, done.token) == ("completed", 1)
    assert await eventually(lambda: file.exists() and file.read_text()) == "done"


async def test_a_transaction_inside_of_the_jobs_transaction_is_refused(scheduler: Scheduler, ready: Any) -> None:
    @scheduler.job("x", retry=1)
    async def x(ctx: JobContext) -> None:
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"_id": 1}, session=tx.session)
            with pytest.raises(MainspringError, match="A transaction of this job is open"):
                async with ctx.transaction():
                    pass

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, await effects(ready)) == ("completed", [{"_id": 1}])


@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.slow
async def test_a_second_transaction_is_refused_and_the_handler_keeps_its_job(
    make_scheduler: Make, tmp_path: Path, isolation: Literal["thread", "process"]
) -> None:
    lease = 2.0
    scheduler = make_scheduler(lease=lease)
    scheduler.job("x", retry=1, isolation=isolation)(guaranteed.commit_twice)
    lost: list[Job] = []
    scheduler.on("job:lost", lost.append)
    file = tmp_path / "after"
    await scheduler.start()
    done = await ended(scheduler, "x", {"file": str(file), "seconds": 2 * lease})
    assert (done.state, done.result) == ("completed", "first")
    said = await eventually(lambda: file.exists() and file.read_text())
    assert said == "This job has completed in an earlier transaction; a job has one only." and lost == []


@pytest.mark.slow
async def test_a_process_whose_handler_gives_up_while_its_transaction_opens_keeps_its_job(make_scheduler: Make) -> None:
    lease = 2.0
    scheduler = make_scheduler(lease=lease)
    scheduler.job("x", retry=1, isolation="process")(guaranteed.give_up_transactions)
    await scheduler.start()
    done = await ended(scheduler, "x", {"seconds": 2 * lease})
    assert (done.state, done.result, done.token) == ("completed", "without a transaction", 1), done.error


async def test_a_holder_that_has_lost_its_claim_commits_nothing(scheduler: Scheduler, ready: Any) -> None:
    errors: list[BaseException] = []
    heard: list[Job] = []
    scheduler.on("job:lost", heard.append)

    @scheduler.job("x")
    async def x(ctx: JobContext) -> None:
        taken = {"token": 2, "claim": "another", "worker": "another"}
        await ready.jobs.update_one({"_id": ObjectId(ctx.id)}, {"$set": taken})
        try:
            async with ctx.transaction() as tx:
                await tx.db.effects.insert_one({"_id": 1}, session=tx.session)
        except ClaimLost as error:
            errors.append(error)
            raise

    await scheduler.start()
    job = await scheduler.schedule("x")
    await eventually(lambda: heard)
    assert "its transaction was rolled back" in str(errors[0])
    assert await effects(ready) == []
    stored = await scheduler.get_job(job.id)
    assert (stored.state, stored.token, stored.worker) == ("running", 2, "another")


async def test_a_job_that_somebody_cancels_meanwhile_commits_nothing_and_ends_cancelled(
    scheduler: Scheduler, ready: Any
) -> None:
    @scheduler.job("x")
    async def x(ctx: JobContext) -> None:
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"_id": 1}, session=tx.session)
            await scheduler.cancel(ctx.id, "enough")

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, await effects(ready)) == ("cancelled", [])


@pytest.mark.slow
async def test_a_conflict_with_a_concurrent_write_runs_the_handler_again_and_costs_no_attempt(
    scheduler: Scheduler, ready: Any
) -> None:
    await ready.effects.insert_one({"_id": 1, "n": 0})
    runs: list[int] = []

    @scheduler.job("x", retry=1)
    async def x(ctx: JobContext) -> int:
        runs.append(ctx.attempt)
        async with ctx.transaction() as tx:
            seen = await tx.db.effects.find_one({"_id": 1}, session=tx.session) or {}
            if len(runs) < 3:
                await ready.effects.update_one({"_id": 1}, {"$inc": {"n": 10}})
            await tx.db.effects.update_one({"_id": 1}, {"$set": {"n": seen["n"] + 1}}, session=tx.session)
            tx.result = seen["n"] + 1
        return 0

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert runs == [1, 1, 1]
    assert (done.state, done.result, done.tries, done.token) == ("completed", 21, 1, 1)
    assert await effects(ready) == [{"_id": 1, "n": 21}]


@pytest.mark.slow
async def test_many_jobs_that_write_one_document_lose_no_update(make_scheduler: Make, ready: Any) -> None:
    await ready.effects.insert_one({"_id": 1, "n": 0})
    scheduler = make_scheduler(concurrency=8)

    @scheduler.job("add", retry=1)
    async def add(ctx: JobContext) -> None:
        async with ctx.transaction() as tx:
            await tx.db.effects.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=tx.session)

    jobs = await scheduler.schedule_bulk([{"name": "add"}] * 16)
    await scheduler.start()
    assert {(await scheduler.wait(job.id, 60)).state for job in jobs} == {"completed"}
    assert await effects(ready) == [{"_id": 1, "n": 16}]


@pytest.mark.slow
async def test_a_conflict_on_the_jobs_own_document_runs_the_handler_again(scheduler: Scheduler, ready: Any) -> None:
    runs: list[int] = []

    @scheduler.job("x", retry=1)
    async def x(ctx: JobContext) -> None:
        runs.append(ctx.attempt)
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"_id": len(runs)}, session=tx.session)
            if len(runs) == 1:
                await ready.jobs.update_one({"_id": ObjectId(ctx.id)}, {"$set": {"touched": True}})

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, done.tries, runs) == ("completed", 1, [1, 1])
    assert await effects(ready) == [{"_id": 2}]


@pytest.mark.slow
async def test_a_transient_error_runs_the_handler_again_and_costs_no_attempt(
    scheduler: Scheduler, ready: Any, servers: Servers
) -> None:
    runs: list[int] = []

    @scheduler.job("x", retry=1)
    async def x(ctx: JobContext) -> None:
        runs.append(ctx.attempt)
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"_id": 1}, session=tx.session)

    await scheduler.start()
    fault = {"failCommands": ["insert"], "errorCode": 251, "errorLabels": ["TransientTransactionError"]}
    with servers.fail_point("failCommand", {"times": 1}, **fault, namespace=f"{ready.name}.effects"):
        done = await ended(scheduler, "x")
    assert (done.state, done.tries, done.token, runs) == ("completed", 1, 1, [1, 1])
    assert await effects(ready) == [{"_id": 1}]


async def test_all_runs_of_an_attempt_and_their_pauses_have_one_timeout(scheduler: Scheduler, ready: Any) -> None:
    runs: list[int] = []

    @scheduler.job("x", retry=1, timeout=0.3)
    async def x(ctx: JobContext) -> None:
        runs.append(ctx.attempt)
        async with ctx.transaction():
            error = OperationFailure("a conflict", 112)
            error._add_error_label("TransientTransactionError")
            raise error

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert done.error is not None and len(runs) < 20
    assert (done.error.type, done.error.message) == (
        "Timeout",
        "The attempt took longer than its timeout of 0.3 s.",
    )


@pytest.mark.slow
async def test_a_commit_whose_reply_is_lost_counts_once(scheduler: Scheduler, ready: Any, servers: Servers) -> None:
    runs: list[int] = []

    @scheduler.job("x", retry=1)
    async def x(ctx: JobContext) -> None:
        runs.append(ctx.attempt)
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"_id": len(runs)}, session=tx.session)

    await scheduler.start()
    fault = {"failCommands": ["commitTransaction"], "closeConnection": True}
    with servers.fail_point("failCommand", {"times": 1}, **fault, appName="mainspring"):
        done = await ended(scheduler, "x")
    assert (done.state, done.tries, runs) == ("completed", 1, [1])
    assert await effects(ready) == [{"_id": 1}]


async def test_a_child_job_can_be_part_of_the_handlers_transaction(scheduler: Scheduler, ready: Any) -> None:
    @scheduler.job("parent", retry=Retry(attempts=2, delay=0))
    async def parent(ctx: JobContext) -> None:
        async with ctx.transaction() as tx:
            child = await ctx.schedule("child", {"n": ctx.attempt}, session=tx.session, delay=3600)
            tx.result = child.id
            if ctx.attempt == 1:
                raise ValueError("rolled back")

    @scheduler.job("parent-thread")
    def parent_in_thread(ctx: sync.JobContext) -> None:
        with ctx.transaction() as tx:
            tx.result = ctx.schedule("child", {"n": 3}, session=tx.session, delay=3600).id

    await scheduler.start()
    for name, number in (("parent", 2), ("parent-thread", 3)):
        done = await ended(scheduler, name)
        child = await scheduler.get_job(done.result)
        assert (child.parent_id, child.data) == (done.id, {"n": number})
    assert len([job async for job in scheduler.jobs(name="child")]) == 2


@pytest.mark.slow
async def test_a_transaction_longer_than_the_lease_commits_nothing(make_scheduler: Make, ready: Any) -> None:
    scheduler = make_scheduler(lease=0.6)

    @scheduler.job("x", retry=Retry(attempts=2, delay=0))
    async def x(ctx: JobContext) -> int:
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"_id": ctx.attempt}, session=tx.session)
            if ctx.attempt == 1:
                await asyncio.sleep(30)
            tx.result = ctx.attempt
        return 0

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, done.result) == ("completed", 2)
    assert [attempt.outcome for attempt in done.attempts] == ["lost", "completed"]
    assert await effects(ready) == [{"_id": 2}]


# -- the caller's transaction --------------------------------------------------------------------------------------


async def test_a_job_scheduled_in_a_transaction_exists_if_and_only_if_it_commits(
    scheduler: Scheduler, ready: Any
) -> None:
    async with scheduler.transaction() as tx:
        await tx.db.effects.insert_one({"_id": 1}, session=tx.session)
        kept = await scheduler.schedule("x", {"a": 1}, session=tx.session)
        assert [job async for job in scheduler.jobs()] == []
    with pytest.raises(ValueError, match="changed my mind"):
        async with scheduler.transaction() as tx:
            await tx.db.effects.insert_one({"_id": 2}, session=tx.session)
            await scheduler.schedule("x", session=tx.session)
            raise ValueError("changed my mind")
    assert [job.id async for job in scheduler.jobs()] == [kept.id]
    assert await effects(ready) == [{"_id": 1}]


async def test_a_job_of_a_transaction_runs_once_it_is_committed(scheduler: Scheduler) -> None:
    @scheduler.job("x")
    async def x(a: int) -> int:
        return a

    await scheduler.start()
    async with scheduler.transaction() as tx:
        jobs = await scheduler.schedule_bulk([{"name": "x", "data": {"a": a}} for a in (1, 2)], session=tx.session)
    assert [(await scheduler.wait(job.id, 60)).result for job in jobs] == [1, 2]


async def test_a_session_of_the_clients_own_will_do(scheduler: Scheduler) -> None:
    await scheduler.connect()
    async with scheduler.client.start_session() as session, await session.start_transaction():
        job = await scheduler.schedule("x", session=session)
    assert (await scheduler.get_job(job.id)).state == "pending"


async def test_a_session_of_a_client_that_was_handed_in_will_do(uri: str) -> None:
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        scheduler = Scheduler(client=client)
        await scheduler.connect()
        async with client.start_session() as session, await session.start_transaction():
            job = await scheduler.schedule("x", session=session)
        assert (await scheduler.get_job(job.id)).state == "pending"
        await scheduler.stop()


async def test_a_foreign_session_is_refused_with_the_cure(scheduler: Scheduler, uri: str) -> None:
    async with AsyncMongoClient[dict[str, Any]](uri) as other, other.start_session() as session:
        for wrong in (session, "session"):
            with pytest.raises(ConfigurationError, match=r"session must come from the scheduler's own client: use "):
                await scheduler.schedule("x", session=wrong)
            with pytest.raises(ConfigurationError, match=r"session must come from the scheduler's own client"):
                await scheduler.schedule_bulk([{"name": "x"}], session=wrong)
    assert [job async for job in scheduler.jobs()] == []


async def test_a_refused_job_in_a_transaction_leaves_the_choice_to_the_caller(scheduler: Scheduler) -> None:
    async with scheduler.transaction() as tx:
        with pytest.raises(InvalidJob):
            await scheduler.schedule("x", {"blob": "x" * 300_000}, session=tx.session)
        job = await scheduler.schedule("x", session=tx.session)
    assert [found.id async for found in scheduler.jobs()] == [job.id]
