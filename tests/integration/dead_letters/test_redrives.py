"""Redrives: many dead letters retried or discarded, each once, in batches that go on after a crash."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from harness.dead import dead_letter, dead_letters
from harness.inside import inside
from harness.looking import Database, count_jobs
from harness.waiting import eventually
from mainspring import (
    ConfigurationError,
    InvalidJob,
    Job,
    Redrive,
    RedriveNotFound,
    Scheduler,
    Unavailable,
    WaitTimeout,
    sync,
)
from mainspring.client.namespaces.dead_letters import _IDLE
from mainspring.engine.services.redriving import take_step
from mainspring.model.dead_letters.dead_letters import DISCARD, RETRY, Selection
from mainspring.store import Store

Make = Callable[..., Scheduler]

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=30)


def store_of(scheduler: Scheduler) -> Store:
    return inside(scheduler).open_store


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that waits does the work itself where there is no worker."""
    monkeypatch.setattr("mainspring.client.namespaces.dead_letters._IDLE", -_IDLE)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch, at_once: None) -> None:
    """A caller that waits leaves the work to the workers."""
    monkeypatch.setattr("mainspring.client.namespaces.dead_letters._IDLE", timedelta(hours=1))


async def fill(scheduler: Scheduler, db: Database, count: int, **fields: Any) -> list[dict[str, Any]]:
    await scheduler.connect()
    letters = list(dead_letters(count, NOW, **fields))
    await db.jobs.insert_many(letters)
    return letters


async def states(db: Database) -> Counter[str]:
    return Counter([document["state"] async for document in db.jobs.find({}, {"state": 1}, hint="_id_")])


def counts(redrive: Redrive | sync.Redrive) -> tuple[str, int, int, int]:
    return redrive.state, redrive.matched, redrive.done, redrive.skipped


# -- retrying ------------------------------------------------------------------------------------------------------


async def test_dead_letters_that_match_are_run_again_and_no_others(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, 3)
    await fill(scheduler, db, 2, name="other")
    redrive = await scheduler.dead_letters.retry(name="other", reason="fixed", actor="ada")
    assert counts(await redrive.wait()) == ("done", 2, 2, 0)
    assert (redrive.kind, redrive.reason, redrive.actor) == ("retry", "fixed", "ada")
    again = [job async for job in scheduler.jobs(state="pending")]
    assert [(job.name, job.tries, job.token, len(job.attempts)) for job in again] == [("other", 0, 1, 1)] * 2
    assert {(job.error, job.finished_at, job.fingerprint) for job in again} == {(None, None, None)}
    assert await count_jobs(db, state="failed", name="work") == 3


