"""What workers count is what has happened; hours are made of minutes and nothing is counted twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from pymongo.asynchronous.database import AsyncDatabase

from harness.inside import inside
from harness.profiling import profiled
from harness.waiting import eventually
from mainspring import ConfigurationError, Retry, Scheduler, Snooze, Unavailable
from mainspring.clock import ManualClock
from mainspring.engine.services.counting import Counting
from mainspring.model.access.api_keys import make_scope
from mainspring.model.views.statistics import Counts, Kind, Statistics
from mainspring.model.views.windows import make_window
from mainspring.model.workers import versions_among
from mainspring.store.views.statistics import Statistics as Stored

Make = Callable[..., Scheduler]
Database = AsyncDatabase[dict[str, Any]]
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
FAST = Retry(attempts=3, delay=0.01, backoff="fixed", jitter=0)


async def today(scheduler: Scheduler, **filters: Any) -> Statistics:
    now = scheduler.now()
    return await scheduler.monitor.statistics(now - HOUR, now + HOUR, step=MINUTE, **filters)


def register(scheduler: Scheduler) -> None:
    @scheduler.job("work", retry=FAST)
    async def work(number: int) -> None:
        if number % 10 == 0:
            raise ValueError("always")
        if number % 10 == 1 and number not in SEEN:
            SEEN.add(number)
            raise ValueError("once")


SEEN: set[int] = set()


@pytest.mark.slow
async def test_the_counts_are_the_truth_after_a_thousand_jobs_over_two_workers(
    make_scheduler: Make, db: Database
) -> None:
    SEEN.clear()
    workers = [make_scheduler(concurrency=20) for _ in range(2)]
    for worker in workers:
        register(worker)
        await worker.start()
    await workers[0].schedule_bulk({"name": "work", "data": {"number": number}} for number in range(1000))

    async def all_ended() -> bool:
        ended = {"state": {"$in": ["completed", "failed", "cancelled", "expired"]}}
        return await db.jobs.count_documents(ended, hint="finished") == 1000

    await eventually(all_ended, timeout=60)
    for worker in workers:
        await worker.stop()
    truth: Counter[str] = Counter()
    async for job in db.jobs.find({}, {"attempts": 1}, hint="_id_"):
        truth.update(attempt["outcome"] for attempt in job["attempts"])
    total = (await today(make_scheduler())).total
    assert (total.completed, total.failed, total.retried) == (900, 100, 300)
    assert {"completed": total.completed, "failed": total.failed, "retried": total.retried} == dict(truth)
    assert total.started == total.executions == sum(total.bins) == truth.total()
    assert total.lost == total.cancelled == total.snoozed == 0
    stored = [one async for one in db["jobs.stats"].find({"_id.per": "worker"}, hint="counted")]
    assert {one["_id"]["worker"] for one in stored} != set()


@pytest.mark.slow
async def test_counts_are_told_by_name_queue_and_scope(make_scheduler: Make) -> None:
    scheduler = make_scheduler()

    @scheduler.job("mail.send")
    async def send() -> None: ...

    @scheduler.job("report", queue="slow")
    async def report() -> None:
        raise Snooze(3600)

    await scheduler.start()
    jobs = [await scheduler.schedule("mail.send") for _ in range(3)]
    await scheduler.schedule("report")
    for job in jobs:
        await scheduler.wait(job.id, timeout=60)

    async def counted() -> bool:
        total = (await today(scheduler)).total
        return (total.completed, total.snoozed) == (3, 1)

    await eventually(counted)
    assert (await today(scheduler, name="mail.send")).total.completed == 3
    assert (await today(scheduler, name="mail")).total.completed == 0
    assert (await today(scheduler, queue="slow")).total.snoozed == 1
    assert (await today(scheduler, scope=make_scope(["slow"], None))).total.completed == 0
    assert (await today(scheduler, scope=make_scope(None, ["mail."]))).total.completed == 3
    assert (await today(scheduler, scope=make_scope(["slow"], ["mail."]))).total.started == 0
    assert (await today(scheduler, queue="default", scope=make_scope(["slow"], None))).total.started == 0


async def test_a_worker_that_is_stopped_stores_what_it_has_counted(make_scheduler: Make) -> None:
    scheduler = make_scheduler()

    @scheduler.job("work")
    async def work() -> None: ...

    done = asyncio.Event()
    scheduler.on("job:success", lambda job: done.set())
    await scheduler.start()
    await scheduler.schedule("work")
    await done.wait()
    await scheduler.stop()
    assert (await today(make_scheduler())).total.completed == 1


async def test_a_rescue_is_counted_as_a_lost_attempt_by_whoever_does_it(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler()
    job = await scheduler.schedule("work")
    started = {"state": "running", "token": 1, "tries": 1, "worker": "gone", "claim": "c"}
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    await db.jobs.update_one(
        {"name": job.name}, {"$set": {**started, "lease_until": long_ago}, "$unset": {"ready": ""}}, hint="claim"
    )
    await scheduler.workers.rescue("gone")
    assert (await today(scheduler)).total.lost == 1


async def test_counts_that_may_or_may_not_be_stored_are_not_sent_again(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = await make_scheduler().connect()
    store = await inside(scheduler).store()
    counting = Counting(store, "w")
    counting._tally.ended(scheduler.now(), "default", "work", "completed", 0.1)
    plain = Stored.add

    async def add_and_lose_the_reply(self: Stored, *args: Any) -> None:
        await plain(self, *args)
        raise Unavailable("the reply was lost")

    monkeypatch.setattr(Stored, "add", add_and_lose_the_reply)
    await counting.store()
    monkeypatch.undo()
    await counting.store()
    assert (await today(scheduler)).total.completed == 1


# -- growing old ---------------------------------------------------------------------------------------------------


async def fill(scheduler: Scheduler, start: datetime, minutes: int) -> None:
    store = await inside(scheduler).store()
    for worker in ("a", "b"):
        counted = []
        for minute in range(minutes):
            counts = Counts()
            counts.began(10)
            counts.ended("completed", 20)
            counted.append((Kind(start + minute * MINUTE, "default", "work"), counts))
        await store.statistics.add(worker, counted)


@pytest.mark.slow
async def test_hours_take_the_place_of_minutes_and_tell_the_same(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    start = clock.now()
    await fill(timed, start, 180)
    store = await inside(timed).store()
    clock.advance(3 * HOUR + 10 * MINUTE)
    before = await timed.monitor.statistics(start, step=HOUR)
    assert [point.counts.completed for point in before.points] == [120, 120, 120, 0]
    for _ in range(2):
        assert await store.statistics.roll_up() is False
    assert await timed.monitor.statistics(start, step=HOUR) == before
    assert (await timed.monitor.statistics(start, start + HOUR, step=MINUTE)).total.completed == 120
    clock.advance(timedelta(days=3))
    while await store.statistics.prune(None):
        pass
    for per in ("worker", "minute", "part"):
        assert await db["jobs.stats"].count_documents({"_id.per": per}, hint="counted") == 0
    after = await timed.monitor.statistics(start, start + 4 * HOUR, step=HOUR)
    assert [point.counts for point in after.points] == [point.counts for point in before.points]
    assert (await timed.monitor.statistics(start, start + HOUR, step=timedelta(minutes=5))).points[
        0
    ].counts.completed == 120


async def test_an_hour_that_is_made_twice_counts_once_even_when_its_minutes_are_going(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    start = clock.now()
    await fill(timed, start, 60)
    store = await inside(timed).store()
    clock.advance(2 * HOUR)
    await store.statistics.roll_up()
    await db["jobs.stats"].delete_one({"_id.per": "part"}, hint="counted")
    await store.statistics.make_spans("hour", start, start + HOUR)
    assert (await timed.monitor.statistics(start, start + HOUR, step=HOUR)).total.completed == 120


async def test_minutes_that_have_not_become_hours_are_never_deleted(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    start = clock.now()
    await fill(timed, start, 10)
    store = await inside(timed).store()
    clock.advance(timedelta(days=20))
    await store.statistics.prune(None)
    assert (await timed.monitor.statistics(start, start + HOUR, step=HOUR)).total.completed == 20
    assert await store.statistics.roll_up() is False
    await store.statistics.prune(None)
    assert await db["jobs.stats"].count_documents({"_id.per": "minute"}, hint="counted") == 0
    assert (await timed.monitor.statistics(start, start + HOUR, step=HOUR)).total.completed == 20


async def test_hours_are_kept_for_as_long_as_the_setting_says(timed: Scheduler, clock: ManualClock) -> None:
    start = clock.now()
    await fill(timed, start, 5)
    store = await inside(timed).store()
    clock.advance(timedelta(days=31))
    await store.statistics.roll_up()
    await store.statistics.prune(clock.now() - timedelta(seconds=timed.settings.keep_stats or 0))
    assert (await timed.monitor.statistics(start, start + HOUR, step=HOUR)).total.completed == 0


async def test_an_idle_worker_stores_no_counts(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler()
    await scheduler.start()
    await scheduler.stop()
    counts = {"_id.per": {"$in": ["worker", "minute", "part", "hour", "day"]}}
    assert await db["jobs.stats"].count_documents(counts, hint="counted") == 0


async def test_days_tell_the_same_as_their_hours(timed: Scheduler, clock: ManualClock) -> None:
    start = clock.now().replace(hour=0, minute=0)
    clock.advance(start + timedelta(days=1) - clock.now())
    store = await inside(timed).store()
    first = start + timedelta(days=1)
    for hour in (0, 5, 23):
        await fill(timed, first + hour * HOUR, 3)
    clock.advance(timedelta(days=3))
    before = await timed.monitor.statistics(first, first + timedelta(days=2), step=timedelta(days=1))
    while await store.statistics.roll_up():
        pass
    after = await timed.monitor.statistics(first, first + timedelta(days=2), step=timedelta(days=1))
    assert after == before
    assert [point.counts.completed for point in after.points] == [18, 0]


async def test_a_reader_that_knows_old_marks_still_finds_what_was_summed_up(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    start = clock.now()
    await fill(timed, start, 3)
    store = await inside(timed).store()
    clock.advance(8 * MINUTE)
    await store.statistics.roll_up()
    await store.statistics.prune(None)
    assert await db["jobs.stats"].count_documents({"_id.per": "worker"}, hint="counted") == 6
    clock.advance(20 * MINUTE)
    await store.statistics.prune(None)
    assert await db["jobs.stats"].count_documents({"_id.per": "worker"}, hint="counted") == 0
    assert (await timed.monitor.statistics(start, step=MINUTE)).total.completed == 6


async def test_malformed_counts_of_other_programs_count_as_nothing(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    start = clock.now()
    await fill(timed, start, 1)
    malformed: list[dict[str, Any]] = [{"total": float("nan"), "kinds": 7}, {"total": {"started": "x", "bins": []}}, {}]
    for number, bad in enumerate(malformed):
        await db["jobs.stats"].insert_one({"_id": {"per": "worker", "at": start, "worker": f"bad{number}"}, **bad})
    for filters in cast("list[dict[str, Any]]", [{}, {"name": "work"}, {"scope": make_scope(None, ["wo"])}]):
        assert (await timed.monitor.statistics(start, start + MINUTE, step=MINUTE, **filters)).total.started == 2


# -- waiting, versions, names ----------------------------------------------------------------------------------------


async def test_the_chore_notes_for_how_long_the_oldest_job_of_each_queue_has_been_due(
    timed: Scheduler, clock: ManualClock
) -> None:
    start = clock.now()
    await timed.schedule("mail.send", queue="mail", priority=9)
    clock.advance(90)
    await timed.schedule("mail.send", queue="mail", priority=1)
    await timed.schedule("report", queue="slow", delay=3600)
    store = await inside(timed).store()
    oldest = {due.queue: clock.now() - due.since for due in await store.oldest_due.by_queue(held=True)}
    assert oldest == {"mail": timedelta(seconds=90)}
    await store.statistics.note_oldest(clock.now(), oldest)
    clock.advance(30 * MINUTE)
    for _ in range(2):
        for filters, seen in (
            ({}, 90),
            ({"queue": "mail"}, 90),
            ({"queue": "slow"}, None),
            ({"name": "mail.send"}, None),
            ({"scope": make_scope(["slow"], None)}, None),
            ({"scope": make_scope(["mail"], None)}, 90),
            ({"scope": make_scope(["mail"], ["mail."])}, None),
        ):
            points = (await timed.monitor.statistics(start, step=HOUR, **filters)).points
            assert max((p.oldest for p in points if p.oldest), default=None) == (seen and timedelta(seconds=seen))
        await store.statistics.roll_up()


async def test_a_version_of_workers_is_marked_when_it_appears_and_not_before_there_was_another(
    timed: Scheduler, clock: ManualClock
) -> None:
    start = clock.now()
    store = await inside(timed).store()
    assert await store.statistics.note_versions(["Mainspring 1"], clock.now()) == ["Mainspring 1"]
    clock.advance(60)
    assert await store.statistics.note_versions(["Mainspring 1"], clock.now()) == []
    clock.advance(60)
    assert await store.statistics.note_versions(["Mainspring 1", "charge v2"], clock.now()) == ["charge v2"]
    clock.advance(60)
    deploys = (await timed.monitor.statistics(start)).deploys
    assert [(one.version, one.at - start) for one in deploys] == [("charge v2", timedelta(seconds=120))]
    assert (await timed.monitor.statistics(start, scope=make_scope(["mail"], None))).deploys == ()


@pytest.mark.parametrize("hours", [(0, 29), (5, 43), (7, 24 * 12 + 3), (24, 24 * 12)])
@pytest.mark.fresh_database
@pytest.mark.slow
async def test_the_counts_of_names_over_days_are_read_from_days_and_are_those_of_the_hours(
    timed: Scheduler, clock: ManualClock, db: Database, hours: tuple[int, int]
) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    store = await inside(timed).store()
    for hour in range(24 * 12 + 5):
        counts = Counts()
        for _ in range(1 + hour % 3):
            counts.ended("completed", 7)
        await store.statistics.add("w", [(Kind(start + hour * HOUR, "q", "n"), counts)])
    clock.advance(start + timedelta(hours=24 * 12 + 5) - clock.now())
    while await store.statistics.roll_up():
        pass
    since, until = (start + hour * HOUR for hour in hours)
    window = make_window(since, until, HOUR)
    async with profiled(db) as spent:
        summed = await store.statistics.kinds(window)
    assert summed[("q", "n")].completed == sum(1 + hour % 3 for hour in range(*hours))
    assert spent.keys <= 60


async def test_a_release_of_the_program_is_marked_when_a_worker_first_reports_it(
    make_scheduler: Make,
) -> None:
    old, new = make_scheduler(release="shop 1"), make_scheduler(release="shop 2")
    before = old.now()
    await old.start()
    store = await inside(old).store()
    await eventually(lambda: _reported(old, {"shop 1"}))
    await store.statistics.note_versions(versions_among(await store.workers.live_in_full()), old.now())
    await new.start()
    await eventually(lambda: _reported(old, {"shop 1", "shop 2"}))
    await store.statistics.note_versions(versions_among(await store.workers.live_in_full()), old.now())
    deploys = (await old.monitor.statistics(before, old.now() + timedelta(minutes=1))).deploys
    # The chore of the running worker, which has the lock, may note it at the same moment as this test does.
    assert {one.version for one in deploys} == {"shop 2"}


async def _reported(scheduler: Scheduler, releases: set[str]) -> bool:
    return {worker.release for worker in await scheduler.workers.all()} == releases


async def test_names_are_compared_with_the_same_time_a_week_before(timed: Scheduler, clock: ManualClock) -> None:
    store = await inside(timed).store()

    async def note(name: str, failed: int, took: int, queue: str = "default") -> None:
        counts = Counts()
        for number in range(10):
            counts.ended("failed" if number < failed else "completed", took)
        await store.statistics.add("w", [(Kind(clock.now(), queue, name), counts)])

    await note("charge", 1, 40)
    while await store.statistics.roll_up():
        pass
    clock.advance(timedelta(days=7))
    for _ in range(2):
        await store.statistics.roll_up()
    await note("charge", 5, 400)
    await note("mail", 2, 20)
    await note("mail", 2, 20, queue="other")
    await note("report", 0, 4000)
    clock.advance(60)
    start = clock.now() - HOUR
    failing = await timed.monitor.name_statistics(start)
    assert [(one.name, one.counts.unsuccessful, one.before.unsuccessful) for one in failing.names] == [
        ("charge", 5, 1),
        ("mail", 4, 0),
    ]
    slowest = await timed.monitor.name_statistics(start, order="slowest", limit=2)
    assert [one.name for one in slowest.names] == ["report", "charge"]
    busiest = await timed.monitor.name_statistics(start, order="busiest", queue="other")
    assert [(one.name, one.counts.executions) for one in busiest.names] == [("mail", 10)]
    mine = await timed.monitor.name_statistics(start, scope=make_scope(None, ["ma"]))
    assert [one.name for one in mine.names] == ["mail"]
    with pytest.raises(ConfigurationError, match="Did you mean 'slowest'"):
        await timed.monitor.name_statistics(start, order="slowes")  # type: ignore[arg-type]
