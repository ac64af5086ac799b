"""The last report of a job: it is kept, also when the job ends while the report is being written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.inside import inside
from mainspring import JobContext, Scheduler


async def test_a_report_that_is_being_written_when_its_job_ends_is_stored_with_the_end(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, ended = asyncio.Event(), asyncio.Event()

    @scheduler.job("work")
    async def work(ctx: JobContext) -> None:
        ctx.progress(42, "nearly")
        await writing.wait()

    notes = (await inside(scheduler).store()).progress_updates
    plain = notes.write

    async def late(*notes: Any) -> None:
        writing.set()
        await ended.wait()
        await plain(*notes)

    monkeypatch.setattr(notes, "write", late)
    await scheduler.start()
    job = await scheduler.wait((await scheduler.schedule("work")).id, timeout=60)
    ended.set()
    assert job.progress is not None
    assert (job.progress.percent, job.progress.note) == (42, "nearly")
