"""Debounce and throttle: the last of a burst runs, or the first in a window does; in bulk, in a race, after errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from harness.inside import inside
from harness.listening import Listener
from harness.looking import Database, count_jobs
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import BulkError, InvalidJob, InvalidSchedule, Job, JobContext, Retry, Scheduler, Snooze, Unavailable
from mainspring.clock import ManualClock
from mainspring.model.jobs.job import PENDING
from mainspring.rules import Every
from mainspring.store.codec import document_id
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.sync import Job as BlockingJob
from mainspring.sync import Scheduler as BlockingScheduler

Make = Callable[..., Scheduler]
HOUR = 3600


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def still(make_scheduler: Make, clock: ManualClock) -> Scheduler:
    """A scheduler whose clock stands still."""
    return make_scheduler(clock=clock)


def seconds_left(job: Job, clock: ManualClock) -> float:
    return (job.run_at - clock.now()).total_seconds()


async def pending(scheduler: Scheduler) -> list[Job]:
    return [job async for job in scheduler.jobs(state="pending")]


async def claimed(scheduler: Scheduler, job: Job) -> None:
    """Make a pending job running, as a worker would."""
    store = inside(scheduler).open_store
    document = await store.jobs.get(document_id(job.id))
    assert len((await store.claims.claim([StoredJob(document)], "worker", 60, lambda _: 3)).jobs) == 1


# -- a burst -------------------------------------------------------------------------------------------------------


async def test_each_call_of_a_burst_changes_the_job_that_waits_and_puts_it_off(
    still: Scheduler, clock: ManualClock, db: Database
) -> None:
    first = await still.schedule("index", {"n": 0}, debounce=5)
    assert (first.deduplicated, seconds_left(first, clock)) == (False, 5)
    for n in range(1, 4):
        clock.advance(4)
        job = await still.schedule("index", {"n": n}, debounce=timedelta(seconds=5))
        assert (job.id, job.deduplicated, job.data) == (first.id, True, {"n": n})
        assert seconds_left(job, clock) == 5
    assert await count_jobs(db) == 1


async def test_the_burst_is_as_long_as_its_last_call_says(still: Scheduler, clock: ManualClock) -> None:
    await still.schedule("index", debounce=500)
    assert seconds_left(await still.schedule("index", debounce=5), clock) == 5


async def test_a_call_without_data_leaves_none(still: Scheduler) -> None:
    await still.schedule("index", {"n": 0}, debounce=5)
    assert (await still.schedule("index", debounce=5)).data == {}


async def test_options_that_are_given_change_the_job_and_the_others_stay(still: Scheduler, clock: ManualClock) -> None:
    options: dict[str, Any] = {"priority": 2, "queue": "a", "tags": ["x"], "timeout": 3, "retry": 7}
    await still.schedule("index", debounce=5, **options)
    job = await still.schedule("index", debounce=5, tags=["y"], start_within=60)
    assert (job.priority, job.queue, job.tags, job.timeout) == (2, "a", ("y",), timedelta(seconds=3))
    assert job.start_within == timedelta(minutes=1)
    later = clock.now() + timedelta(hours=1)
    job = await still.schedule("index", debounce=5, priority=9, queue="b", timeout=4, expires_at=later, parent_id="p")
    assert (job.priority, job.queue, job.tags, job.timeout) == (9, "b", ("y",), timedelta(seconds=4))
    assert (job.expires_at, job.parent_id) == (later, "p")


async def test_a_handlers_defaults_do_not_count_as_given(still: Scheduler) -> None:
    @still.job("index", queue="slow", priority=8)
    async def index(n: int) -> None: ...

    job = await still.schedule("index", {"n": 1}, debounce=5)
    assert (job.queue, job.priority) == ("slow", 8)
    await still.schedule("index", {"n": 2}, debounce=5, queue="fast", priority=1)
    job = await still.schedule("index", {"n": 3}, debounce=5)
    assert (job.queue, job.priority, job.data) == ("fast", 1, {"n": 3})


async def test_the_limit_for_the_start_moves_with_the_job(still: Scheduler, clock: ManualClock, db: Database) -> None:
    job = await still.schedule("index", debounce=5, start_within=10)
    clock.advance(4)
    await still.schedule("index", debounce=5)
    stored = await db.jobs.find_one({"_id": ObjectId(job.id)})
    assert stored is not None and stored["start_by"] == clock.now() + timedelta(seconds=15)


async def test_names_and_keys_are_bursts_of_their_own(still: Scheduler) -> None:
    jobs = [
        await still.schedule(name, debounce=5, dedupe_key=key)
        for name, key in (("a", None), ("b", None), ("a", "k"), ("a", "l"))
    ]
    assert len({job.id for job in jobs}) == 4
    other = await still.schedule("b", {"n": 1}, debounce=5, dedupe_key="k")
    assert (other.id, other.name) == (jobs[2].id, "b")


async def test_a_job_in_line_comes_to_the_gates_anew(still: Scheduler, db: Database) -> None:
    job = await still.schedule("index", debounce=5)
    store = inside(still).open_store
    await store.gates.add_to_wait_lists({"c:name:index": [document_id(job.id)]}, {"c:name:index": "full"}, {})
    await still.schedule("index", debounce=5)
    stored = await db.jobs.find_one({"_id": ObjectId(job.id)})
    assert stored is not None and stored["ready"] is True and "line" not in stored and "waiting_for" not in stored


# -- a bound for bursts --------------------------------------------------------------------------------------------


async def test_a_burst_without_end_is_bounded(still: Scheduler, clock: ManualClock) -> None:
    first = await still.schedule("index", debounce=5, debounce_max=12)
    left = []
    for _ in range(4):
        clock.advance(4)
        left.append(seconds_left(await still.schedule("index", debounce=5, debounce_max=12), clock))
    assert left == [5, 4, 0, -4]
    assert (await pending(still))[0].run_at == first.created_at + timedelta(seconds=12)


async def test_the_bound_of_a_burst_counts_from_its_first_call_whoever_gives_it(
    still: Scheduler, clock: ManualClock
) -> None:
    await still.schedule("index", debounce=5)
    clock.advance(4)
    assert seconds_left(await still.schedule("index", debounce=5, debounce_max=6), clock) == 2
    assert seconds_left(await still.schedule("index", debounce=5), clock) == 5


@pytest.mark.parametrize("how", ["claimed", "run again by hand"])
async def test_a_burst_begins_anew_when_its_job_was_claimed_or_run_again(
    still: Scheduler, clock: ManualClock, how: str
) -> None:
    job = await still.schedule("index", debounce=5, debounce_max=6)
    clock.advance(60)
    if how == "claimed":
        await claimed(still, job)
        await inside(still).open_store.rescues.rescue_from("worker")
        # It was taken from a dead worker, and has used an attempt: as if that had been given back.
        jobs = inside(still).open_store.connection.jobs
        await jobs.update_one({"_id": document_id(job.id)}, {"$set": {"tries": 0}})
    else:
        await still.cancel(job.id)
        await still.retry(job.id)
    again = await still.schedule("index", debounce=5, debounce_max=6)
    assert (again.id, seconds_left(again, clock)) == (job.id, 5)


# -- when the job has been started ---------------------------------------------------------------------------------


async def test_a_call_while_the_job_runs_makes_a_new_one_that_runs_after_it(scheduler: Scheduler) -> None:
    going = asyncio.Event()
    ran: list[int] = []

    @scheduler.job("index")
    async def index(n: int) -> None:
        ran.append(n)
        await going.wait()

    await scheduler.start()
    first = await scheduler.schedule("index", {"n": 1}, debounce=0.01)
    await eventually(lambda: ran == [1])
    second = await scheduler.schedule("index", {"n": 2}, debounce=HOUR)
    third = await scheduler.schedule("index", {"n": 3}, debounce=0.01)
    assert (second.id != first.id, second.deduplicated) == (True, False)
    assert (third.id, third.deduplicated) == (second.id, True)
    going.set()
    await scheduler.wait(third.id, 60)
    assert ran == [1, 3]


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled", "expired"])
async def test_a_call_after_the_job_has_ended_makes_a_new_one(scheduler: Scheduler, db: Database, ending: str) -> None:
    first = await scheduler.schedule("index", debounce=5)
    ended = {"$set": {"state": ending, "finished_at": datetime.now(UTC)}, "$unset": {"ready": True}}
    await db.jobs.update_one({"_id": ObjectId(first.id)}, ended)
    again = await scheduler.schedule("index", debounce=5)
    assert (again.deduplicated, again.id == first.id) == (False, False)


async def test_a_job_that_is_to_be_tried_again_keeps_its_data_and_the_call_makes_a_new_one(
    scheduler: Scheduler,
) -> None:
    @scheduler.job("index", retry=Retry(attempts=3, delay=HOUR))
    async def index(n: int) -> None:
        if n == 1:
            raise RuntimeError("no")

    await scheduler.start()
    first = await scheduler.schedule("index", {"n": 1}, debounce=0.01)

    async def failed_once() -> bool:
        return (await scheduler.get_job(first.id)).attempts != ()

    await eventually(failed_once)
    second = await scheduler.schedule("index", {"n": 2}, debounce=0.01)
    assert (second.deduplicated, second.id == first.id) == (False, False)
    await scheduler.wait(second.id, 60)
    assert (await scheduler.get_job(first.id)).data == {"n": 1}


async def test_a_job_that_came_back_without_using_an_attempt_is_changed(scheduler: Scheduler) -> None:
    ran: list[int] = []

    @scheduler.job("index")
    async def index(n: int) -> None:
        ran.append(n)
        if n == 1:
            raise Snooze(HOUR)

    await scheduler.start()
    first = await scheduler.schedule("index", {"n": 1}, debounce=0.01)

    async def snoozed() -> bool:
        job = await scheduler.get_job(first.id)
        return (job.state, job.token) == ("pending", 1)

    await eventually(snoozed)
    second = await scheduler.schedule("index", {"n": 2}, debounce=0.01)
    assert (second.id, second.deduplicated) == (first.id, True)
    await scheduler.wait(first.id, 60)
    assert ran == [1, 2]


async def test_a_worker_that_read_the_job_before_a_call_does_not_get_it_with_its_old_data(
    still: Scheduler, clock: ManualClock
) -> None:
    await still.schedule("index", {"n": 1}, debounce=5)
    clock.advance(6)
    claims = inside(still).open_store.claims
    seen = await claims.candidates("default", 10)
    await still.schedule("index", {"n": 2}, debounce=5)
    assert (await claims.claim(seen, "worker", 60, lambda _: 3)).jobs == []


async def test_a_job_that_is_just_being_run_again_by_hand_is_waited_for(scheduler: Scheduler, db: Database) -> None:
    first = await scheduler.schedule("index", {"n": 1}, debounce=HOUR)
    await scheduler.cancel(first.id)
    key = first.dedupe_key
    await db["jobs.keys"].update_one(
        {"_id": key}, {"$set": {"returning": True, "round": ObjectId(), "at": datetime.now(UTC)}}
    )
    call = asyncio.ensure_future(scheduler.schedule("index", {"n": 2}, debounce=HOUR))
    await asyncio.wait({call}, timeout=0.1)
    assert not call.done()
    await db.jobs.update_one(
        {"_id": ObjectId(first.id)}, {"$set": {"state": PENDING, "ready": True}, "$unset": {"finished_at": ""}}
    )
    job = await call
    assert (job.id, job.data, job.deduplicated) == (first.id, {"n": 2}, True)


async def test_who_died_while_running_a_job_again_does_not_hold_calls_up_for_long(
    scheduler: Scheduler, db: Database
) -> None:
    first = await scheduler.schedule("index", debounce=HOUR)
    await scheduler.cancel(first.id)
    marked = {"returning": True, "round": ObjectId(), "at": datetime.now(UTC)}
    await db["jobs.keys"].update_one({"_id": first.dedupe_key}, {"$set": marked})
    assert not (await scheduler.schedule("index", debounce=HOUR)).deduplicated


# -- in a race -----------------------------------------------------------------------------------------------------


async def test_fifty_concurrent_calls_of_two_processes_leave_one_pending_job_with_the_data_of_one_of_them(
    make_scheduler: Make, db: Database
) -> None:
    one, other = make_scheduler(), make_scheduler()
    await asyncio.gather(one.connect(), other.connect())
    jobs = await asyncio.gather(
        *((one if n % 2 else other).schedule("index", {"n": n}, debounce=HOUR) for n in range(50))
    )
    assert len({job.id for job in jobs}) == 1
    assert sum(not job.deduplicated for job in jobs) == 1
    (job,) = await pending(one)
    assert job.data["n"] in range(50) and await count_jobs(db) == 1
    last = await other.schedule("index", {"n": "last"}, debounce=HOUR)
    assert ((await one.get_job(job.id)).data, last.id) == ({"n": "last"}, job.id)


@pytest.mark.parametrize("state", ["running", "cancelled"])
@pytest.mark.slow
async def test_fifty_concurrent_calls_for_a_job_that_has_started_or_ended_make_one_new_job(
    make_scheduler: Make, state: str
) -> None:
    one, other = make_scheduler(), make_scheduler()
    first = await one.schedule("index", debounce=HOUR)
    if state == "running":
        await claimed(one, first)
    else:
        await one.cancel(first.id)
    jobs = await asyncio.gather(
        *((one if n % 2 else other).schedule("index", {"n": n}, debounce=HOUR) for n in range(50))
    )
    assert len({job.id for job in jobs}) == 1 and jobs[0].id != first.id
    assert sum(not job.deduplicated for job in jobs) == 1
    assert [job.id for job in await pending(one)] == [jobs[0].id]


@pytest.mark.slow
async def test_while_two_workers_run_what_is_due_every_call_is_followed_by_a_run_with_its_data_or_later(
    make_scheduler: Make,
) -> None:
    producers = [make_scheduler(), make_scheduler()]
    runs: list[int] = []
    for worker in (make_scheduler(poll_interval=0.02), make_scheduler(poll_interval=0.02)):

        @worker.job("index")
        async def index(n: int) -> None:
            runs.append(n)

        await worker.start()
    told = 0
    for n in range(1, 61):
        before = len(runs)
        await producers[n % 2].schedule("index", {"n": n}, debounce=0.005)
        if n % 10 == 0:  # the end of a burst
            await eventually(lambda before=before, n=n: n in runs[before:])  # type: ignore[misc]
            told += 1
    assert told == 6 and len(runs) <= 60

    async def none_left() -> bool:
        return await pending(producers[0]) == []

    await eventually(none_left)
    assert runs[-1] == 60


# -- what errors and crashes leave behind --------------------------------------------------------------------------


@pytest.mark.parametrize("age", [0, HOUR])
async def test_a_key_whose_job_was_never_inserted_heals(scheduler: Scheduler, db: Database, age: int) -> None:
    await scheduler.connect()
    at = datetime.now(UTC) - timedelta(seconds=age)
    await db["jobs.keys"].insert_one({"_id": "index", "job": ObjectId(), "at": at})
    jobs = await asyncio.gather(*(scheduler.schedule("index", {"n": n}, debounce=HOUR) for n in range(10)))
    assert len({job.id for job in jobs}) == 1
    assert sum(not job.deduplicated for job in jobs) == 1
    key = await db["jobs.keys"].find_one({"_id": "index"})
    assert key is not None and str(key["job"]) == jobs[0].id


@pytest.mark.parametrize(("command", "collection"), [("insert", "jobs"), ("insert", "jobs.keys"), ("update", "jobs")])
@pytest.mark.parametrize("fault", [{"errorCode": 50}, {"writeConcernError": {"code": 64, "errmsg": "slow"}}])
async def test_after_an_error_that_leaves_the_outcome_open_calling_again_leaves_one_job_with_the_last_data(
    scheduler: Scheduler, servers: Servers, db: Database, command: str, collection: str, fault: dict[str, Any]
) -> None:
    """The first fault leaves it undone, the second one done; the client cannot tell."""
    await scheduler.connect()
    if command == "update":
        await scheduler.schedule("index", {"n": 0}, debounce=HOUR)
    where = {"failCommands": [command], "namespace": f"{db.name}.{collection}"}
    with servers.fail_point("failCommand", "alwaysOn", **where, **fault), pytest.raises(Unavailable):
        await scheduler.schedule("index", {"n": 1}, debounce=HOUR)
    job = await scheduler.schedule("index", {"n": 2}, debounce=HOUR)
    assert [(one.id, one.data) for one in await pending(scheduler)] == [(job.id, {"n": 2})]
    assert await count_jobs(db) == 1


# -- in bulk -------------------------------------------------------------------------------------------------------


async def test_in_bulk_the_last_item_of_each_key_counts_and_all_are_the_same_job(
    scheduler: Scheduler, db: Database
) -> None:
    stored = await scheduler.schedule("index", {"n": "old"}, debounce=HOUR, dedupe_key="there")
    items = [
        {"name": "index", "data": {"n": n}, "debounce": HOUR, "dedupe_key": key}
        for n, key in enumerate(["a", "there", "a", "b", "there", "a"])
    ]
    jobs = await scheduler.schedule_bulk([*items, {"name": "plain"}])
    assert [job.data.get("n") for job in jobs] == [5, 4, 5, 3, 4, 5, None]
    assert [job.deduplicated for job in jobs] == [False, True, True, False, True, True, False]
    assert jobs[1].id == jobs[4].id == stored.id and jobs[0].id == jobs[2].id == jobs[5].id
    assert await count_jobs(db, state="pending") == 4


@pytest.mark.slow
async def test_in_a_large_bulk_the_last_item_of_a_key_counts_wherever_it_stands(
    scheduler: Scheduler, db: Database
) -> None:
    items: list[dict[str, Any]] = [{"name": "plain"} for _ in range(2500)]
    for n in (0, 999, 1500, 2499):
        items[n] = {"name": "index", "data": {"n": n}, "debounce": HOUR}
    jobs = await scheduler.schedule_bulk(items)
    assert {jobs[n].id for n in (0, 999, 1500, 2499)} == {jobs[0].id} and jobs[0].data == {"n": 2499}
    assert await count_jobs(db, name="index") == 1 and await count_jobs(db, name="plain") == 2496


@pytest.mark.slow
async def test_a_debounced_bulk_takes_a_few_statements(uri: str) -> None:
    listener = Listener()
    async with AsyncMongoClient[dict[str, Any]](uri, event_listeners=[listener]) as client:
        scheduler = Scheduler(client=client)
        await scheduler.connect()
        listener.clear()
        items = [{"name": "index", "data": {"n": 1}, "debounce": HOUR, "dedupe_key": f"k{n}"} for n in range(500)]
        jobs = await scheduler.schedule_bulk(items)
        again = await scheduler.schedule_bulk([{**item, "data": {"n": 2}} for item in items])
        assert not any(job.deduplicated for job in jobs) and all(job.deduplicated for job in again)
        assert [job.id for job in again] == [job.id for job in jobs]
        assert all(job.data == {"n": 2} for job in again)
        assert len(listener.commands) <= 12
        await scheduler.stop()


async def test_in_bulk_jobs_that_have_started_get_successors_and_those_that_wait_are_changed(
    scheduler: Scheduler,
) -> None:
    items = [{"name": "index", "data": {"n": 1}, "debounce": HOUR, "dedupe_key": f"k{n}"} for n in range(6)]
    first = await scheduler.schedule_bulk(items)
    for job in first[:3]:
        await claimed(scheduler, job)
    second = await scheduler.schedule_bulk([{**item, "data": {"n": 2}} for item in items])
    assert [job.deduplicated for job in second] == [False] * 3 + [True] * 3
    assert [one.id == other.id for one, other in zip(first, second, strict=True)] == [False] * 3 + [True] * 3
    assert {job.data["n"] for job in await pending(scheduler)} == {2}


async def test_in_bulk_a_wrong_debounce_is_refused_and_the_others_are_stored(
    scheduler: Scheduler, db: Database
) -> None:
    with pytest.raises(BulkError) as refused:
        await scheduler.schedule_bulk([{"name": "a", "debounce": 0}, {"name": "b", "debounce": 5}])
    assert list(refused.value.errors) == [0] and "debounce must be more than 0" in str(refused.value)
    assert await count_jobs(db) == 1


# -- elsewhere -----------------------------------------------------------------------------------------------------


async def test_in_a_transaction_debounce_is_refused_with_its_cure(scheduler: Scheduler, db: Database) -> None:
    await scheduler.connect()
    async with scheduler.transaction() as tx:
        with pytest.raises(InvalidJob, match=r"debounce cannot be part of a transaction.*has committed"):
            await scheduler.schedule("index", debounce=5, session=tx.session)
        with pytest.raises(BulkError) as refused:
            await scheduler.schedule_bulk([{"name": "a"}, {"name": "b", "debounce": 5}], session=tx.session)
        assert list(refused.value.errors) == [1]
    assert await count_jobs(db) == 0


@pytest.mark.parametrize("option", ["debounce", "throttle"])
async def test_a_schedule_is_neither_debounced_nor_throttled(scheduler: Scheduler, option: str) -> None:
    options: dict[str, Any] = {option: 5}
    with pytest.raises(InvalidSchedule, match="is for a single job; with repeat, each firing makes one job"):
        await scheduler.schedule("index", repeat=Every("1h"), **options)


async def test_a_handler_can_debounce_its_children(scheduler: Scheduler) -> None:
    @scheduler.job("parent")
    async def parent(ctx: JobContext, n: int) -> str:
        return (await ctx.schedule("child", {"n": n}, debounce=HOUR)).id

    await scheduler.start()
    jobs = [await scheduler.wait((await scheduler.schedule("parent", {"n": n})).id, 60) for n in range(2)]
    assert jobs[0].result == jobs[1].result
    child = await scheduler.get_job(jobs[1].result)
    assert (child.data, child.parent_id) == ({"n": 1}, jobs[1].id)


async def test_the_blocking_face_debounces_and_throttles_too(uri: str) -> None:
    def calls() -> list[BlockingJob]:
        scheduler = BlockingScheduler(uri)
        try:
            found = [scheduler.schedule("index", {"n": n}, debounce=HOUR) for n in range(2)]
            return found + [scheduler.schedule("report", {"n": n}, throttle=HOUR) for n in range(2)]
        finally:
            scheduler.stop()

    jobs = await asyncio.to_thread(calls)
    assert [job.deduplicated for job in jobs] == [False, True, False, True]
    assert [job.data["n"] for job in jobs] == [0, 1, 0, 0]


# -- throttle ------------------------------------------------------------------------------------------------------


async def test_of_the_calls_in_a_window_the_first_makes_a_job_and_the_others_get_it(
    still: Scheduler, clock: ManualClock, db: Database
) -> None:
    first = await still.schedule("report", {"n": 1}, throttle=60)
    clock.advance(59)
    same = await still.schedule("report", {"n": 2}, throttle=60)
    assert (first.deduplicated, same.deduplicated) == (False, True)
    assert (same.id, same.data) == (first.id, {"n": 1})
    clock.advance(2)
    assert not (await still.schedule("report", throttle=60)).deduplicated
    assert await count_jobs(db) == 2


async def test_a_window_holds_back_calls_also_when_its_job_has_ended(still: Scheduler, clock: ManualClock) -> None:
    first = await still.schedule("report", throttle=60, dedupe_key="k")
    await still.cancel(first.id)
    clock.advance(30)
    again = await still.schedule("report", throttle=60, dedupe_key="k")
    assert (again.id, again.state, again.deduplicated) == (first.id, "cancelled", True)


async def test_throttled_jobs_can_be_part_of_a_bulk_and_of_a_transaction(scheduler: Scheduler) -> None:
    jobs = await scheduler.schedule_bulk([{"name": "a", "throttle": HOUR}, {"name": "a", "throttle": HOUR}])
    assert [job.deduplicated for job in jobs] == [False, True]
    async with scheduler.transaction() as tx:
        same = await scheduler.schedule("a", throttle=HOUR, session=tx.session)
    assert (same.id, same.deduplicated) == (jobs[0].id, True)


async def test_of_fifty_concurrent_throttled_calls_of_two_processes_one_stores_its_job(
    make_scheduler: Make, db: Database
) -> None:
    one, other = make_scheduler(), make_scheduler()
    await asyncio.gather(one.connect(), other.connect())
    jobs = await asyncio.gather(*((one if n % 2 else other).schedule("report", throttle=60) for n in range(50)))
    assert len({job.id for job in jobs}) == 1 and sum(not job.deduplicated for job in jobs) == 1
    assert await count_jobs(db) == 1
