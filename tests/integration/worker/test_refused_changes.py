"""A document that the server refuses to change is passed over, and its neighbours are dealt with in the same pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient
from pymongo.errors import BulkWriteError

from harness.firing import HOUR, T0, fire
from harness.inside import documents_of, inside
from harness.listening import Listener
from harness.looking import Database
from harness.refusing import refusing
from harness.waiting import eventually
from mainspring import Every, Retry, Scheduler, Unavailable
from mainspring.clock import ManualClock
from mainspring.config.settings import Settings
from mainspring.model.dead_letters.dead_letters import Alert
from mainspring.model.jobs.draft import make_draft
from mainspring.model.views.statistics import Counts, Kind
from mainspring.store import Store
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs import insert as inserts_module

LEASE = 60.0


@pytest.fixture
async def store(uri: str, clock: ManualClock) -> AsyncIterator[Store]:
    connection = await Connection.open(Settings(lease=LEASE), clock, uri=uri)
    yield Store(connection)
    await connection.close()


async def inserted(store: Store, number: int, **options: Any) -> list[Document]:
    return [(await store.inserts.insert(make_draft("x", None, **options)))[0] for _ in range(number)]


async def lost(store: Store, clock: ManualClock, number: int) -> list[Document]:
    """Running jobs whose leases have run out, the first of them first."""
    documents = []
    for _ in range(number):
        await inserted(store, 1)
        candidates = await store.claims.candidates("default", 1)
        documents += documents_of(await store.claims.claim(candidates, "A", LEASE, lambda job: 3))
        clock.advance(timedelta(seconds=1))
    clock.advance(timedelta(seconds=2 * LEASE))
    return documents


async def states(db: Database) -> dict[Any, str]:
    return {job["_id"]: job["state"] async for job in db.jobs.find({}, {"state": 1}, hint="_id_")}


# -- rescue --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_lost_job_that_cannot_be_changed_does_not_keep_others_from_being_rescued(
    store: Store, clock: ManualClock, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    first, *others = await lost(store, clock, 4)
    async with refusing(db, "jobs", {"_id": first["_id"]}):
        rescued = await store.rescues.rescue()
        assert [one.document["_id"] for one in rescued] == [one["_id"] for one in others]
    assert f"Job {first['_id']} has lost its worker and cannot be given back" in caplog.text
    assert (await states(db))[first["_id"]] == "running"


@pytest.mark.slow
async def test_lost_jobs_that_cannot_be_changed_do_not_fill_every_pass_of_the_rescue(
    store: Store, clock: ManualClock, db: Database
) -> None:
    first, second, third = await lost(store, clock, 3)
    async with refusing(db, "jobs", {"_id": {"$in": [first["_id"], second["_id"]]}}):
        assert await store.rescues.rescue(2) == []
        assert [one.document["_id"] for one in await store.rescues.rescue(2)] == [third["_id"]]


async def test_a_lost_job_that_is_too_large_for_the_entry_of_its_attempt_is_rescued_without_it(
    store: Store, clock: ManualClock, db: Database
) -> None:
    (job,) = await lost(store, clock, 1)
    async with refusing(db, "jobs", {"attempts.0": {"$exists": True}}):
        (rescued,) = await store.rescues.rescue()
    assert rescued.state == "pending"
    document = await db.jobs.find_one({"_id": job["_id"]})
    assert document is not None and document["ready"] and document["attempts_cut"] == 1
    assert "attempts" not in document and document["error"]["type"] == "WorkerLost"


async def test_a_lost_job_with_a_field_that_cannot_be_read_does_not_keep_others_from_being_rescued(
    store: Store, clock: ManualClock, db: Database
) -> None:
    first, second = await lost(store, clock, 2)
    await db.jobs.update_one({"_id": first["_id"]}, {"$set": {"max_attempts": "many"}})
    assert [one.document["_id"] for one in await store.rescues.rescue()] == [second["_id"]]


# -- tending -------------------------------------------------------------------------------------------------------


async def test_late_jobs_expire_with_one_statement_however_many_they_are(
    uri: str, clock: ManualClock, db: Database
) -> None:
    listener = Listener()
    async with AsyncMongoClient[Document](uri, event_listeners=[listener]) as client:
        store = Store(await Connection.open(Settings(), clock, client=client))
        late = await inserted(store, 20, start_within=10)
        moved = (await inserted(store, 1, start_within=10))[0]
        await store.jobs.edit(moved["_id"], {"tags": ["moved"]})
        clock.advance(timedelta(seconds=11))
        listener.clear()
        assert len(await store.upkeep.expire()) == 21
        (update,) = listener.named("update", "jobs")
        assert len(update["updates"]) == 2
    assert set((await states(db)).values()) == {"expired"}
    assert late[0]["_id"] in await states(db)


async def test_a_late_job_that_was_changed_meanwhile_is_not_among_those_that_have_expired(
    store: Store, clock: ManualClock
) -> None:
    late = await inserted(store, 3, start_within=10)
    await store.jobs.run_now(late[1]["_id"])
    clock.advance(timedelta(seconds=11))
    await store.jobs.run_now(late[1]["_id"])
    assert await store.upkeep.expire_these(late) == [late[0]["_id"], late[2]["_id"]]


async def test_a_late_job_that_cannot_be_changed_does_not_keep_others_from_expiring(
    store: Store, clock: ManualClock, db: Database
) -> None:
    first, *others = [one["_id"] for one in await inserted(store, 5, start_within=10)]
    clock.advance(timedelta(seconds=11))
    async with refusing(db, "jobs", {"_id": first}):
        assert sorted(await store.upkeep.expire(3)) == sorted(others[:2])
        assert sorted(await store.upkeep.expire(3)) == sorted(others[2:])
    assert (await states(db))[first] == "pending"


async def test_a_raw_insert_that_cannot_be_changed_does_not_keep_others_from_being_adopted(
    store: Store, db: Database
) -> None:
    await db.jobs.insert_many([{"_id": f"raw{n}", "name": "x", "state": "pending"} for n in range(4)])
    async with refusing(db, "jobs", {"_id": {"$in": ["raw0", "raw1"]}}):
        await store.upkeep.adopt(2)
        await store.upkeep.adopt(2)
    adopted = {job["_id"] async for job in db.jobs.find({"v": 1}, {"_id": 1}, hint="_id_")}
    assert adopted == {"raw2", "raw3"}


async def test_a_job_that_cannot_be_changed_does_not_keep_others_from_being_held_and_released(
    store: Store, db: Database
) -> None:
    ids = [one["_id"] for one in await inserted(store, 4)]
    async with refusing(db, "jobs", {"_id": ids[0], "waiting_for": {"$exists": True}}):
        assert await store.upkeep.hold(ids, "handler", "nobody has it") == 3
    async with refusing(db, "jobs", {"_id": ids[1], "ready": True}):
        assert await store.upkeep.release("handler") == 2
    held = [job["_id"] async for job in db.jobs.find({"waiting_for": {"$exists": True}}, {"_id": 1}, hint="_id_")]
    assert held == [ids[1]]


async def test_a_job_that_can_neither_be_decoded_nor_ended_does_not_stop_its_queue(
    make_scheduler: Callable[..., Scheduler], db: Database
) -> None:
    scheduler = await make_scheduler().connect()

    @scheduler.job("x")
    async def x() -> str:
        return "done"

    bad = await scheduler.schedule("x", priority=1)
    await db.jobs.update_one({"_id": ObjectId(bad.id)}, {"$set": {"retry": 7}})
    async with refusing(db, "jobs", {"_id": ObjectId(bad.id)}):
        good = await scheduler.schedule("x")
        await scheduler.start()
        assert (await scheduler.wait(good.id, timeout=60)).result == "done"
        await scheduler.stop()


# -- dead letters, keys and backfills ------------------------------------------------------------------------------


async def test_a_sealed_job_that_cannot_be_changed_does_not_keep_others_from_being_sealed_anew(
    make_scheduler: Callable[..., Scheduler], db: Database
) -> None:
    old, new = {"old": b"o" * 32}, {"new": b"n" * 32}
    one = make_scheduler(keys=old)
    jobs = [await one.schedule("x", {"pin": n}, encrypt=True) for n in range(4)]
    schedules = [
        await one.schedule("x", {"pin": n}, encrypt=True, repeat=Every("1h"), schedule_id=f"s{n}") for n in range(2)
    ]
    two = make_scheduler(keys={**new, **old})
    bad = ObjectId(jobs[1].id)
    async with refusing(db, "jobs", {"_id": bad}), refusing(db, "jobs.schedules", {"_id": schedules[0].id}):
        await two.privacy.reencrypt()
    assert (await two.privacy.keys_in_use()) == {"old": 2, "new": 4}


async def test_a_row_that_cannot_be_stored_does_not_stop_a_backfill(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h", anchor=T0), schedule_id="s", misfire="skip")
    clock.advance(4.5 * HOUR)
    await fire(timed)
    async with refusing(db, "jobs.ledger", {"outcome": "backfilled", "at": T0 + 2 * HOUR}):
        done = await schedule.backfill(T0, T0 + 4 * HOUR)
    assert done.done and done.made == 3


async def test_an_alert_that_cannot_be_told_does_not_keep_others_from_being_told(
    make_scheduler: Callable[..., Scheduler], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler()
    told: list[str] = []

    @scheduler.dead_letters.handler("bad")
    async def bad(**data: Any) -> None: ...

    @scheduler.dead_letters.handler("good")
    async def good(**data: Any) -> None:
        told.append(data["job_id"])

    @scheduler.job("x", retry=Retry(attempts=1))
    async def x() -> None:
        raise ValueError("no")

    store = await inside(scheduler).store()
    tell = store.alerts.tell

    async def telling(alert: Alert, template: Any) -> Any:
        if alert.name == "bad":
            raise TypeError("it cannot be told")
        return await tell(alert, template)

    monkeypatch.setattr(store.alerts, "tell", telling)
    await scheduler.start()
    job = await scheduler.schedule("x")
    await eventually(lambda: told == [job.id])


# -- renewals ------------------------------------------------------------------------------------------------------


async def test_a_claim_that_cannot_be_renewed_does_not_cost_others_their_leases(
    store: Store, clock: ManualClock, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await inserted(store, 5)
    batch = await store.claims.claim(await store.claims.candidates("default", 5), "A", LEASE, lambda job: 3)
    ids = [document["_id"] for document in documents_of(batch)]
    renewals = store.renewals()
    clock.advance(timedelta(seconds=20))
    async with refusing(db, "jobs", {"_id": ids[1]}):
        assert renewals.renew([batch.claim], ids) == {ids[1]}
    until = {job["_id"]: job["lease_until"] async for job in db.jobs.find({}, {"lease_until": 1}, hint="_id_")}
    assert {until[one] for one in ids if one != ids[1]} == {until[ids[1]] + timedelta(seconds=20)}
    assert f"The claim of job {ids[1]} cannot be renewed" in caplog.text


async def test_a_start_that_cannot_be_noted_does_not_keep_others_from_being_noted(
    store: Store, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await inserted(store, 4)
    batch = await store.claims.claim(await store.claims.candidates("default", 4), "A", LEASE, lambda job: 3, free=0)
    ids = [document["_id"] for document in documents_of(batch)]
    async with refusing(db, "jobs", {"_id": ids[1]}):
        store.renewals().started(ids, [batch.claim])
    ahead = [job["_id"] async for job in db.jobs.find({"ahead": True}, {"_id": 1}, hint="_id_")]
    assert ahead == [ids[1]]
    assert f"The start of job {ids[1]} cannot be noted" in caplog.text


# -- a majority that is away ---------------------------------------------------------------------------------------


async def test_an_insert_that_no_majority_confirms_ends_with_its_deadline(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    class Unconfirmed:
        async def insert_many(self, documents: list[Any]) -> None:
            tries.append(len(documents))
            assert len(tries) < 100, "it is tried for ever"
            raise BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": 64, "errmsg": "no majority"}]})

    async def none_kept(ids: Any, until: float) -> set[Any]:
        return set()

    monkeypatch.setattr(store.connection, "jobs", Unconfirmed())
    monkeypatch.setattr(store.inserts, "_kept", none_kept)
    monkeypatch.setattr(inserts_module, "monotonic", count(step=1.0).__next__)
    with pytest.raises(Unavailable, match="a majority has the jobs"):
        await inserted(store, 1)


async def test_counts_are_stored_without_waiting_for_a_majority(uri: str, clock: ManualClock) -> None:
    listener = Listener()
    async with AsyncMongoClient[Document](uri, event_listeners=[listener]) as client:
        store = Store(await Connection.open(Settings(), clock, client=client))
        await store.statistics.add("w", [(Kind(clock.now(), "q", "n"), Counts(started=1))])
        (command,) = listener.named("update", "jobs.stats")
        assert command["writeConcern"] == {"w": 1, "j": False}
