"""What is kept of a job is bounded, and what was cut says so: wherever the job is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import bson
import pytest

from harness.apps import talkative
from harness.looking import Database
from harness.waiting import eventually
from mainspring import Attempt, Job, JobContext, Retry, Scheduler
from mainspring.store.codec import MAX_ATTEMPTS_KEPT

Make = Callable[..., Scheduler]

LINES, KEPT = 250, 200


def tells(attempt: Attempt | Job) -> bool:
    """Whether a log says that its first lines are missing: as a number, and in words."""
    first = ("… (50 earlier lines cut)", "line 50")
    return attempt.log_cut == LINES - KEPT and attempt.log[:2] == first and len(attempt.log) == KEPT + 1


async def ended(scheduler: Scheduler, name: str) -> Job:
    job = await scheduler.schedule(name, {"lines": LINES})
    return await scheduler.wait(job.id, timeout=120)


async def test_the_log_of_an_attempt_says_how_many_lines_were_cut(scheduler: Scheduler) -> None:
    heard: list[Job] = []
    scheduler.on("job:success", heard.append)

    @scheduler.job("talk")
    async def talk(ctx: JobContext, lines: int) -> None:
        for number in range(lines):
            ctx.log(f"line {number}")

    await scheduler.start()
    done = await ended(scheduler, "talk")
    assert tells(done.attempts[0]) and done.log_cut == 0
    await eventually(lambda: heard)
    assert tells(heard[0].attempts[0])


async def test_a_short_log_says_nothing_of_the_kind(scheduler: Scheduler) -> None:
    @scheduler.job("talk")
    async def talk(ctx: JobContext, lines: int) -> None:
        ctx.log("only this")

    await scheduler.start()
    done = await ended(scheduler, "talk")
    assert (done.attempts[0].log, done.attempts[0].log_cut) == (("only this",), 0)


async def test_a_running_job_and_an_attempt_that_was_lost_say_it_too(make_scheduler: Make) -> None:
    scheduler, other = make_scheduler(), make_scheduler()
    never = asyncio.Event()

    @scheduler.job("talk", retry=1)
    async def talk(ctx: JobContext, lines: int) -> None:
        for number in range(lines):
            ctx.log(f"line {number}")
        await never.wait()

    await scheduler.start()
    job = await scheduler.schedule("talk", {"lines": LINES})

    async def said() -> Job | None:
        now = await other.get_job(job.id)
        return now if now.log_cut else None

    running: Job = await eventually(said)
    assert tells(running) and running.worker is not None
    (rescued,) = await other.workers.rescue(running.worker)
    assert rescued.state == "failed" and rescued.log_cut == 0
    assert rescued.attempts[0].outcome == "lost" and tells(rescued.attempts[0])


@pytest.mark.parametrize("isolation", ["auto", "process"])
@pytest.mark.slow
async def test_an_attempt_that_ended_in_its_own_transaction_says_it_too(scheduler: Scheduler, isolation: Any) -> None:
    scheduler.job("talk", isolation=isolation)(talkative.talk)
    await scheduler.start()
    done = await ended(scheduler, "talk")
    assert done.state == "completed" and tells(done.attempts[0])
    assert done.result is None and done.result_note is not None and "over the limit of 65,536" in done.result_note


async def test_a_result_that_is_too_large_is_noted_where_it_is_told_too(scheduler: Scheduler) -> None:
    heard: list[Job] = []
    scheduler.on("job:success", heard.append)

    @scheduler.job("large")
    async def large(lines: int) -> str:
        return "x" * 100_000

    await scheduler.start()
    done = await ended(scheduler, "large")
    assert done.result is None and done.result_note is not None and "and was not kept" in done.result_note
    await eventually(lambda: heard)
    assert heard[0].result_note == done.result_note


async def test_the_note_of_a_progress_says_what_was_cut(scheduler: Scheduler) -> None:
    @scheduler.job("work")
    async def work(ctx: JobContext, lines: int) -> None:
        ctx.progress(50, "x" * 2500)

    await scheduler.start()
    progress = (await ended(scheduler, "work")).progress
    assert progress is not None and progress.note is not None
    assert progress.note.endswith("x… (500 more characters cut)")


async def test_an_error_says_what_was_cut_of_its_type_its_message_and_its_stack(scheduler: Scheduler) -> None:
    long_name = type("E" * 300, (Exception,), {})

    def deep(left: int) -> None:
        if left == 0:
            raise long_name("x" * 5000)
        deeper(left - 1)

    def deeper(left: int) -> None:
        deep(left)

    @scheduler.job("deep", retry=1)
    async def work(lines: int) -> None:
        deep(40)

    await scheduler.start()
    error = (await ended(scheduler, "deep")).error
    assert error is not None and error.stack is not None
    assert error.type.endswith("more characters cut)") and error.message.endswith("(904 more characters cut)")
    assert error.stack.startswith("… (cut")
    assert "… (cut: the last 30 of" in error.stack


async def test_a_reason_to_cancel_says_what_was_cut(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("work", delay=3600)
    error = (await scheduler.cancel(job.id, "x" * 5000)).error
    assert error is not None and error.message.endswith("x… (904 more characters cut)")


@pytest.mark.slow
async def test_attempts_that_were_dropped_are_counted_where_the_job_is_told_too(scheduler: Scheduler) -> None:
    heard: list[Job] = []
    scheduler.on("job:fail", heard.append)

    @scheduler.job("fail", retry=Retry(attempts=MAX_ATTEMPTS_KEPT + 3, delay=0))
    async def fail(lines: int) -> None:
        raise ValueError

    await scheduler.start()
    done = await ended(scheduler, "fail")
    assert (len(done.attempts), done.attempts_cut) == (MAX_ATTEMPTS_KEPT, 3)
    await eventually(lambda: heard)
    assert len(heard[0].attempts) + heard[0].attempts_cut == MAX_ATTEMPTS_KEPT + 3


@pytest.mark.slow
async def test_of_attempts_with_long_logs_as_many_are_kept_as_fit_into_their_bytes(
    scheduler: Scheduler, db: Database
) -> None:
    @scheduler.job("fail", retry=Retry(attempts=9, delay=0))
    async def fail(ctx: JobContext, lines: int) -> None:
        for _ in range(200):
            ctx.log("ログ" * 1_000)
        raise ValueError("外" * 10_000)

    await scheduler.start()
    done = await ended(scheduler, "fail")
    assert done.state == "failed" and 1 < len(done.attempts) < 9
    assert [one.number for one in done.attempts] == list(range(done.attempts_cut + 1, 10))
    (document,) = await db.jobs.find({}, hint="_id_").to_list()
    assert 2 * 1024**2 < len(bson.encode({"attempts": document["attempts"]})) < 3 * 1024**2
