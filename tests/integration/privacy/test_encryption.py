"""Encrypted data: stored sealed, handed to handlers plain, kept for workers that have the key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId

from harness.apps import sealed
from harness.looking import Database
from harness.waiting import eventually
from mainspring import (
    BulkError,
    ConfigurationError,
    Every,
    InvalidJob,
    Job,
    JobContext,
    Limit,
    Rate,
    RetryAfter,
    Scheduler,
    Sequence,
)
from mainspring.model.privacy.encrypted_values import EncryptedValue
from mainspring.store.privacy.keyring import new_key
from mainspring.store.privacy.reencrypt import Reencryption
from mainspring.sync import Scheduler as BlockingScheduler

Make = Callable[..., Scheduler]

OLD, NEW = {"old": b"o" * 32}, {"new": b"n" * 32}
CARD = {"card": {"number": "4111111111111111", "name": "Ann"}, "amount": 5}


async def stored(db: Database, job: Job) -> dict[str, Any]:
    found = await db.jobs.find_one({"_id": ObjectId(job.id) if ObjectId.is_valid(job.id) else job.id})
    assert found is not None
    return found


def serve(scheduler: Scheduler, name: str = "pay", **options: Any) -> list[Any]:
    """Register a handler that writes down the data it is given, and returns it."""
    seen: list[Any] = []

    async def run(ctx: JobContext) -> Any:
        seen.append(ctx.data)
        return ctx.data

    scheduler.job(name, **options)(run)
    return seen


# -- what is stored --------------------------------------------------------------------------------------------------


async def test_chosen_fields_and_the_result_are_stored_sealed_and_the_handler_gets_them_plain(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(keys=NEW)
    seen = serve(scheduler, encrypt=["card.number"])
    job = await scheduler.schedule("pay", CARD)
    assert job.data == CARD and job.encrypted
    await scheduler.start()
    done = await scheduler.wait(job.id, timeout=60)
    document = await stored(db, job)
    assert set(document["data"]["card"]["number"]) == {"__sealed__", "kid", "n", "c"}
    assert document["data"]["card"]["name"] == "Ann" and document["data"]["amount"] == 5
    assert document["result"]["kid"] == "new" and document["sealed"] == ["new"]
    assert seen == [CARD] and done.data == CARD and done.result == CARD


async def test_all_data_is_stored_as_one_sealed_value(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(keys=NEW, encrypt=True)
    seen = serve(scheduler)
    jobs = await scheduler.schedule_bulk([{"name": "pay", "data": {"n": n}} for n in range(30)])
    await scheduler.start()
    done = await asyncio.gather(*(scheduler.wait(job.id, timeout=60) for job in jobs))
    assert [job.result for job in done] == [{"n": n} for n in range(30)]
    assert sorted(one["n"] for one in seen) == list(range(30))
    assert set((await stored(db, jobs[0]))["data"]) == {"__sealed__", "kid", "n", "c"}


@pytest.mark.slow
async def test_a_producer_without_the_handler_encrypts_by_an_option_and_the_result_is_sealed_too(
    make_scheduler: Make, db: Database
) -> None:
    producer, worker = make_scheduler(keys=NEW), make_scheduler(keys=NEW)
    serve(worker)
    job = await producer.schedule("pay", CARD, encrypt=["card"])
    (other,) = await producer.schedule_bulk([{"name": "pay", "data": CARD, "encrypt": True}])
    await worker.start()
    for one in (job, other):
        await worker.wait(one.id, timeout=60)
        assert (await stored(db, one))["result"]["kid"] == "new"
    assert (await stored(db, other))["data"]["kid"] == "new"


async def test_a_result_of_nothing_and_a_job_without_the_fields_are_stored_as_ever(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(keys=NEW)

    @scheduler.job("quiet", encrypt=["iban"])
    async def quiet(**data: Any) -> None: ...

    job = await scheduler.schedule("quiet", {"a": 1})
    await scheduler.start()
    assert (await scheduler.wait(job.id, timeout=60)).result is None
    document = await stored(db, job)
    assert document["data"] == {"a": 1} and "sealed" not in document and document["result"] is None


async def test_without_a_key_nothing_is_scheduled_that_is_to_be_encrypted(scheduler: Scheduler) -> None:
    serve(scheduler, encrypt=True)
    with pytest.raises(InvalidJob, match="MAINSPRING_KEYS"):
        await scheduler.schedule("pay", CARD)
    with pytest.raises(BulkError, match="MAINSPRING_KEYS"):
        await scheduler.schedule_bulk([{"name": "pay", "data": CARD}])
    assert [job async for job in scheduler.jobs()] == []


async def test_a_dedupe_key_gives_the_job_that_holds_it_opened(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(keys=NEW)
    first = await scheduler.schedule("pay", CARD, encrypt=["card.number"], dedupe_key="k")
    again = await scheduler.schedule("pay", {"card": {}}, encrypt=True, dedupe_key="k")
    (bulk,) = await scheduler.schedule_bulk([{"name": "pay", "encrypt": True, "dedupe_key": "k"}])
    assert [one.id for one in (again, bulk)] == [first.id] * 2 and again.deduplicated
    assert again.data == bulk.data == CARD


async def test_a_debounced_job_is_sealed_for_the_job_that_waits(make_scheduler: Make) -> None:
    scheduler = make_scheduler(keys=NEW)
    seen = serve(scheduler, encrypt=True)
    first = await scheduler.schedule("pay", {"n": 1}, debounce=0.3, dedupe_key="k")
    second = await scheduler.schedule("pay", {"n": 2}, debounce=0.3, dedupe_key="k")
    third, fourth = await scheduler.schedule_bulk(
        [{"name": "pay", "data": {"n": n}, "debounce": 0.3, "dedupe_key": key} for n, key in ((3, "k"), (4, "other"))]
    )
    assert first.id == second.id == third.id != fourth.id
    assert second.data == {"n": 2} and third.data == {"n": 3}
    await scheduler.start()
    for job in (first, fourth):
        assert (await scheduler.wait(job.id, timeout=60)).state == "completed"
    assert sorted(one["n"] for one in seen) == [3, 4]


async def test_new_data_for_an_encrypted_job_is_encrypted_as_the_old_was(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(keys=NEW)
    job = await scheduler.schedule("pay", CARD, encrypt=["card.number"])
    changed = await scheduler.update(job.id, data={"card": {"number": "4222222222222222"}})
    assert changed.data == {"card": {"number": "4222222222222222"}}
    assert (await stored(db, job))["data"]["card"]["number"]["kid"] == "new"
    whole = await scheduler.schedule("pay", CARD, encrypt=True)
    await scheduler.update(whole.id, data={"a": 1})
    assert (await stored(db, whole))["data"]["kid"] == "new"


async def test_in_a_transaction_data_is_sealed_too(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(keys=NEW)
    async with scheduler.transaction() as tx:
        job = await scheduler.schedule("pay", CARD, encrypt=True, session=tx.session)
    assert (await stored(db, job))["data"]["kid"] == "new"
    assert (await scheduler.get_job(job.id)).data == CARD


async def test_a_handlers_transaction_and_steps_store_sealed_results(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(keys=NEW)
    looked: list[str] = []

    def look() -> dict[str, str]:
        looked.append("x")
        return {"found": "secret-step"}

    @scheduler.job("pay", encrypt=True, retry=3)
    async def pay(ctx: JobContext) -> None:
        assert await ctx.step("look", look) == {"found": "secret-step"}
        if ctx.attempt == 1:
            raise RetryAfter(0)
        async with ctx.transaction() as tx:
            tx.result = {"secret": "result"}

    job = await scheduler.schedule("pay", CARD)
    await scheduler.start()
    done = await scheduler.wait(job.id, timeout=60)
    assert done.result == {"secret": "result"} and looked == ["x"]
    assert [step.result for step in done.steps] in ([], [{"found": "secret-step"}])
    document = await stored(db, job)
    assert document["result"]["kid"] == "new"
    assert all(step["result"]["kid"] == "new" for step in document.get("steps", ()))


@pytest.mark.slow
async def test_handlers_in_processes_get_plain_data_and_store_sealed_results(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(keys=NEW)
    for function in (sealed.tell, sealed.commit):
        scheduler.job(function.__name__, isolation="process", encrypt=True)(function)
    jobs = [await scheduler.schedule(name, {"secret": "s3cret-value"}) for name in ("tell", "commit")]
    await scheduler.start()
    told, committed = [await scheduler.wait(job.id, timeout=60) for job in jobs]
    assert told.result == {"kept": "s3cret-value", "seen": "s3cret-value"}
    assert told.attempts[0].log == ("told [redacted]",)
    assert committed.result == {"secret": "s3cret-value"} and committed.attempts[0].log == ("commits [redacted]",)
    for job in jobs:
        assert (await stored(db, job))["result"]["kid"] == "new"
        assert "s3cret-value" not in str(await stored(db, job))


@pytest.mark.slow
async def test_a_process_that_stores_nothing_itself_has_no_key(make_scheduler: Make) -> None:
    scheduler = make_scheduler(keys=NEW)
    scheduler.job("plain", isolation="process")(sealed.find_keys)
    scheduler.job("encrypted", isolation="process", encrypt=True)(sealed.find_keys)
    jobs = [await scheduler.schedule(name) for name in ("plain", "encrypted")]
    await scheduler.start()
    assert [(await scheduler.wait(job.id, timeout=60)).result for job in jobs] == [[], []]


# -- schedules -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_schedules_data_is_sealed_for_it_and_its_jobs_are_made_without_a_key(
    make_scheduler: Make, db: Database
) -> None:
    keeper, keyless = make_scheduler(keys=NEW), make_scheduler(keys={})
    schedule = await keeper.schedule("pay", CARD, encrypt=["card.number"], repeat=Every("1h"), schedule_id="nightly")
    assert schedule.data == CARD
    document = await db["jobs.schedules"].find_one({"_id": "nightly"})
    assert document is not None and document["job"]["data"]["card"]["number"]["of"] == "schedule"
    assert isinstance((await keyless.schedules.get("nightly")).data["card"]["number"], EncryptedValue)
    job = await keyless.schedules.trigger("nightly")
    assert isinstance(job.data["card"]["number"], EncryptedValue)
    assert (await keeper.get_job(job.id)).data == CARD
    seen = serve(keeper)
    await keeper.start()
    assert (await keeper.wait(job.id, timeout=60)).state == "completed"
    assert seen == [CARD]


async def test_a_schedule_with_encrypted_data_that_is_asked_for_again_stays_as_it_is(make_scheduler: Make) -> None:
    scheduler = make_scheduler(keys=NEW)
    asked: dict[str, Any] = {"encrypt": True, "repeat": Every("1h"), "schedule_id": "nightly"}
    first = await scheduler.schedule("pay", CARD, **asked)
    assert (await scheduler.schedule("pay", CARD, **asked)).rev == first.rev
    changed = await scheduler.schedule("pay", {"other": 1}, **asked)
    assert changed.rev > first.rev and changed.data == {"other": 1}


async def test_editing_another_part_of_a_schedule_needs_no_key(make_scheduler: Make, db: Database) -> None:
    keeper, keyless = make_scheduler(keys=NEW), make_scheduler(keys={})
    await keeper.schedule("pay", CARD, encrypt=["card"], repeat=Every("1h"), schedule_id="nightly")
    await keyless.schedules.edit("nightly", priority=2)
    assert (await keeper.schedules.get("nightly")).data == CARD
    edited = await keeper.schedules.edit("nightly", data={"card": "other"})
    assert edited.data == {"card": "other"}
    document = await db["jobs.schedules"].find_one({"_id": "nightly"})
    assert document is not None and document["job"]["data"]["card"]["kid"] == "new"


@pytest.mark.slow
async def test_a_declared_schedule_is_compared_by_a_print_that_only_its_keys_can_make(
    make_scheduler: Make, db: Database
) -> None:
    def program(keys: dict[str, bytes], secret: str) -> Scheduler:
        scheduler = make_scheduler(keys=keys)

        @scheduler.every("1h", data={"secret": secret})
        async def nightly(secret: str) -> None: ...

        scheduler.job("nightly", encrypt=True)(nightly)
        return scheduler

    prints, revs = [], []
    for keys, secret in ((OLD, "a"), ({**NEW, **OLD}, "a"), ({**NEW, **OLD}, "b")):
        scheduler = program(keys, secret)
        await scheduler.start()
        await scheduler.stop()
        document = await db["jobs.schedules"].find_one({"_id": "nightly"})
        assert document is not None
        prints.append(document["declared"]["print"])
        revs.append(document["rev"])
    assert prints[0] == prints[1] != prints[2] and revs[0] == revs[1] < revs[2]


# -- keys ------------------------------------------------------------------------------------------------------------


async def test_without_the_key_a_job_shows_a_placeholder_and_everything_else_works(make_scheduler: Make) -> None:
    keeper, keyless = make_scheduler(keys=NEW), make_scheduler(keys=OLD)
    job = await keeper.schedule("pay", CARD, encrypt=["card.number"], tags=["t"])
    seen = await keyless.get_job(job.id)
    assert repr(seen.data) == "{'card': {'number': EncryptedValue('new'), 'name': 'Ann'}, 'amount': 5}"
    assert seen.key_ids == ("new",)
    assert [one.id async for one in keyless.jobs(tag="t")] == [job.id]
    assert (await keyless.update(job.id, priority=1)).priority == 1
    assert (await keeper.get_job(job.id)).data == CARD
    assert (await keyless.cancel(job.id)).state == "cancelled"
    assert (await keeper.retry(job.id)).data == CARD


@pytest.mark.slow
async def test_a_worker_without_the_key_holds_the_job_and_says_so_until_a_worker_with_it_comes(
    make_scheduler: Make, caplog: pytest.LogCaptureFixture
) -> None:
    keyless, keeper = make_scheduler(keys=OLD), make_scheduler(keys=NEW)
    assert serve(keyless) == []
    seen = serve(keeper)
    await keyless.start()
    job = await keeper.schedule("pay", CARD, encrypt=True)
    plain = await keyless.schedule("pay", {"n": 1})
    assert (await keyless.wait(plain.id, timeout=60)).state == "completed"
    held = await eventually(lambda: held_by(keyless, job, "key"))
    assert held.state == "pending" and held.tries == 0
    assert held.waiting_for.note.startswith(
        "It is encrypted with 'new', and no live worker that serves the queue 'default'"
    )
    assert "No worker has the key 'new' for 'pay'" in caplog.text
    explanation = await keyless.explain(job.id)
    assert explanation.holding is not None and explanation.holding.kind == "key"
    assert "does not have it" in explanation.text
    await keeper.start()
    assert (await keeper.wait(job.id, timeout=60)).state == "completed"
    assert seen == [CARD]


async def held_by(scheduler: Scheduler, job: Job, by: str) -> Job | None:
    now = await scheduler.get_job(job.id)
    return now if now.waiting_for is not None and now.waiting_for.by == by else None


@pytest.mark.slow
async def test_a_worker_without_the_key_leaves_the_job_to_one_that_has_it(make_scheduler: Make) -> None:
    keyless, keeper = make_scheduler(keys={}), make_scheduler(keys=NEW)
    other, seen = serve(keyless), serve(keeper)
    await keeper.start()
    await keyless.start()
    jobs = await keeper.schedule_bulk([{"name": "pay", "data": {"n": n}, "encrypt": True} for n in range(40)])
    for job in jobs:
        done = await keeper.wait(job.id, timeout=60)
        assert done.state == "completed" and len(done.attempts) == 1
    assert len(seen) == 40 and other == []


@pytest.mark.slow
async def test_jobs_without_a_key_do_not_stand_in_the_way_of_those_behind_them(make_scheduler: Make) -> None:
    keyless, producer = make_scheduler(keys={}), make_scheduler(keys=NEW)
    seen = serve(keyless)
    await producer.schedule_bulk(
        [{"name": "pay", "encrypt": True, "priority": 1, "data": {"n": n}} for n in range(1200)]
    )
    jobs = await producer.schedule_bulk([{"name": "pay", "priority": 9, "data": {"n": n}} for n in range(5)])
    await keyless.start()
    await asyncio.gather(*(keyless.wait(job.id, timeout=60) for job in jobs))
    assert len(seen) == 5


@pytest.mark.slow
async def test_a_key_that_comes_while_the_worker_runs_releases_what_waited_for_it(
    make_scheduler: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = new_key("old"), new_key("new")
    file = tmp_path / "keys"
    file.write_text(old)
    monkeypatch.setenv("MAINSPRING_KEYS_FILE", str(file))
    worker = make_scheduler()
    monkeypatch.delenv("MAINSPRING_KEYS_FILE")
    producer = make_scheduler(keys=dict([new.split(":")]))
    seen = serve(worker)
    await worker.start()
    job = await producer.schedule("pay", CARD, encrypt=True)
    await eventually(lambda: held_by(worker, job, "key"))
    file.write_text(f"{new}\n{old}\n")
    assert (await worker.wait(job.id, timeout=60)).state == "completed"
    assert seen == [CARD]


async def test_a_handler_that_encrypts_waits_for_a_key_even_for_plain_data(make_scheduler: Make, db: Database) -> None:
    worker = make_scheduler(keys={})
    seen = serve(worker, encrypt=True)
    await worker.start()
    await db.jobs.insert_one({"_id": "raw", "name": "pay", "data": {"n": 1}})
    job = await eventually(lambda: raw_held(worker))
    assert job.waiting_for.note.startswith("What 'pay' finds out is to be encrypted")
    worker.privacy.set_keys(NEW)
    done = await worker.wait("raw", timeout=60)
    assert done.state == "completed" and done.result == {"n": 1} and seen == [{"n": 1}]
    assert (await db.jobs.find_one({"_id": "raw"}) or {})["result"]["kid"] == "new"


async def raw_held(scheduler: Scheduler) -> Job | None:
    job = await scheduler.get_job("raw")
    return job if job.waiting_for is not None else None


async def test_a_value_that_does_not_open_with_its_key_fails_the_job_as_undecodable(
    make_scheduler: Make, db: Database
) -> None:
    producer, worker = make_scheduler(keys=NEW), make_scheduler(keys={"new": b"another key that is 32 bytes ok!"})
    seen = serve(worker)
    job = await producer.schedule("pay", CARD, encrypt=["card.number"])
    before = (await stored(db, job))["data"]
    await worker.start()
    failed = await worker.wait(job.id, timeout=60)
    assert failed.state == "failed" and failed.error is not None and failed.error.type == "Undecodable"
    assert "data.card.number cannot be decrypted" in failed.error.message and failed.tries == 1
    assert seen == [] and (await stored(db, job))["data"] == before


async def test_a_sealed_value_that_is_copied_to_another_job_fails_it(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(keys=NEW)
    seen = serve(scheduler, encrypt=["card.number"])
    mine, theirs = await scheduler.schedule("pay", CARD), await scheduler.schedule("pay", {"card": {"number": "x"}})
    number = (await stored(db, theirs))["data"]["card"]["number"]
    await db.jobs.update_one({"_id": ObjectId(mine.id)}, {"$set": {"data.card.number": number}})
    await scheduler.start()
    assert (await scheduler.wait(mine.id, timeout=60)).state == "failed"
    assert (await scheduler.wait(theirs.id, timeout=60)).state == "completed"
    assert len(seen) == 1


# -- rotation --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_jobs_and_schedules_are_sealed_anew_so_that_an_old_key_can_be_retired(make_scheduler: Make) -> None:
    scheduler = make_scheduler(keys=OLD)
    serve(scheduler, encrypt=["card.number"])
    done = await scheduler.schedule("pay", CARD)
    await scheduler.start()
    await scheduler.wait(done.id, timeout=60)
    later = await scheduler.schedule("pay", CARD, delay=3600)
    await scheduler.schedule("pay", CARD, repeat=Every("1h"), schedule_id="nightly")
    made = await scheduler.schedules.trigger("nightly")
    await scheduler.wait(made.id, timeout=60)
    bulk = await scheduler.schedule_bulk([{"name": "pay", "data": CARD, "delay": 3600}] * 450)
    assert await scheduler.privacy.keys_in_use() == {"old": 454}
    scheduler.privacy.set_keys({**NEW, **OLD})
    assert await scheduler.privacy.reencrypt() == 454
    assert await scheduler.privacy.keys_in_use() == {"new": 454}
    assert await scheduler.privacy.reencrypt() == 0
    scheduler.privacy.set_keys(NEW)
    for job in (done, later, made, bulk[-1]):
        found = await scheduler.get_job(job.id)
        assert found.data == CARD and found.result in (None, CARD)
    assert (await scheduler.schedules.get("nightly")).data == CARD
    assert (await scheduler.wait((await scheduler.run_now(later.id)).id, timeout=60)).state == "completed"


@pytest.mark.slow
async def test_sealing_anew_beside_running_workers_loses_nothing_and_runs_nothing_twice(make_scheduler: Make) -> None:
    producer, worker = make_scheduler(keys=OLD), make_scheduler(keys={**NEW, **OLD}, concurrency=5)
    seen = serve(worker)
    jobs = await producer.schedule_bulk([{"name": "pay", "data": {"n": n}, "encrypt": True} for n in range(1000)])
    await worker.start()
    while (await worker.privacy.keys_in_use()).get("old"):
        await worker.privacy.reencrypt()
    done = await asyncio.gather(*(worker.wait(job.id, timeout=60) for job in jobs))
    assert all(job.state == "completed" and len(job.attempts) == 1 for job in done)
    assert sorted(one["n"] for one in seen) == list(range(1000))
    await eventually(lambda: reencrypt_all(worker))
    assert await worker.privacy.keys_in_use() == {"new": 1000}


async def test_what_was_changed_since_it_was_read_is_not_overwritten(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(keys=OLD)
    job = await scheduler.schedule("pay", CARD, encrypt=True)
    scheduler.privacy.set_keys({**NEW, **OLD})
    write = Reencryption._reencrypt

    async def change_first(self: Reencryption, documents: list[dict[str, Any]]) -> int:
        await scheduler.update(job.id, data={"changed": "meanwhile"})
        return await write(self, documents)

    monkeypatch.setattr(Reencryption, "_reencrypt", change_first)
    assert await scheduler.privacy.reencrypt() == 0
    assert (await scheduler.get_job(job.id)).data == {"changed": "meanwhile"}
    assert await scheduler.privacy.keys_in_use() == {"new": 1}


async def reencrypt_all(scheduler: Scheduler) -> bool:
    await scheduler.privacy.reencrypt()
    return "old" not in await scheduler.privacy.keys_in_use()


async def test_what_this_process_has_no_key_for_is_left_as_it_is(
    make_scheduler: Make, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler(keys=OLD)
    job = await scheduler.schedule("pay", CARD, encrypt=True)
    scheduler.privacy.set_keys(NEW)
    assert await scheduler.privacy.reencrypt() == 0
    assert await scheduler.privacy.keys_in_use() == {"old": 1}
    scheduler.privacy.set_keys({**NEW, "old": b"another key that is 32 bytes ok!"})
    assert await scheduler.privacy.reencrypt() == 0
    assert f"Job {job.id} is not encrypted again" in caplog.text


# -- keys of limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "option",
    [
        {"concurrency": Limit(1, key="card.number")},
        {"rate": Rate("1/s", key="card")},
        {"rate": Rate("1/s", weight="card.number")},
        {"sequence": Sequence("card.number")},
        {"fair": "card.number"},
    ],
)
async def test_an_encrypted_value_is_refused_as_the_key_of_a_limit(
    make_scheduler: Make, option: dict[str, Any]
) -> None:
    async def pay(card: dict[str, str]) -> None: ...

    with pytest.raises(ConfigurationError, match="encrypted"):
        make_scheduler(keys=NEW).job("pay", encrypt=["card.number"], **option)(pay)
    with pytest.raises(ConfigurationError, match="encrypted"):
        make_scheduler(keys=NEW, encrypt=True).job("pay", **option)(pay)
    scheduler = make_scheduler(keys=NEW)
    scheduler.job("pay", **option)(pay)
    with pytest.raises(InvalidJob, match="encrypted"):
        await scheduler.schedule("pay", {"card": {"number": "1"}}, encrypt=["card.number"])


async def test_an_encrypted_value_is_refused_as_the_key_of_a_queue_a_pause_or_an_override(make_scheduler: Make) -> None:
    scheduler = make_scheduler(keys=NEW)
    serve(scheduler, encrypt=["tenant"])
    with pytest.raises(ConfigurationError, match="encrypted"):
        await scheduler.limits.pause("pay", key={"tenant": "acme"})
    with pytest.raises(ConfigurationError, match="encrypted"):
        await scheduler.limits.set(name="pay", concurrency=Limit(1, key="tenant"))
    scheduler.queues.limit("default", concurrency=Limit(1, key="tenant"))
    with pytest.raises(InvalidJob, match="encrypted"):
        await scheduler.schedule("pay", {"tenant": "acme"})
    with pytest.raises(ConfigurationError, match="encrypted"):
        make_scheduler(keys=NEW, encrypt=["tenant"]).queues.limit("q", rate=Rate("1/s", key="tenant"))


def test_the_blocking_face_has_the_same_verbs(uri: str) -> None:
    with BlockingScheduler(uri, keys=OLD, poll_interval=0.2) as scheduler:

        @scheduler.job("pay", encrypt=True)
        def pay(n: int) -> int:
            return n

        job = scheduler.wait(scheduler.schedule("pay", {"n": 5}).id, timeout=60)
        assert (job.data, job.result) == ({"n": 5}, 5)
        assert scheduler.privacy.shown(job).data == {"*": "[encrypted]"}
        scheduler.privacy.set_keys({**NEW, **OLD})
        assert scheduler.privacy.reencrypt() == 1 and scheduler.privacy.keys_in_use() == {"new": 1}
