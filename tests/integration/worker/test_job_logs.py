"""What the log tells of jobs that did not go well."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from harness.waiting import eventually
from mainspring import Breaker, Every, Fail, JobContext, Retry, Scheduler
from mainspring.engine import job_log

FORGED = "boom\n2026-01-01 00:00:00,000 1 ERROR forged\x1b[31m"


@pytest.fixture(autouse=True)
def _listen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mainspring")


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[logging.LogRecord]:
    """The records of a level that are about jobs."""
    return [one for one in caplog.records if one.levelno == level and hasattr(one, "job_name")]


def fields(record: logging.LogRecord, *names: str) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in names)


async def test_an_error_that_is_a_sentence_has_no_full_stop_within_the_line(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    @scheduler.job("late", retry=1)
    async def late() -> None:
        raise ValueError("The bank is closed.")

    await scheduler.start()
    await scheduler.wait((await scheduler.schedule("late")).id, timeout=60)
    (error,) = await eventually(lambda: lines(caplog, logging.ERROR))
    assert "ValueError: The bank is closed; the job is a dead letter now" in error.getMessage()


async def test_a_failed_attempt_is_one_warning_and_a_dead_letter_an_error_with_its_traceback(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    @scheduler.job("bad", retry=Retry(attempts=2, delay=0.01, jitter=0))
    async def bad() -> None:
        raise ValueError(FORGED)

    workers: list[str] = []
    scheduler.on("worker:start", workers.append)
    await scheduler.start()
    job = await scheduler.wait((await scheduler.schedule("bad")).id, timeout=60)
    await eventually(lambda: lines(caplog, logging.ERROR))  # it is told once it is known to be stored
    (warning,), (error,) = lines(caplog, logging.WARNING), lines(caplog, logging.ERROR)
    told = "boom\\n2026-01-01 00:00:00,000 1 ERROR forged\\x1b[31m"
    assert warning.getMessage() == (
        f"Attempt 1 of 2 of job {job.id} (bad) on worker {workers[0]} failed: ValueError: {told}; "
        "the next one is due in 0.01 s"
    )
    assert warning.exc_text is None
    assert error.getMessage() == (
        f"Attempt 2 of 2 of job {job.id} (bad) on worker {workers[0]} failed for good: ValueError: {told}; "
        "the job is a dead letter now"
    )
    for record, attempt in ((warning, 1), (error, 2)):
        about = fields(record, "job_id", "job_name", "queue", "attempt", "attempts", "worker", "error_type")
        assert about == (job.id, "bad", "default", attempt, 2, workers[0], "ValueError")
    shown = logging.Formatter("%(message)s").format(error).splitlines()
    assert any("in bad" in line for line in shown)
    assert all(line.startswith("    ") for line in shown[1:])  # no line that looks like one of the log
    assert "\x1b" not in "".join(shown)


async def test_a_job_that_gives_up_says_at_which_attempt(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    @scheduler.job("hopeless", retry=Retry(attempts=5))
    async def hopeless() -> None:
        raise Fail("no such customer")

    await scheduler.start()
    await scheduler.wait((await scheduler.schedule("hopeless")).id, timeout=60)
    await eventually(lambda: lines(caplog, logging.ERROR))  # it is told once it is known to be stored
    (error,) = lines(caplog, logging.ERROR)
    assert "Attempt 1 of 5 " in error.getMessage() and "Fail: no such customer" in error.getMessage()


async def test_secrets_are_not_logged(scheduler: Scheduler, caplog: pytest.LogCaptureFixture) -> None:
    @scheduler.job("login", retry=Retry(attempts=2, delay=0.01))
    async def login(password: str) -> None:
        raise ValueError(f"wrong: {password}")

    await scheduler.start()
    await scheduler.wait((await scheduler.schedule("login", {"password": "hunter2-canary"})).id, timeout=60)
    await eventually(lambda: lines(caplog, logging.ERROR))  # it is told once it is known to be stored
    assert len(lines(caplog, logging.WARNING)) == len(lines(caplog, logging.ERROR)) == 1
    assert "wrong: [redacted]" in caplog.text and "hunter2-canary" not in caplog.text


async def test_a_storm_of_failures_is_summed_up(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_log, "LINES", 3)

    @scheduler.job("bad", retry=Retry(attempts=1))
    async def bad(number: int) -> None:
        raise ValueError("no")

    @scheduler.job("other", retry=Retry(attempts=1))
    async def other() -> None:
        raise ValueError("no")

    jobs = await scheduler.schedule_bulk([{"name": "bad", "data": {"number": n}} for n in range(20)])
    await scheduler.start()
    for job in [*jobs, await scheduler.schedule("other")]:
        await scheduler.wait(job.id, timeout=60)
    await eventually(lambda: {one.job_name for one in lines(caplog, logging.ERROR)} == {"bad", "other"})  # type: ignore[attr-defined]
    assert [one.job_name for one in lines(caplog, logging.ERROR)].count("bad") == 3  # type: ignore[attr-defined]
    assert [one.job_name for one in lines(caplog, logging.ERROR)].count("other") == 1  # type: ignore[attr-defined]
    await scheduler.stop()
    summary = lines(caplog, logging.ERROR)[-1].getMessage()
    assert summary.startswith("17 more such lines about jobs 'bad' were left out; the last one: Attempt 1 of 1 of job ")


async def test_a_rescue_names_the_job_its_attempt_and_the_worker_that_lost_it(
    scheduler: Scheduler, side_client: AsyncMongoClient[dict[str, Any]], uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = [await scheduler.schedule("gone"), await scheduler.schedule("gone")]
    collection = scheduler.client.get_default_database()["jobs"]
    past = datetime.now(UTC) - timedelta(hours=1)
    for job, most in zip(jobs, (3, 1), strict=True):
        held = {"state": "running", "worker": "w1", "claim": "c", "lease_until": past, "claimed_at": past}
        await collection.update_one(
            {"_id": job_id(job.id)},
            {"$set": {**held, "tries": 1, "token": 1, "max_attempts": most}, "$unset": {"ready": 1}},
        )
    await scheduler.workers.rescue("w1")
    (again,), (dead,) = lines(caplog, logging.WARNING), lines(caplog, logging.ERROR)
    assert again.getMessage() == (
        f"Job {jobs[0].id} (gone) was taken from worker w1, which is gone, at attempt 1 of 3; it is pending now"
    )
    assert "at attempt 1 of 1; it is a dead letter now" in dead.getMessage()
    assert fields(again, "job_id", "job_name", "attempt", "attempts", "worker") == (jobs[0].id, "gone", 1, 3, "w1")


async def test_a_lost_claim_names_the_job_its_attempt_and_the_worker(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    @scheduler.job("slow")
    async def slow(ctx: JobContext) -> None:
        await scheduler.client.get_default_database()["jobs"].update_one(
            {"_id": job_id(ctx.id)}, {"$set": {"token": 99, "state": "cancelled"}}
        )

    await scheduler.start()
    job = await scheduler.schedule("slow")
    await eventually(lambda: lines(caplog, logging.WARNING))
    (warning,) = lines(caplog, logging.WARNING)
    assert f"of job {job.id} (slow) on worker " in warning.getMessage()
    assert warning.getMessage().endswith("has lost its claim; its result was not recorded")
    assert fields(warning, "job_id", "attempt") == (job.id, 1) and warning.worker  # type: ignore[attr-defined]


async def test_a_schedule_that_pauses_itself_and_a_breaker_that_opens_are_logged(
    make_scheduler: Callable[..., Scheduler], caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler()

    @scheduler.job("bad", retry=Retry(attempts=1), breaker=Breaker(errors=0.1, minimum=1))
    async def bad() -> None:
        raise ValueError("no\nforged")

    await scheduler.start()
    schedule = await scheduler.schedule("bad", repeat=Every("0.1s"), schedule_id="often", pause_after=1)
    await eventually(lambda: "is paused" in caplog.text and "breaker" in caplog.text)
    (paused,) = [one for one in caplog.records if hasattr(one, "schedule_id")]
    assert paused.levelno == logging.WARNING
    told = r"Schedule often \(bad\) is paused: \d+ runs in a row have failed; the last one: no\\nforged"
    assert re.fullmatch(told, paused.getMessage())
    assert fields(paused, "schedule_id", "job_name") == (schedule.id, "bad")
    opened = next(one for one in caplog.records if hasattr(one, "breaker"))
    assert fields(opened, "breaker", "state", "levelno") == ("name:bad", "open", logging.WARNING)


def job_id(text: str) -> Any:
    from bson import ObjectId

    return ObjectId(text)