async def test_a_few_are_done_when_the_call_returns_and_a_worker_runs_them_at_once(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(poll_interval=3600)
    ran: list[int] = []

    @scheduler.job("work")
    async def work(number: int) -> None:
        ran.append(number)

    await fill(scheduler, db, 3)
    async with scheduler:
        redrive = await scheduler.dead_letters.retry(everything=True)
        assert (redrive.state, redrive.done, redrive.progress) == ("done", 3, 1.0)
        await eventually(lambda: sorted(ran) == [0, 1, 2])


@pytest.mark.slow
async def test_more_than_a_batch_is_carried_on_by_whoever_waits_while_no_worker_does(
    scheduler: Scheduler, db: Database
) -> None:
    await fill(scheduler, db, 1200)
    redrive = await scheduler.dead_letters.retry(everything=True)
    assert counts(redrive) == ("running", 1200, 500, 0)
    assert not redrive.finished and redrive.progress == pytest.approx(500 / 1200)
    done = await redrive.wait()
    assert counts(done) == ("done", 1200, 1200, 0) and done.finished and done.finished_at is not None
    assert await states(db) == {"pending": 1200}


@pytest.mark.slow
async def test_a_worker_carries_a_redrive_on(scheduler: Scheduler, db: Database, patient: None) -> None:
    await fill(scheduler, db, 1200)
    redrive = await scheduler.dead_letters.retry(name="work")
    with pytest.raises(WaitTimeout, match=r"has not ended within 0\.5 s"):
        await redrive.wait(0.5)
    await scheduler.start()
    assert counts(await redrive.wait(60)) == ("done", 1200, 1200, 0)


async def test_dead_letters_can_be_named_by_their_ids(scheduler: Scheduler, db: Database) -> None:
    letters = await fill(scheduler, db, 3)
    completed = dead_letter(NOW) | {"state": "completed"}
    await db.jobs.insert_one(completed)
    one = await scheduler.dead_letters.retry(str(letters[0]["_id"]))
    assert counts(await one.wait()) == ("done", 1, 1, 0)
    strays = [str(completed["_id"]), str(ObjectId()), "no-such-job"]
    redrive = await scheduler.dead_letters.retry([str(letters[1]["_id"]), *strays])
    done = await redrive.wait()
    assert counts(done) == ("done", 4, 1, 3)
    assert [(skip.job_id, skip.reason) for skip in done.skips] == [(s, "it is no dead letter any more") for s in strays]
    assert await states(db) == {"pending": 2, "failed": 1, "completed": 1}


async def test_many_ids_are_dealt_with_in_batches(scheduler: Scheduler, db: Database) -> None:
    letters = await fill(scheduler, db, 700)
    redrive = await scheduler.dead_letters.retry([str(letter["_id"]) for letter in letters])
    assert redrive.done == 500
    assert counts(await redrive.wait()) == ("done", 700, 700, 0)


async def test_that_all_are_meant_has_to_be_said(scheduler: Scheduler) -> None:
    for verb in (scheduler.dead_letters.retry, scheduler.dead_letters.discard):
        with pytest.raises(ConfigurationError, match="everything=True for all"):
            await verb()
        with pytest.raises(ConfigurationError, match="leave it out beside"):
            await verb(everything=True, name="work")
        with pytest.raises(ConfigurationError, match="ids must be"):
            await verb([1])  # type: ignore[list-item]
    assert await scheduler.dead_letters.redrives() == []


async def test_dead_letters_that_are_made_after_it_began_are_not_meant(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, 501)
    redrive = await scheduler.dead_letters.retry(everything=True)
    await db.jobs.insert_one(dead_letter(datetime.now(UTC) + timedelta(seconds=5), 999))
    assert counts(await redrive.wait()) == ("done", 501, 501, 0)
    assert await states(db) == {"pending": 501, "failed": 1}


async def test_one_that_fails_again_meanwhile_is_not_taken_again_whatever_the_servers_clock_says(
    scheduler: Scheduler, db: Database
) -> None:
    letters = await fill(scheduler, db, 600)
    redrive = await scheduler.dead_letters.retry(everything=True)
    moved = [letter["_id"] for letter in letters[:10]]
    again = {"state": "failed", "finished_at": NOW - timedelta(milliseconds=1)}
    await db.jobs.update_many({"_id": {"$in": moved}}, {"$set": again, "$unset": {"ready": 1}}, hint="_id_")
    assert counts(await redrive.wait()) == ("done", 600, 600, 0)
    assert await states(db) == {"pending": 590, "failed": 10}
    assert counts(await (await scheduler.dead_letters.retry(everything=True)).wait()) == ("done", 10, 10, 0)


# -- editing -------------------------------------------------------------------------------------------------------


async def test_the_data_can_be_edited_on_the_way(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, 2, data={"number": 1, "old": {"a": 1}, "x.y": 1, "keep": [1]}, steps=[{"name": "s"}])
    redrive = await scheduler.dead_letters.retry(
        everything=True, data={"number": None, "new": {"$b": 2}}, remove=["old", "x.y", "never"]
    )
    assert (await redrive.wait()).done == 2
    async for document in db.jobs.find({}, hint="_id_"):
        assert document["data"] == {"number": None, "new": {"$b": 2}, "keep": [1]}
        assert "steps" not in document


async def test_without_an_edit_the_data_and_the_steps_stay(scheduler: Scheduler, db: Database) -> None:
    (letter,) = await fill(scheduler, db, 1, steps=[{"name": "s"}])
    await (await scheduler.dead_letters.retry(everything=True)).wait()
    document = await db.jobs.find_one({"_id": letter["_id"]})
    assert document is not None and (document["data"], document["steps"]) == (letter["data"], letter["steps"])


async def test_an_edit_that_makes_no_sense_is_refused(make_scheduler: Make) -> None:
    scheduler = make_scheduler(max_data=100)
    for edit, words in (
        ({"data": {"a": 1}, "remove": ["a"]}, "'a' is both in data and in remove"),
        ({"remove": "a"}, "remove must be a list of names"),
        ({"data": {"a": "x" * 200}}, "over the limit"),
    ):
        with pytest.raises(InvalidJob, match=words):
            await scheduler.dead_letters.retry(everything=True, **edit)


async def test_what_cannot_be_changed_is_skipped_with_a_reason_and_holds_up_nothing(
    scheduler: Scheduler, db: Database
) -> None:
    await fill(scheduler, db, 3)
    odd = dead_letter(LONG_AGO, data=["no", "document"])
    sealed = dead_letter(LONG_AGO, data={"card": "sealed"}, sealed=["k"])
    broken = dead_letter(LONG_AGO, rev="text")
    await db.jobs.insert_many([odd, sealed, broken])
    done = await (await scheduler.dead_letters.retry(everything=True, data={"a": 1})).wait()
    assert counts(done) == ("done", 6, 3, 3)
    reasons = {skip.job_id: skip.reason for skip in done.skips}
    assert reasons[str(sealed["_id"])] == "its data is encrypted"
    assert all(reasons[str(one["_id"])].startswith("MongoDB refuses to change it") for one in (odd, broken))
    assert not any("no" in reason.split() for reason in reasons.values())


# -- dedupe keys ---------------------------------------------------------------------------------------------------


async def keyed_failure(scheduler: Scheduler, db: Database, key: str) -> Job:
    """A dead letter that had a dedupe key."""
    job = await scheduler.schedule("work", {"number": 1}, dedupe_key=key)
    fields = {"state": "failed", "finished_at": NOW}
    await db.jobs.update_one({"_id": ObjectId(job.id)}, {"$set": fields, "$unset": {"ready": 1}})
    return job


async def test_a_dedupe_key_is_taken_back_and_one_whose_key_another_job_holds_is_skipped(
    scheduler: Scheduler, db: Database
) -> None:
    free, taken = await keyed_failure(scheduler, db, "free"), await keyed_failure(scheduler, db, "taken")
    unknown = await keyed_failure(scheduler, db, "unknown")
    await db["jobs.keys"].delete_one({"_id": "unknown"})
    other = await scheduler.schedule("work", {"number": 2}, dedupe_key="taken")
    assert not other.deduplicated
    done = await (await scheduler.dead_letters.retry(everything=True)).wait()
    assert counts(done) == ("done", 3, 2, 1)
    assert [(skip.job_id, skip.reason) for skip in done.skips] == [(taken.id, "another job holds its dedupe key now")]
    for key, job in (("free", free), ("unknown", unknown), ("taken", other)):
        again = await scheduler.schedule("work", dedupe_key=key)
        assert (again.id, again.deduplicated) == (job.id, True)
    assert (await scheduler.get_job(taken.id)).state == "failed"
    assert [key async for key in db["jobs.keys"].find({"returning": True}, hint="_id_")] == []


async def test_of_two_dead_letters_with_one_dedupe_key_one_runs_again(scheduler: Scheduler, db: Database) -> None:
    first, second = await keyed_failure(scheduler, db, "k"), await keyed_failure(scheduler, db, "k")
    assert first.id != second.id
    done = await (await scheduler.dead_letters.retry(everything=True)).wait()
    assert counts(done) == ("done", 2, 1, 1)
    assert await states(db) == {"pending": 1, "failed": 1}


# -- crashes and company -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["_retry", "_account", "_change"])
async def test_a_step_that_breaks_off_is_made_up_for_by_the_next_and_nothing_is_counted_twice(
    scheduler: Scheduler, db: Database, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(scheduler, db, 700)
    store = store_of(scheduler)
    redrive = await scheduler.dead_letters.retry(everything=True)
    whole = getattr(store.redrives, place)
    calls = 0

    async def breaking_off(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if place == "_retry" or calls > (place == "_change"):
            raise Unavailable("the process dies here")
        return await whole(*arguments, **options)

    monkeypatch.setattr(store.redrives, place, breaking_off)
    with pytest.raises(Unavailable):
        await redrive.wait()
    stored = await store.redrives.get(redrive.id)
    assert len(stored["batch"]) == 200 and (stored["done"], stored["state"]) == (500, "running")
    monkeypatch.undo()
    monkeypatch.setattr("mainspring.client.namespaces.dead_letters._IDLE", -_IDLE)
    assert counts(await redrive.wait()) == ("done", 700, 700, 0)
    assert {document["rev"] async for document in db.jobs.find({}, {"rev": 1}, hint="_id_")} == {3}


async def test_a_batch_that_is_done_again_moves_none_that_failed_again_since_whatever_the_servers_clock_says(
    scheduler: Scheduler, db: Database
) -> None:
    letters = await fill(scheduler, db, 3)
    redrives = store_of(scheduler).redrives
    taken = await redrives.take_batch(await redrives.start(RETRY, Selection(), None, None, ""))
    await redrives._retry(taken, store_of(scheduler).removal.remove)
    again = {"state": "failed", "finished_at": NOW - timedelta(days=1)}
    await db.jobs.update_one({"_id": letters[0]["_id"]}, {"$set": again, "$unset": {"ready": 1}})
    done = await take_step(store_of(scheduler), inside(scheduler).archive, taken)
    assert (done["state"], done["done"], done["skipped"]) == ("done", 3, 0)
    assert await states(db) == {"pending": 2, "failed": 1}


async def test_one_that_was_retried_by_hand_and_failed_again_while_its_batch_was_in_hand_is_left_alone(
    scheduler: Scheduler, db: Database
) -> None:
    letters = await fill(scheduler, db, 3)
    redrives = store_of(scheduler).redrives
    taken = await redrives.take_batch(await redrives.start(RETRY, Selection(), None, None, ""))
    later = datetime.now(UTC) + timedelta(seconds=5)
    await db.jobs.update_one({"_id": letters[0]["_id"]}, {"$set": {"finished_at": later}})
    done = await take_step(store_of(scheduler), inside(scheduler).archive, taken)
    assert (done["state"], done["done"], done["skipped"]) == ("done", 2, 1)
    assert (await scheduler.get_job(str(letters[0]["_id"]))).state == "failed"


@pytest.mark.slow
async def test_several_processes_at_one_redrive_retry_each_dead_letter_once_and_count_it_once(
    make_scheduler: Make, db: Database
) -> None:
    schedulers = [make_scheduler() for _ in range(3)]
    await fill(schedulers[0], db, 2300)
    redrive = await schedulers[0].dead_letters.retry(everything=True)
    others = [await one.dead_letters.get_redrive(redrive.id) for one in schedulers]
    ended = await asyncio.gather(*(one.wait() for one in others))
    assert {counts(one) for one in ended} == {("done", 2300, 2300, 0)}
    assert {document["rev"] async for document in db.jobs.find({}, {"rev": 1}, hint="_id_")} == {3}


@pytest.mark.slow
async def test_two_redrives_at_once_share_the_dead_letters_between_them(make_scheduler: Make, db: Database) -> None:
    one, other = make_scheduler(), make_scheduler()
    await fill(one, db, 1500)
    await other.connect()
    first, second = await asyncio.gather(
        one.dead_letters.retry(everything=True), other.dead_letters.retry(everything=True)
    )
    ended = await asyncio.gather(first.wait(), second.wait())
    assert sum(redrive.done for redrive in ended) == 1500
    assert {document["rev"] async for document in db.jobs.find({}, {"rev": 1}, hint="_id_")} == {3}


async def test_a_redrive_that_is_cancelled_takes_no_more_in_hand(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, 700)
    redrive = await scheduler.dead_letters.retry(everything=True)
    cancelled = await redrive.cancel()
    assert counts(cancelled) == ("cancelled", 700, 500, 0) and cancelled.finished_at is not None
    assert (
        counts(await redrive.wait())
        == counts(await scheduler.dead_letters.cancel_redrive(redrive.id))
        == counts(cancelled)
    )
    stored = await store_of(scheduler).redrives.get(redrive.id)
    after = await take_step(store_of(scheduler), inside(scheduler).archive, stored)
    assert "batch" not in after and await states(db) == {"pending": 500, "failed": 200}


async def test_a_batch_that_was_in_hand_when_it_was_cancelled_is_counted(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, 700)
    redrive = await scheduler.dead_letters.retry(everything=True)
    redrives = store_of(scheduler).redrives
    taken = await redrives.take_batch(await redrives.get(redrive.id))
    await redrives._move(taken, [one["_id"] for one in taken["batch"][:50]], [{"$set": {"redrive": redrive.id}}])
    assert counts(await redrive.cancel()) == ("cancelled", 700, 550, 150)


# -- discarding ----------------------------------------------------------------------------------------------------


async def test_discarded_dead_letters_are_gone_with_their_dedupe_keys(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, 600)
    kept = await fill(scheduler, db, 2, name="other")
    job = await keyed_failure(scheduler, db, "k")
    redrive = await scheduler.dead_letters.discard(name="work")
    assert redrive.kind == "discard"
    assert counts(await redrive.wait()) == ("done", 601, 601, 0)
    assert {job.id async for job in scheduler.jobs()} == {str(one["_id"]) for one in kept}
    assert (await scheduler.schedule("work", dedupe_key="k")).id != job.id


async def test_with_no_dead_letters_there_is_nothing_to_list_to_group_or_to_drive(scheduler: Scheduler) -> None:
    assert [job async for job in scheduler.dead_letters.find()] == []
    assert await scheduler.dead_letters.groups() == []
    assert counts(await scheduler.dead_letters.discard(everything=True)) == ("done", 0, 0, 0)
    assert counts(await scheduler.dead_letters.retry([])) == ("done", 0, 0, 0)


async def test_one_that_runs_again_when_it_would_be_discarded_stays(scheduler: Scheduler, db: Database) -> None:
    letters = await fill(scheduler, db, 2)
    store = store_of(scheduler)

    async def remove(documents: list[dict[str, Any]]) -> int:
        await scheduler.retry(str(letters[0]["_id"]))
        return await store.removal.remove(documents)

    document = await store.redrives.start(DISCARD, Selection(), None, None, "")
    document = await store.redrives.step(document, remove)
    assert (document["done"], document["skipped"]) == (1, 1)
    assert (await scheduler.get_job(str(letters[0]["_id"]))).state == "pending"


async def test_the_archive_hook_gets_what_is_discarded_and_what_it_refuses_stays(
    scheduler: Scheduler, db: Database
) -> None:
    refuses, archived = [True], list[str]()

    @scheduler.archive
    async def archive(jobs: list[Job]) -> None:
        if refuses[0]:
            raise RuntimeError("the disk is full")
        archived.extend(job.id for job in jobs)

    letters = await fill(scheduler, db, 3)
    redrive = await scheduler.dead_letters.discard(everything=True)
    assert counts(redrive) == ("running", 3, 0, 0) and await states(db) == {"failed": 3}
    refuses[0] = False
    assert counts(await redrive.wait()) == ("done", 3, 3, 0)
    assert sorted(archived) == sorted(str(letter["_id"]) for letter in letters) and await states(db) == {}


# -- looking at redrives -------------------------------------------------------------------------------------------


async def test_redrives_can_be_listed_and_read(scheduler: Scheduler, db: Database) -> None:
    await fill(scheduler, db, 1)
    first = await scheduler.dead_letters.retry(everything=True)
    second = await scheduler.dead_letters.discard(everything=True)
    assert [one.id for one in await scheduler.dead_letters.redrives()] == [second.id, first.id]
    assert [one.id for one in await scheduler.dead_letters.redrives(limit=1)] == [second.id]
    assert await scheduler.dead_letters.get_redrive(first.id) == await first.refresh()
    for verb in (scheduler.dead_letters.get_redrive, scheduler.dead_letters.cancel_redrive):
        with pytest.raises(RedriveNotFound, match="No redrive has the id 'none'"):
            await verb("none")
    with pytest.raises(ConfigurationError, match="A redrive's id is"):
        await scheduler.dead_letters.get_redrive("")


async def test_redrives_that_ended_long_ago_are_forgotten_and_those_under_way_are_not(
    scheduler: Scheduler, db: Database
) -> None:
    await fill(scheduler, db, 501)
    ended = await (await scheduler.dead_letters.retry(tag="none")).wait()
    running = await scheduler.dead_letters.retry(everything=True)
    assert await store_of(scheduler).redrives.prune(ended.started_at, 10) == 0
    assert await store_of(scheduler).redrives.prune(datetime.now(UTC) + timedelta(minutes=1), 10) == 1
    assert [one.id for one in await scheduler.dead_letters.redrives()] == [running.id]


async def test_the_blocking_face_drives_dead_letters_too(uri: str, db: Database, scheduler: Scheduler) -> None:
    await fill(scheduler, db, 600)

    def drive() -> tuple[Any, ...]:
        face = sync.Scheduler(uri)
        try:
            redrive = face.dead_letters.retry(name="work", data={"a": 1})
            ended = redrive.wait(60)
            same = (
                face.dead_letters.get_redrive(redrive.id),
                face.dead_letters.redrives()[0],
                ended.refresh(),
                ended.cancel(),
            )
            return (*counts(ended), all(one == ended for one in same), isinstance(ended, sync.Redrive))
        finally:
            face.stop()

    assert await asyncio.to_thread(drive) == ("done", 600, 600, 0, True, True)
