"""Jobs scheduled by a process that lacks their handler: stored as the handlers of live workers want them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from harness.looking import Database
from mainspring import BulkError, Every, InvalidJob, Job, JobContext, Retry, Scheduler, Unavailable
from mainspring.clock import ManualClock
from mainspring.store.workers import Workers

Make = Callable[..., Scheduler]
KEYS = {"k": b"k" * 32}
NUMBER = "4111111111111111"
CARD = {"card": NUMBER, "amount": 5}


async def ignore(ctx: JobContext) -> None:
    """A handler that takes any data."""


async def work(scheduler: Scheduler, *names: str, **options: Any) -> Scheduler:
    """Start a worker that has handlers of these names, and serves a queue that no job is in."""
    for name in names:
        scheduler.job(name, **options)(ignore)
    await scheduler.start()
    return scheduler


@pytest.fixture
def make_worker(make_scheduler: Make) -> Make:
    """Makes workers that never take a job, so that jobs stay as they were stored."""
    return lambda **options: make_scheduler(queues=["nothing"], **options)


async def stored(db: Database, job: Job) -> dict[str, Any]:
    found = await db.jobs.find_one({"_id": ObjectId(job.id)})
    assert found is not None
    return found


async def add_newer_worker(db: Database, worker: Scheduler, defaults: list[Any]) -> None:
    """Put a worker into the registry that was started after this one, and tells this of its handlers."""
    document = await db["jobs.workers"].find_one({"_id": worker.workers.own_id})
    assert document is not None
    later = document["started_at"] + timedelta(seconds=1)
    await db["jobs.workers"].insert_one({**document, "_id": "newer", "started_at": later, "defaults": defaults})


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each time that what live workers have registered is read."""
    reads: list[None] = []
    read = Workers.registered

    async def counted(self: Workers) -> Any:
        reads.append(None)
        return await read(self)

    monkeypatch.setattr(Workers, "registered", counted)
    return reads


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING and "handler" in r.getMessage()]


async def test_a_job_gets_the_queue_and_priority_of_a_live_workers_handler(
    make_worker: Make, scheduler: Scheduler
) -> None:
    await work(make_worker(), "report", queue="slow", priority=9)
    job = await scheduler.schedule("report", {"n": 1}, tags=["t"])
    assert (job.queue, job.priority) == ("slow", 9)


async def test_options_that_are_given_win(make_worker: Make, scheduler: Scheduler) -> None:
    await work(make_worker(), "report", queue="slow", priority=9)
    job = await scheduler.schedule("report", queue="default", priority=5)
    assert (job.queue, job.priority) == ("default", 5)


