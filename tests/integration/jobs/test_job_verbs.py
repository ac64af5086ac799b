"""The verbs of a job that a Scheduler returned, in both faces."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from mainspring import ConfigurationError, JobNotFound, Scheduler
from mainspring.sync import Scheduler as BlockingScheduler


async def test_a_job_is_waited_for_by_its_own_verb(scheduler: Scheduler) -> None:
    @scheduler.job("add")
    async def add(a: int, b: int) -> int:
        return a + b

    await scheduler.start()
    job = await scheduler.schedule("add", {"a": 1, "b": 2})
    assert (await job.wait(60)).result == 3
    again = await (await job.retry()).wait(60)
    assert (again.result, len(again.attempts)) == (3, 2)


async def test_a_job_is_changed_read_cancelled_and_deleted_by_its_own_verbs(scheduler: Scheduler) -> None:
    (job,) = await scheduler.schedule_bulk([{"name": "x", "delay": 3600}])
    changed = await job.update(priority=2, data={"n": 1})
    assert ((await job.refresh()).priority, changed.data) == (2, {"n": 1})
    assert (await job.run_now()).run_at < job.run_at
    assert (await changed.cancel("not needed")).state == "cancelled"
    await job.delete()
    with pytest.raises(JobNotFound):
        await job.refresh()


async def test_every_verb_that_reads_jobs_returns_them_with_verbs(scheduler: Scheduler) -> None:
    made = await scheduler.schedule("x", dedupe_key="k", delay=3600)
    same = await scheduler.schedule("x", dedupe_key="k", delay=3600)
    found = [same, await scheduler.get_job(made.id), *(await scheduler.search(name="x")).jobs]
    found += [job async for job in scheduler.jobs(name="x")]
    assert [(await job.refresh()).id for job in found] == [made.id] * 4


async def test_verbs_are_no_part_of_the_value(scheduler: Scheduler) -> None:
    job = await scheduler.schedule("x")
    copied = pickle.loads(pickle.dumps(job))
    assert copied == job == replace(job)
    with pytest.raises(ConfigurationError, match="not returned by a Scheduler"):
        await copied.cancel()


def test_the_verbs_of_a_blocking_job_block(uri: str) -> None:
    scheduler = BlockingScheduler(uri)
    try:
        job = scheduler.schedule("x", delay=3600)
        (listed,) = scheduler.jobs(name="x")
        (bulk,) = scheduler.schedule_bulk([{"name": "y"}])
        assert listed.refresh() == job and bulk.cancel().state == "cancelled"
        assert job.update(priority=1).priority == 1
        copied = pickle.loads(pickle.dumps(job))
        assert copied == job
        with pytest.raises(ConfigurationError, match="not returned by a Scheduler"):
            copied.cancel()
    finally:
        scheduler.stop()
