"""What a wait for a job tells while nothing happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from harness.waiting import eventually
from mainspring import JobContext, Scheduler, Unavailable, WaitTimeout
from mainspring.client import jobs as job_verbs
from mainspring.client.views.explaining import Explainer


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(job_verbs, "PATIENCE", 0.0)
    caplog.set_level(logging.INFO, "mainspring")


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(one.levelno, one.getMessage()) for one in caplog.records if "Still waiting" in one.getMessage()]


async def test_a_wait_that_times_out_says_that_no_worker_is_alive(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("x")
    with pytest.raises(WaitTimeout, match=rf"Job {job.id} has not ended within 0.05 s. No worker is alive\."):
        await scheduler.wait(job.id, timeout=0.05)


async def test_a_wait_that_times_out_says_where_the_job_runs(scheduler: Scheduler) -> None:
    running = asyncio.Event()

    @scheduler.job("slow")
    async def slow(ctx: JobContext) -> None:
        running.set()
        await asyncio.sleep(60)

    await scheduler.start()
    job = await scheduler.schedule("slow")
    await running.wait()
    with pytest.raises(WaitTimeout, match=r"It has been running for .* on worker .*, as attempt 1"):
        await scheduler.wait(job.id, timeout=0.05)


async def test_a_wait_times_out_also_where_the_reason_cannot_be_found_out(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(self: Explainer, job_id: str) -> None:
        raise Unavailable("no primary")

    monkeypatch.setattr(Explainer, "explain", away)
    job = await scheduler.schedule("x")
    with pytest.raises(WaitTimeout, match=rf"^Job {job.id} has not ended within 0.05 s\.$"):
        await scheduler.wait(job.id, timeout=0.05)


async def test_a_wait_without_a_timeout_says_once_in_the_log_why_nothing_happens(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = [await scheduler.schedule("x"), await scheduler.schedule("x")]
    waits = [asyncio.create_task(scheduler.wait(job.id)) for job in jobs]
    await eventually(lambda: told(caplog))
    scheduler.job("x")(print_nothing)
    await scheduler.start()
    assert {job.state for job in await asyncio.gather(*waits)} == {"completed"}
    ((level, text),) = told(caplog)
    assert level == logging.WARNING
    assert (
        text == f"Still waiting for job {jobs[0].id} (x): No worker is alive. No live worker has a handler for 'x'."
        " (1 more jobs are waited for)"
    )


async def test_a_wait_for_a_job_of_later_is_no_warning(scheduler: Scheduler, caplog: pytest.LogCaptureFixture) -> None:
    job = await scheduler.schedule("x", delay=3600)
    wait = asyncio.create_task(scheduler.wait(job.id))
    await eventually(lambda: told(caplog))
    wait.cancel()
    ((level, text),) = told(caplog)
    assert level == logging.INFO and "It is due " in text


async def test_a_misspelt_name_is_noticed_in_the_log_and_by_explain(
    make_scheduler: Callable[..., Scheduler], caplog: pytest.LogCaptureFixture
) -> None:
    worker, client = make_scheduler(), make_scheduler()
    worker.job("send-email")(print_nothing)
    job = await client.schedule("send-emial")
    await worker.start()
    meant = "Did you mean 'send-email'?"
    await eventually(lambda: meant in caplog.text)
    assert f"No worker has a handler for 'send-emial'; such jobs wait in the queue default. {meant}" in caplog.text
    assert meant in (await client.explain(job.id)).text
    with pytest.raises(WaitTimeout, match="Did you mean 'send-email'"):
        await client.wait(job.id, timeout=0.05)


async def print_nothing() -> None:
    """A handler."""
