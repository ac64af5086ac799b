"""Cancelling: pending jobs at once, running ones wherever they run, and never coming back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from harness.inside import inside
from harness.waiting import eventually
from mainspring import Job, JobContext, Retry, Scheduler, Snooze, sync
from mainspring.store.jobs.leases import Renewals

Make = Callable[..., Scheduler]


async def running(scheduler: Scheduler, job: Job) -> Job:
    async def look() -> Job | None:
        now = await scheduler.get_job(job.id)
        return now if now.state == "running" else None

    found: Job = await eventually(look)
    return found


async def test_a_pending_job_is_cancelled_at_once_and_never_runs(scheduler: Scheduler) -> None:
    heard: list[Job] = []
    scheduler.on("job:cancel", heard.append)

    @scheduler.job("x")
    async def x() -> None: ...

    job = await scheduler.schedule("x")
    cancelled = await scheduler.cancel(job.id, "not needed")
    assert cancelled.state == "cancelled" and cancelled.finished_at is not None
    assert cancelled.error is not None and cancelled.error.message == "not needed"
    assert [one.id for one in heard] == [job.id]
    await scheduler.start()
    other = await scheduler.schedule("x")
    await scheduler.wait(other.id, 60)
    assert (await scheduler.get_job(job.id)).token == 0


async def test_cancelling_without_a_reason_leaves_no_error(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("x")
    assert (await scheduler.cancel(job.id)).error is None


async def test_a_long_reason_is_kept_in_part(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("x")
    error = (await scheduler.cancel(job.id, "x" * 10_000 + "\ud800")).error
    assert error is not None and error.message.endswith("more characters cut)")


@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.slow
async def test_a_running_async_handler_is_cancelled_within_two_seconds(
    scheduler: Scheduler, timeout: float | None
) -> None:
    seen = asyncio.Event()

    @scheduler.job("slow", timeout=timeout, retry=5)
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.set()
            raise

    await scheduler.start()
    job = await running(scheduler, await scheduler.schedule("slow"))
    asked = time.monotonic()
    requested = await scheduler.cancel(job.id, "enough")
    # A worker that is quick has ended it by the time the answer is read.
    assert requested.cancel_requested if requested.state == "running" else requested.state == "cancelled"
    done = await scheduler.wait(job.id, 10)
    assert time.monotonic() - asked < 5
    assert (done.state, done.token, seen.is_set(), done.cancel_requested) == ("cancelled", 1, True, False)
    assert done.error is not None and done.error.message == "enough"
    assert [attempt.outcome for attempt in done.attempts] == ["cancelled"]


@pytest.mark.parametrize("timeout", [None, 60])
async def test_a_running_thread_sees_that_it_is_cancelled(scheduler: Scheduler, timeout: float | None) -> None:
    @scheduler.job("slow", timeout=timeout)
    def slow(ctx: sync.JobContext) -> str:
        while not ctx.is_cancelled:
            time.sleep(0.005)
        return "stopped early"

    await scheduler.start()
    job = await running(scheduler, await scheduler.schedule("slow"))
    await scheduler.cancel(job.id)
    done = await scheduler.wait(job.id, 60)
    assert (done.state, done.result) == ("cancelled", None)


@pytest.mark.parametrize("place", ["loop", "thread"])
@pytest.mark.parametrize("timeout", [None, 60])
async def test_a_cancelled_handler_ends_when_it_has_cleaned_up_however_long_that_takes(
    scheduler: Scheduler, timeout: float | None, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed: list[int] = []
    look = Renewals.cancellations

    def counted(renewals: Renewals, worker: str) -> Any:
        found = look(renewals, worker)
        noticed.extend([1] * len(found))
        return found

    monkeypatch.setattr(Renewals, "cancellations", counted)
    monkeypatch.setattr("mainspring.engine.heartbeat._CANCEL_EVERY", 0.0)
    may_end, cleaned = threading.Event(), []

    @scheduler.job("loop", timeout=timeout)
    async def in_loop() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await eventually(may_end.is_set)
            cleaned.append("up")

    @scheduler.job("thread", timeout=timeout)
    def in_thread(ctx: sync.JobContext) -> None:
        while not ctx.is_cancelled:
            time.sleep(0.005)
        may_end.wait(60)
        cleaned.append("up")

    await scheduler.start()
    job = await running(scheduler, await scheduler.schedule(place))
    await scheduler.cancel(job.id)
    await eventually(lambda: len(noticed) >= 4)
    state = (await scheduler.get_job(job.id)).state
    may_end.set()
    done = await scheduler.wait(job.id, 60)
    assert (state, done.state, cleaned) == ("running", "cancelled", ["up"])


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_cancelled_handler_that_does_not_end_is_left_behind_when_its_time_is_over(
    make_scheduler: Make, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.run.executor._STOP_GRACE", 0.1 if place == "thread" else -0.9)
    monkeypatch.setattr("mainspring.engine.heartbeat._CANCEL_EVERY", 0.0)
    scheduler = make_scheduler(concurrency=1)
    may_end = threading.Event()

    @scheduler.job("loop", timeout=3)
    async def in_loop() -> None:
        while not may_end.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    @scheduler.job("thread", timeout=3)
    def in_thread() -> None:
        may_end.wait(60)

    @scheduler.job("next")
    async def following() -> str:
        return "ran"

    try:
        await scheduler.start()
        job = await running(scheduler, await scheduler.schedule(place))
        await scheduler.cancel(job.id)
        await eventually(lambda: any(one.cancelled for one in inside(scheduler).worker.claimed_jobs.all()))
        assert (await scheduler.wait(job.id, 20)).state == "cancelled"
        assert (await scheduler.wait((await scheduler.schedule("next")).id, 20)).result == "ran"
    finally:
        may_end.set()


@pytest.mark.parametrize("how", ["raise", "snooze", "return", "swallow"])
async def test_a_cancelled_job_stays_cancelled_however_its_handler_ends(scheduler: Scheduler, how: str) -> None:
    @scheduler.job("slow", retry=Retry(attempts=5, delay=0))
    async def slow(ctx: JobContext) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if how == "raise":
                raise ValueError("while stopping") from None
            if how == "snooze":
                raise Snooze(0) from None
            if how == "swallow":
                await asyncio.sleep(0.01)
        return "done all the same"

    await scheduler.start()
    job = await running(scheduler, await scheduler.schedule("slow"))
    await scheduler.cancel(job.id)
    done = await scheduler.wait(job.id, 60)
    assert (done.state, done.token) == ("cancelled", 1)
    await scheduler.stop()
    await scheduler.start()
    other = await scheduler.schedule("slow")
    await running(scheduler, other)
    again = await scheduler.get_job(job.id)
    assert (again.state, again.token) == ("cancelled", 1)


@pytest.mark.parametrize("ending", [ValueError("failed"), Snooze(0)], ids=["retry", "snooze"])
async def test_a_cancellation_nobody_had_noticed_wins_over_another_try(scheduler: Scheduler, ending: Exception) -> None:
    go_on = threading.Event()

    @scheduler.job("quick", retry=Retry(attempts=5, delay=0))
    def quick() -> None:
        go_on.wait(60)
        raise ending

    await scheduler.start()
    job = await running(scheduler, await scheduler.schedule("quick"))
    await scheduler.cancel(job.id, "enough")
    go_on.set()
    done = await scheduler.wait(job.id, 60)
    assert (done.state, done.token) == ("cancelled", 1)


async def test_a_handler_that_returns_before_it_learns_of_its_cancellation_has_completed(scheduler: Scheduler) -> None:
    release: dict[str, asyncio.Event] = {"now": asyncio.Event()}

    @scheduler.job("quick")
    async def quick() -> str:
        await release["now"].wait()
        return "done"

    await scheduler.start()
    job = await running(scheduler, await scheduler.schedule("quick"))
    await scheduler.cancel(job.id)
    release["now"].set()
    done = await scheduler.wait(job.id, 60)
    assert done.state in ("completed", "cancelled") and not done.cancel_requested


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled", "expired"])
async def test_cancelling_a_job_that_has_ended_changes_nothing(scheduler: Scheduler, state: str, db: Any) -> None:
    job = await scheduler.schedule("x")
    await db.jobs.update_one({"name": "x"}, {"$set": {"state": state}, "$unset": {"ready": 1}}, hint="claim")
    before = await scheduler.get_job(job.id)
    assert await scheduler.cancel(job.id, "too late") == before


async def test_a_job_can_be_cancelled_from_another_process(make_scheduler: Make) -> None:
    worker, other = make_scheduler(), make_scheduler()
    heard: list[str] = []
    worker.on("job:cancel", lambda job: heard.append("worker"))
    other.on("job:cancel", lambda job: heard.append("other"))

    @worker.job("slow")
    async def slow() -> None:
        await asyncio.sleep(60)

    await worker.start()
    job = await running(worker, await other.schedule("slow"))
    await other.cancel(job.id)
    assert (await other.wait(job.id, 60)).state == "cancelled"
    await eventually(lambda: heard)
    assert heard == ["worker"]
