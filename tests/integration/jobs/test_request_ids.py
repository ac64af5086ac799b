"""Verbs that are called again with an id of the caller's own, when it is not known whether the first call was heard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from bson import ObjectId

from harness.inside import inside
from integration.conftest import Database
from mainspring import (
    ConfigurationError,
    Cron,
    Fail,
    InvalidJob,
    InvalidKey,
    JobNotFound,
    JobStateError,
    Scheduler,
    ScheduleStateError,
)
from mainspring.client.service_backend import ServiceBackend
from mainspring.model.access.idempotency import REQUESTS_KEPT, remembered
from mainspring.sync import Scheduler as BlockingScheduler

Make = Callable[..., Scheduler]
ID, OTHER = "a" * 24, "b" * 24
NIGHT = Cron("0 3 * * *")


async def nightly(scheduler: Scheduler, **options: Any) -> None:
    await scheduler.schedule("x", repeat=NIGHT, schedule_id="nightly", **options)


async def runs(scheduler: Scheduler) -> list[str]:
    return [job.id async for job in scheduler.jobs(schedule_id="nightly")]


# -- a run by hand ---------------------------------------------------------------------------------------------------


async def test_a_run_by_hand_with_the_same_id_is_the_one_that_was_made(scheduler: Scheduler) -> None:
    await nightly(scheduler, overlap="skip")
    first = await scheduler.schedules.trigger("nightly", job_id=ID)
    again = await scheduler.schedules.trigger("nightly", job_id=ID)
    assert (first.id, again.id) == (f"nightly!{ID}",) * 2
    assert await runs(scheduler) == [first.id]
    with pytest.raises(ScheduleStateError):
        await scheduler.schedules.trigger("nightly", job_id=OTHER)
    other = await scheduler.schedules.trigger("nightly", job_id=OTHER, overlap="allow")
    assert len(await runs(scheduler)) == 2 and other.id != first.id


async def test_a_run_by_hand_that_is_over_and_gone_is_not_made_again(scheduler: Scheduler) -> None:
    await nightly(scheduler)
    schedule = await scheduler.schedules.get("nightly")
    await scheduler.delete((await schedule.trigger(job_id=ID)).id)
    with pytest.raises(JobNotFound):
        await schedule.trigger(job_id=ID)
    assert await runs(scheduler) == []


async def test_a_run_by_hand_that_was_decided_by_one_that_died_is_made_once(scheduler: Scheduler, db: Database) -> None:
    await nightly(scheduler, overlap="skip")
    await scheduler.schedules.trigger("nightly", job_id=ID)
    # As it was after the decision: the job and its row are not there yet.
    job, row = await db.jobs.find_one({"_id": f"nightly!{ID}"}), await db["jobs.ledger"].find_one({})
    assert job is not None and row is not None
    await db.jobs.delete_one({"_id": job["_id"]})
    await db["jobs.ledger"].delete_one({"_id": row["_id"]})
    made = {"job": job["_id"], "at": row["at"], "due": row["at"]}
    making = {"jobs": [made], "rows": [row], "cancels": []}
    await db["jobs.schedules"].update_one({"_id": "nightly"}, {"$set": {"making": making, "fire_at": row["at"]}})
    assert (await scheduler.schedules.trigger("nightly", job_id=ID)).id == job["_id"]
    assert await runs(scheduler) == [job["_id"]]


async def test_runs_by_hand_that_are_asked_for_at_once_with_the_same_id_are_one(make_scheduler: Make) -> None:
    one, two = make_scheduler(), make_scheduler()
    await nightly(one)
    await two.connect()
    calls = [face.schedules.trigger("nightly", job_id=ID) for face in (one, two, one, two)]
    assert {job.id for job in await asyncio.gather(*calls)} == {f"nightly!{ID}"}
    assert await runs(one) == [f"nightly!{ID}"]


async def test_an_id_of_another_form_is_refused(scheduler: Scheduler) -> None:
    await nightly(scheduler)
    with pytest.raises(InvalidJob, match="24 lowercase hexadecimal digits"):
        await scheduler.schedules.trigger("nightly", job_id="x")


# -- a skip, and another round ---------------------------------------------------------------------------------------


async def test_a_skip_with_the_same_id_skips_once(scheduler: Scheduler) -> None:
    await nightly(scheduler)
    schedule = await scheduler.schedules.get("nightly")
    first = await schedule.skip_next(request_id="a")
    assert (await schedule.skip_next(request_id="a")).next_at == first.next_at
    second = await scheduler.schedules.skip_next("nightly", request_id="b")
    assert first.next_at is not None and second.next_at is not None and second.next_at > first.next_at
    assert (await scheduler.schedules.skip_next("nightly", request_id="a")).next_at == second.next_at


async def test_skips_at_once_with_the_same_id_are_one(make_scheduler: Make) -> None:
    one, two = make_scheduler(), make_scheduler()
    await nightly(one)
    await two.connect()
    found = await asyncio.gather(
        *(face.schedules.skip_next("nightly", request_id="a") for face in (one, two, one, two))
    )
    assert len({schedule.next_at for schedule in found}) == 1


async def test_another_round_with_the_same_id_is_begun_once(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("x", dedupe_key="d")
    await scheduler.cancel(job.id)
    assert (await scheduler.retry(job.id, request_id="a")).state == "pending"
    assert (await scheduler.retry(job.id, request_id="a")).state == "pending"
    await scheduler.cancel(job.id)
    assert (await scheduler.retry(job.id, request_id="a")).state == "cancelled"
    assert (await scheduler.retry(job.id, request_id="b")).state == "pending"
    await scheduler.cancel(job.id)
    assert (await scheduler.retry(job.id, request_id="a")).state == "cancelled"
    assert (await scheduler.retry(job.id)).state == "pending"
    with pytest.raises(JobStateError):
        await scheduler.retry(job.id, request_id="c")


async def test_a_round_that_was_begun_before_is_told_of_though_another_job_has_the_key_now(
    scheduler: Scheduler,
) -> None:
    job = await scheduler.schedule("x", dedupe_key="d")
    await scheduler.cancel(job.id)
    await scheduler.retry(job.id, request_id="a")
    await scheduler.cancel(job.id)
    assert (await scheduler.schedule("x", dedupe_key="d")).id != job.id
    assert (await scheduler.retry(job.id, request_id="a")).state == "cancelled"


async def test_who_looked_before_the_same_request_was_carried_out_begins_no_second_round(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await scheduler.schedule("x")
    await scheduler.cancel(job.id)
    store = await inside(scheduler).store()
    now = store.jobs.get
    seen = [await now(ObjectId(job.id))]
    await scheduler.retry(job.id, request_id="a")
    await scheduler.cancel(job.id)

    async def looked(job_id: Any) -> Any:
        return seen.pop() if seen else await now(job_id)

    monkeypatch.setattr(store.jobs, "get", looked)
    assert (await scheduler.retry(job.id, request_id="a")).state == "cancelled"


async def test_rounds_at_once_with_the_same_id_are_one(make_scheduler: Make, db: Database) -> None:
    one, two = make_scheduler(), make_scheduler()
    job = await one.schedule("x")
    await one.cancel(job.id)
    await two.connect()
    found = await asyncio.gather(*(face.retry(job.id, request_id="a") for face in (one, two, one, two)))
    assert {one.state for one in found} == {"pending"}
    document = await db.jobs.find_one({"name": "x"}, hint="_id_")
    assert document is not None and document["requests"] == ["a"]


def test_only_the_last_requests_are_remembered() -> None:
    many: list[str] = []
    for n in range(2 * REQUESTS_KEPT):
        many = remembered(many, str(n))
    assert many == [str(n) for n in range(REQUESTS_KEPT, 2 * REQUESTS_KEPT)]


# -- redrives --------------------------------------------------------------------------------------------------------


async def fail(scheduler: Scheduler, *names: str) -> None:
    async def bad(**data: Any) -> None:
        raise Fail("no luck")

    for name in names:
        scheduler.job(name, retry=1)(bad)
    await scheduler.start()
    for name in names:
        await scheduler.wait((await scheduler.schedule(name)).id, 60)
    await scheduler.stop()
    await scheduler.connect()


async def test_a_redrive_with_the_same_id_is_begun_once(scheduler: Scheduler) -> None:
    await fail(scheduler, "bad", "worse")
    first = await scheduler.dead_letters.retry(name="bad", redrive_id="mine", data={"n": 1})
    again = await scheduler.dead_letters.retry(name="bad", redrive_id="mine", data={"n": 1})
    assert (first.id, again) == ("mine", first)
    assert [redrive.id for redrive in await scheduler.dead_letters.redrives()] == ["mine"]
    gone = [await scheduler.dead_letters.discard(name="worse", redrive_id="gone") for _ in range(2)]
    assert [(one.done, one.state) for one in gone] == [(1, "done")] * 2


async def test_a_redrive_that_was_interrupted_goes_on_when_it_is_asked_for_again(
    scheduler: Scheduler, db: Database
) -> None:
    await fail(scheduler, "bad")
    (dead,) = [job async for job in scheduler.dead_letters.find()]
    first = await scheduler.dead_letters.retry(ids=["f" * 24], redrive_id="mine")
    undone = {"$set": {"state": "running", "done": 0, "skipped": 0, "selection.ids": [dead.id]}}
    await db["jobs.redrives"].update_one({"_id": "mine"}, undone | {"$unset": {"cursor": "", "finished_at": ""}})
    again = await scheduler.dead_letters.retry(ids=[dead.id], redrive_id="mine")
    assert (again.id, again.done, again.started_at) == (first.id, 1, first.started_at)
    assert (await scheduler.get_job(dead.id)).state == "pending"


@pytest.mark.parametrize("other", [{"name": "worse"}, {"name": "bad", "data": {"n": 2}}])
async def test_an_id_of_another_redrive_is_refused(scheduler: Scheduler, other: dict[str, Any]) -> None:
    await scheduler.dead_letters.retry(name="bad", data={"n": 1}, redrive_id="mine")
    with pytest.raises(ConfigurationError, match="for something else"):
        await scheduler.dead_letters.retry(**{"data": {"n": 1}, **other}, redrive_id="mine")
    with pytest.raises(ConfigurationError, match="for something else"):
        await scheduler.dead_letters.discard(name="bad", redrive_id="mine")


# -- keys ------------------------------------------------------------------------------------------------------------


async def test_an_id_of_a_key_is_given_once(scheduler: Scheduler) -> None:
    made = await scheduler.api_keys.create("billing", key_id="abcdefGHIJ12")
    assert made.key.id == "abcdefGHIJ12" and await ServiceBackend(scheduler).check_api_key(made.text) is not None
    with pytest.raises(InvalidKey, match="already"):
        await scheduler.api_keys.create("billing", key_id="abcdefGHIJ12")
    assert len(await scheduler.api_keys.all()) == 1
    with pytest.raises(InvalidKey, match="12 letters and digits"):
        await scheduler.api_keys.create("billing", key_id="short")


async def test_a_rotation_with_the_same_id_is_done_once(scheduler: Scheduler) -> None:
    key = (await scheduler.api_keys.create("billing")).key
    first = await scheduler.api_keys.rotate(key.id, 60, request_id="a")
    with pytest.raises(InvalidKey, match="already"):
        await scheduler.api_keys.rotate(key.id, 60, request_id="a")
    assert await ServiceBackend(scheduler).check_api_key(first.text) is not None
    second = await scheduler.api_keys.rotate(key.id, 60, request_id="b")
    with pytest.raises(InvalidKey, match="already"):
        await scheduler.api_keys.rotate(key.id, 60, request_id="a")
    assert await ServiceBackend(scheduler).check_api_key(second.text) is not None


# -- many jobs -------------------------------------------------------------------------------------------------------


async def test_many_jobs_with_ids_of_their_own_are_stored_once(scheduler: Scheduler) -> None:
    items = [{"name": "x", "job_id": ID}, {"name": "x"}, {"name": "x", "job_id": OTHER, "dedupe_key": "d"}]
    first = await scheduler.schedule_bulk(items)
    again = await scheduler.schedule_bulk([items[0], items[2], {"name": "x", "job_id": "c" * 24}])
    assert [job.deduplicated for job in first] == [False] * 3
    assert [(job.id, job.deduplicated) for job in again] == [(ID, True), (OTHER, True), ("c" * 24, False)]
    assert len([job async for job in scheduler.jobs()]) == 4


async def test_of_two_items_with_the_same_id_the_first_is_stored(scheduler: Scheduler) -> None:
    items = [{"name": "x", "data": {"n": n}, "job_id": ID} for n in (1, 2)]
    jobs = await scheduler.schedule_bulk(items)
    assert [(job.data, job.deduplicated) for job in jobs] == [({"n": 1}, False), ({"n": 1}, True)]


def test_the_blocking_face_takes_the_same_ids(uri: str) -> None:
    scheduler = BlockingScheduler(uri)
    try:
        schedule = scheduler.schedule("x", repeat=NIGHT, schedule_id="nightly")
        assert {schedule.trigger(job_id=ID).id for _ in range(2)} == {f"nightly!{ID}"}
        assert len({schedule.skip_next(request_id="a").next_at for _ in range(2)}) == 1
        redrives = [scheduler.dead_letters.discard(everything=True, redrive_id="mine") for _ in range(2)]
        assert {redrive.id for redrive in redrives} == {"mine"}
    finally:
        scheduler.stop()
