"""The archive hook: what it is given, what happens where it does not take it, and that no deletion bypasses it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from harness.inside import inside
from harness.looking import Database, count_jobs
from harness.pruning import prune, pruner_of
from harness.waiting import eventually
from mainspring import ArchiveError, ConfigurationError, Job, Scheduler, sync
from mainspring.clock import ManualClock
from mainspring.engine.services.archive import remove_finished

Make = Callable[..., Scheduler]


async def finished(scheduler: Scheduler, db: Database, number: int = 1, *, at: datetime | None = None) -> list[str]:
    """So many completed jobs, of long ago where nothing else is said; their ids."""
    await scheduler.connect()
    jobs = await scheduler.schedule_bulk([{"name": "work", "data": {"n": n}, "delay": 3600} for n in range(number)])
    ended = {"state": "completed", "finished_at": at or datetime.now(UTC) - timedelta(days=30), "result": "done"}
    ids = [ObjectId(job.id) for job in jobs]
    await db.jobs.update_many({"_id": {"$in": ids}}, {"$set": ended, "$unset": {"ready": 1}})
    return [job.id for job in jobs]


async def none_left(db: Database) -> bool:
    return await count_jobs(db) == 0


async def test_jobs_are_given_to_the_hook_whole_and_before_they_are_deleted(scheduler: Scheduler, db: Database) -> None:
    archived: list[Job] = []
    stored: list[int] = []

    @scheduler.archive
    async def archive(jobs: list[Job]) -> None:
        archived.extend(jobs)
        stored.append(await count_jobs(db))

    ids = await finished(scheduler, db, 3)
    await scheduler.start()
    await eventually(lambda: none_left(db))
    assert sorted(job.id for job in archived) == sorted(ids) and stored == [3]
    assert {(job.name, job.state, job.result) for job in archived} == {("work", "completed", "done")}
    assert sorted(job.data["n"] for job in archived) == [0, 1, 2]


async def test_a_plain_function_is_called_in_a_thread(scheduler: Scheduler, db: Database) -> None:
    threads: list[threading.Thread] = []
    scheduler.archive(lambda jobs: threads.append(threading.current_thread()))
    await finished(scheduler, db)
    assert await prune(scheduler, keep_finished=5) == 1
    assert threads and threads[0] is not threading.main_thread()


async def test_the_hook_is_given_a_hundred_jobs_at_most_at_a_time(scheduler: Scheduler, db: Database) -> None:
    sizes: list[int] = []
    scheduler.archive(lambda jobs: sizes.append(len(jobs)))
    await finished(scheduler, db, 250)
    assert await prune(scheduler, keep_finished=5) == 250
    assert sizes == [100, 100, 50]


async def test_where_the_hook_raises_nothing_is_deleted_and_it_is_told(
    scheduler: Scheduler, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[tuple[Exception, list[str]]] = []
    scheduler.on("archive:fail", lambda error, jobs: heard.append((error, jobs)))
    broken = True

    @scheduler.archive
    def archive(jobs: list[Job]) -> None:
        if broken:
            raise OSError("the disk is full")

    ids = await finished(scheduler, db, 2)
    pruner = pruner_of(scheduler, keep_finished=5)
    with caplog.at_level(logging.ERROR, "mainspring"), pytest.raises(ArchiveError, match="the disk is full"):
        await pruner.prune()
    assert await count_jobs(db) == 2
    assert "nothing of this batch was deleted. It is tried again later." in caplog.text
    ((error, jobs),) = heard
    assert isinstance(error, OSError) and sorted(jobs) == sorted(ids)
    broken = False
    await pruner.prune()
    assert await count_jobs(db) == 0


async def test_a_worker_gives_the_jobs_to_the_hook_again_until_it_takes_them(
    make_scheduler: Make, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.services.pruner._FIRST_BACKOFF", 0.01)
    scheduler = make_scheduler()
    given: list[list[str]] = []

    @scheduler.archive
    async def archive(jobs: list[Job]) -> None:
        given.append([job.id for job in jobs])
        if len(given) < 4:
            raise RuntimeError("not now")

    ids = await finished(scheduler, db)
    await scheduler.start()
    await eventually(lambda: none_left(db))
    assert given == [ids] * 4


async def test_a_job_that_was_run_again_while_it_was_archived_is_not_deleted(
    scheduler: Scheduler, db: Database
) -> None:
    @scheduler.archive
    async def archive(jobs: list[Job]) -> None:
        await scheduler.retry(jobs[0].id)
        await scheduler.cancel(jobs[0].id)

    (job_id,) = await finished(scheduler, db)
    assert await prune(scheduler, keep_finished=5) == 0
    assert (await scheduler.get_job(job_id)).state == "cancelled"


async def test_a_process_without_the_hook_deletes_nothing_while_others_have_it(
    make_scheduler: Make, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    with_hook, without = make_scheduler(clock=clock), make_scheduler(clock=clock)
    with_hook.archive(lambda jobs: None)
    await without.connect()
    await finished(with_hook, db, at=clock.now())
    clock.advance(10)
    await inside(with_hook).archive.announce(inside(with_hook).open_store)
    with caplog.at_level(logging.INFO, "mainspring"):
        assert await prune(without, keep_finished=5) == 0
    assert "left to workers with an archive hook" in caplog.text
    documents = [document async for document in db.jobs.find({}, hint="_id_")]
    with pytest.raises(ArchiveError, match="this process has no archive hook: register it here too"):
        await remove_finished(inside(without).open_store, inside(without).archive, documents)
    clock.advance(timedelta(days=6))
    assert await prune(without, keep_finished=5) == 0  # a week after the last sign of it, not sooner
    assert await prune(with_hook, keep_finished=5) == 1
    await finished(without, db, at=clock.now())
    clock.advance(timedelta(days=7, seconds=1))
    assert await prune(without, keep_finished=5) == 1


async def test_a_worker_with_the_hook_says_so_as_soon_as_it_starts(make_scheduler: Make) -> None:
    with_hook, without = make_scheduler(), await make_scheduler().connect()
    with_hook.archive(lambda jobs: None)
    store = inside(without).open_store
    assert not await inside(without).archive.is_elsewhere(store)
    await with_hook.start()
    assert await inside(without).archive.is_elsewhere(store)


async def test_discarding_goes_through_the_hook_too(scheduler: Scheduler, db: Database) -> None:
    archived: list[str] = []
    scheduler.archive(lambda jobs: archived.extend(job.id for job in jobs))
    ids = await finished(scheduler, db, 2)
    documents = [document async for document in db.jobs.find({}, hint="_id_")]
    assert await remove_finished(inside(scheduler).open_store, inside(scheduler).archive, documents) == 2
    assert sorted(archived) == sorted(ids) and await none_left(db)


async def test_a_hook_that_takes_long_holds_up_nothing_but_pruning_and_is_left_when_the_worker_stops(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler(operation_timeout=3)
    called = asyncio.Event()

    @scheduler.archive
    async def archive(jobs: list[Job]) -> None:
        called.set()
        await asyncio.Event().wait()

    @scheduler.job("echo")
    async def echo(text: str) -> str:
        return text

    (old,) = await finished(scheduler, db)
    await scheduler.start()
    await called.wait()
    job = await scheduler.schedule("echo", {"text": "hi"})
    assert (await scheduler.wait(job.id, timeout=60)).result == "hi"
    await scheduler.stop()
    assert await count_jobs(db, _id=ObjectId(old)) == 1


def test_there_is_one_hook_and_it_is_a_function() -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:1/x")

    @scheduler.archive
    def archive(jobs: list[Job]) -> str:
        return "still callable"

    assert archive([]) == "still callable"
    scheduler.archive(archive)
    with pytest.raises(ConfigurationError, match="There is an archive already"):
        scheduler.archive(lambda jobs: None)
    wrong: Any = 5
    with pytest.raises(ConfigurationError, match="must be a function of a list of jobs, not 5"):
        Scheduler("mongodb://127.0.0.1:1/x").archive(wrong)


def test_the_blocking_face_has_the_hook_too() -> None:
    scheduler = sync.Scheduler("mongodb://127.0.0.1:1/x")
    scheduler.archive(lambda jobs: None)
    assert inside(scheduler.inner).archive