async def test_a_handler_of_this_process_counts_and_nothing_is_read(
    make_worker: Make, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await work(make_worker(), "report", queue="slow")
    scheduler.job("report", queue="own")(ignore)
    reads = count_reads(monkeypatch)
    assert (await scheduler.schedule("report")).queue == "own"
    assert reads == []


async def test_the_items_of_a_bulk_get_them_too(make_worker: Make, scheduler: Scheduler) -> None:
    await work(make_worker(), "report", queue="slow", priority=9)
    jobs = await scheduler.schedule_bulk([{"name": "report"}, {"name": "report", "tags": ["t"]}, {"name": "other"}])
    assert [(job.queue, job.priority) for job in jobs] == [("slow", 9), ("slow", 9), ("default", 5)]


async def test_the_jobs_of_a_schedule_get_them_too(make_worker: Make, scheduler: Scheduler) -> None:
    await work(make_worker(), "report", queue="slow", priority=9)
    schedule = await scheduler.schedule("report", repeat=Every("1h"))
    assert (schedule.queue, schedule.priority) == ("slow", 9)


async def test_a_job_that_a_handler_schedules_gets_them_too(make_worker: Make, make_scheduler: Make) -> None:
    await work(make_worker(), "report", queue="slow")
    parent = make_scheduler(queues=["default"])

    @parent.job("parent")
    async def run(ctx: JobContext) -> str:
        return (await ctx.schedule("report")).queue

    await parent.start()
    job = await parent.schedule("parent")
    assert (await parent.wait(job.id, timeout=60)).result == "slow"


async def test_jobs_in_a_transaction_get_them_too(make_worker: Make, scheduler: Scheduler) -> None:
    await work(make_worker(), "report", queue="slow")
    async with scheduler.transaction() as tx:
        job = await scheduler.schedule("report", session=tx.session)
    assert job.queue == "slow"


@pytest.mark.slow
async def test_of_workers_that_disagree_the_newest_counts(make_worker: Make, scheduler: Scheduler) -> None:
    clock = ManualClock()
    for number, queue in enumerate(("first", "second", "third")):
        await work(make_worker(clock=clock), "report", queue=queue if number < 2 else None, priority=number + 1)
        await clock.advance(1)
    producer = scheduler.configure(clock=clock)
    job = await producer.schedule("report")
    assert (job.queue, job.priority) == ("default", 3)


async def test_many_calls_share_one_read(
    make_worker: Make, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await work(make_worker(), "report", "other", queue="slow")
    reads = count_reads(monkeypatch)
    for name in ("report", "other") * 5:
        assert (await scheduler.schedule(name)).queue == "slow"
    await scheduler.schedule_bulk([{"name": "report"}] * 500)
    assert len(reads) == 1


async def test_what_workers_register_later_is_found_out(
    make_worker: Make, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("mainspring.engine.handlers.monotonic", lambda: now)
    assert (await scheduler.schedule("report")).queue == "default"
    await work(make_worker(), "report", queue="slow")
    now += 2  # a name that no worker had is looked for again soon
    assert (await scheduler.schedule("report")).queue == "slow"
    await scheduler.connect()
    await work(make_worker(), "report", queue="slower")
    now += 2
    assert (await scheduler.schedule("report")).queue == "slow"
    now += 4
    assert (await scheduler.schedule("report")).queue == "slower"


async def test_calls_that_wait_for_one_read_go_on_when_the_call_that_reads_is_cancelled(
    make_worker: Make, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await work(make_worker(), "report", queue="slow")
    await scheduler.connect()
    read, reading, reads = Workers.registered, asyncio.Event(), 0

    async def hang_at_first(self: Workers) -> Any:
        nonlocal reads
        reads += 1
        if reads == 1:
            reading.set()
            await asyncio.Event().wait()
        return await read(self)

    monkeypatch.setattr(Workers, "registered", hang_at_first)
    first = asyncio.create_task(scheduler.schedule("report"))
    await reading.wait()
    others = [asyncio.create_task(scheduler.schedule("report")) for _ in range(3)]
    first.cancel()
    assert [job.queue for job in await asyncio.gather(*others)] == ["slow"] * 3
    assert reads == 2


async def test_jobs_are_stored_also_when_what_workers_registered_cannot_be_read(
    make_worker: Make, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(self: Workers) -> Any:
        raise Unavailable("no answer")

    await work(make_worker(), "report", queue="slow")
    monkeypatch.setattr(Workers, "registered", fail)
    assert (await scheduler.schedule("report")).queue == "default"
    assert [job.queue for job in await scheduler.schedule_bulk([{"name": "report"}])] == ["default"]
    (warning,) = warnings(caplog)
    assert "could not be read (no answer)" in warning


# -- names that no worker has ----------------------------------------------------------------------------------------


async def test_a_name_that_no_live_worker_has_is_warned_of_once_with_the_closest_one(
    make_worker: Make, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    await work(make_worker(), "send_report", queue="slow")
    jobs = [await scheduler.schedule("send_reprot") for _ in range(3)]
    jobs += await scheduler.schedule_bulk([{"name": "send_reprot"}] * 3)
    assert {(job.queue, job.priority) for job in jobs} == {("default", 5)}
    (warning,) = warnings(caplog)
    assert warning.startswith("No live worker has a handler for 'send_reprot'. Jobs of this name wait for one")
    assert warning.endswith("Did you mean 'send_report'?")


async def test_a_bulk_warns_of_each_name_that_no_live_worker_has(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    await scheduler.schedule_bulk([{"name": name} for name in ("one", "two", "one", "two")])
    assert [warning.partition(".")[0] for warning in warnings(caplog)] == [
        "No live worker has a handler for 'one'",
        "No live worker has a handler for 'two'",
    ]


async def test_no_name_is_warned_of_where_a_worker_takes_any(
    make_worker: Make, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    await work(make_worker(handler=ignore), "report", queue="slow")
    assert (await scheduler.schedule("anything")).queue == "default"
    assert (await scheduler.schedule("report")).queue == "slow"
    assert warnings(caplog) == []


# -- what else handlers declare ----------------------------------------------------------------------------------------


async def test_what_the_handler_has_encrypted_is_encrypted_by_a_process_without_it(
    make_worker: Make, make_scheduler: Make, db: Database
) -> None:
    await work(make_worker(keys=KEYS), "pay", encrypt=["card"])
    producer = make_scheduler(keys=KEYS)
    jobs = [await producer.schedule("pay", CARD), *await producer.schedule_bulk([{"name": "pay", "data": CARD}])]
    for job in jobs:
        document = await stored(db, job)
        assert document["sealed"] == ["k"]
        assert NUMBER not in repr(document)
        assert document["data"]["amount"] == 5
    schedule = await producer.schedule("pay", CARD, repeat=Every("1h"))
    template = await db["jobs.schedules"].find_one({"_id": schedule.id})
    assert NUMBER not in repr(template)


async def test_all_data_is_encrypted_where_the_handler_has_it_so(
    make_worker: Make, make_scheduler: Make, db: Database
) -> None:
    await work(make_worker(keys=KEYS), "pay", encrypt=True)
    job = await make_scheduler(keys=KEYS).schedule("pay", CARD)
    assert "__sealed__" in (await stored(db, job))["data"]


async def test_a_process_without_keys_cannot_store_in_the_clear_what_the_handler_has_encrypted(
    make_worker: Make, make_scheduler: Make, db: Database
) -> None:
    await work(make_worker(keys=KEYS), "pay", encrypt=["card"])
    producer = make_scheduler()
    with pytest.raises(InvalidJob, match=r"The handler of 'pay' has its data encrypted.*There is no key"):
        await producer.schedule("pay", CARD)
    with pytest.raises(InvalidJob, match="There is no key"):
        await producer.schedule("pay", CARD, repeat=Every("1h"))
    with pytest.raises(BulkError, match="There is no key"):
        await producer.schedule_bulk([{"name": "pay", "data": CARD}])
    assert await db.jobs.count_documents({}) == 0
    assert await db["jobs.schedules"].count_documents({}) == 0


async def test_new_data_of_a_stored_job_or_schedule_is_encrypted_too(
    make_worker: Make, make_scheduler: Make, db: Database
) -> None:
    before = make_scheduler()
    job = await before.schedule("pay", {"amount": 5})
    schedule = await before.schedule("pay", {"amount": 5}, repeat=Every("1h"))
    await work(make_worker(keys=KEYS), "pay", encrypt=["card"])
    producer = make_scheduler(keys=KEYS)
    await producer.update(job.id, data=CARD)
    assert NUMBER not in repr(await stored(db, job))
    await make_scheduler(keys=KEYS).schedules.edit(schedule.id, data=CARD)
    assert NUMBER not in repr(await db["jobs.schedules"].find_one({"_id": schedule.id}))


async def test_a_retry_policy_is_refused_where_the_handler_executes_at_most_once(
    make_worker: Make, scheduler: Scheduler
) -> None:
    await work(make_worker(), "pay", guarantee="at_most_once")
    with pytest.raises(InvalidJob, match="at_most_once"):
        await scheduler.schedule("pay", retry=Retry(attempts=3))


# -- what a worker tells -----------------------------------------------------------------------------------------------


async def test_a_worker_tells_of_its_handlers_only_what_is_not_the_default(make_worker: Make, db: Database) -> None:
    worker = make_worker(keys=KEYS)
    worker.job("plain")(ignore)
    worker.job("usual", queue="default", priority=5)(ignore)
    worker.job("hidden", encrypt=True)(ignore)
    worker.job("paid", queue="slow", priority=9, guarantee="at_most_once", encrypt=["card"])(ignore)
    await worker.start()
    document = await db["jobs.workers"].find_one({"_id": worker.workers.own_id})
    assert document is not None
    assert document["defaults"] == [
        {"name": "hidden", "encrypt": True},
        {"name": "paid", "queue": "slow", "priority": 9, "guarantee": "at_most_once", "encrypt": ["card"]},
    ]


async def test_what_makes_no_sense_in_a_workers_document_is_passed_over(
    make_worker: Make, scheduler: Scheduler, db: Database
) -> None:
    worker = await work(make_worker(), "report", queue="slow")
    odd = [{"name": "report", "queue": 7, "priority": "high", "guarantee": 1}, "what", {"name": None}]
    await add_newer_worker(db, worker, odd)
    job = await scheduler.schedule("report")
    assert (job.queue, job.priority) == ("default", 5)


async def test_all_data_is_encrypted_where_a_worker_tells_of_encryption_in_a_form_that_is_not_known(
    make_worker: Make, make_scheduler: Make, db: Database
) -> None:
    worker = await work(make_worker(), "pay")
    odd = [{"name": "pay", "encrypt": {"card": "twice"}}]
    await add_newer_worker(db, worker, odd)
    job = await make_scheduler(keys=KEYS).schedule("pay", CARD)
    assert "__sealed__" in (await stored(db, job))["data"]
