"""Documents that any program may insert: the few required fields, their defaults, and what is wrong said on the job."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest
from bson import DatetimeMS, Decimal128, Int64, ObjectId
from bson.raw_bson import RawBSONDocument

from harness.inside import inside
from harness.looking import Database, count_jobs
from harness.waiting import eventually
from mainspring import Job, JobContext, Retry, Scheduler

Document = dict[str, Any]

FAR = DatetimeMS(8_640_000_000_000_000)  # the latest date of JavaScript, beyond Python's


@pytest.fixture
async def worker(scheduler: Scheduler) -> AsyncIterator[Scheduler]:
    """A worker that tells what it was given."""

    @scheduler.job("tell", retry=Retry(attempts=2, delay=0.01))
    async def tell(ctx: JobContext) -> Document:
        return {"data": dict(ctx.data), "queue": ctx.queue, "priority": ctx.priority, "attempt": ctx.attempt}

    await scheduler.start()
    yield scheduler


async def insert(db: Database, **fields: Any) -> Any:
    """Insert a document as a program without Mainspring would; returns its id."""
    return (await db.jobs.insert_one({"name": "tell", "state": "pending", **fields})).inserted_id


async def ended(worker: Scheduler, identity: Any) -> Job:
    return await worker.wait(str(identity), timeout=60)


async def stored(db: Database, identity: Any) -> Document:
    document = await db.jobs.find_one({"_id": identity})
    assert document is not None, "it was deleted"
    return document


# -- what runs -----------------------------------------------------------------------------------------------------


async def test_a_name_and_a_state_are_enough(worker: Scheduler, db: Database) -> None:
    done = await ended(worker, await insert(db))
    assert done.state == "completed"
    assert done.result == {"data": {}, "queue": "default", "priority": 5, "attempt": 1}
    assert (done.token, len(done.attempts)) == (1, 1)
    assert abs(datetime.now(UTC) - done.created_at) < timedelta(minutes=1)


async def test_even_the_state_may_be_missing(worker: Scheduler, db: Database) -> None:
    identity = (await db.jobs.insert_one({"name": "tell"})).inserted_id
    assert (await ended(worker, identity)).state == "completed"


async def test_ids_may_be_object_ids_or_texts(worker: Scheduler, db: Database) -> None:
    identities = [ObjectId(), "order:17", "Ünïcode/…", "A" * 24, "0" * 23]
    for identity in identities:
        await insert(db, _id=identity)
    for identity in identities:
        done = await ended(worker, identity)
        assert (done.id, done.state) == (str(identity), "completed")


async def test_what_is_given_counts(worker: Scheduler, db: Database) -> None:
    identity = await insert(db, data={"a": [1, {"b": None}]}, queue="mail", priority=2, tags=["x"], colour="red")
    done = await ended(worker, identity)
    assert done.result == {"data": {"a": [1, {"b": None}]}, "queue": "mail", "priority": 2, "attempt": 1}
    assert done.tags == ("x",)
    assert (await stored(db, identity))["colour"] == "red"


async def test_a_priority_may_be_any_whole_number(worker: Scheduler, db: Database) -> None:
    inserted = {priority: await insert(db, priority=priority) for priority in (1, 3.0, Int64(7))}
    for priority, identity in inserted.items():
        done = await ended(worker, identity)
        assert done.result["priority"] == int(priority)
        assert type(done.priority) is int


async def test_null_means_missing(worker: Scheduler, db: Database) -> None:
    names = ("data", "queue", "priority", "run_at", "tags", "retry", "timeout", "start_within", "expires_at")
    done = await ended(worker, await insert(db, **dict.fromkeys(names)))
    assert done.result == {"data": {}, "queue": "default", "priority": 5, "attempt": 1}


async def test_a_later_run_at_is_waited_for(worker: Scheduler, db: Database) -> None:
    run_at = datetime.now(UTC) + timedelta(seconds=1)
    identity = await insert(db, run_at=run_at)

    async def adopted() -> bool:
        return "v" in await stored(db, identity)

    await eventually(adopted)
    assert (await worker.get_job(str(identity))).state == "pending"
    done = await ended(worker, identity)
    assert done.attempts[0].started_at is not None
    assert done.attempts[0].started_at >= run_at.replace(microsecond=run_at.microsecond // 1000 * 1000)


async def test_a_run_at_beyond_pythons_dates_is_just_very_late(worker: Scheduler, db: Database) -> None:
    identity = await insert(db, run_at=FAR)
    assert (await ended(worker, await insert(db))).state == "completed"
    job = await worker.get_job(str(identity))
    assert (job.state, job.run_at.year) == ("pending", 9999)


async def test_priorities_of_raw_inserts_order_them(scheduler: Scheduler, db: Database) -> None:
    order: list[int] = []
    scheduler.configure(concurrency=1)

    @scheduler.job("tell")
    async def tell(ctx: JobContext) -> None:
        order.append(ctx.priority)

    await scheduler.connect()
    identities = [await insert(db, priority=priority) for priority in (9, 1.0, 5, 3)]
    assert await inside(scheduler).open_store.upkeep.adopt() == (4, [])
    await scheduler.start()
    for identity in identities:
        await ended(scheduler, identity)
    assert order == [1, 3, 5, 9]


@pytest.mark.slow
async def test_a_thousand_raw_inserts_are_all_taken_up_at_once(worker: Scheduler, db: Database) -> None:
    await db.jobs.insert_many([{"name": "tell", "state": "pending"} for _ in range(1200)])

    async def all_done() -> bool:
        return await count_jobs(db, state="completed") == 1200

    await eventually(all_done, timeout=8, every=0.1)


async def test_retry_timeout_and_expiry_are_respected(worker: Scheduler, db: Database) -> None:
    @worker.job("fail")
    async def fail() -> None:
        raise ValueError("no")

    @worker.job("hang")
    async def hang() -> None:
        await asyncio.sleep(600)

    once = await insert(db, name="fail", retry={"attempts": 1})
    hung = await insert(db, name="hang", timeout=0.1, retry={"attempts": 1})
    late = await insert(db, run_at=datetime.now(UTC) - timedelta(hours=1), start_within=60)
    over = await insert(db, expires_at=datetime.now(UTC) - timedelta(hours=1))
    assert len((await ended(worker, once)).attempts) == 1
    timed_out = await ended(worker, hung)
    assert timed_out.error is not None and timed_out.error.type == "Timeout"
    assert (await ended(worker, late)).state == (await ended(worker, over)).state == "expired"


async def test_a_retry_that_is_no_policy_is_passed_over(worker: Scheduler, db: Database) -> None:
    odd: list[Document] = [{"attempts": 0}, {"attempts": "many"}, {"delay": -1}, {"backoff": 7}]
    for identity in [await insert(db, retry=retry) for retry in odd]:
        assert (await ended(worker, identity)).state == "completed"


async def test_a_raw_insert_can_be_cancelled_changed_and_run_again(worker: Scheduler, db: Database) -> None:
    identity = await insert(db, _id="raw", run_at=datetime.now(UTC) + timedelta(hours=1))

    async def adopted() -> bool:
        return "v" in await stored(db, identity)

    await eventually(adopted)
    assert (await worker.update("raw", priority=1)).priority == 1
    assert (await worker.cancel("raw")).state == "cancelled"
    await worker.retry("raw")
    assert (await ended(worker, "raw")).state == "completed"


# -- other states --------------------------------------------------------------------------------------------------


async def test_a_running_document_that_nobody_holds_is_taken_over_and_completed(
    worker: Scheduler, db: Database
) -> None:
    leases: list[Document] = [{}, {"lease_until": None}, {"lease_until": datetime(2020, 1, 1, tzinfo=UTC)}]
    identities = [await insert(db, state="running", **lease) for lease in leases]

    async def adopted() -> bool:
        return all(["v" in await stored(db, identity) for identity in identities])

    await eventually(adopted)
    await inside(worker).open_store.rescues.rescue()
    for identity in identities:
        done = await ended(worker, identity)
        assert (done.state, done.result["attempt"], len(done.attempts)) == ("completed", 1, 1)


async def test_finished_documents_are_kept_as_history(worker: Scheduler, db: Database) -> None:
    identities = [await insert(db, state=state) for state in ("completed", "failed", "cancelled", "expired")]

    async def adopted() -> bool:
        return all(["v" in await stored(db, identity) for identity in identities])

    await eventually(adopted)
    for identity in identities:
        job = await worker.get_job(str(identity))
        assert job.finished and job.finished_at is not None and not job.attempts


# -- what is no job ------------------------------------------------------------------------------------------------

WRONG: list[tuple[Document, str]] = [
    ({"name": 7}, "name must be"),
    ({"name": ""}, "name must be"),
    ({"name": "x" * 201}, "name must be"),
    ({"priority": "high"}, "priority must be"),
    ({"priority": 0}, "priority must be"),
    ({"priority": 2.5}, "priority must be"),
    ({"priority": float("nan")}, "priority must be"),
    ({"priority": Decimal128("5")}, "priority must be"),
    ({"priority": True}, "priority must be"),
    ({"queue": 5}, "queue must be"),
    ({"queue": ["a"]}, "queue must be"),
    ({"run_at": "2026-01-01"}, "run_at must be a date"),
    ({"run_at": 1_700_000_000}, "run_at must be a date"),
    ({"expires_at": "never"}, "expires_at must be a date"),
    ({"data": [1]}, "data must be a document"),
    ({"data": "text"}, "data must be a document"),
    ({"data": {"blob": "x" * 300_000}}, "over the limit"),
    ({"tags": "x"}, "tags must be a list"),
    ({"retry": 3}, "retry must be a document"),
    ({"timeout": "1m"}, "timeout must be seconds"),
    ({"timeout": float("inf")}, "timeout must be seconds"),
    ({"start_within": -1}, "start_within must be seconds"),
    ({"attempts": "none"}, "attempts must be a list"),
    ({"attempts_cut": "none"}, "attempts_cut must be"),
    ({"_id": "0123456789abcdef01234567"}, "make it the ObjectId"),
    ({"_id": 7}, "_id must be"),
    ({"_id": {"a": 1}}, "_id must be"),
    ({"_id": None}, "_id must be"),
    ({"_id": ""}, "_id must be"),
]


async def test_whatever_is_wrong_is_said_on_the_job_and_nothing_is_deleted_or_in_the_way(
    worker: Scheduler, db: Database
) -> None:
    kept: list[tuple[Any, Document, str]] = []
    for wrong, why in WRONG:
        kept.append((await insert(db, **wrong), wrong, why))
    good = await insert(db)

    async def all_failed() -> bool:
        return await count_jobs(db, state="failed") == len(WRONG)

    await eventually(all_failed)
    assert (await ended(worker, good)).state == "completed"
    assert await count_jobs(db) == len(WRONG) + 1
    for identity, wrong, why in kept:
        document = await stored(db, identity)
        assert document["error"]["type"] == "Undecodable", wrong
        assert why in document["error"]["message"], (wrong, document["error"])
        for key, value in wrong.items():
            if key not in ("state", "run_at", "queue", "priority") and value == value:
                assert document[key] == value, "what was inserted is kept"
    failed = [job async for job in worker.jobs(state="failed")]
    assert len(failed) == len(WRONG)


async def test_what_failed_as_undecodable_fails_again_when_it_is_run_again_as_it_is(
    worker: Scheduler, db: Database
) -> None:
    failed: list[Job] = []
    worker.on("job:fail", failed.append)
    identity = await insert(db, priority="high")
    assert (await ended(worker, identity)).state == "failed"
    await worker.retry(str(identity))
    again = await ended(worker, identity)
    assert (again.state, again.error and again.error.type) == ("failed", "Undecodable")
    await db.jobs.update_one({"_id": identity}, {"$set": {"priority": 3}})
    await worker.retry(str(identity))
    assert (await ended(worker, identity)).state == "completed"
    assert {job.id for job in failed} == {str(identity)}


async def test_nonsense_in_fields_that_are_not_yours_to_set_is_put_right(worker: Scheduler, db: Database) -> None:
    odd: list[Document] = [
        {"tries": float("inf")},
        {"token": 1e300},
        {"token": "x"},
        {"tries": -4},
        {"rev": "new"},
        {"log": 3},
    ]
    for identity in [await insert(db, **fields) for fields in odd]:
        done = await ended(worker, identity)
        assert (done.state, done.token, done.tries) == ("completed", 1, 1)


async def test_data_that_the_handler_refuses_fails_at_its_first_attempt(worker: Scheduler, db: Database) -> None:
    @worker.job("add", retry=Retry(attempts=5, delay=0.01))
    async def add(a: int, b: int) -> int:
        return a + b

    done = await ended(worker, await insert(db, name="add", data={"a": 1, "c": 2}))
    assert (done.state, len(done.attempts), done.error and done.error.type) == ("failed", 1, "InvalidJob")
    assert (await ended(worker, await insert(db, name="add", data={"a": 1, "b": 2}))).result == 3


async def test_data_may_hold_dates_beyond_pythons_and_broken_text(worker: Scheduler, db: Database) -> None:
    seen: list[Any] = []

    @worker.job("look")
    async def look(ctx: JobContext) -> None:
        seen.append((ctx.data.get("at"), ctx.data.get("text")))

    broken = bson.encode({"text": "AAAA"}).replace(b"AAAA", b"A\xff\xfeA")
    far = await insert(db, name="look", data={"at": FAR})
    text = await insert(db, name="look", data=RawBSONDocument(broken))
    for identity in (far, text):
        assert (await ended(worker, identity)).state == "completed"
    assert seen[0][0] == datetime.max.replace(microsecond=999000, tzinfo=UTC)
    assert seen[1][1].startswith("A") and seen[1][1].endswith("A")


async def test_a_name_that_looks_like_code_names_no_code(worker: Scheduler, db: Database) -> None:
    module = "this"  # prints a poem when it is imported
    assert module not in sys.modules
    names = ["os:system", "os.system", f"{module}:s", "__import__('os').abort()", "harness.apps.isolated.shoot_itself"]
    identities = [await insert(db, name=name, data={"command": "false"}) for name in names]
    for identity in identities:

        async def held(identity: Any = identity) -> bool:
            return (await worker.get_job(str(identity))).waiting_for is not None

        await eventually(held)
        job = await worker.get_job(str(identity))
        assert job.state == "pending" and job.waiting_for is not None and "has a handler for" in job.waiting_for.note
    assert module not in sys.modules


# -- what pretends to be complete ----------------------------------------------------------------------------------

COMPLETE: Document = {
    "v": 1,
    "ready": True,
    "queue": "default",
    "priority": 5,
    "data": {},
    "rev": 0,
    "token": 0,
    "tries": 0,
}

BROKEN: list[tuple[Document, str]] = [
    ({"rev": None}, "rev must be"),
    ({"rev": "x"}, "rev must be"),
    ({"token": None}, "token must be"),
    ({"tries": 1.5}, "tries must be"),
    ({"data": "text"}, "data must be"),
    ({"name": 7}, "name must be"),
    ({"run_at": None}, "run_at must be"),
    ({"run_at": "soon"}, "run_at must be"),
    ({"priority": "high"}, "priority must be"),
    ({"priority": None}, "priority must be"),
    ({"start_by": "x"}, "start_by must be"),
    ({"retry": 3}, "retry must be"),
    ({"rev": True}, "rev must be"),
]


@pytest.mark.parametrize("queues", [None, ["default", "other"]])
async def test_a_broken_document_with_a_layout_number_fails_saying_why_and_is_in_nobodys_way(
    scheduler: Scheduler, db: Database, queues: list[str] | None
) -> None:
    scheduler.configure(queues=queues)

    @scheduler.job("tell")
    async def tell() -> str:
        return "told"

    await scheduler.connect()
    errors: list[Exception] = []
    scheduler.on("scheduler:error", errors.append)
    await scheduler.start()
    now = datetime.now(UTC)
    kept = [(await insert(db, **{**COMPLETE, "run_at": now, **fields}), why) for fields, why in BROKEN]
    good = await scheduler.schedule("tell", queue="other")

    async def all_failed() -> bool:
        return await count_jobs(db, state="failed") == len(BROKEN)

    await eventually(all_failed)
    for identity, why in kept:
        error = (await stored(db, identity))["error"]
        assert error["type"] == "Undecodable" and why in error["message"], (error, why)
    assert (await ended(scheduler, good.id)).result == "told"
    assert (await ended(scheduler, (await scheduler.schedule("tell")).id)).result == "told"
    assert errors == []


async def test_a_broken_running_document_with_a_layout_number_does_not_keep_others_from_being_rescued(
    worker: Scheduler, db: Database
) -> None:
    running = {**COMPLETE, "state": "running", "run_at": datetime.now(UTC)}
    del running["ready"]
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    broken = [
        await insert(db, **{**running, "lease_until": long_ago, **fields})
        for fields in ({"token": None}, {"tries": "x"}, {"rev": "x"}, {"tries": 1, "attempts": 3})
    ]
    asked = await insert(db, **{**running, "lease_until": long_ago, "cancel": "please"})
    good = await insert(db, **{**running, "lease_until": long_ago + timedelta(days=1), "tries": 1, "token": 1})
    await inside(worker).open_store.rescues.rescue()
    assert (await ended(worker, good)).state == "completed"
    assert (await ended(worker, asked)).state == "cancelled"
    for identity in broken:
        assert (await stored(db, identity))["state"] == "failed"
        assert (await stored(db, identity))["error"]["type"] == "Undecodable"


async def test_a_cancellation_written_by_hand_reaches_the_handler(worker: Scheduler, db: Database) -> None:
    begun = asyncio.Event()

    @worker.job("hang")
    async def hang() -> None:
        begun.set()
        await asyncio.sleep(600)

    identity = await insert(db, name="hang")
    await asyncio.wait_for(begun.wait(), 60)
    await db.jobs.update_one({"_id": identity}, {"$set": {"cancel": True}})
    assert (await ended(worker, identity)).state == "cancelled"
