"""What a caller is told of new jobs is true when a statement beside their insert fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import count_jobs
from harness.waiting import eventually
from mainspring import BulkError, Limit, Scheduler
from mainspring.errors import Unavailable
from mainspring.store.collection import deadline

Make = Callable[..., Scheduler]


def limited(scheduler: Scheduler) -> list[int]:
    """Registers a job of which one runs at a time for each key; returns what its runs note down."""
    ran: list[int] = []

    @scheduler.job("limited", concurrency=Limit(1, key="key"), fair="key")
    async def run(key: int) -> None:
        ran.append(key)

    return ran


def failing(*arguments: Any, **options: Any) -> Any:
    raise Unavailable("the primary is away")


async def test_jobs_whose_lines_cannot_be_read_are_not_told_to_be_stored(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(scheduler)
    store = await inside(scheduler).store()
    monkeypatch.setattr(store.gates, "with_wait_lists", failing)
    items = [{"name": "limited", "data": {"key": n}} for n in range(3)]
    with pytest.raises(BulkError) as caught:
        await scheduler.schedule_bulk(items)
    assert all(isinstance(error, Unavailable) for error in caught.value.errors.values())
    assert len(caught.value.errors) == 3
    assert await count_jobs(scheduler.client.get_default_database()) == 0
    monkeypatch.undo()
    assert len(await scheduler.schedule_bulk(items)) == 3


async def test_a_job_is_stored_and_runs_although_its_line_could_not_be_announced(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler()
    ran = limited(scheduler)
    store = await inside(scheduler).store()
    monkeypatch.setattr(store.gates, "mark", failing)
    one = await scheduler.schedule("limited", {"key": 1})
    (two,) = await scheduler.schedule_bulk([{"name": "limited", "data": {"key": 2}}])
    monkeypatch.undo()
    await scheduler.start()
    await eventually(lambda: sorted(ran) == [1, 2], 60)
    assert [(await scheduler.wait(job.id, timeout=60)).state for job in (one, two)] == ["completed"] * 2


async def test_a_wait_that_the_driver_gives_up_is_an_outage_and_not_a_cancellation() -> None:
    with pytest.raises(Unavailable, match="closed before the answer came"), deadline(5):
        raise asyncio.CancelledError


async def test_a_cancellation_that_was_asked_for_is_none_but_that() -> None:
    async def wait() -> None:
        with deadline(5):
            await asyncio.sleep(60)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
