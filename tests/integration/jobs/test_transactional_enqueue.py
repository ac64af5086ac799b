"""Jobs that are part of a caller's transaction: there if and only if it commits, and announced after that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from bson import ObjectId
from pymongo.errors import OperationFailure, PyMongoError

from harness.apps import guaranteed
from harness.inside import inside
from harness.looking import Database
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import (
    BulkError,
    ConfigurationError,
    Job,
    JobContext,
    QueueFull,
    Retry,
    Scheduler,
    Unavailable,
    sync,
)
from mainspring.store.jobs.transactions import Transaction

Make = Callable[..., Scheduler]


async def ended(scheduler: Scheduler, name: str, data: dict[str, Any] | None = None, **options: Any) -> Job:
    job = await scheduler.schedule(name, data, **options)
    return await scheduler.wait(job.id, timeout=60)


async def ids(scheduler: Scheduler, name: str | None = None) -> list[str]:
    return [job.id async for job in scheduler.jobs(name=name)]


@pytest.fixture
async def ready(db: Any) -> Any:
    """The database with an empty collection of effects."""
    await db.create_collection("effects")
    return db


@pytest.fixture
async def heard(scheduler: Scheduler) -> list[str]:
    """The ids of the jobs that were announced as created; the scheduler is connected."""
    announced: list[str] = []
    scheduler.on("job:created", lambda job: announced.append(job.id))
    await scheduler.connect()
    return announced


# -- announcing ----------------------------------------------------------------------------------------------------


async def test_a_job_is_announced_after_the_commit_and_only_then(scheduler: Scheduler, heard: list[str]) -> None:
    async with scheduler.transaction() as tx:
        one = await scheduler.schedule("x", session=tx.session)
        two, three = await scheduler.schedule_bulk([{"name": "x"}, {"name": "x"}], session=tx.session)
        assert heard == []
    assert heard == [one.id, two.id, three.id]


async def test_a_rolled_back_transaction_leaves_no_job_no_key_no_slot_and_no_event(
    scheduler: Scheduler, heard: list[str], ready: Database
) -> None:
    scheduler.job("limited", concurrency=1)(lambda: None)
    scheduler.job("ordered", sequence="key")(lambda key: None)
    with pytest.raises(ValueError, match="changed my mind"):
        async with scheduler.transaction() as tx:
            await tx.db.effects.insert_one({"_id": 1}, session=tx.session)
            await scheduler.schedule("limited", session=tx.session, dedupe_key="k")
            await scheduler.schedule("ordered", {"key": 1}, session=tx.session, throttle=60)
            await scheduler.schedule_bulk([{"name": "x", "dedupe_key": "b"}], session=tx.session)
            raise ValueError("changed my mind")
    assert (await ids(scheduler), heard) == ([], [])
    for collection in ("effects", "jobs.keys", "jobs.gates"):
        assert await ready[collection].find({}, hint="_id_").to_list(None) == [], collection


@pytest.mark.slow
async def test_a_job_that_was_there_already_is_not_announced_again(scheduler: Scheduler, heard: list[str]) -> None:
    first = await scheduler.schedule("x", dedupe_key="k")
    async with scheduler.transaction() as tx:
        again = await scheduler.schedule("x", dedupe_key="k", session=tx.session)
    assert (again.id, again.deduplicated, heard) == (first.id, True, [first.id])


async def test_nothing_is_announced_of_a_session_of_the_callers_own(scheduler: Scheduler, heard: list[str]) -> None:
    async with scheduler.client.start_session() as session, await session.start_transaction():
        job = await scheduler.schedule("x", session=session)
    assert (await ids(scheduler), heard) == ([job.id], [])


async def test_the_worker_of_this_process_is_told_of_the_job_after_the_commit(scheduler: Scheduler) -> None:
    await scheduler.start()
    hinted: list[Any] = []
    inside(scheduler).worker.hint = lambda hint: hinted.append(str(hint.id))  # type: ignore[method-assign]
    async with scheduler.transaction() as tx:
        job = await scheduler.schedule("nobody's", session=tx.session)
        assert hinted == []
    assert hinted == [job.id]


async def test_a_commit_whose_outcome_was_unknown_at_first_announces_once(
    scheduler: Scheduler, heard: list[str], servers: Servers
) -> None:
    fault = {"failCommands": ["commitTransaction"], "closeConnection": True, "appName": "mainspring"}
    with servers.fail_point("failCommand", {"times": 2}, **fault):
        async with scheduler.transaction() as tx:
            job = await scheduler.schedule("x", session=tx.session)
    assert (await ids(scheduler), heard) == ([job.id], [job.id])


async def test_a_child_of_the_handlers_transaction_is_announced_if_and_only_if_it_commits(
    scheduler: Scheduler, heard: list[str]
) -> None:
    inside: list[list[str]] = []

    @scheduler.job("parent", retry=Retry(attempts=2, delay=0))
    async def parent(ctx: JobContext) -> None:
        async with ctx.transaction() as tx:
            child = await ctx.schedule("child", session=tx.session, delay=3600)
            inside.append([job for job in heard if job != ctx.id])
            tx.result = child.id
            if ctx.attempt == 1:
                raise ValueError("rolled back")

    await scheduler.start()
    done = await ended(scheduler, "parent")
    await eventually(lambda: len(heard) == 2)
    assert (inside, heard) == ([[], []], [done.id, done.result])


@pytest.mark.slow
async def test_a_handler_in_a_process_of_its_own_has_children_in_its_transaction_too(
    scheduler: Scheduler, heard: list[str]
) -> None:
    for function in (guaranteed.have_child, guaranteed.have_child_blocking):
        scheduler.job(isolation="process", retry=1)(function)
    await scheduler.start()
    failed = await ended(scheduler, "have_child", {"fail": True})
    assert (failed.state, await ids(scheduler, "child")) == ("failed", [])
    done = await ended(scheduler, "have_child")
    child, again, deduplicated = done.result
    assert (again, deduplicated) == (child, True)
    stored = await scheduler.get_job(child)
    assert (stored.parent_id, stored.data) == (done.id, {"n": 1})
    blocking = await ended(scheduler, "have_child_blocking")
    await eventually(lambda: len(heard) >= 5)
    assert heard == [failed.id, done.id, child, blocking.id, *blocking.result]


# -- dedupe, throttle, limits, bounds ------------------------------------------------------------------------------


async def test_of_two_transactions_with_one_key_one_wins_and_the_other_finds_its_job(scheduler: Scheduler) -> None:
    await scheduler.connect()
    both_in = asyncio.Barrier(2)
    runs: list[int] = []

    async def put(number: int) -> Job:
        async def function(tx: Transaction) -> Job:
            runs.append(number)
            if runs.count(number) == 1:
                await tx.db["jobs"].find_one({"_id": "begin"}, session=tx.session)
                await both_in.wait()  # both see the world without the key
            return await scheduler.schedule("x", {"n": number}, dedupe_key="k", session=tx.session)

        return await scheduler.in_transaction(function)

    one, two = await asyncio.gather(put(1), put(2))
    assert one.id == two.id and one.deduplicated != two.deduplicated
    assert await ids(scheduler) == [one.id]
    assert len(runs) >= 3


async def test_the_drivers_own_retries_work_with_jobs_and_keys(scheduler: Scheduler) -> None:
    """A conflict over a key must reach them as the driver labels it."""
    await scheduler.connect()
    runs: list[str] = []

    async def put(session: Any) -> Job:
        runs.append("run")
        await scheduler.client.get_default_database()["jobs"].find_one({"_id": "begin"}, session=session)
        if len(runs) == 1:
            await scheduler.schedule("x", dedupe_key="k")
        return await scheduler.schedule("x", dedupe_key="k", session=session)

    async with scheduler.client.start_session() as session:
        job = await session.with_transaction(put)
    assert (len(runs), job.deduplicated, await ids(scheduler)) == (2, True, [job.id])


@pytest.mark.slow
async def test_a_key_of_an_open_transaction_keeps_nobody_from_it_for_good(scheduler: Scheduler) -> None:
    async with scheduler.transaction() as tx:
        await scheduler.schedule("x", dedupe_key="k", session=tx.session)
        waiting = asyncio.create_task(scheduler.schedule("x", dedupe_key="k"))
        await tx.session.abort_transaction()
        job = await waiting
        await tx.session.start_transaction()
    assert (job.deduplicated, await ids(scheduler)) == (False, [job.id])


async def test_a_throttled_job_is_made_once_in_its_window_across_transactions(scheduler: Scheduler) -> None:
    jobs = []
    for _ in range(2):
        async with scheduler.transaction() as tx:
            jobs += [await scheduler.schedule("x", throttle=60, session=tx.session) for _ in range(2)]
    assert [job.deduplicated for job in jobs] == [False, True, True, True]
    assert await ids(scheduler) == [jobs[0].id]


async def test_items_of_one_key_in_a_bulk_are_one_job(scheduler: Scheduler, heard: list[str]) -> None:
    async with scheduler.transaction() as tx:
        items = [{"name": "x", "dedupe_key": key} for key in ("a", "b", "a")]
        one, two, three = await scheduler.schedule_bulk(items, session=tx.session)
    assert one.id == three.id != two.id and three.deduplicated
    assert heard == [one.id, two.id]


@pytest.mark.slow
async def test_limits_sequences_and_turns_hold_for_jobs_of_transactions(make_scheduler: Make) -> None:
    scheduler = make_scheduler(concurrency=10)
    going = {"limited": 0, "ordered": 0}
    most = dict(going)
    order: list[int] = []

    async def run(name: str) -> None:
        going[name] += 1
        most[name] = max(most[name], going[name])
        await asyncio.sleep(0.005)
        going[name] -= 1

    @scheduler.job("limited", concurrency=2)
    async def limited() -> None:
        await run("limited")

    @scheduler.job("ordered", sequence="key")
    async def ordered(key: str, n: int) -> None:
        order.append(n)
        await run("ordered")

    @scheduler.job("fair", fair="key")
    async def fair(key: str) -> None: ...

    await scheduler.start()
    jobs: list[Job] = []
    async with scheduler.transaction() as tx:
        items: list[dict[str, Any]] = [{"name": "limited"}] * 10
        items += [{"name": "ordered", "data": {"key": "a", "n": n}} for n in range(6)]
        items += [{"name": "fair", "data": {"key": key}} for key in "aabb"]
        jobs = await scheduler.schedule_bulk(items, session=tx.session)
    states = {(await scheduler.wait(job.id, 60)).state for job in jobs}
    assert (states, order) == ({"completed"}, list(range(6)))
    assert most["limited"] <= 2 and most["ordered"] == 1


async def test_a_job_that_a_late_commit_puts_first_in_its_sequence_waits_for_the_one_that_runs(
    scheduler: Scheduler,
) -> None:
    going: list[int] = []
    order: list[tuple[int, ...]] = []
    go_on = asyncio.Event()

    @scheduler.job("ordered", sequence="key")
    async def ordered(key: str, n: int) -> None:
        going.append(n)
        order.append(tuple(going))
        await go_on.wait()
        going.remove(n)

    await scheduler.start()
    async with scheduler.transaction() as tx:
        first = await scheduler.schedule("ordered", {"key": "a", "n": 1}, session=tx.session)
        second = await scheduler.schedule("ordered", {"key": "a", "n": 2})
        await eventually(lambda: order)
    await eventually(lambda: _in_line(scheduler, first.id))
    go_on.set()
    for job in (first, second):
        await scheduler.wait(job.id, 60)
    assert order == [(2,), (1,)]


async def _in_line(scheduler: Scheduler, job_id: str) -> bool:
    return (await scheduler.get_job(job_id)).waiting_for is not None


@pytest.mark.slow
async def test_two_workers_that_each_found_another_job_first_do_not_run_both_at_once(make_scheduler: Make) -> None:
    """As when a commit has brought one in between. A worker that sees the other after the claim gives its job back."""
    going = [0]
    most = [0]
    both_looked = asyncio.Barrier(2)

    async def ordered(key: str, n: int) -> None:
        going[0] += 1
        most[0] = max(most[0], going[0])
        await asyncio.sleep(0.2)
        going[0] -= 1

    workers = [make_scheduler(queues=["0"]), make_scheduler(queues=["1"])]
    for worker in workers:
        worker.job("ordered", sequence="key")(ordered)
    jobs = [await workers[0].schedule("ordered", {"key": "a", "n": n}, queue=str(n)) for n in range(2)]
    for worker, job in zip(workers, jobs, strict=True):
        await _deceive((await inside(worker).store()).gates, job, both_looked)
    for worker in workers:
        await worker.start()
    assert [(await workers[0].wait(job.id, 60)).state for job in jobs] == ["completed"] * 2
    assert most == [1]


async def _deceive(gates: Any, job: Job, both_looked: asyncio.Barrier) -> None:
    """Let a worker find this job first, once and for the same moment as the other worker."""
    first_of = gates.first_of

    async def deceived(turns: Any) -> dict[str, Any]:
        if not any(gate.sequence for gate in turns):
            return {}
        gates.first_of = first_of
        await both_looked.wait()
        return {turn.sequence: ObjectId(job.id) for turn in turns}

    gates.first_of = deceived


async def test_a_full_queue_refuses_jobs_of_transactions_at_once(scheduler: Scheduler) -> None:
    scheduler.queues.limit("default", max_pending=1, when_full="wait")
    await scheduler.schedule("x")
    async with scheduler.transaction() as tx:
        with pytest.raises(QueueFull):
            await scheduler.schedule("x", session=tx.session)
        with pytest.raises(BulkError, match="pending jobs, its maximum"):
            await scheduler.schedule_bulk([{"name": "x"}], session=tx.session)


# -- sessions that will not do -------------------------------------------------------------------------------------


async def test_a_session_without_a_transaction_is_refused_with_the_cure(scheduler: Scheduler) -> None:
    await scheduler.connect()
    async with scheduler.client.start_session() as session:
        with pytest.raises(
            ConfigurationError, match=r"session has no transaction under way, .* call start_transaction"
        ):
            await scheduler.schedule("x", session=session)
        with pytest.raises(ConfigurationError, match="session has no transaction under way"):
            await scheduler.schedule_bulk([{"name": "x"}], session=session)
    with pytest.raises(ConfigurationError, match="session has ended; schedule inside of its block"):
        await scheduler.schedule("x", session=session)
    async with scheduler.transaction() as tx:
        pass
    with pytest.raises(ConfigurationError, match="session has ended"):
        await scheduler.schedule("x", session=tx.session)
    assert await ids(scheduler) == []


# -- running a function in a transaction ---------------------------------------------------------------------------


async def test_a_function_is_run_in_a_transaction_and_its_result_returned(
    scheduler: Scheduler, heard: list[str], ready: Any
) -> None:
    async def order(tx: Transaction) -> str:
        await tx.db.effects.insert_one({"_id": 1}, session=tx.session)
        return (await scheduler.schedule("x", session=tx.session)).id

    job_id = await scheduler.in_transaction(order)
    assert (await ids(scheduler), heard) == ([job_id], [job_id])
    assert await ready.effects.find_one({"_id": 1}) == {"_id": 1}


async def test_what_the_function_raises_aborts_the_transaction_and_is_raised(scheduler: Scheduler, ready: Any) -> None:
    runs: list[int] = []

    async def fail(tx: Transaction) -> None:
        runs.append(1)
        await tx.db.effects.insert_one({"_id": 1}, session=tx.session)
        raise ValueError("changed my mind")

    with pytest.raises(ValueError, match="changed my mind"):
        await scheduler.in_transaction(fail)
    assert (runs, await ready.effects.find_one({"_id": 1})) == ([1], None)


@pytest.mark.parametrize("how", [{"errorCode": 112}, {"errorCode": 251}, {"closeConnection": True}], ids=str)
async def test_the_whole_function_is_run_again_after_a_transient_error(
    scheduler: Scheduler, heard: list[str], ready: Any, servers: Servers, how: dict[str, Any]
) -> None:
    runs: list[int] = []

    async def order(tx: Transaction) -> str:
        runs.append(1)
        job = await scheduler.schedule("x", session=tx.session)
        await tx.db.effects.insert_one({"_id": len(runs)}, session=tx.session)
        return job.id

    fault = {"failCommands": ["insert"], **how, "errorLabels": ["TransientTransactionError"]}
    with servers.fail_point("failCommand", {"times": 3}, **fault, namespace=f"{ready.name}.effects"):
        job_id = await scheduler.in_transaction(order)
    assert (len(runs), await ids(scheduler), heard) == (4, [job_id], [job_id])
    assert await ready.effects.find({"_id": {"$gte": 0}}).to_list(None) == [{"_id": 4}]


async def test_only_the_commit_is_asked_for_again_while_its_outcome_is_unknown(
    scheduler: Scheduler, ready: Any, servers: Servers
) -> None:
    runs: list[int] = []

    async def insert(tx: Transaction) -> None:
        runs.append(1)
        await tx.db.effects.insert_one({"_id": len(runs)}, session=tx.session)

    await scheduler.connect()
    fault = {"failCommands": ["commitTransaction"], "errorCode": 64, "appName": "mainspring"}
    with servers.fail_point("failCommand", {"times": 5}, **fault):
        await scheduler.in_transaction(insert)
    assert runs == [1]
    assert await ready.effects.find({"_id": {"$gte": 0}}).to_list(None) == [{"_id": 1}]


async def test_a_transaction_that_meets_nothing_but_conflicts_is_given_up_and_says_that_nothing_is_stored(
    scheduler: Scheduler, heard: list[str], ready: Any, servers: Servers
) -> None:
    async def insert(tx: Transaction) -> None:
        await scheduler.schedule("x", session=tx.session)
        await tx.db.effects.insert_one({"_id": 1}, session=tx.session)

    fault = {"failCommands": ["insert"], "errorCode": 251, "errorLabels": ["TransientTransactionError"]}
    with (
        servers.fail_point("failCommand", "alwaysOn", **fault, namespace=f"{ready.name}.effects"),
        pytest.raises(Unavailable, match=r"for 0.3 s and was given up; nothing of it is stored: ") as error,
    ):
        await scheduler.in_transaction(insert, timeout=0.3)
    assert isinstance(error.value.__cause__, OperationFailure)
    assert (await ids(scheduler), heard) == ([], [])


async def test_a_commit_that_stays_unknown_is_given_up_and_says_so(scheduler: Scheduler, servers: Servers) -> None:
    made: list[str] = []

    async def put(tx: Transaction) -> None:
        made.append((await scheduler.schedule("x", session=tx.session)).id)

    await scheduler.connect()
    late = {"code": 64, "errmsg": "waiting for replication timed out"}
    fault = {"failCommands": ["commitTransaction"], "writeConcernError": late, "appName": "mainspring"}
    with (
        servers.fail_point("failCommand", "alwaysOn", **fault),
        pytest.raises(Unavailable, match=r"Whether the transaction has committed could not be learned within 0.3 s"),
    ):
        await scheduler.in_transaction(put, timeout=0.3)
    assert await ids(scheduler) == made  # it had, and that must not be called "not done"


@pytest.mark.slow
async def test_many_functions_that_want_one_document_all_get_their_turn(scheduler: Scheduler, ready: Any) -> None:
    await ready.effects.insert_one({"_id": 1, "n": 0})

    async def add(tx: Transaction) -> None:
        await tx.db.effects.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=tx.session)

    await asyncio.gather(*(scheduler.in_transaction(add) for _ in range(12)))
    assert await ready.effects.find_one({"_id": 1}) == {"_id": 1, "n": 12}


async def test_a_function_of_the_wrong_kind_is_refused(scheduler: Scheduler, uri: str) -> None:
    with pytest.raises(ConfigurationError, match="takes an async function"):
        await scheduler.in_transaction(lambda tx: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigurationError, match="timeout must be"):
        await scheduler.in_transaction(lambda tx: None, timeout=-1)  # type: ignore[arg-type, return-value]

    async def wrong(tx: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="takes a plain function"):
        sync.Scheduler(uri).in_transaction(wrong)  # type: ignore[unused-coroutine]


@pytest.mark.slow
async def test_the_blocking_face_runs_a_function_in_a_transaction_in_the_callers_thread(
    uri: str, ready: Any, servers: Servers
) -> None:
    heard: list[str] = []
    threads: list[int] = []

    def work() -> tuple[str, list[str]]:
        scheduler = sync.Scheduler(uri)
        scheduler.on("job:created", lambda job: heard.append(job.id))

        def order(tx: Any) -> str:
            threads.append(threading.get_ident())
            tx.db.effects.insert_one({"_id": len(threads)}, session=tx.session)
            (job,) = scheduler.schedule_bulk([{"name": "x"}], session=tx.session)
            assert heard == []
            return job.id

        try:
            made = scheduler.in_transaction(order)
            with pytest.raises(ValueError, match="changed"):
                scheduler.in_transaction(lambda tx: _refuse(scheduler, tx))
            assert threads == [threading.get_ident()] * 2
            return made, [job.id for job in scheduler.jobs()]
        finally:
            scheduler.stop()

    fault = {"failCommands": ["insert"], "errorCode": 251, "errorLabels": ["TransientTransactionError"]}
    with servers.fail_point("failCommand", {"times": 1}, **fault, namespace=f"{ready.name}.effects"):
        made, stored = await asyncio.to_thread(work)
    assert (stored, heard) == ([made], [made])
    assert await ready.effects.find({"_id": {"$gte": 0}}).to_list(None) == [{"_id": 2}]


def _refuse(scheduler: Any, tx: Any) -> None:
    scheduler.schedule("x", session=tx.session)
    raise ValueError("changed my mind")


@pytest.mark.slow
async def test_an_error_of_the_driver_in_a_transaction_keeps_its_label(scheduler: Scheduler, servers: Servers) -> None:
    await scheduler.connect()
    name = scheduler.client.get_default_database().name
    fault = {"failCommands": ["find", "insert"], "errorCode": 112, "errorLabels": ["TransientTransactionError"]}
    for collection, key in (("jobs.keys", "k"), ("jobs", None)):
        with pytest.raises(PyMongoError) as error:
            async with scheduler.transaction() as tx:
                with servers.fail_point("failCommand", {"times": 1}, **fault, namespace=f"{name}.{collection}"):
                    await scheduler.schedule("x", session=tx.session, dedupe_key=key)
        assert error.value.has_error_label("TransientTransactionError")
