"""A server that is no replica set: everything by polling, and transactions refused with a sentence."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from harness.servers import Servers
from harness.waiting import eventually
from mainspring import Every, Fail, Job, JobContext, Retry, Scheduler, UnsupportedServer
from mainspring.sync import JobContext as BlockingJobContext
from mainspring.sync import Scheduler as BlockingScheduler

Make = Callable[..., Scheduler]
CURE = r"needs transactions, which a standalone MongoDB does not have; start it as a replica set"


@pytest.fixture
async def place(standalone: Servers) -> AsyncIterator[str]:
    """The URI of a database of the test's own on the standalone server."""
    name = f"t_{secrets.token_hex(4)}"
    yield standalone.uri(name)
    async with AsyncMongoClient[dict[str, Any]](standalone.uri(name)) as client:
        await client.drop_database(name)


@pytest.fixture
async def alone(place: str) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(place, poll_interval=0.1)
    yield scheduler
    await scheduler.stop(graceful=False)


async def ended(scheduler: Scheduler, name: str, *args: Any, **options: Any) -> Job:
    return await scheduler.wait((await scheduler.schedule(name, *args, **options)).id, timeout=60)


# -- what works ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_jobs_run_now_and_later(alone: Scheduler) -> None:
    @alone.job("work")
    async def work(n: int) -> int:
        return n + 1

    await alone.start()
    assert (await ended(alone, "work", {"n": 1})).result == 2
    later = await ended(alone, "work", {"n": 2}, delay=0.3)
    assert later.result == 3 and later.attempts[0].started_at is not None
    assert later.attempts[0].started_at >= later.run_at


@pytest.mark.slow
async def test_schedules_fire_and_changes_by_other_processes_are_found_by_polling(alone: Scheduler, place: str) -> None:
    @alone.job("work")
    async def work() -> None: ...

    await alone.start()
    other = Scheduler(place)
    schedule = await other.schedule("work", repeat=Every(0.2), schedule_id="s", overlap="queue_all")

    async def ran(name: str) -> bool:
        jobs = [job async for job in alone.jobs(schedule_id=name, state="completed")]
        return len(jobs) >= 3

    await eventually(lambda: ran("s"))
    await schedule.pause()
    await other.stop()


@pytest.mark.slow
async def test_a_job_of_another_process_is_found_by_polling(alone: Scheduler, place: str) -> None:
    @alone.job("work")
    async def work() -> str:
        return "done"

    await alone.start()
    other = Scheduler(place)
    job = await other.schedule("work")
    assert (await other.wait(job.id, timeout=60)).result == "done"
    await other.stop()


@pytest.mark.slow
async def test_bursts_run_once_with_the_last_data_and_full_queues_hold_producers_up(alone: Scheduler) -> None:
    ran: list[int] = []

    @alone.job("index")
    async def index(n: int) -> None:
        ran.append(n)

    alone.queues.limit("q", max_pending=1, when_full="wait")
    await alone.start()
    jobs = [await alone.schedule("index", {"n": n}, queue="q", debounce=0.05 if n == 4 else 3600) for n in range(5)]
    await alone.wait(jobs[-1].id, timeout=60)
    assert ran == [4] and {job.id for job in jobs} == {jobs[0].id}
    assert len(await alone.schedule_bulk([{"name": "index", "data": {"n": 5}, "queue": "q"}] * 4)) == 4
    await eventually(lambda: ran == [4, 5, 5, 5, 5])


@pytest.mark.slow
async def test_a_raw_insert_is_found_by_polling(alone: Scheduler) -> None:
    @alone.job("work")
    async def work() -> str:
        return "done"

    await alone.start()
    await alone.client.get_default_database()["jobs"].insert_one({"_id": "raw", "name": "work", "state": "pending"})
    assert (await alone.wait("raw", timeout=60)).result == "done"


@pytest.mark.slow
async def test_failures_are_retried_and_can_be_run_again_by_hand(alone: Scheduler) -> None:
    @alone.job("work", retry=Retry(attempts=2, delay=0.01))
    async def work(ctx: JobContext) -> str:
        if ctx.token < 3:
            raise ValueError("not yet")
        return f"token {ctx.token}"

    await alone.start()
    failed = await ended(alone, "work")
    assert (failed.state, len(failed.attempts)) == ("failed", 2)
    await alone.retry(failed.id)
    assert (await alone.wait(failed.id, timeout=60)).result == "token 3"


@pytest.mark.slow
async def test_pending_and_running_jobs_are_cancelled(alone: Scheduler) -> None:
    begun = asyncio.Event()

    @alone.job("work")
    async def work() -> None:
        begun.set()
        await asyncio.sleep(600)

    await alone.start()
    pending = await alone.schedule("work", delay=600)
    assert (await alone.cancel(pending.id)).state == "cancelled"
    running = await alone.schedule("work")
    await asyncio.wait_for(begun.wait(), 60)
    await alone.cancel(running.id, "enough")
    assert (await alone.wait(running.id, timeout=60)).state == "cancelled"


