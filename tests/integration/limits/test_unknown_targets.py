"""Pausing and limiting what does not exist: it is done, and told; and a paused job says what holds it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from harness.pausing import pause, resume
from mainspring import Scheduler


async def test_pausing_a_queue_that_nothing_has_is_told_with_the_one_that_was_meant(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler.job("send", queue="emails")(lambda: None)
    with caplog.at_level(logging.WARNING, "mainspring"):
        paused = await scheduler.queues.pause("emials")
    note = "No job, handler or worker has the queue 'emials' now. The pause counts once one has."
    assert paused.note == note
    assert caplog.messages == [f"{note} Did you mean 'emails'?"]
    assert [one.target for one in await scheduler.limits.pauses()] == ["emials"]


async def test_limiting_a_name_that_nothing_has_is_told(scheduler: Scheduler, caplog: pytest.LogCaptureFixture) -> None:
    scheduler.job("capped", concurrency=1)(lambda: None)
    with caplog.at_level(logging.WARNING, "mainspring"):
        override = await scheduler.limits.set(name="cappd", concurrency=3)
    assert override.note is not None and "has the job name 'cappd' now. The limit counts" in override.note
    assert "Did you mean 'capped'?" in caplog.text


async def test_what_a_job_a_handler_or_a_worker_has_is_known(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler.job("here", queue="mine")(lambda: None)
    await scheduler.schedule("elsewhere", queue="theirs", delay="1h")
    caplog.clear()
    with caplog.at_level(logging.WARNING, "mainspring"):
        pauses = [await scheduler.queues.pause(queue) for queue in ("default", "mine", "theirs")]
        pauses += [await scheduler.limits.pause(name) for name in ("here", "elsewhere")]
    assert [pause.note for pause in pauses] == [None] * 5
    assert caplog.messages == []


async def test_the_queue_that_a_handler_of_a_live_worker_declares_is_known(
    make_scheduler: Callable[..., Scheduler],
) -> None:
    worker = make_scheduler()
    worker.job("report", queue="slow")(lambda: None)
    await worker.start()
    assert (await make_scheduler().queues.pause("slow")).note is None


@pytest.mark.parametrize("target", [{"queue": "mail"}, {"name": "send"}, {"queue": "mail", "key": {"to": "a"}}])
async def test_a_job_that_is_paused_says_by_what_it_is_held(scheduler: Scheduler, target: dict[str, Any]) -> None:
    job = await scheduler.schedule("send", {"to": "a"}, queue="mail")
    other = await scheduler.schedule("other", {"to": "b"}, queue="else")
    assert (await scheduler.get_job(job.id)).waiting_for is None
    await pause(scheduler, **target, reason="maintenance", actor="ops")
    held = (await scheduler.get_job(job.id)).waiting_for
    assert held is not None and held.note.endswith("is paused by ops: maintenance") and held.since is not None
    assert (await scheduler.get_job(other.id)).waiting_for is None
    await resume(scheduler, **target)
    assert (await scheduler.get_job(job.id)).waiting_for is None
