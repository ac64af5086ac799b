"""Every way in which an attempt can end, and what is kept of it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from harness.waiting import eventually
from mainspring import Cancel, Fail, Job, JobContext, Retry, RetryAfter, Scheduler, Snooze, sync

Make = Callable[..., Scheduler]


async def ended(scheduler: Scheduler, name: str, data: dict[str, Any] | None = None, **options: Any) -> Job:
    job = await scheduler.schedule(name, data, **options)
    return await scheduler.wait(job.id, timeout=60)


async def waiting_again(scheduler: Scheduler, job: Job) -> Job:
    """The job once it is pending again after an attempt."""

    async def look() -> Job | None:
        now = await scheduler.get_job(job.id)
        return now if now.state == "pending" and now.token else None

    found: Job = await eventually(look)
    return found


# -- returning -----------------------------------------------------------------------------------------------------


async def test_what_a_handler_returns_is_the_result(scheduler: Scheduler) -> None:
    results: list[Any] = [None, 0, "text", True, 1.5, [1, {"a": None}], {"$set": {"a.b": 1}}, b"bytes"]

    @scheduler.job("give")
    async def give(which: int) -> Any:
        return results[which]

    await scheduler.start()
    jobs = await scheduler.schedule_bulk([{"name": "give", "data": {"which": i}} for i in range(len(results))])
    done = [await scheduler.wait(job.id, 60) for job in jobs]
    assert [job.result for job in done] == results
    assert {job.state for job in done} == {"completed"}
    assert all(job.result_note is None and job.error is None and job.finished_at is not None for job in done)


@pytest.mark.parametrize("kind", ["object", "too large", "lone surrogate", "circle"])
async def test_a_result_that_cannot_be_kept_leaves_the_job_completed_with_a_note(
    make_scheduler: Make, kind: str
) -> None:
    scheduler = make_scheduler(max_result=1000)
    circle: list[Any] = []
    circle.append(circle)
    results = {"object": object(), "too large": "x" * 2000, "lone surrogate": "\ud800", "circle": circle}

    @scheduler.job("give")
    def give() -> Any:
        return results[kind]

    await scheduler.start()
    done = await ended(scheduler, "give")
    assert (done.state, done.result, done.token) == ("completed", None, 1)
    assert done.result_note is not None and "was not kept" in done.result_note


@pytest.mark.slow
async def test_many_jobs_that_end_alike_keep_an_attempt_each(make_scheduler: Make) -> None:
    scheduler = make_scheduler(concurrency=200)

    @scheduler.job("one")
    async def one() -> str:
        return "same"

    jobs = await scheduler.schedule_bulk([{"name": "one"}] * 300)
    await scheduler.start()
    done = [await scheduler.wait(job.id, 60) for job in jobs]
    assert {job.result for job in done} == {"same"}
    assert all(len(job.attempts) == 1 and job.attempts[0].outcome == "completed" for job in done)


# -- the signals ---------------------------------------------------------------------------------------------------


async def test_retry_after_costs_an_attempt_and_sets_the_time(scheduler: Scheduler) -> None:
    @scheduler.job("later", retry=Retry(attempts=2))
    async def later() -> None:
        raise RetryAfter(timedelta(hours=1), "come back")

    await scheduler.start()
    job = await waiting_again(scheduler, await scheduler.schedule("later"))
    assert job.tries == 1 and [attempt.outcome for attempt in job.attempts] == ["retried"]
    assert job.error is not None and (job.error.type, job.error.message) == ("RetryAfter", "come back")
    assert timedelta(minutes=59) < job.run_at - job.created_at < timedelta(minutes=61)


async def test_retry_after_on_the_last_attempt_is_the_end(scheduler: Scheduler) -> None:
    @scheduler.job("later", retry=Retry(attempts=2))
    def later() -> None:
        raise RetryAfter(0)

    await scheduler.start()
    done = await ended(scheduler, "later")
    assert (done.state, done.tries) == ("failed", 2)
    assert [attempt.outcome for attempt in done.attempts] == ["retried", "failed"]


async def test_a_snooze_costs_no_attempt(scheduler: Scheduler) -> None:
    seen: list[tuple[int, int]] = []

    @scheduler.job("sleepy", retry=Retry(attempts=1))
    async def sleepy(ctx: JobContext) -> str:
        seen.append((ctx.attempt, ctx.token))
        if ctx.token < 4:
            raise Snooze(0)
        return "awake"

    await scheduler.start()
    done = await ended(scheduler, "sleepy")
    assert (done.state, done.result, done.tries, done.token) == ("completed", "awake", 1, 4)
    assert seen == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert [attempt.outcome for attempt in done.attempts] == ["completed"]


async def test_a_snooze_sets_the_time(scheduler: Scheduler) -> None:
    @scheduler.job("sleepy")
    def sleepy() -> None:
        raise Snooze(3600)

    await scheduler.start()
    job = await waiting_again(scheduler, await scheduler.schedule("sleepy"))
    assert (job.tries, job.attempts, job.error) == (0, (), None)
    assert timedelta(minutes=59) < job.run_at - job.created_at < timedelta(minutes=61)


async def test_a_handler_can_cancel_its_job(scheduler: Scheduler) -> None:
    @scheduler.job("pointless", retry=Retry(attempts=5))
    async def pointless() -> None:
        raise Cancel("nothing to do")

    await scheduler.start()
    done = await ended(scheduler, "pointless")
    assert (done.state, done.token) == ("cancelled", 1)
    assert done.error is not None and done.error.message == "nothing to do"
    assert [attempt.outcome for attempt in done.attempts] == ["cancelled"]


async def test_a_handler_can_give_its_job_up_whatever_attempts_are_left(scheduler: Scheduler) -> None:
    @scheduler.job("hopeless", retry=Retry(attempts=5, delay=0))
    def hopeless() -> None:
        raise Fail("no such customer")

    await scheduler.start()
    done = await ended(scheduler, "hopeless")
    assert (done.state, done.token) == ("failed", 1)
    assert done.error is not None and (done.error.type, done.error.message) == ("Fail", "no such customer")


@pytest.mark.parametrize("signal", [Snooze(10**11), RetryAfter(timedelta.max)], ids=["snooze", "retry"])
async def test_a_delay_beyond_all_measure_keeps_the_job(scheduler: Scheduler, signal: Exception) -> None:
    @scheduler.job("never")
    async def never() -> None:
        raise signal

    await scheduler.start()
    job = await waiting_again(scheduler, await scheduler.schedule("never"))
    assert job.run_at.year > 2030
    assert [found.id async for found in scheduler.jobs()] == [job.id]


# -- failing -------------------------------------------------------------------------------------------------------


class Refused(Exception):
    """Not worth another try."""


async def test_an_exception_is_kept_with_its_type_message_and_stack(scheduler: Scheduler) -> None:
    @scheduler.job("broken", retry=1)
    async def broken() -> None:
        raise Refused("not today")

    await scheduler.start()
    done = await ended(scheduler, "broken")
    assert done.state == "failed" and done.error is not None
    assert done.error.type.endswith(".Refused") and done.error.message == "not today"
    assert done.error.stack is not None and "in broken" in done.error.stack
    assert done.attempts[0].error == done.error


async def test_a_job_that_fails_first_and_succeeds_then_shows_no_error_but_keeps_the_attempt(
    scheduler: Scheduler,
) -> None:
    @scheduler.job("second", retry=Retry(attempts=2, delay=0))
    def second(ctx: sync.JobContext) -> str:
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return "now"

    await scheduler.start()
    done = await ended(scheduler, "second")
    assert (done.state, done.result, done.error) == ("completed", "now", None)
    assert [attempt.outcome for attempt in done.attempts] == ["retried", "completed"]
    assert done.attempts[0].error is not None and done.attempts[0].error.message == "not yet"


@pytest.mark.parametrize(
    ("policy", "low", "high"),
    [
        (Retry(attempts=5, delay=100, backoff="fixed", jitter=0), 99, 102),
        (Retry(attempts=5, delay=100, backoff="linear", jitter=0), 199, 202),
        (Retry(attempts=5, delay=100, backoff="exponential", jitter=0, max_delay=150), 149, 152),
        (Retry(attempts=5, delay=lambda attempt: 1000.0 * attempt), 1799, 2202),
    ],
    ids=["fixed", "linear", "bounded", "function"],
)
async def test_the_next_try_is_due_when_the_policy_says(
    scheduler: Scheduler, policy: Retry, low: int, high: int
) -> None:
    @scheduler.job("fail", retry=policy)
    def fail() -> None:
        raise ValueError

    await scheduler.start()
    job = await waiting_again(scheduler, await scheduler.schedule("fail"))
    await scheduler.run_now(job.id)

    async def twice() -> Job | None:
        now = await scheduler.get_job(job.id)
        return now if now.state == "pending" and now.tries == 2 else None

    job = await eventually(twice)
    ended_at = job.attempts[-1].ended_at
    assert ended_at is not None
    assert low <= (job.run_at - ended_at).total_seconds() <= high


@pytest.mark.parametrize("again", [ValueError(), RetryAfter(0.05), Snooze(0.05)], ids=["retry", "after", "snooze"])
async def test_another_try_that_is_due_soon_does_not_wait_for_the_poll(make_scheduler: Make, again: Exception) -> None:
    scheduler = make_scheduler(poll_interval=3600)

    @scheduler.job("again", retry=Retry(attempts=2, delay=0.05))
    async def once_more(ctx: JobContext) -> None:
        if ctx.token == 1:
            raise again

    await scheduler.start()
    assert (await ended(scheduler, "again")).state == "completed"


async def test_the_jobs_own_policy_comes_before_the_handlers(scheduler: Scheduler) -> None:
    @scheduler.job("fail", retry=Retry(attempts=5, delay=0))
    def fail() -> None:
        raise ValueError

    await scheduler.start()
    assert (await ended(scheduler, "fail", retry=Retry(attempts=2, delay=0))).tries == 2


async def test_rules_by_exception_type_decide(scheduler: Scheduler) -> None:
    @scheduler.job("fail", retry=Retry(attempts=4, delay=0, rules={Refused: Retry(attempts=1)}))
    def fail(refused: bool) -> None:
        raise Refused if refused else ValueError

    await scheduler.start()
    assert (await ended(scheduler, "fail", {"refused": True})).tries == 1
    assert (await ended(scheduler, "fail", {"refused": False})).tries == 4


async def test_the_schedulers_default_policy_counts_where_nothing_else_is_said(make_scheduler: Make) -> None:
    scheduler = make_scheduler(retry=Retry(attempts=2, delay=0))

    @scheduler.job("fail")
    def fail() -> None:
        raise ValueError

    await scheduler.start()
    assert (await ended(scheduler, "fail")).tries == 2


async def test_a_policy_that_raises_does_not_keep_the_job_from_being_retried(scheduler: Scheduler) -> None:
    def delay(attempt: int) -> float:
        raise RuntimeError("broken policy")

    @scheduler.job("fail", retry=Retry(attempts=2, delay=delay))
    def fail() -> None:
        raise ValueError

    await scheduler.start()
    job = await waiting_again(scheduler, await scheduler.schedule("fail"))
    assert job.error is not None and job.error.type == "ValueError"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), StopIteration("x")])
async def test_not_even_an_exit_in_a_handler_ends_the_worker(scheduler: Scheduler, error: BaseException) -> None:
    @scheduler.job("exit", retry=1)
    def leave() -> None:
        raise error

    @scheduler.job("exit-async", retry=1)
    async def leave_async() -> None:
        raise error

    await scheduler.start()
    for name in ("exit", "exit-async"):
        done = await ended(scheduler, name)
        assert done.state == "failed" and done.error is not None


async def test_data_that_does_not_fit_the_handler_fails_at_once_when_it_is_run(make_scheduler: Make, uri: str) -> None:
    outside = make_scheduler()
    scheduler = make_scheduler()

    @scheduler.job("strict", retry=5)
    async def strict(count: int) -> None: ...

    await scheduler.start()
    done = await ended(outside, "strict", {"count": "many"})
    assert (done.state, done.tries) == ("failed", 1)
    assert done.error is not None and done.error.type == "InvalidJob"
    assert "The argument 'count' of 'strict' is of the wrong type" in done.error.message


async def test_an_error_that_utf8_cannot_carry_is_kept_all_the_same(scheduler: Scheduler) -> None:
    @scheduler.job("surrogate", retry=1)
    async def surrogate(ctx: JobContext) -> None:
        ctx.log("line caf\udce9")
        ctx.progress(5, "note \ud800")
        raise OSError("no such file: caf\udce9")

    await scheduler.start()
    done = await ended(scheduler, "surrogate")
    assert done.state == "failed" and done.error is not None
    assert done.error.message == "no such file: caf?"
    assert done.attempts[0].log == ("line caf?",)


async def test_a_huge_error_and_huge_logs_are_kept_in_part_and_say_so(scheduler: Scheduler) -> None:
    @scheduler.job("verbose", retry=1)
    def verbose(ctx: sync.JobContext) -> None:
        for number in range(300):
            ctx.log(f"line {number}")
        ctx.log("y" * 3000)
        raise ValueError("x" * 10_000)

    await scheduler.start()
    done = await ended(scheduler, "verbose")
    assert done.error is not None and done.error.message.endswith("more characters cut)")
    log = done.attempts[0].log
    assert log[0] == "… (101 earlier lines cut)" and log[1] == "line 101"
    assert log[-1].endswith("… (1,000 more characters cut)") and len(log) == 201


@pytest.mark.slow
async def test_the_last_hundred_attempts_are_kept_and_the_others_counted(scheduler: Scheduler) -> None:
    @scheduler.job("fail", retry=Retry(attempts=105, delay=0, jitter=0))
    async def fail() -> None:
        raise ValueError

    await scheduler.start()
    done = await ended(scheduler, "fail")
    assert (done.tries, len(done.attempts), done.attempts_cut) == (105, 100, 5)
    assert [attempt.number for attempt in done.attempts] == list(range(6, 106))


# -- what an attempt keeps -----------------------------------------------------------------------------------------


async def test_an_attempt_keeps_its_times_its_worker_and_its_log(scheduler: Scheduler) -> None:
    workers: list[str] = []
    scheduler.on("worker:start", workers.append)

    @scheduler.job("work")
    async def work(ctx: JobContext) -> None:
        await ctx.log("one")
        ctx.log("two")
        await asyncio.sleep(0.02)

    await scheduler.start()
    done = await ended(scheduler, "work")
    (attempt,) = done.attempts
    assert (attempt.number, attempt.token, attempt.outcome, attempt.log) == (1, 1, "completed", ("one", "two"))
    assert [attempt.worker] == workers
    assert attempt.started_at is not None and attempt.ended_at is not None and attempt.duration is not None
    assert done.created_at <= attempt.started_at < attempt.ended_at
    assert attempt.duration >= timedelta(milliseconds=19)
    assert done.log == () and done.worker is None and done.lease_until is None


async def test_progress_and_log_lines_are_visible_while_the_job_runs(scheduler: Scheduler) -> None:
    go_on = asyncio.Event()

    @scheduler.job("work")
    async def work(ctx: JobContext) -> None:
        ctx.progress(40, "nearly half")
        ctx.log("begun")
        await go_on.wait()

    await scheduler.start()
    job = await scheduler.schedule("work")

    async def noted() -> Job | None:
        now = await scheduler.get_job(job.id)
        return now if now.progress is not None and now.log else None

    running: Job = await eventually(noted)
    assert running.state == "running" and running.log == ("begun",)
    assert running.progress is not None and (running.progress.percent, running.progress.note) == (40, "nearly half")
    assert running.worker is not None and running.lease_until is not None and running.started_at is not None
    go_on.set()
    done = await scheduler.wait(job.id, 60)
    assert done.attempts[0].log == ("begun",)
    assert done.progress is not None and done.progress.percent == 40


@pytest.mark.parametrize("percent", [-1, 101, "50", None, True, float("nan")])
async def test_progress_outside_its_range_is_refused(scheduler: Scheduler, percent: Any) -> None:
    @scheduler.job("work", retry=1)
    async def work(ctx: JobContext) -> None:
        ctx.progress(percent)

    await scheduler.start()
    done = await ended(scheduler, "work")
    assert done.error is not None and "progress is a number from 0 to 100" in done.error.message


async def test_a_context_tells_the_facts_of_its_job(scheduler: Scheduler) -> None:
    seen: list[Any] = []

    @scheduler.job("facts")
    def facts(ctx: sync.JobContext) -> None:
        seen.append((ctx.id, ctx.name, ctx.data, ctx.queue, ctx.priority, ctx.attempt, ctx.token, ctx.tags))
        seen.append((ctx.is_cancelled, ctx.run_at, ctx.schedule_id, ctx.scheduled_for))

    await scheduler.start()
    job = await scheduler.schedule("facts", {"a": 1}, queue="q", priority=2, tags=["t"])
    await scheduler.wait(job.id, 60)
    assert seen == [(job.id, "facts", {"a": 1}, "q", 2, 1, 1, ("t",)), (False, job.run_at, None, None)]


# -- timeouts ------------------------------------------------------------------------------------------------------


async def test_an_async_handler_is_cancelled_when_its_time_is_over(scheduler: Scheduler) -> None:
    cancelled = asyncio.Event()

    @scheduler.job("slow", timeout=0.05, retry=1)
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    await scheduler.start()
    done = await ended(scheduler, "slow")
    assert done.state == "failed" and cancelled.is_set()
    assert done.error is not None
    assert (done.error.type, done.error.message) == (
        "Timeout",
        "The attempt took longer than its timeout of 0.05 s.",
    )


async def test_a_timeout_is_followed_by_another_try(scheduler: Scheduler) -> None:
    @scheduler.job("slow", timeout=0.05, retry=Retry(attempts=2, delay=0))
    async def slow(ctx: JobContext) -> str:
        if ctx.attempt == 1:
            await asyncio.sleep(60)
        return "quick"

    await scheduler.start()
    done = await ended(scheduler, "slow")
    assert (done.state, done.result) == ("completed", "quick")
    assert done.attempts[0].error is not None and done.attempts[0].error.type == "Timeout"


async def test_whatever_a_handler_raises_or_returns_at_its_timeout_the_timeout_counts(scheduler: Scheduler) -> None:
    @scheduler.job("slow", timeout=0.05, retry=1)
    async def slow(how: str) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if how == "raise":
                raise ValueError("other") from None
        return "late"

    await scheduler.start()
    for how in ("raise", "return"):
        done = await ended(scheduler, "slow", {"how": how})
        assert done.error is not None and done.error.type == "Timeout"


async def test_the_jobs_own_timeout_comes_before_the_handlers(scheduler: Scheduler) -> None:
    @scheduler.job("slow", timeout=60, retry=1)
    async def slow() -> None:
        await asyncio.sleep(60)

    await scheduler.start()
    done = await ended(scheduler, "slow", timeout=timedelta(milliseconds=50))
    assert done.error is not None and done.error.type == "Timeout"


async def test_a_thread_sees_that_its_time_is_over_and_can_stop(scheduler: Scheduler) -> None:
    stopped = threading.Event()

    @scheduler.job("slow", timeout=0.05, retry=1)
    def slow(ctx: sync.JobContext) -> None:
        while not ctx.is_cancelled:
            time.sleep(0.005)
        stopped.set()

    await scheduler.start()
    done = await ended(scheduler, "slow")
    assert done.error is not None and done.error.type == "Timeout" and stopped.is_set()


async def test_a_thread_that_ignores_its_timeout_is_reported_and_its_slot_replaced(
    make_scheduler: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.run.executor._STOP_GRACE", 0.1)
    scheduler = make_scheduler(concurrency=1)
    let_go = threading.Event()

    @scheduler.job("stuck", timeout=0.05, retry=1)
    def stuck() -> str:
        let_go.wait(60)
        return "too late"

    @scheduler.job("next")
    def following() -> str:
        return "ran"

    try:
        await scheduler.start()
        with caplog.at_level(logging.ERROR, "mainspring"):
            done = await ended(scheduler, "stuck")
        assert done.state == "failed" and done.error is not None and done.error.type == "Timeout"
        assert "does not stop; it is left behind and its slot replaced" in caplog.text
        assert (await ended(scheduler, "next")).result == "ran"
    finally:
        let_go.set()
    assert (await scheduler.get_job(done.id)).result is None


async def test_an_async_handler_that_ignores_its_timeout_is_left_behind(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.run.executor._STOP_GRACE", -0.9)
    scheduler = make_scheduler(concurrency=1)
    let_go = asyncio.Event()

    @scheduler.job("stuck", timeout=0.05, retry=1)
    async def stuck() -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    @scheduler.job("next")
    async def following() -> str:
        return "ran"

    await scheduler.start()
    done = await ended(scheduler, "stuck")
    assert done.error is not None and done.error.type == "Timeout"
    assert (await ended(scheduler, "next")).result == "ran"
    let_go.set()
