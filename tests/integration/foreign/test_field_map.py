"""Documents in another program's fields: run as they are, and its fields kept in step with what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from bson import ObjectId

from harness.inside import documents_of, inside
from harness.looking import Database
from harness.pruning import prune
from harness.waiting import eventually
from mainspring import Cancel, Job, JobContext, Retry, Scheduler
from mainspring.store import Store

Document = dict[str, Any]
MakeScheduler = Callable[..., Scheduler]

LONG = timedelta(hours=1)
THEIRS = ("scheduler_id", "job_name", "status", "created_at", "trigger_time", "locked_by", "locked_at", "payload")


def now() -> datetime:
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def their_job(**fields: Any) -> Document:
    """A job as the other program writes it."""
    return {
        "_id": ObjectId(),
        "scheduler_id": str(uuid4()),
        "job_name": "tell",
        "status": "pending",
        "created_at": now(),
        "trigger_time": now() - timedelta(seconds=1),
        "locked_by": None,
        "locked_at": None,
        "payload": {},
        **fields,
    }


async def insert(db: Database, **fields: Any) -> ObjectId:
    document = their_job(**fields)
    await db.jobs.insert_one(document)
    return document["_id"]  # type: ignore[no-any-return]


async def stored(db: Database, identity: Any) -> Document:
    document = await db.jobs.find_one({"_id": identity})
    assert document is not None, "it was deleted"
    return document


@pytest.fixture
def scheduler(make_scheduler: MakeScheduler) -> Scheduler:
    """A scheduler with the field map, and handlers; not started."""
    scheduler = make_scheduler(field_map="status-lock")

    @scheduler.job("tell", retry=Retry(attempts=2, delay=0.01))
    async def tell(ctx: JobContext) -> Document:
        return {"data": dict(ctx.data), "attempt": ctx.attempt}

    @scheduler.job("fail", retry=Retry(attempts=2, delay=0.01))
    async def fail() -> None:
        raise ValueError("no")

    @scheduler.job("stop")
    async def stop() -> None:
        raise Cancel("enough")

    return scheduler


@pytest.fixture
async def worker(scheduler: Scheduler) -> Scheduler:
    await scheduler.start()
    return scheduler


@pytest.fixture
async def store(scheduler: Scheduler) -> Store:
    """The store of a scheduler that does not run."""
    await scheduler.connect()
    return inside(scheduler).open_store


async def ended(worker: Scheduler, identity: Any) -> Job:
    return await worker.wait(str(identity), timeout=60)


# -- what becomes of each status -----------------------------------------------------------------------------------


async def test_a_pending_document_as_the_other_program_writes_it_runs_and_its_status_tells(
    worker: Scheduler, db: Database
) -> None:
    document = their_job(payload={"to": "a@b.c"})
    await db.jobs.insert_one(document)
    done = await ended(worker, document["_id"])
    assert (done.name, done.result) == ("tell", {"data": {"to": "a@b.c"}, "attempt": 1})
    assert done.tags == (f"scheduler_id:{document['scheduler_id']}",)
    assert done.created_at == document["created_at"] and done.run_at == document["trigger_time"]
    after = await stored(db, document["_id"])
    assert after["status"] == "completed"
    assert after["locked_by"] == done.attempts[0].worker, "which worker has done it can be traced"
    assert after["locked_at"] >= document["trigger_time"]
    unchanged = ("_id", "scheduler_id", "job_name", "created_at", "trigger_time", "payload")
    assert {key: after[key] for key in unchanged} == {key: document[key] for key in unchanged}


async def test_the_fields_that_the_other_program_may_leave_out_may_be_missing(worker: Scheduler, db: Database) -> None:
    identity = (await db.jobs.insert_one({"job_name": "tell", "status": "pending"})).inserted_id
    assert (await ended(worker, identity)).result == {"data": {}, "attempt": 1}
    assert (await stored(db, identity))["status"] == "completed"


async def test_a_later_trigger_time_is_waited_for(store: Store, db: Database) -> None:
    identity = await insert(db, trigger_time=now() + LONG)
    assert await store.upkeep.adopt() == (1, [])
    assert await store.claims.candidates("default", 10) == []
    assert (await stored(db, identity))["status"] == "pending"


@pytest.mark.parametrize("locked_at", [None, timedelta(minutes=16)], ids=["null", "sixteen minutes ago"])
async def test_a_lock_without_a_time_or_older_than_the_takeover_is_taken_over_and_the_job_runs(
    worker: Scheduler, db: Database, locked_at: timedelta | None
) -> None:
    since = None if locked_at is None else now() - locked_at
    identity = await insert(db, status="locked", locked_by=str(uuid4()), locked_at=since)
    done = await ended(worker, identity)
    assert (done.state, done.result["attempt"], len(done.attempts)) == ("completed", 1, 1)
    assert (await stored(db, identity))["status"] == "completed"


async def test_a_fresh_lock_of_the_other_program_is_left_to_it_until_its_takeover_time_is_over(
    store: Store, db: Database
) -> None:
    since = now() - timedelta(minutes=14)
    identity = await insert(db, status="locked", locked_by="theirs", locked_at=since)
    await store.upkeep.adopt()
    assert await store.rescues.rescue() == []
    after = await stored(db, identity)
    assert {key: after[key] for key in ("status", "locked_by", "locked_at")} == {
        "status": "locked",
        "locked_by": "theirs",
        "locked_at": since,
    }
    assert after["lease_until"] == since + timedelta(minutes=15)
    assert await store.claims.candidates("default", 10) == []


async def test_what_the_other_program_completes_itself_is_over_here_too(store: Store, db: Database) -> None:
    identity = await insert(db, status="locked", locked_by="theirs", locked_at=now())
    await store.upkeep.adopt()
    await db.jobs.update_one({"_id": identity}, {"$set": {"status": "completed"}})
    assert await store.mapped.follow() == 1
    after = await stored(db, identity)
    assert (after["state"], after["status"], after["locked_by"]) == ("completed", "completed", "theirs")
    assert after["finished_at"] is not None and "lease_until" not in after
    assert await store.mapped.follow() == 0


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "expired"])
@pytest.mark.slow
async def test_what_has_ended_before_is_left_exactly_as_it_is(worker: Scheduler, db: Database, status: str) -> None:
    document = their_job(status=status, locked_by="theirs", locked_at=now() - LONG)
    await db.jobs.insert_one(document)
    assert (await ended(worker, await insert(db))).state == "completed"
    assert await stored(db, document["_id"]) == document
    assert (await worker.monitor.foreign_documents()).count == 0


@pytest.mark.slow
async def test_a_document_with_a_wrong_field_fails_and_says_why_in_both(worker: Scheduler, db: Database) -> None:
    wrong: list[tuple[Document, str]] = [
        ({"job_name": 7}, "name must be"),
        ({"payload": [1]}, "data must be a document"),
        ({"trigger_time": "soon"}, "run_at must be a date"),
        ({"payload": {"blob": "x" * 300_000}}, "over the limit"),
    ]
    for fields, why in wrong:
        identity = await insert(db, **fields)
        failed = await ended(worker, identity)
        assert failed.error is not None and failed.error.type == "Undecodable" and why in failed.error.message
        after = await stored(db, identity)
        assert (after["status"], after["state"]) == ("failed", "failed")
        assert {key: after[key] for key in fields} == fields


@pytest.mark.slow
async def test_a_status_that_the_map_does_not_know_is_left_alone_and_reported(worker: Scheduler, db: Database) -> None:
    documents = [their_job(status="archived"), their_job(job_name=None), {"_id": "x", "other": 1}]
    await db.jobs.insert_many([dict(document) for document in documents])
    assert (await ended(worker, await insert(db))).state == "completed"
    for document in documents:
        assert await stored(db, document["_id"]) == document
    found = await worker.monitor.foreign_documents()
    assert found.count == 3
    assert sorted(one.reason for one in found.samples) == [
        "it has a status and no job_name",
        "it has no name",
        "its status 'archived' is not in the field map",
    ]


# -- the other program's readers -----------------------------------------------------------------------------------


async def test_the_status_follows_every_move_of_a_job(store: Store, scheduler: Scheduler, db: Database) -> None:
    identity = await insert(db)

    async def theirs() -> tuple[str, Any, bool]:
        document = await stored(db, identity)
        return document["status"], document["locked_by"], document["locked_at"] is not None

    await store.upkeep.adopt()
    assert await theirs() == ("pending", None, False)
    batch = await store.claims.claim(await store.claims.candidates("default", 10), "ours:1", 60, lambda _: 3)
    assert len(batch.jobs) == 1
    assert await theirs() == ("locked", "ours:1", True)
    await scheduler.workers.rescue("ours:1")
    assert await theirs() == ("pending", None, False)
    await scheduler.cancel(str(identity))
    assert await theirs() == ("cancelled", None, False)
    await scheduler.retry(str(identity))
    assert await theirs() == ("pending", None, False)
    await db.jobs.update_one({"_id": identity}, {"$set": {"start_by": now() - LONG}})
    await store.upkeep.expire()
    assert await theirs() == ("expired", None, False)


@pytest.mark.slow
async def test_failed_and_cancelled_jobs_say_so_in_their_status(worker: Scheduler, db: Database) -> None:
    failed, stopped = await insert(db, job_name="fail"), await insert(db, job_name="stop")
    assert len((await ended(worker, failed)).attempts) == 2
    await ended(worker, stopped)
    assert (await stored(db, failed))["status"] == "failed"
    assert (await stored(db, stopped))["status"] == "cancelled"
    await (await worker.dead_letters.retry(name="fail")).wait(timeout=60)

    async def again() -> bool:
        return len((await worker.get_job(str(failed))).attempts) == 4

    await eventually(again)
    assert (await ended(worker, failed)).state == "failed"
    assert (await stored(db, failed))["status"] == "failed"


async def test_many_jobs_that_end_together_all_have_their_status(worker: Scheduler, db: Database) -> None:
    await db.jobs.insert_many([their_job(payload={"n": n}) for n in range(300)])

    async def all_done() -> bool:
        return await db.jobs.count_documents({"state": "completed"}, hint="finished") == 300

    await eventually(all_done, timeout=60, every=0.1)
    documents = [document async for document in db.jobs.find(hint="_id_")]
    assert {document["status"] for document in documents} == {"completed"}
    assert all(len(document["attempts"]) == 1 for document in documents)


async def test_jobs_of_our_own_get_no_fields_of_the_other_program(worker: Scheduler, db: Database) -> None:
    job = await worker.schedule("tell")
    assert (await ended(worker, job.id)).state == "completed"
    after = await stored(db, ObjectId(job.id))
    assert not {"status", "locked_by", "locked_at", "mapped"} & set(after)


async def test_retention_leaves_the_documents_of_the_other_program_alone(
    store: Store, scheduler: Scheduler, db: Database
) -> None:
    theirs = await insert(db)
    await store.upkeep.adopt()
    await scheduler.cancel(str(theirs))
    ours = await scheduler.schedule("tell")
    await scheduler.cancel(ours.id)
    await db.jobs.update_many({"_id": {"$in": [theirs, ObjectId(ours.id)]}}, {"$set": {"finished_at": now() - LONG}})
    assert await prune(scheduler, keep_finished=60.0) == 1
    assert (await stored(db, theirs))["status"] == "cancelled"


# -- a worker of the other program beside ours ---------------------------------------------------------------------


async def lock_as_they_do(db: Database, identity: Any, by: str = "theirs") -> bool:
    """Lock a pending job as a worker of the other program does."""
    result = await db.jobs.update_one(
        {"_id": identity, "status": "pending"}, {"$set": {"status": "locked", "locked_by": by, "locked_at": now()}}
    )
    return result.modified_count == 1


@pytest.mark.slow
async def test_a_job_that_the_other_program_has_locked_is_not_claimed(store: Store, db: Database) -> None:
    identity = await insert(db)
    await store.upkeep.adopt()
    candidates = await store.claims.candidates("default", 10)
    assert await lock_as_they_do(db, identity)
    batch = await store.claims.claim(candidates, "ours:1", 60, lambda _: 3)
    assert (batch.jobs, batch.lost) == ([], 1)
    assert await store.mapped.follow() == 1
    after = await stored(db, identity)
    assert (after["state"], after["worker"], after["locked_by"]) == ("running", "theirs", "theirs")
    assert await store.claims.candidates("default", 10) == []


async def test_a_document_that_is_locked_while_it_is_adopted_is_not_taken_from_its_holder(
    store: Store, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = await insert(db)
    read = store.upkeep._mapped_inserts

    async def locked_meanwhile(limit: int) -> list[Document]:
        found = await read(limit)
        await lock_as_they_do(db, identity)
        return found

    monkeypatch.setattr(store.upkeep, "_mapped_inserts", locked_meanwhile)
    await store.upkeep.adopt()
    assert "v" not in await stored(db, identity)
    monkeypatch.undo()
    await store.upkeep.adopt()
    after = await stored(db, identity)
    assert (after["state"], after["worker"]) == ("running", "theirs")


async def test_the_other_program_cannot_lock_what_runs_here(worker: Scheduler, db: Database) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @worker.job("hold")
    async def hold() -> None:
        begun.set()
        await go_on.wait()

    identity = await insert(db, job_name="hold", payload={})
    await asyncio.wait_for(begun.wait(), 60)
    assert not await lock_as_they_do(db, identity)
    go_on.set()
    assert (await ended(worker, identity)).state == "completed"


@pytest.mark.slow
async def test_a_claim_that_the_other_program_has_taken_over_is_lost_and_its_end_refused(
    worker: Scheduler, db: Database
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    lost: list[Job] = []
    worker.on("job:lost", lost.append)

    @worker.job("hold")
    async def hold() -> None:
        begun.set()
        await go_on.wait()

    identity = await insert(db, job_name="hold", payload={})
    await asyncio.wait_for(begun.wait(), 60)
    await db.jobs.update_one({"_id": identity}, {"$set": {"locked_by": "theirs", "locked_at": now()}})
    go_on.set()

    async def told() -> bool:
        return bool(lost)

    await eventually(told)
    after = await stored(db, identity)
    assert (after["status"], after["locked_by"]) == ("locked", "theirs")
    store = inside(worker).open_store
    await store.mapped.follow_one(identity)
    assert (await stored(db, identity))["worker"] == "theirs"
    await db.jobs.update_one({"_id": identity}, {"$set": {"status": "completed"}})
    assert (await ended(worker, identity)).state == "completed"


async def test_a_renewed_lease_renews_the_lock_that_the_other_program_sees(store: Store, db: Database) -> None:
    identity = await insert(db)
    await store.upkeep.adopt()
    batch = await store.claims.claim(await store.claims.candidates("default", 10), "ours:1", 60, lambda _: 3)
    (document,) = documents_of(batch)
    await db.jobs.update_one({"_id": identity}, {"$set": {"locked_at": now() - LONG}})
    assert await asyncio.to_thread(lambda: store.renewals().renew([batch.claim], [identity])) == set()
    assert (await stored(db, identity))["locked_at"] > now() - timedelta(minutes=1)
    await db.jobs.update_one({"_id": identity}, {"$set": {"locked_by": "theirs"}})
    assert await asyncio.to_thread(lambda: store.renewals().renew([batch.claim], [identity])) == {identity}
    assert not await store.claims.renew_one(identity, document["token"], 60)


async def test_a_lock_that_the_other_program_has_renewed_is_not_taken_over(store: Store, db: Database) -> None:
    identity = await insert(db, status="locked", locked_by="theirs", locked_at=now() - timedelta(minutes=16))
    await store.upkeep.adopt()
    since = now()
    await db.jobs.update_one({"_id": identity}, {"$set": {"locked_at": since}})
    assert await store.rescues.rescue() == []
    after = await stored(db, identity)
    assert (after["state"], after["lease_until"]) == ("running", since + timedelta(minutes=15))


@pytest.mark.slow
async def test_a_status_set_back_to_pending_by_the_other_program_runs_the_job_again(
    worker: Scheduler, db: Database
) -> None:
    identity = await insert(db)
    first = await ended(worker, identity)
    await db.jobs.update_one({"_id": identity}, {"$set": {"status": "pending"}})

    async def ran_again() -> bool:
        job = await worker.get_job(str(identity))
        return job.state == "completed" and len(job.attempts) == 2

    await eventually(ran_again, timeout=60)
    assert first.token == 1
    assert (await stored(db, identity))["status"] == "completed"


async def test_a_status_set_to_what_the_map_does_not_know_ends_the_job_here_and_is_never_written_again(
    store: Store, scheduler: Scheduler, db: Database
) -> None:
    identity = await insert(db)
    await store.upkeep.adopt()
    await db.jobs.update_one({"_id": identity}, {"$set": {"status": "on hold"}})
    assert await store.mapped.follow() == 1
    job = await scheduler.get_job(str(identity))
    assert (job.state, job.error and job.error.type) == ("cancelled", "EndedElsewhere")
    await scheduler.retry(str(identity))
    assert (await stored(db, identity))["status"] == "on hold"


async def test_a_trigger_time_that_the_other_program_has_moved_is_kept(store: Store, db: Database) -> None:
    identity = await insert(db)
    await store.upkeep.adopt()
    later = now() + LONG
    candidates = await store.claims.candidates("default", 10)
    await db.jobs.update_one({"_id": identity}, {"$set": {"trigger_time": later}})
    assert (await store.claims.claim(candidates, "ours:1", 60, lambda _: 3)).jobs == []
    await store.mapped.follow_one(identity)
    assert (await stored(db, identity))["run_at"] == later
    assert await store.claims.candidates("default", 10) == []


@pytest.mark.slow
async def test_verbs_on_a_job_that_the_other_program_has_moved_see_it_as_it_is(
    store: Store, scheduler: Scheduler, db: Database
) -> None:
    identity = await insert(db)
    await store.upkeep.adopt()
    await db.jobs.update_one({"_id": identity}, {"$set": {"status": "failed"}})
    await scheduler.retry(str(identity))
    after = await stored(db, identity)
    assert (after["state"], after["status"]) == ("pending", "pending")


# -- processes of ours without the map -----------------------------------------------------------------------------


@pytest.mark.slow
async def test_what_a_process_without_the_map_has_done_is_written_to_the_other_programs_fields(
    store: Store, make_scheduler: MakeScheduler, db: Database
) -> None:
    waiting, running = await insert(db), await insert(db)
    await store.upkeep.adopt()
    unaware = make_scheduler()
    await unaware.cancel(str(waiting))
    candidates = await inside(unaware).open_store.claims.candidates("default", 10)
    await inside(unaware).open_store.claims.claim(candidates, "ours:2", 60, lambda _: 3)
    assert (await stored(db, waiting))["status"] == (await stored(db, running))["status"] == "pending"
    assert await store.mapped.follow() == 2
    assert (await stored(db, waiting))["status"] == "cancelled"
    after = await stored(db, running)
    assert (after["state"], after["status"], after["locked_by"]) == ("running", "locked", "ours:2")


# -- the window ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_job_that_is_later_than_the_windows_length_expires(make_scheduler: MakeScheduler, db: Database) -> None:
    scheduler = make_scheduler(field_map="status-lock", start_within=1800)

    @scheduler.job("tell")
    async def tell(n: int = 0) -> int:
        return n

    await scheduler.start()
    late = await insert(db, trigger_time=now() - timedelta(minutes=31))
    in_time = await insert(db, trigger_time=now() - timedelta(minutes=29))
    stale = await insert(db, status="locked", locked_by="theirs", trigger_time=now() - LONG)
    assert (await ended(scheduler, late)).state == "expired"
    assert (await stored(db, late))["status"] == "expired"
    assert (await ended(scheduler, in_time)).state == "completed"
    assert (await ended(scheduler, stale)).state == "completed", "it had been started in time"


@pytest.mark.slow
async def test_two_workers_run_each_document_once_while_a_program_keeps_inserting(
    make_scheduler: MakeScheduler, db: Database
) -> None:
    ran: list[int] = []
    for _ in range(2):
        scheduler = make_scheduler(field_map="status-lock")

        @scheduler.job("tell")
        async def tell(n: int) -> None:
            ran.append(n)

        await scheduler.start()
    for start in range(0, 200, 20):
        await db.jobs.insert_many([their_job(payload={"n": n}) for n in range(start, start + 20)])

    async def all_done() -> bool:
        return await db.jobs.count_documents({"state": "completed"}, hint="finished") == 200

    await eventually(all_done, timeout=60, every=0.1)
    assert sorted(ran) == list(range(200))