async def test_keys_deduplicate_one_by_one_and_in_bulk(alone: Scheduler) -> None:
    first = await alone.schedule("work", dedupe_key="k", delay=600)
    jobs = await alone.schedule_bulk([{"name": "work", "dedupe_key": key, "delay": 600} for key in ("k", "l", "l")])
    assert [job.deduplicated for job in jobs] == [True, False, True]
    assert jobs[0].id == first.id and jobs[1].id == jobs[2].id


@pytest.mark.slow
async def test_a_bulk_runs(alone: Scheduler) -> None:
    seen: list[int] = []

    @alone.job("work")
    async def work(n: int) -> None:
        seen.append(n)

    jobs = await alone.schedule_bulk([{"name": "work", "data": {"n": n}} for n in range(300)])
    await alone.start()
    await asyncio.gather(*(alone.wait(job.id, timeout=60) for job in jobs))
    assert sorted(seen) == list(range(300))


@pytest.mark.slow
async def test_what_a_lost_worker_held_is_rescued(alone: Scheduler, place: str) -> None:
    rescuer = Scheduler(place, poll_interval=0.1, lease=1)

    @rescuer.job("work")
    async def work(ctx: JobContext) -> int:
        return ctx.attempt

    job = await alone.schedule("work")
    gone = {"state": "running", "token": 1, "tries": 1, "worker": "gone", "lease_until": datetime.now(UTC)}
    jobs = alone.client.get_default_database()["jobs"]
    await jobs.update_one({"name": "work"}, {"$set": gone, "$unset": {"ready": 1}}, hint="_id_")
    async with rescuer:
        done = await rescuer.wait(job.id, timeout=60)
    assert (done.result, [attempt.outcome for attempt in done.attempts]) == (2, ["lost", "completed"])


async def test_jobs_that_were_not_started_in_time_expire(alone: Scheduler) -> None:
    @alone.job("work")
    async def work() -> None: ...

    past = datetime.now(UTC) - timedelta(hours=1)
    job = await alone.schedule("work", run_at=past, start_within=60)
    await alone.start()
    assert (await alone.wait(job.id, timeout=60)).state == "expired"


def test_the_blocking_face_works(place: str) -> None:
    scheduler = BlockingScheduler(place, poll_interval=0.1)

    @scheduler.job("work")
    def work() -> str:
        return threading.current_thread().name

    with scheduler:
        assert "mainspring-handler" in scheduler.wait(scheduler.schedule("work").id, timeout=60).result


# -- what is refused -----------------------------------------------------------------------------------------------


async def test_a_transaction_is_refused_with_the_cure(alone: Scheduler) -> None:
    with pytest.raises(UnsupportedServer, match=CURE):
        async with alone.transaction():
            raise AssertionError("it was entered")


async def test_a_session_is_refused_and_nothing_is_stored(alone: Scheduler) -> None:
    await alone.connect()
    async with alone.client.start_session() as session:
        with pytest.raises(UnsupportedServer, match=CURE):
            await alone.schedule("work", session=session)
        with pytest.raises(UnsupportedServer, match=CURE):
            await alone.schedule_bulk([{"name": "work"}], session=session)
    assert [job async for job in alone.jobs()] == []


async def test_a_handlers_transaction_is_refused_and_the_job_says_why(alone: Scheduler) -> None:
    seen: list[Exception] = []

    @alone.job("async", retry=1)
    async def asynchronous(ctx: JobContext) -> None:
        async with ctx.transaction():
            raise AssertionError("it was entered")

    @alone.job("sync", retry=1)
    def synchronous(ctx: BlockingJobContext) -> None:
        with ctx.transaction():
            raise AssertionError("it was entered")

    @alone.job("without", retry=1)
    async def without(ctx: JobContext) -> str:
        try:
            async with ctx.transaction():
                raise AssertionError("it was entered")
        except UnsupportedServer as error:
            seen.append(error)
            return "did without"

    await alone.start()
    for name in ("async", "sync"):
        done = await ended(alone, name)
        assert done.state == "failed" and done.error is not None
        assert done.error.type.endswith("UnsupportedServer") and "start it as a replica set" in done.error.message
    assert (await ended(alone, "without")).result == "did without"
    assert len(seen) == 1


@pytest.mark.slow
async def test_a_handler_keeps_its_lease_after_a_refused_transaction(place: str) -> None:
    scheduler = Scheduler(place, poll_interval=0.1, lease=2)
    begun = asyncio.Event()

    @scheduler.job("work", retry=1)
    async def work(ctx: JobContext) -> str:
        with pytest.raises(UnsupportedServer):
            async with ctx.transaction():
                pass
        begun.set()
        await asyncio.sleep(5)
        raise Fail(f"token {ctx.token}")

    async with scheduler:
        job = await scheduler.schedule("work")
        await asyncio.wait_for(begun.wait(), 60)

        async def over() -> Job | None:
            now = await scheduler.get_job(job.id)
            assert now.token == 1
            return now if now.finished else None

        done: Job = await eventually(over)
    assert done.error is not None and done.error.message == "token 1"
