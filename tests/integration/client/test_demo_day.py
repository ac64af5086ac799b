"""The day that the demonstration stores: once, in an empty database only, and consistent in itself."""

from __future__ import annotations

from datetime import timedelta

import pytest

from harness.looking import Database
from mainspring import Schedule, Scheduler
from mainspring.cli.demo.day import SCHEDULES, seed_day


async def found(scheduler: Scheduler) -> list[Schedule]:
    return [schedule async for schedule in scheduler.schedules.find()]


@pytest.mark.slow
async def test_the_day_is_stored_once(scheduler: Scheduler, db: Database) -> None:
    assert await seed_day(scheduler)
    stored = await db["jobs"].count_documents({})
    assert stored > 1000
    assert not await seed_day(scheduler)
    assert await db["jobs"].count_documents({}) == stored


async def test_a_database_that_has_a_job_or_a_schedule_is_left_alone(scheduler: Scheduler, db: Database) -> None:
    await scheduler.schedule("work")
    assert not await seed_day(scheduler)
    assert await db["jobs"].count_documents({}) == 1 and await found(scheduler) == []


@pytest.mark.slow
async def test_the_day_has_something_of_everything(scheduler: Scheduler) -> None:
    await seed_day(scheduler)
    schedules = await found(scheduler)
    assert {one.id for one in schedules} == SCHEDULES.keys() and len(SCHEDULES) >= 12
    (paused,) = [one for one in schedules if one.paused is not None]
    assert paused.id == "rebuild-search-index" and paused.paused is not None and paused.paused.reason
    (pause,) = await scheduler.limits.pauses()
    assert (pause.scope, pause.target) == ("queue", "partners") and pause.reason
    assert [(one.target, one.state) for one in await scheduler.limits.breakers()] == [("charge-card", "open")]
    assert [one.target for one in await scheduler.limits.all() if one.override is not None] == ["generate-report"]
    assert [one.verb for one in await scheduler.operations.all()] == ["set_priority"]
    groups = await scheduler.dead_letters.groups()
    rows = await scheduler.audit.find(action="schedule.*")
    assert len(rows) == len(SCHEDULES) + 1 and (await scheduler.audit.verify()).ok
    assert len({group.error_type for group in groups}) >= 4
    later = await scheduler.search(state="pending", name="send-email")
    assert later.jobs and all(job.run_at > scheduler.now() for job in later.jobs)


@pytest.mark.slow
async def test_the_newest_jobs_of_the_day_are_listed_first(scheduler: Scheduler, db: Database) -> None:
    await seed_day(scheduler)
    ended = {"state": "completed", "schedule_id": None}
    listed = [one["created_at"] async for one in db["jobs"].find(ended).sort("_id", -1)]
    seconds = [at.replace(microsecond=0) for at in listed]
    assert len(set(seconds)) > 100 and seconds == sorted(seconds, reverse=True)


@pytest.mark.slow
async def test_the_counts_are_those_of_the_attempts(scheduler: Scheduler, db: Database) -> None:
    await seed_day(scheduler)
    now = scheduler.now()
    attempts = [one for job in await db["jobs"].find().to_list() for one in job.get("attempts", ())]
    counted = await scheduler.monitor.statistics(now - timedelta(days=1), now, step="5m")
    assert counted.total.executions == len(attempts)
    for outcome in ("completed", "failed", "retried"):
        assert getattr(counted.total, outcome) == sum(one["outcome"] == outcome for one in attempts)
    before = await scheduler.monitor.statistics(now - timedelta(days=8), now - timedelta(days=1, hours=1), step="1h")
    assert before.total.completed > 1000 and before.total.failed > 10


@pytest.mark.slow
async def test_the_dead_letters_have_the_trend_of_their_own_failures(scheduler: Scheduler) -> None:
    await seed_day(scheduler)
    groups, now = await scheduler.dead_letters.groups(), scheduler.now()
    for group in groups:
        assert sum(group.trend) == group.count or (group.first_seen or now) < (group.trend_start or now)
    assert max(len([hour for hour in group.trend if hour]) for group in groups) >= 3


@pytest.mark.slow
async def test_the_ledgers_of_schedules_name_jobs_that_are_stored(scheduler: Scheduler) -> None:
    await seed_day(scheduler)
    now = scheduler.now()
    ledger = await scheduler.schedules.ledger("sync-inventory", now - timedelta(days=1), now - timedelta(minutes=1))
    assert 90 <= len(ledger) <= 97 and {one.outcome for one in ledger} == {"on_time", "late", "missed", "skipped"}
    ran = [one for one in ledger if one.job_id is not None and one.outcome in ("on_time", "late")]
    for one in ran[:: len(ran) // 10]:
        job = await scheduler.get_job(str(one.job_id))
        assert (job.schedule_id, job.scheduled_for) == ("sync-inventory", one.at) and job.finished
    schedule = await scheduler.schedules.get("sync-inventory")
    assert schedule.last_job_id == ran[-1].job_id and schedule.runs == len(ran)
