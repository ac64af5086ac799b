"""What `guarantee` promises: at most once, exactly once; and the key by which the outside knows a job."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from harness.apps import guaranteed
from harness.inside import documents_of, inside
from harness.looking import Database
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import (
    BulkError,
    ConfigurationError,
    Every,
    Fail,
    InvalidJob,
    Job,
    JobContext,
    Retry,
    RetryAfter,
    Scheduler,
    Snooze,
    UnsupportedServer,
    sync,
)
from mainspring.clock import ManualClock
from mainspring.config.settings import Settings
from mainspring.model.jobs.draft import make_draft
from mainspring.store import Store
from mainspring.store.connection import Connection, Document

Make = Callable[..., Scheduler]
LEASE = 60.0
UNKNOWN = "it may have done all of its work, some of it, or none. Find out which; retry("


async def ended(scheduler: Scheduler, name: str, data: dict[str, Any] | None = None, **options: Any) -> Job:
    job = await scheduler.schedule(name, data, **options)
    return await scheduler.wait(job.id, timeout=60)


def error_of(job: Job) -> tuple[str, str]:
    assert job.error is not None
    return job.error.type, job.error.message


@pytest.fixture
async def ready(db: Any) -> Any:
    """The database with an empty collection of effects."""
    await db.create_collection("effects")
    return db


# -- at most once: the handler ends by itself ----------------------------------------------------------------------


@pytest.mark.parametrize("how", [ValueError("broken"), RetryAfter(0), TimeoutError("late"), Fail("no")], ids=repr)
async def test_a_job_that_executes_at_most_once_is_not_tried_again_when_its_handler_fails(
    make_scheduler: Make, how: Exception
) -> None:
    scheduler = make_scheduler(retry=Retry(attempts=5, delay=0))
    runs: list[int] = []

    @scheduler.job("x", guarantee="at_most_once")
    async def x(ctx: JobContext) -> None:
        runs.append(ctx.attempt)
        raise how

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, len(done.attempts), runs) == ("failed", 1, [1])


async def test_a_timeout_ends_a_job_that_executes_at_most_once(scheduler: Scheduler) -> None:
    runs: list[int] = []

    @scheduler.job("x", guarantee="at_most_once", timeout=0.05)
    async def x(ctx: JobContext) -> None:
        runs.append(ctx.attempt)
        await asyncio.sleep(60)

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, error_of(done)[0], runs) == ("failed", "Timeout", [1])


async def test_the_guarantee_of_the_job_comes_before_that_of_its_handler(scheduler: Scheduler) -> None:
    runs: list[str] = []

    @scheduler.job("careful", guarantee="at_most_once")
    async def careful(ctx: JobContext) -> None:
        runs.append("careful")
        if ctx.attempt == 1:
            raise ValueError("broken")

    @scheduler.job("eager", retry=Retry(attempts=2, delay=0))
    async def eager(ctx: JobContext) -> None:
        runs.append("eager")
        if ctx.attempt == 1:
            raise ValueError("broken")

    await scheduler.start()
    again = await ended(scheduler, "careful", guarantee="at_least_once", retry=Retry(attempts=2, delay=0))
    assert (again.state, again.guarantee, runs) == ("completed", "at_least_once", ["careful"] * 2)
    runs.clear()
    once = await ended(scheduler, "eager", guarantee="at_most_once")
    assert (once.state, once.guarantee, runs) == ("failed", "at_most_once", ["eager"])


async def test_a_snooze_is_the_handlers_own_wish_and_is_granted(scheduler: Scheduler) -> None:
    runs: list[int] = []

    @scheduler.job("x", guarantee="at_most_once")
    async def x(ctx: JobContext) -> None:
        runs.append(ctx.token)
        if ctx.token == 1:
            raise Snooze(0.01)

    await scheduler.start()
    assert ((await ended(scheduler, "x")).state, runs) == ("completed", [1, 2])


async def test_a_job_that_executes_at_most_once_runs_again_by_hand_as_a_new_round(scheduler: Scheduler) -> None:
    runs: list[int] = []

    @scheduler.job("x", guarantee="at_most_once")
    async def x(ctx: JobContext) -> None:
        runs.append(ctx.token)
        if ctx.token == 1:
            raise ValueError("broken")

    await scheduler.start()
    failed = await ended(scheduler, "x")
    await scheduler.retry(failed.id)
    done = await scheduler.wait(failed.id, 60)
    assert (failed.state, done.state, done.tries, runs) == ("failed", "completed", 1, [1, 2])


async def test_a_passing_conflict_does_not_run_the_handler_again(
    scheduler: Scheduler, ready: Any, servers: Servers
) -> None:
    runs: list[int] = []

    @scheduler.job("x", guarantee="at_most_once")
    async def x(ctx: JobContext) -> None:
        runs.append(ctx.attempt)
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"_id": 1}, session=tx.session)

    await scheduler.start()
    fault = {"failCommands": ["insert"], "errorCode": 251, "errorLabels": ["TransientTransactionError"]}
    with servers.fail_point("failCommand", {"times": 1}, **fault, namespace=f"{ready.name}.effects"):
        done = await ended(scheduler, "x")
    assert (done.state, runs) == ("failed", [1])
    assert await ready.effects.find_one({"_id": 1}) is None


# -- at most once: it is not known how the handler ended --------------------------------------------------------------


async def test_a_job_taken_from_a_worker_that_is_gone_fails_and_says_that_it_may_have_run(
    make_scheduler: Make, db: Database
) -> None:
    scheduler, stranger = make_scheduler(), make_scheduler(queues=["another"])
    runs: list[int] = []
    go_on = asyncio.Event()

    @scheduler.job("x", guarantee="at_most_once")
    async def x(ctx: JobContext) -> str:
        runs.append(ctx.token)
        await go_on.wait()
        return "too late"

    lost: list[Job] = []
    failed: list[Job] = []
    scheduler.on("job:lost", lost.append)
    stranger.on("job:fail", failed.append)
    await scheduler.start()
    job = await scheduler.schedule("x", retry=1)
    await eventually(lambda: runs)
    worker = (await scheduler.get_job(job.id)).worker
    assert worker is not None
    (rescued,) = await stranger.workers.rescue(worker)  # which has no handler for it
    go_on.set()
    await eventually(lambda: lost)
    stored = await scheduler.get_job(job.id)
    kind, message = error_of(stored)
    assert (rescued.state, stored.state, kind) == ("failed", "failed", "AtMostOnce")
    assert worker in message and UNKNOWN in message and job.id in message
    assert [attempt.outcome for attempt in stored.attempts] == ["lost"]
    assert (runs, [one.id for one in failed]) == ([1], [job.id])


async def test_a_stopped_worker_does_not_give_a_started_job_to_another(make_scheduler: Make) -> None:
    scheduler = make_scheduler(concurrency=1)
    runs: list[str] = []

    @scheduler.job("x", guarantee="at_most_once")
    async def x(ctx: JobContext) -> None:
        runs.append(ctx.id)
        await asyncio.sleep(60)

    failed: list[Job] = []
    scheduler.on("job:fail", failed.append)
    await scheduler.start()
    first = await scheduler.schedule("x")
    await eventually(lambda: runs)
    second = await scheduler.schedule("x")
    await scheduler.stop(timeout=0)
    heir = make_scheduler()
    stored = await heir.get_job(first.id)
    kind, message = error_of(stored)
    assert (stored.state, kind, runs) == ("failed", "AtMostOnce", [first.id])
    assert "Its worker was stopped" in message and UNKNOWN in message
    assert [job.id for job in failed] == [first.id]
    assert (await heir.get_job(second.id)).state == "pending"


async def test_a_cancelled_job_that_executes_at_most_once_ends_as_cancelled(scheduler: Scheduler, ready: Any) -> None:
    @scheduler.job("x", guarantee="at_most_once")
    async def x(ctx: JobContext) -> None:
        await scheduler.cancel(ctx.id, "enough")
        async with ctx.transaction() as tx:  # which finds that the job is not its own to complete any more
            await tx.db.effects.insert_one({"_id": 1}, session=tx.session)

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, error_of(done)) == ("cancelled", ("Cancelled", "enough"))


@pytest.mark.slow
async def test_a_handler_that_takes_its_process_with_it_is_not_started_again(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    file = tmp_path / "started"
    scheduler.job("die", guarantee="at_most_once", isolation="process")(guaranteed.note_and_die)
    await scheduler.start()
    done = await ended(scheduler, "die", {"file": str(file)})
    kind, message = error_of(done)
    assert (done.state, kind, file.read_text()) == ("failed", "AtMostOnce", "x")
    assert "SIGKILL" in message and UNKNOWN in message


@pytest.mark.parametrize("reply", ["claim", "end"])
async def test_a_lost_reply_is_read_back_and_the_handler_is_started_once(
    make_scheduler: Make, servers: Servers, db: Database, reply: str
) -> None:
    scheduler = make_scheduler(poll_interval=3600)
    runs: list[int] = []
    fault = {"failCommands": ["update"], "writeConcernError": {"code": 64, "errmsg": "not in time"}}
    fault |= {"namespace": f"{db.name}.jobs", "appName": "mainspring"}
    lose = servers.fail_point("failCommand", {"times": 1}, **fault)

    @scheduler.job("x", guarantee="at_most_once")
    async def x(ctx: JobContext) -> str:
        runs.append(ctx.token)
        if reply == "end":
            await asyncio.to_thread(lose.__enter__)
        return "done"

    await scheduler.start()
    if reply == "claim":
        lose.__enter__()
    try:
        done = await ended(scheduler, "x")
    finally:
        lose.__exit__(None, None, None)
    assert (done.state, done.result, runs) == ("completed", "done", [1])


# -- at most once: claimed ahead -----------------------------------------------------------------------------------


@pytest.fixture
async def store(uri: str, clock: ManualClock) -> AsyncIterator[Store]:
    connection = await Connection.open(Settings(lease=LEASE), clock, uri=uri)
    yield Store(connection)
    await connection.close()


async def claimed(store: Store, count: int, free: int) -> list[Document]:
    for _ in range(count):
        await store.inserts.insert(make_draft("x", None))
    candidates = await store.claims.candidates("default", count)
    claim = store.claims.claim(candidates, "A", LEASE, lambda job: 3, free, lambda job: True)
    return documents_of(await claim)


async def test_what_was_claimed_ahead_and_surely_not_started_goes_back_to_the_queue(
    store: Store, clock: ManualClock
) -> None:
    started, ahead, begun = await claimed(store, 3, free=1)
    assert [document["ahead"] for document in (started, ahead, begun)] == [False, True, True]
    assert await store.claims.begin(begun["_id"], begun["token"])
    clock.advance(2 * LEASE)
    await store.rescues.rescue()
    states = [(await store.jobs.get(document["_id"]))["state"] for document in (started, ahead, begun)]
    assert states == ["failed", "pending", "failed"]


async def test_a_job_that_is_not_held_any_more_or_is_cancelled_is_not_begun(store: Store, clock: ManualClock) -> None:
    lost, cancelled = await claimed(store, 2, free=0)
    await store.jobs.cancel(cancelled["_id"], "enough")
    assert not await store.claims.begin(cancelled["_id"], cancelled["token"])
    clock.advance(2 * LEASE)
    await store.rescues.rescue()
    assert not await store.claims.begin(lost["_id"], lost["token"])


@pytest.mark.slow
async def test_a_job_claimed_ahead_is_known_to_be_started_before_it_is(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(concurrency=2)
    seen: dict[str, bool] = {}

    @scheduler.job("x", guarantee="at_most_once")
    async def x(ctx: JobContext) -> None:
        document = await db.jobs.find_one({"_id": ObjectId(ctx.id)}) or {}
        seen[ctx.id] = document["once"] and "ahead" not in document

    begun: list[Any] = []
    claims = (await inside(scheduler).store()).claims
    begin = claims.begin

    async def noting(*args: Any) -> bool:
        begun.append(args)
        return await begin(*args)

    claims.begin = noting  # type: ignore[assignment, method-assign]
    jobs = await scheduler.schedule_bulk([{"name": "x"}] * 300)
    await scheduler.start()
    await eventually(lambda: len(seen) == len(jobs), 60)
    assert set(seen.values()) == {True}
    assert begun  # some were claimed ahead, or this has shown nothing


# -- at most once: what is refused ---------------------------------------------------------------------------------


def test_several_attempts_are_refused_beside_at_most_once(scheduler: Scheduler) -> None:
    for retry in (2, Retry(attempts=3), Retry(attempts=1, rules={OSError: Retry(attempts=2)})):
        with pytest.raises(ConfigurationError, match=r'"at_most_once" has one attempt, and retry asks for [23]; leave'):
            scheduler.job("x", guarantee="at_most_once", retry=retry)(lambda: None)
    scheduler.job("y", guarantee="at_most_once", retry=1)(lambda: None)


async def test_several_attempts_of_a_job_are_refused_beside_at_most_once(scheduler: Scheduler) -> None:
    scheduler.job("x", guarantee="at_most_once")(lambda: None)
    refused = r'"at_most_once" has one attempt, and retry asks for 2'
    with pytest.raises(InvalidJob, match=refused):
        await scheduler.schedule("x", retry=2)
    with pytest.raises(InvalidJob, match=refused):
        await scheduler.schedule("unknown", guarantee="at_most_once", retry=2)
    with pytest.raises(BulkError, match=refused):
        await scheduler.schedule_bulk([{"name": "x", "retry": 2}])
    await scheduler.schedule("x", retry=1)


async def test_a_guarantee_that_does_not_exist_is_refused_with_the_one_that_was_meant(scheduler: Scheduler) -> None:
    with pytest.raises(ConfigurationError, match=r"Did you mean 'at_most_once'\?"):
        scheduler.job("x", guarantee="at_most_one")(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="guarantee must be one of at_least_once, at_most_once, exactly_once, not 1"):
        await scheduler.schedule("x", guarantee=1)  # type: ignore[call-overload]


async def test_a_raw_insert_may_choose_its_guarantee_and_nonsense_fails(scheduler: Scheduler, db: Database) -> None:
    @scheduler.job("x")
    async def x() -> None:
        raise ValueError("broken")

    await scheduler.connect()
    once, nonsense = ObjectId(), ObjectId()
    await db.jobs.insert_one({"_id": once, "name": "x", "state": "pending", "guarantee": "at_most_once"})
    await db.jobs.insert_one({"_id": nonsense, "name": "x", "state": "pending", "guarantee": "twice"})
    await scheduler.start()
    assert error_of(await scheduler.wait(str(once), 60))[0] == "ValueError"
    kind, message = error_of(await scheduler.wait(str(nonsense), 60))
    assert (kind, "guarantee must be one of" in message) == ("Undecodable", True)


# -- schedules -----------------------------------------------------------------------------------------------------


async def test_the_jobs_of_a_schedule_carry_its_guarantee(scheduler: Scheduler) -> None:
    schedule = await scheduler.schedule("x", repeat=Every("1h"), guarantee="at_most_once")
    assert (await schedule.trigger()).guarantee == "at_most_once"
    with pytest.raises(ConfigurationError, match="has one attempt"):
        await schedule.edit(retry=2)
    await schedule.edit(guarantee="at_least_once", retry=2)
    assert (await schedule.trigger()).guarantee == "at_least_once"


# -- exactly once --------------------------------------------------------------------------------------------------


async def test_a_handler_that_commits_completes_its_job_and_one_that_raises_before_is_tried_again(
    scheduler: Scheduler, ready: Any
) -> None:
    @scheduler.job("x", guarantee="exactly_once", retry=Retry(attempts=2, delay=0))
    async def x(ctx: JobContext) -> None:
        async with ctx.transaction() as tx:
            await tx.db.effects.insert_one({"_id": ctx.attempt}, session=tx.session)
            if ctx.attempt == 1:
                raise ValueError("not yet")

    await scheduler.start()
    done = await ended(scheduler, "x")
    assert (done.state, done.tries) == ("completed", 2)
    assert await ready.effects.find({"_id": {"$gte": 0}}).to_list(None) == [{"_id": 2}]


async def test_a_handler_that_returns_without_its_transaction_ends_its_job_as_failed(scheduler: Scheduler) -> None:
    runs: list[str] = []

    @scheduler.job("none", guarantee="exactly_once", retry=3)
    async def none() -> str:
        runs.append("none")
        return "done"

    @scheduler.job("thread", guarantee="exactly_once", retry=3)
    def thread(ctx: sync.JobContext) -> str:
        runs.append("thread")
        return "done"

    scheduler.job("swallow", retry=3)(guaranteed.swallow)
    await scheduler.start()
    for name in ("none", "thread", "swallow"):
        done = await ended(scheduler, name, guarantee="exactly_once")
        kind, message = error_of(done)
        assert (done.state, kind, len(done.attempts), done.result) == ("failed", "ExactlyOnce", 1, None)
        assert "without having committed a transaction" in message and "async with ctx.transaction()" in message
    assert runs == ["none", "thread"]


async def test_signals_end_a_job_that_executes_exactly_once_as_any_other(scheduler: Scheduler, ready: Any) -> None:
    @scheduler.job("x", guarantee="exactly_once")
    async def x(ctx: JobContext) -> None:
        if ctx.token == 1:
            raise Snooze(0)
        async with ctx.transaction():
            pass

    await scheduler.start()
    assert (await ended(scheduler, "x")).state == "completed"


@pytest.mark.slow
async def test_a_process_of_its_own_changes_nothing_about_exactly_once(scheduler: Scheduler, ready: Any) -> None:
    for function in (guaranteed.commit, guaranteed.commit_blocking, guaranteed.forget, guaranteed.swallow):
        scheduler.job(guarantee="exactly_once", isolation="process")(function)
    await scheduler.start()
    committed = [
        await ended(scheduler, "commit", {"number": 1}),
        await ended(scheduler, "commit_blocking", {"number": 2}),
    ]
    assert [job.state for job in committed] == ["completed"] * 2
    assert await ready.effects.find({"_id": {"$gte": 0}}).to_list(None) == [{"_id": 1}, {"_id": 2}]
    for name in ("forget", "swallow"):
        done = await ended(scheduler, name)
        assert (done.state, error_of(done)[0]) == ("failed", "ExactlyOnce")


@pytest.fixture
async def alone(standalone: Servers) -> AsyncIterator[Scheduler]:
    """A scheduler on a server without transactions."""
    uri = standalone.uri(f"t_{secrets.token_hex(4)}")
    scheduler = Scheduler(uri, poll_interval=0.1)
    yield scheduler
    await scheduler.stop(graceful=False)
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        await client.drop_database(client.get_default_database().name)


@pytest.mark.slow
async def test_a_standalone_server_refuses_exactly_once_with_a_sentence(alone: Scheduler) -> None:
    refused = r'guarantee="exactly_once" \(of \'x\'\) needs transactions, which a standalone MongoDB does not have'
    with pytest.raises(UnsupportedServer, match=refused):
        await alone.schedule("x", guarantee="exactly_once")
    with pytest.raises(UnsupportedServer, match=refused):
        await alone.schedule("x", repeat=Every("1h"), guarantee="exactly_once")
    with pytest.raises(BulkError, match=refused) as error:
        await alone.schedule_bulk([{"name": "x", "guarantee": "exactly_once"}, {"name": "x"}])
    assert [job is None for job in error.value.jobs] == [True, False]
    alone.job("x", guarantee="exactly_once")(lambda: None)
    with pytest.raises(UnsupportedServer, match=refused):
        await alone.schedule("x")
    with pytest.raises(UnsupportedServer, match=refused):
        await alone.start()


async def test_a_standalone_server_keeps_at_most_once(alone: Scheduler) -> None:
    runs: list[int] = []

    @alone.job("x", guarantee="at_most_once")
    async def x(ctx: JobContext) -> None:
        runs.append(ctx.attempt)
        raise ValueError("broken")

    await alone.start()
    assert ((await ended(alone, "x")).state, runs) == ("failed", [1])


# -- the key for the outside ---------------------------------------------------------------------------------------


async def test_the_idempotency_key_is_the_same_over_all_attempts_and_rounds(scheduler: Scheduler) -> None:
    keys: list[str] = []

    @scheduler.job("x", retry=Retry(attempts=2, delay=0))
    async def x(ctx: JobContext) -> None:
        keys.append(ctx.idempotency_key)
        if ctx.token == 1:
            raise ValueError("broken")

    await scheduler.start()
    done = await ended(scheduler, "x")
    await scheduler.retry(done.id)
    await scheduler.wait(done.id, 60)
    assert keys == [f"ms-{done.id}"] * 3
    other = await ended(scheduler, "x")
    assert keys[-1] == f"ms-{other.id}" != keys[0]


@pytest.mark.slow
async def test_the_idempotency_key_is_the_same_in_a_thread_and_in_a_process(scheduler: Scheduler, db: Database) -> None:
    scheduler.job("thread")(guaranteed.key_of)
    scheduler.job("process", isolation="process")(guaranteed.key_of)
    await scheduler.connect()
    await scheduler.start()
    by_id = await ended(scheduler, "thread")
    assert by_id.result == f"ms-{by_id.id}"
    found = []
    for name in ("thread", "process"):
        await db.jobs.insert_one({"_id": "order 7", "name": name, "state": "pending"})
        found.append((await scheduler.wait("order 7", 60)).result)
        await scheduler.delete("order 7")
    assert found[0] == found[1] and found[0].startswith("ms-") and "order" not in found[0]


@pytest.mark.slow
async def test_jobs_of_one_name_in_two_collections_have_two_idempotency_keys(
    make_scheduler: Make, db: Database
) -> None:
    found = []
    for collection in ("jobs", "others"):
        scheduler = make_scheduler(collection=collection)
        scheduler.job("key")(guaranteed.key_of)
        await scheduler.start()
        await db[collection].insert_one({"_id": "order 7", "name": "key", "state": "pending"})
        found.append((await scheduler.wait("order 7", 60)).result)
    assert found[0] != found[1]
