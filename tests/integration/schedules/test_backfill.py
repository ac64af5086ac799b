"""Making up for a past window: previewed, bounded, resumable, and nothing twice."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from harness.firing import DAY, HOUR, MINUTE, T0, brief, fire, fire_until, instants_of, jobs_of, ledger, store_of
from harness.looking import Database, count_jobs
from mainspring import Backfill, Calendar, Cron, Every, Except, InvalidSchedule, Schedule, Scheduler
from mainspring.clock import ManualClock
from mainspring.store.schedules.ledger import Ledger


async def with_a_gap(scheduler: Scheduler, clock: ManualClock) -> Schedule:
    """Hourly: on time at 1 and 2, missed from 3 to 6, late at 7, on time at 8."""
    schedule = await scheduler.schedule("work", {"n": 1}, repeat=Every("1h"), schedule_id="s", queue="q")
    await fire_until(scheduler, clock, T0 + 2 * HOUR, HOUR)
    clock.advance(5 * HOUR + MINUTE / 2)
    await fire(scheduler)
    clock.advance(HOUR - MINUTE / 2)
    await fire(scheduler)
    return schedule


async def of_seconds(scheduler: Scheduler, clock: ManualClock, count: int) -> Schedule:
    """A schedule of which so many firings were missed."""
    schedule = await scheduler.schedule(
        "work",
        repeat=Every("1s", anchor=T0),
        schedule_id="s",
        misfire="skip",
        misfire_grace=1,
        end_at=T0 + timedelta(seconds=count),
    )
    clock.advance(timedelta(seconds=count + 2))
    await fire(scheduler)
    return schedule


async def test_a_preview_tells_what_would_be_made_up_for_and_makes_nothing(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await with_a_gap(timed, clock)
    before = await count_jobs(db)
    found = await schedule.preview_backfill(T0, T0 + 8 * HOUR)
    assert [(hours, outcome) for hours, outcome, _ in brief(found)] == [(n, "missed") for n in (3, 4, 5)]
    every = await schedule.preview_backfill(T0, T0 + 8 * HOUR, which="all")
    assert [hours for hours, _, _ in brief(every)] == [1, 2, 3, 4, 5, 6, 7]
    assert len(await timed.schedules.preview_backfill("s", T0, T0 + 8 * HOUR, limit=2)) == 2
    assert await count_jobs(db) == before


async def test_what_was_not_run_is_made_up_for_and_goes_down_in_the_ledger(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await with_a_gap(timed, clock)
    done = await schedule.backfill(T0 + 3 * HOUR, T0 + 5 * HOUR, actor="ann")
    assert done == Backfill(
        "2030-01-01T03:00:00Z..2030-01-01T05:00:00Z^not_run",
        "s",
        T0 + 3 * HOUR,
        T0 + 5 * HOUR,
        "not_run",
        2,
        True,
        "ann",
    )
    job = await timed.get_job("s@2030-01-01T03:00:00Z")
    assert (job.scheduled_for, job.run_at, job.data, job.queue) == (T0 + 3 * HOUR, clock.now(), {"n": 1}, "q")
    assert (await ledger(schedule, 9))[2:6] == [
        (3, "backfilled", ""),
        (4, "backfilled", ""),
        (5, "missed", "the latest run stands for it"),
        (6, "late", ""),
    ]
    entry = (await schedule.ledger(T0 + 3 * HOUR, T0 + 4 * HOUR))[0]
    assert (entry.job_id, entry.actor) == (job.id, "ann")


async def test_nothing_is_made_twice_by_doing_it_again_or_over_another_window(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await with_a_gap(timed, clock)
    first = await schedule.backfill(T0, T0 + 5 * HOUR)
    assert first.made == 2
    assert await schedule.backfill(T0, T0 + 5 * HOUR) == first
    wider = await schedule.backfill(T0, T0 + 8 * HOUR)
    assert wider.made == 1
    assert (await schedule.backfill(T0 + HOUR, T0 + 8 * HOUR)).made == 0
    assert await instants_of(db, "s") == [T0 + n * HOUR for n in range(1, 9)]


async def test_all_runs_everything_again_under_ids_of_its_own(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await with_a_gap(timed, clock)
    await schedule.trigger()
    before = await count_jobs(db)
    done = await schedule.backfill(T0, T0 + 8 * HOUR, which="all", backfill_id="again")
    assert (done.id, done.made, done.done) == ("again", 7, True)
    assert await count_jobs(db) == before + 7
    assert (await timed.get_job("s@2030-01-01T01:00:00Z~again")).scheduled_for == T0 + HOUR
    assert (await schedule.backfill(T0, T0 + 8 * HOUR, which="all", backfill_id="again")).made == 7
    assert await count_jobs(db) == before + 7
    more = await schedule.backfill(T0, T0 + 8 * HOUR, which="all", backfill_id="more")
    assert more.made == 7 and await count_jobs(db) == before + 14
    with pytest.raises(InvalidSchedule, match="'again' is for another window; give this one another backfill_id"):
        await schedule.backfill(T0, T0 + 7 * HOUR, which="all", backfill_id="again")


async def test_what_a_calendar_took_away_is_not_made_up_for_and_what_was_paused_is(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await timed.calendars.put("h", Calendar(["2030-01-02"]))
    schedule = await timed.schedule("work", repeat=Except(Cron("0 9 * * *"), "h"), schedule_id="s")
    await schedule.pause()
    clock.advance(3 * DAY)
    found = await schedule.preview_backfill(T0, T0 + 3 * DAY)
    assert [entry.at for entry in found] == [T0 + 9 * HOUR, T0 + 57 * HOUR]
    await schedule.resume()
    assert (await schedule.backfill(T0, T0 + 3 * DAY)).made == 2
    assert await instants_of(db, "s") == [T0 + 9 * HOUR, T0 + 57 * HOUR]


async def test_a_backfill_of_the_rule_of_its_time(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    schedule = await timed.schedule("work", repeat=Cron("0 * * * *"), schedule_id="s")
    await schedule.pause()
    clock.advance(2.25 * HOUR)
    await schedule.edit(repeat=Cron("30 * * * *"), priority=3)
    clock.advance(HOUR)
    await schedule.backfill(T0, T0 + DAY)
    assert [(at - T0) / HOUR for at in await instants_of(db, "s")] == [1, 2, 2.5]
    assert {job["priority"] for job in await jobs_of(db, "s")} == {3}


@pytest.mark.slow
async def test_a_window_with_more_than_the_limit_is_refused_before_anything_is_made(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await of_seconds(timed, clock, 10_050)
    for limit in (1000, 10_000):
        with pytest.raises(InvalidSchedule, match=f"more than {limit:,} firings to make up for; take a smaller window"):
            await schedule.backfill(T0, clock.now(), limit=limit)
    assert await count_jobs(db) == 0
    assert await db["jobs.ledger"].find_one({"outcome": "backfill"}, hint="_id_") is None
    assert (await schedule.backfill(T0, T0 + timedelta(seconds=1001), limit=1000)).made == 1000


@pytest.mark.parametrize("which", ["not_run", "all"])
@pytest.mark.slow
async def test_an_interrupted_backfill_goes_on_where_it_was_left(
    timed: Scheduler, clock: ManualClock, db: Database, which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = await of_seconds(timed, clock, 1300)
    batches: list[int] = []
    reached = asyncio.Event()
    whole = Ledger.backfill_batch

    async def watched(self: Ledger, *arguments: object) -> object:
        made = await whole(self, *arguments)  # type: ignore[arg-type]
        batches.append(len(made))
        if len(batches) == 2:
            reached.set()
            await asyncio.Event().wait()
        return made

    monkeypatch.setattr(Ledger, "backfill_batch", watched)
    task = asyncio.create_task(schedule.backfill(T0, clock.now(), which=which, limit=5000))
    await asyncio.wait_for(reached.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await count_jobs(db) == 1000
    monkeypatch.setattr(Ledger, "backfill_batch", whole)
    window = (T0, T0 + timedelta(seconds=1302))
    clock.advance(HOUR)
    await schedule.pause()
    done = await schedule.backfill(*window, which=which, limit=5000)
    assert (done.made, done.done) == (1300, True)
    instants = await instants_of(db, "s")
    assert instants[:1300] == [T0 + timedelta(seconds=n) for n in range(1, 1301)]
    assert len({job["_id"] for job in await jobs_of(db, "s")}) == 1300


async def test_a_batch_whose_jobs_were_made_and_whose_progress_was_not_noted_makes_nothing_twice(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await of_seconds(timed, clock, 20)
    store = store_of(timed)
    document = await store.schedules.get("s")
    window = (T0, T0 + timedelta(seconds=21))
    progress = await store.ledger.open_backfill("s", *window, "all", None, "k")
    async for batch in store.ledger.to_backfill(document, T0, clock.now(), "all"):
        await store.ledger.backfill_batch(document, progress, batch)
    await db["jobs.ledger"].update_one({"_id": "s^k"}, {"$set": {"cursor": T0}})
    await schedule.backfill(*window, which="all", backfill_id="k")
    assert await count_jobs(db) == 20


async def test_a_window_that_reaches_into_the_future_is_made_up_for_up_to_now(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await with_a_gap(timed, clock)
    done = await schedule.backfill(T0, T0 + DAY)
    assert (done.made, done.end) == (3, T0 + DAY)
    clock.advance(1)
    assert await schedule.backfill(T0, T0 + DAY) == done


async def test_backfilled_runs_leave_the_overlap_and_the_count_of_runs_alone(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule(
        "work", repeat=Every("1h"), schedule_id="s", overlap="skip", pause_after=2, max_runs=9
    )
    await schedule.pause()
    clock.advance(3.5 * HOUR)
    await schedule.resume()
    await schedule.backfill(T0, clock.now())
    jobs = await jobs_of(db, "s")
    assert [(job.get("ready"), job.get("tracked")) for job in jobs] == [(True, None)] * 3
    assert (await schedule.refresh()).runs == 0
    clock.advance(HOUR / 2)
    await fire(timed)
    assert (await jobs_of(db, "s"))[-1]["ready"] is True


async def test_an_id_with_signs_in_it_is_kept_apart(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="a^b@c!d~e", misfire="skip")
    clock.advance(5 * HOUR)
    await fire(timed)
    done = await schedule.backfill(T0, T0 + 3 * HOUR, which="all", backfill_id="k^1")
    assert (done.id, done.made) == ("k^1", 2)
    at: datetime = T0 + HOUR
    assert (await timed.get_job("a^b@c!d~e@2030-01-01T01:00:00Z~k^1")).scheduled_for == at
