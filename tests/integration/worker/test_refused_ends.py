"""An attempt whose end the server refuses to store: it ends alone, and the ends beside it are written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from harness.inside import inside
from harness.looking import Database
from harness.refusing import refusing
from harness.waiting import eventually
from mainspring import Job, JobContext, Retry, Scheduler
from mainspring.store.codec import document_id

Make = Callable[..., Scheduler]
NEIGHBOURS = 30


async def together(make_scheduler: Make, number: int, **options: Any) -> tuple[Scheduler, list[Job], asyncio.Event]:
    """Jobs that all run, and end at the same moment."""
    scheduler = make_scheduler(concurrency=number, **options)
    started: list[str] = []
    end = asyncio.Event()

    @scheduler.job("work", retry=Retry(attempts=1))
    async def work(ctx: JobContext, number: int) -> dict[str, int]:
        started.append(ctx.id)
        await end.wait()
        return {"number": number}

    jobs = await scheduler.schedule_bulk([{"name": "work", "data": {"number": one}} for one in range(number)])
    await scheduler.start()
    await eventually(lambda: len(started) == number)
    return scheduler, jobs, end


def holdings(scheduler: Scheduler) -> int:
    return len(inside(scheduler).worker.claimed_jobs)


def larger_than(size: int) -> dict[str, Any]:
    """What the server is to refuse in place of documents of 16 MB, which would take it long."""
    return {"$expr": {"$gt": [{"$bsonSize": "$$ROOT"}, size]}}


async def test_an_end_that_is_refused_becomes_a_failure_and_its_neighbours_are_written_and_told_of(
    make_scheduler: Make, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    scheduler, jobs, end = await together(make_scheduler, NEIGHBOURS + 1)
    scheduler.on("job:success", lambda job: heard.append(job.id))
    bad, *others = sorted(jobs, key=lambda job: job.data["number"] != NEIGHBOURS // 2)
    async with refusing(db, "jobs", {"_id": document_id(bad.id), "state": "completed"}):
        end.set()
        failed = await scheduler.wait(bad.id, timeout=60)
    done = [await scheduler.wait(job.id, timeout=60) for job in others]
    assert {job.state for job in done} == {"completed"} and {len(job.attempts) for job in done} == {1}
    assert [job.result for job in done] == [job.data for job in others]
    await eventually(lambda: sorted(heard) == sorted(job.id for job in others))
    assert failed.state == "failed" and failed.error is not None and failed.error.type == "EndRefused"
    assert "refused to store that the job is completed: Document failed validation" in failed.error.message
    assert "failed for good: EndRefused: MongoDB refused to store that the job is completed" in caplog.text
    await eventually(lambda: holdings(scheduler) == 0)


async def test_an_end_that_is_too_large_is_stored_without_its_log_and_its_result(
    scheduler: Scheduler, db: Database
) -> None:
    @scheduler.job("work", retry=1)
    async def work(ctx: JobContext) -> str:
        ctx.log("a line of the log")
        return "x" * 10_000

    job = await scheduler.schedule("work")
    async with refusing(db, "jobs", larger_than(2_000)):
        await scheduler.start()
        done = await scheduler.wait(job.id, timeout=60)
    assert (done.state, done.result) == ("completed", None)
    assert done.result_note is not None and "were not kept" in done.result_note
    assert done.attempts[-1].log_cut == 1


async def test_a_failure_that_is_too_large_is_stored_without_its_stack_and_is_retried(
    scheduler: Scheduler, db: Database
) -> None:
    @scheduler.job("work", retry=Retry(attempts=2, delay=0))
    async def work(ctx: JobContext) -> None:
        ctx.log("x" * 1_900)
        raise ValueError("no such thing")

    job = await scheduler.schedule("work")
    async with refusing(db, "jobs", larger_than(2_000)):
        await scheduler.start()
        done = await scheduler.wait(job.id, timeout=60)
    assert (done.state, done.tries, done.attempts_cut) == ("failed", 2, 1)
    assert done.error is not None and done.error.type == "ValueError" and done.error.stack is None
    assert done.error.message.startswith("no such thing (MongoDB refused the whole of it")


async def test_an_end_that_is_refused_in_every_form_is_reported_and_the_worker_goes_on(
    make_scheduler: Make, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    scheduler, jobs, end = await together(make_scheduler, 3)
    scheduler.on("job:lost", lambda job: heard.append(job.id))
    bad, *others = jobs
    async with refusing(db, "jobs", {"_id": document_id(bad.id), "state": {"$ne": "running"}}):
        end.set()
        await eventually(lambda: heard == [bad.id])
        assert (await scheduler.get_job(bad.id)).state == "running"
    assert [(await scheduler.wait(job.id, timeout=60)).state for job in others] == ["completed"] * 2
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert bad.id in line.getMessage() and "has ended, and that cannot be stored" in line.getMessage()
    await eventually(lambda: holdings(scheduler) == 0)
    later = await scheduler.schedule("work", {"number": 1})
    assert (await scheduler.wait(later.id, timeout=60)).state == "completed"


async def test_ends_wait_for_a_server_whose_disk_is_full(make_scheduler: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, (job,), end = await together(make_scheduler, 1)
    errors: list[Exception] = []
    scheduler.on("scheduler:error", errors.append)
    jobs = (await inside(scheduler).store()).connection.jobs
    real = type(jobs).bulk_write

    async def full(*args: Any, **options: Any) -> Any:
        if len(errors) < 2:
            raise OperationFailure("no space left", 14031)
        return await real(*args, **options)

    monkeypatch.setattr(type(jobs), "bulk_write", full)
    end.set()
    assert (await scheduler.wait(job.id, timeout=60)).state == "completed"


@pytest.mark.slow
async def test_large_results_that_end_together_are_stored_without_an_error(
    make_scheduler: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mainspring")
    scheduler = make_scheduler(concurrency=200, max_result=200_000)
    started: list[int] = []
    end = asyncio.Event()

    @scheduler.job("work")
    async def work(number: int) -> str:
        started.append(number)
        await end.wait()
        return f"{number:06}" * 20_000

    jobs = await scheduler.schedule_bulk([{"name": "work", "data": {"number": one}} for one in range(200)])
    await scheduler.start()
    await eventually(lambda: len(started) == 200)
    end.set()
    done = [await scheduler.wait(job.id, timeout=60) for job in jobs]
    assert [job.result[:6] for job in done] == [f"{one:06}" for one in range(200)]
    assert "met an error" not in caplog.text


async def test_a_worker_that_cannot_be_told_of_one_end_is_told_of_the_others(make_scheduler: Make) -> None:
    scheduler, jobs, end = await together(make_scheduler, 5)
    counting, bad = inside(scheduler).worker.counting, jobs[2]
    told, tell = [], counting.ended

    def ended(claimed: Any, ending: Any) -> None:
        told.append(claimed.id)
        if str(claimed.id) == bad.id:
            raise RuntimeError("cannot count this one")
        tell(claimed, ending)

    counting.ended = ended  # type: ignore[method-assign]
    end.set()
    await eventually(lambda: len(told) == 5 and holdings(scheduler) == 0)


async def test_a_step_whose_result_is_refused_fails_the_job_and_is_not_run_again(
    scheduler: Scheduler, db: Database
) -> None:
    run: list[int] = []

    @scheduler.job("work", retry=Retry(attempts=3, delay=0))
    async def work(ctx: JobContext) -> None:
        await ctx.step("charge", run.append, 1)

    job = await scheduler.schedule("work")
    async with refusing(db, "jobs", {"steps": {"$exists": True}}):
        await scheduler.start()
        done = await scheduler.wait(job.id, timeout=60)
    assert (done.state, run) == ("failed", [1])
    assert done.error is not None and "refuses to keep the result of step 'charge'" in done.error.message


async def test_a_result_is_kept_when_the_server_fails_for_a_reason_that_may_pass(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, jobs, end = await together(make_scheduler, 3)
    finishing = (await inside(scheduler).store()).finishing
    write, failures = finishing._write, iter(range(3))

    async def failing(finishes: Any) -> int:
        if next(failures, None) is not None:
            raise OperationFailure("the server is not itself", 8)
        return await write(finishes)

    monkeypatch.setattr(finishing, "_write", failing)
    end.set()
    done = [await scheduler.wait(job.id, timeout=60) for job in jobs]
    assert [(job.state, job.result, job.result_note) for job in done] == [("completed", job.data, None) for job in jobs]
