"""The overview tells what is wrong in a real database, within a scope, at a bounded cost."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from harness.inside import inside
from harness.looking import Database
from harness.profiling import profiled
from harness.waiting import eventually
from mainspring import Cron, Fail, OverviewReport, Problem, Retry, Scheduler
from mainspring.clock import ManualClock
from mainspring.model.access.api_keys import make_scope
from mainspring.model.views.statistics import Counts, Kind

STORED = 20_000
MOST_KEYS = 2_000


def kinds(report: OverviewReport) -> list[str]:
    return [problem.kind for problem in report.problems]


def of_kind(report: OverviewReport, kind: str) -> list[Problem]:
    return [problem for problem in report.problems if problem.kind == kind]


async def test_a_running_scheduler_with_nothing_wrong_has_no_problems(scheduler: Scheduler) -> None:
    @scheduler.job("send")
    async def send() -> None: ...

    await scheduler.start()
    job = await scheduler.schedule("send")
    await scheduler.wait(job.id, timeout=60)
    report = await scheduler.monitor.overview()
    assert report.problems == ()
    assert "One worker is alive." in report.checks


@pytest.mark.slow
async def test_real_failures_name_their_error_and_the_dead_letters_to_retry(scheduler: Scheduler) -> None:
    @scheduler.job("charge", retry=Retry(attempts=2, delay=0))
    async def charge(dead: bool) -> None:
        raise (Fail("no") if dead else ValueError("again"))

    await scheduler.start()
    jobs = [await scheduler.schedule("charge", {"dead": True}) for _ in range(4)]
    for job in jobs:
        await scheduler.wait(job.id, timeout=60)

    async def told() -> Problem | None:
        found = of_kind(await scheduler.monitor.overview(), "failing")
        return found[0] if found and found[0].count == 4 else None

    problem = await eventually(told)
    assert problem is not None and problem.text.startswith("4 of 4 attempts of 'charge' failed")
    (cure,) = problem.cures
    (group,) = await scheduler.dead_letters.groups()
    assert (cure.verb, cure.target.id) == ("retry_dead_letters", group.fingerprint)


async def test_pauses_breakers_limits_and_schedules_are_told_with_their_cures(scheduler: Scheduler) -> None:
    release = asyncio.Event()

    @scheduler.job("send", concurrency=1, queue="mail")
    async def send() -> None:
        await release.wait()

    await scheduler.queues.pause("slow", reason="a deploy", actor="ops")
    await scheduler.limits.open_breaker(name="charge", reason="the bank is down", actor="ops")
    await scheduler.schedule("report", repeat=Cron("0 0 1 1 *"), schedule_id="yearly")
    await scheduler.schedule("report", repeat=Cron("0 0 1 1 *"), schedule_id="paused")
    await scheduler.schedules.pause("paused", "holidays", actor="ops")
    await scheduler.start()
    for _ in range(4):
        await scheduler.schedule("send")
    await scheduler.schedule("unknown")

    async def told() -> OverviewReport | None:
        report = await scheduler.monitor.overview()
        return report if {"limited", "unserved"} <= set(kinds(report)) else None

    report = await eventually(told, timeout=60)
    assert report is not None
    assert [(one.text, one.reason, one.actor) for one in of_kind(report, "paused")] == [
        ("The queue 'slow' is paused.", "a deploy", "ops"),
        ("The schedule 'paused' is paused.", "holidays", "ops"),
    ]
    (broken,) = of_kind(report, "broken")
    assert (broken.target.id, broken.target.scope, broken.reason) == ("charge", "name", "the bank is down")
    (limited,) = of_kind(report, "limited")
    assert (limited.target.id, limited.target.scope) == ("send", "name")
    assert any("'unknown'" in one.text for one in of_kind(report, "unserved"))
    assert [firing.schedule_id for firing in report.next_firings] == ["yearly"]
    release.set()
    (cure,) = broken.cures
    assert cure.verb == "close_breaker"
    await scheduler.limits.close_breaker(name=cure.target.id)
    await scheduler.queues.resume("slow")
    await scheduler.schedules.resume("paused")
    assert not {"broken", "paused"} & set(kinds(await scheduler.monitor.overview()))


async def test_late_jobs_lost_leases_and_overdue_schedules_are_told(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await timed.schedule("send", queue="mail")
    lost = await timed.schedule("send", queue="gone")
    await timed.schedule("report", repeat=Cron("* * * * *"), schedule_id="minutely", queue="mail")
    gone = {"state": "running", "lease_until": clock.now(), "worker": "w", "claim": "c"}
    await db.jobs.update_one({"_id": ObjectId(lost.id)}, {"$set": gone, "$unset": {"ready": ""}})
    clock.advance(600)
    alive = {"beat_at": clock.now(), "queues": ["mail"], "handlers": ["send"], "concurrency": 1, "running": 1}
    await db["jobs.workers"].insert_one({"_id": "w", **alive})
    report = await timed.monitor.overview()
    assert {one.kind: one.target.id for one in report.problems} == {
        "stuck": "gone",
        "late": "mail",
        "schedule": "minutely",
    }


async def test_a_scope_sees_only_its_own_problems(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    store = await inside(timed).store()
    for word in ("mine", "other"):
        await timed.schedule(f"{word}.work", queue=word)
        await timed.queues.pause(f"{word}", reason=word, actor=word)
        await timed.limits.pause(f"{word}.work", reason=word, actor=word)
        await timed.limits.open_breaker(queue=word, reason=word)
        await timed.schedule(f"{word}.work", repeat=Cron("* * * * *"), schedule_id=word, queue=word)
        held = await timed.schedule(f"{word}.work", queue=word)
        fields = {"waiting_for": {"by": "handler", "note": word}}
        await db.jobs.update_one({"_id": ObjectId(held.id)}, {"$set": fields, "$unset": {"ready": ""}})
        await store.statistics.add("w", [(Kind(clock.now(), word, f"{word}.work"), Counts(failed=20))])
    clock.advance(600)
    await db["jobs.workers"].insert_one({"_id": "w", "beat_at": clock.now(), "queues": ["mine", "other"]})
    for scope in (make_scope(["mine"], None), make_scope(None, ["mine."]), make_scope(["mine"], ["mine."])):
        report = await timed.monitor.overview(scope=scope)
        assert {"failing", "unserved", "schedule"} <= set(kinds(report))
        assert "other" not in repr(report)


async def test_malformed_documents_of_other_programs_spoil_nothing(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    """Arrays are found by the ranges of their elements, so that they reach what expects a date."""
    await timed.queues.pause("mail", reason="a deploy", actor="ops")
    now, odd = clock.now(), {"v": 1, "name": 7, "queue": ["q"], "rev": "x", "attempts": [3], "error": "no"}
    await db.jobs.insert_many(
        [
            {**odd, "state": "failed", "finished_at": [now], "fingerprint": {"a": 1}},
            {**odd, "state": "pending", "last_failure_at": [now], "ready": True, "queue": "q", "run_at": [now]},
            {**odd, "state": "running", "lease_until": [now - timedelta(hours=1)]},
            {**odd, "state": "pending", "waiting_for": {"by": "handler"}, "line": 5},
        ]
    )
    await db["jobs.schedules"].insert_one(
        {"_id": "odd", "paused": {"at": "noon", "actor": 7}, "job": [], "fire_at": now}
    )
    await db["jobs.controls"].insert_one({"_id": "pause:queue:odd", "kind": "pause", "scope": 5, "at": "noon"})
    await db["jobs.controls"].insert_one({"_id": "breaker:odd", "kind": "breaker", "state": "open", "since": []})
    await db["jobs.workers"].insert_one({"_id": "odd", "beat_at": now, "queues": 7, "versions": [1], "handlers": "x"})
    for per in ("worker", "minute", "version"):
        await db["jobs.stats"].insert_one({"_id": {"per": per, "at": [now], "x": per}, "kinds": {"a": 1}, "oldest": 3})
    clock.advance(60)
    report = await timed.monitor.overview()
    assert "The queue 'mail' is paused." in [problem.text for problem in report.problems]
    store = await inside(timed).store()
    clock.advance(600)
    assert await store.statistics.roll_up() is False
    assert (await timed.monitor.statistics(now - timedelta(hours=1))).total.started == 0


@pytest.mark.fresh_database
@pytest.mark.slow
async def test_an_overview_of_many_jobs_examines_few_keys(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    """Everything that the overview looks for is there in large numbers."""
    await timed.connect()
    now = clock.now()
    await db.jobs.insert_many([job(number, now) for number in range(STORED)], ordered=False)
    await db["jobs.controls"].insert_many([control(number, now) for number in range(2_000)])
    await db["jobs.schedules"].insert_many([schedule(number, now) for number in range(2_000)])
    store = await inside(timed).store()
    clock.advance(300)
    for worker in ("a", "b"):
        counted = [(Kind(clock.now(), "default", f"name-{number}"), Counts(failed=9)) for number in range(400)]
        await store.statistics.add(worker, counted)
    for scope in (make_scope(None, None), make_scope(["queue-3", "queue-4"], None), make_scope(None, ["name-1"])):
        async with profiled(db) as spent:
            report = await timed.monitor.overview(scope=scope)
        assert report.problems
        assert spent.keys <= MOST_KEYS and spent.documents <= MOST_KEYS and not spent.scans, vars(spent)


def job(number: int, now: Any) -> dict[str, Any]:
    """One of many jobs: due, on a wait list, running with a lost lease, or failed."""
    fields: dict[str, Any] = {
        "v": 1,
        "name": f"name-{number % 100}",
        "queue": f"queue-{number % 50}",
        "priority": number % 10 + 1,
        "data": {},
        "run_at": now - timedelta(seconds=number % 1000),
        "created_at": now - timedelta(days=1),
        "rev": 0,
        "token": 0,
        "tries": 0,
    }
    lines = ("c:queue:default", "r:name:send", "p:queue:queue-1", "b:name:name-2:key=1")
    kind = number // 100 % 5
    if kind == 0:
        return fields | {"state": "pending", "ready": True}
    if kind == 1:
        waiting = {"by": ("limit", "handler", "version", "key")[number // 500 % 4], "note": ""}
        return fields | {"state": "pending", "waiting_for": waiting, "line": lines[number // 2000 % 4]}
    if kind == 2:
        return fields | {"state": "running", "lease_until": now - timedelta(hours=1), "worker": "w", "claim": "c"}
    if kind == 3:
        failed = {"finished_at": now, "error": {"type": "ValueError"}, "fingerprint": f"print-{number % 30}"}
        return fields | {"state": "failed", "last_failure_at": now, **failed}
    return fields | {"state": "pending", "ready": True, "last_failure_at": now, "run_at": now + timedelta(days=1)}


def control(number: int, now: Any) -> dict[str, Any]:
    """A pause, or a breaker: every tenth is open."""
    base = {"scope": "name", "target": f"name-{number % 100}", "key": "k", "value": number, "at": now, "since": now}
    if number % 4 == 0:
        return {"_id": f"pause:name:{number:05}", "kind": "pause", **base}
    state = "open" if number % 10 == 1 else "closed"
    return {"_id": f"breaker:name:{number:05}", "kind": "breaker", "state": state, **base}


def schedule(number: int, now: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"_id": f"s{number}", "v": 1, "job": {"name": f"name-{number % 100}", "queue": "default"}}
    if number % 2:
        return fields | {"paused": {"at": now, "reason": "", "actor": "mainspring"}}
    return fields | {"fire_at": now, "next_at": now, "due_at": now}


@pytest.mark.slow
async def test_statistics_of_any_window_examine_few_keys(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    """Three workers and forty names, in every minute of two days."""
    await timed.connect()
    store = await inside(timed).store()
    start = clock.now()
    counts = {"started": 1, "completed": 1, "bins": {"3": 1}, "waits": {"2": 1}}
    named = {f"h{number}": {"queue": "default", "name": f"name-{number}", **counts} for number in range(5)}
    whole = {"total": counts, "kinds": named}
    minutes = [start + timedelta(minutes=number) for number in range(2 * 24 * 60)]
    for worker in ("a", "b"):
        await db["jobs.stats"].insert_many(
            [{"_id": {"per": "worker", "at": at, "worker": worker}, **whole} for at in minutes]
        )
    clock.advance(timedelta(days=2))
    while await store.statistics.roll_up():
        pass
    now = clock.now()
    lengths = {"15m": 0.25, "1h": 1, "6h": 6, "24h": 24, "47h": 47, "7d": 168, "30d": 720}
    for hours in lengths.values():
        for filters in ({}, {"name": "name-1"}, {"scope": make_scope(None, ["name-"])}):
            async with profiled(db) as spent:
                found = await timed.monitor.statistics(now - timedelta(hours=hours), now, **filters)
            assert found.total.completed > 0
            assert spent.keys <= MOST_KEYS and spent.documents <= MOST_KEYS and not spent.scans
        async with profiled(db) as spent:
            assert (await timed.monitor.name_statistics(now - timedelta(hours=hours), now, order="busiest")).names
        assert spent.keys <= MOST_KEYS and spent.documents <= MOST_KEYS and not spent.scans
