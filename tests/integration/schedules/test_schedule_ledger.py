"""The ledger of a stored schedule: every firing is accounted for, by the rule and the calendars of its time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from harness.firing import (
    DAY,
    HOUR,
    MINUTE,
    T0,
    brief,
    end_run,
    fire,
    fire_until,
    instants_of,
    jobs_of,
    ledger,
    rows_of,
    store_of,
)
from harness.looking import Database
from harness.waiting import eventually
from mainspring import At, Calendar, Cron, Every, Except, Scheduler
from mainspring.clock import ManualClock

Make = Callable[..., Scheduler]


async def test_firings_on_time_cost_no_row(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    await fire_until(timed, clock, T0 + 3 * HOUR, HOUR)
    entries = await schedule.ledger(T0, T0 + 5 * HOUR)
    assert brief(entries) == [(1, "on_time", ""), (2, "on_time", ""), (3, "on_time", ""), (4, "expected", "")]
    assert [entry.job_id for entry in entries[:3]] == [job["_id"] for job in await jobs_of(db, "s")]
    assert await rows_of(db, "s") == []


async def test_a_firing_nobody_has_decided_yet_is_due(timed: Scheduler, clock: ManualClock) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    clock.advance(HOUR)
    assert await ledger(schedule, 2) == [(1, "due", "")]


async def test_a_day_in_the_life_of_a_schedule_leaves_nothing_out(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    """On time, late, skipped for each reason, missed, backfilled, triggered, due and expected: one of each at least."""
    await timed.calendars.put("noon", Calendar(["2030-01-02"]))
    rule = Except(Every("1h", anchor=T0), "noon")
    schedule = await timed.schedule("work", repeat=rule, schedule_id="s", overlap="skip")

    async def at(hours: float, passes: bool = True) -> None:
        clock.advance(T0 + hours * HOUR - clock.now())
        if passes:
            await fire(timed)

    await at(1)  # on time
    await end_run(db, "s@2030-01-01T01:00:00Z", at=clock.now())
    await at(2.01)  # late, and goes on
    await at(3)  # skipped: the other one is still going
    await end_run(db, "s@2030-01-01T02:00:00Z", at=clock.now())
    await schedule.skip_next("enough", actor="ann")  # 4
    await at(4)
    await schedule.pause("rest")
    await at(6.5)
    await schedule.resume()  # 5 and 6 were paused
    triggered = await schedule.trigger(reason="now", actor="ann")
    await end_run(db, triggered.id, at=clock.now())
    await at(9.5)  # 7 and 8 were missed; 9 stands for them
    await end_run(db, "s@2030-01-01T09:00:00Z", at=clock.now())
    await schedule.backfill(T0 + 7 * HOUR, T0 + 7.5 * HOUR)  # 7
    await schedule.edit(misfire="skip")
    await at(11.5)
    await schedule.edit(misfire="all", start_deadline=1)
    await at(12.5)
    await schedule.edit(misfire="latest")
    await at(23.5, passes=False)
    assert await ledger(schedule, 50) == [
        (1, "on_time", ""),
        (2, "late", ""),
        (3, "skipped", "overlap: s@2030-01-01T02:00:00Z is still going"),
        (4, "skipped", "by hand: enough"),
        (5, "skipped", "paused"),
        (6, "skipped", "paused"),
        (6.5, "triggered", "now"),
        (7, "backfilled", ""),
        (8, "missed", "the latest run stands for it"),
        (9, "late", ""),
        (10, "skipped", "misfire"),
        (11, "skipped", "misfire"),
        (12, "skipped", "expired"),
        *((hour, "due", "") for hour in range(13, 24)),
        *((hour, "skipped", "calendar noon") for hour in range(24, 48)),
        (48, "expected", ""),
        (49, "expected", ""),
    ]
    entries = {entry.at: entry for entry in await schedule.ledger(T0, T0 + 13 * HOUR)}
    assert entries[T0 + 2 * HOUR].late_by == timedelta(seconds=36)
    assert (entries[T0 + 4 * HOUR].actor, entries[T0 + 6.5 * HOUR].job_id) == ("ann", triggered.id)
    assert entries[T0 + 8 * HOUR].job_id == "s@2030-01-01T09:00:00Z"
    jobs = {job["_id"] for job in await jobs_of(db, "s")}
    named = {e.job_id for e in entries.values() if e.outcome in ("on_time", "late", "backfilled", "triggered")}
    assert named == jobs


async def test_each_firing_is_judged_by_the_rule_of_its_time(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Cron("0 * * * *"), schedule_id="s")
    await fire_until(timed, clock, T0 + 2.25 * HOUR, HOUR / 4)
    await schedule.edit(repeat=Cron("*/30 * * * *"))
    await fire_until(timed, clock, T0 + 4 * HOUR, HOUR / 4)
    await schedule.edit(repeat=Cron("15 * * * *"))
    await fire_until(timed, clock, T0 + 5 * HOUR, HOUR / 8)
    hours = [1, 2, 2.5, 3, 3.5, 4, 4.25]
    assert await ledger(schedule, 6) == [*((hour, "on_time", "") for hour in hours), (5.25, "expected", "")]
    assert [(at - T0) / HOUR for at in await instants_of(db, "s")] == hours


async def test_each_firing_is_judged_by_the_calendar_of_its_time(timed: Scheduler, clock: ManualClock) -> None:
    await timed.calendars.put("h", Calendar(["2030-01-02"]))
    schedule = await timed.schedule("work", repeat=Except(Cron("0 9 * * *"), "h"), schedule_id="s")
    await fire_until(timed, clock, T0 + 2.5 * DAY, DAY / 2)
    await timed.calendars.put("h", Calendar(["2030-01-04", "2030-01-01"]))
    await fire_until(timed, clock, T0 + 4.5 * DAY, DAY / 2)
    await schedule.edit(repeat=Cron("0 9 * * *"))
    await timed.calendars.delete("h")
    assert await ledger(schedule, 5 * 24 + 12) == [
        (9, "late", ""),
        (33, "skipped", "calendar h"),
        (57, "late", ""),
        (81, "skipped", "calendar h"),
        (105, "late", ""),
        (129, "expected", ""),
    ]


async def test_firings_that_a_calendar_took_away_before_a_change_are_still_told(
    timed: Scheduler, clock: ManualClock
) -> None:
    await timed.calendars.put("h", Calendar(["2030-01-01"]))
    schedule = await timed.schedule("work", repeat=Except(Cron("0 9 * * *"), "h"), schedule_id="s")
    clock.advance(12 * HOUR)
    await schedule.edit(repeat=Cron("0 9 * * *"))
    assert await ledger(schedule, 48) == [(9, "skipped", "calendar h"), (33, "expected", "")]


async def test_what_was_not_fired_during_a_pause_is_told_whatever_was_changed_meanwhile(
    timed: Scheduler, clock: ManualClock
) -> None:
    schedule = await timed.schedule("work", repeat=Cron("0 * * * *"), schedule_id="s")
    await schedule.pause()
    clock.advance(2.5 * HOUR)
    await schedule.edit(repeat=Cron("30 * * * *"))
    clock.advance(2 * HOUR)
    await schedule.edit(end_at=T0 + DAY)
    clock.advance(HOUR / 2)
    assert await ledger(schedule, 5.5) == [
        (1, "skipped", "paused"),
        (2, "skipped", "paused"),
        (3.5, "skipped", "paused"),
        (4.5, "skipped", "paused"),
    ]
    await schedule.resume()
    assert (await ledger(schedule, 6))[-1] == (5.5, "expected", "")
    assert len(await ledger(schedule, 5.5)) == 4


async def test_a_firing_at_the_very_instant_of_a_resume_was_paused(timed: Scheduler, clock: ManualClock) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    await schedule.pause()
    clock.advance(HOUR)
    assert (await schedule.resume()).next_at == T0 + 2 * HOUR
    assert await ledger(schedule, 2) == [(1, "skipped", "paused")]


async def test_a_schedule_that_has_ended_expects_nothing_more(timed: Scheduler, clock: ManualClock) -> None:
    counted = await timed.schedule("work", repeat=Every("1h"), schedule_id="counted", max_runs=2)
    bounded = await timed.schedule("work", repeat=Every("1h"), schedule_id="bounded", end_at=T0 + 2.5 * HOUR)
    listed = await timed.schedule("work", repeat=At([T0 + HOUR, T0 + 2 * HOUR]), schedule_id="listed")
    await fire_until(timed, clock, T0 + 5 * HOUR, HOUR)
    for schedule in (counted, bounded, listed):
        assert (await schedule.refresh()).state == "ended"
        assert await ledger(schedule) == [(1, "on_time", ""), (2, "on_time", "")]
        await schedule.pause()
    clock.advance(3 * HOUR)
    for schedule in (counted, bounded, listed):
        assert (await schedule.resume()).state == "ended"
        assert await ledger(schedule) == [(1, "on_time", ""), (2, "on_time", "")]


async def test_runs_that_count_from_the_end_of_the_one_before_have_an_entry_each(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h", after="end"), schedule_id="s")
    clock.advance(HOUR)
    await fire(timed)
    clock.advance(HOUR / 2)
    await end_run(db, "s@2030-01-01T01:00:00Z", at=clock.now())
    clock.advance(2 * HOUR)
    await fire(timed)
    await end_run(db, "s@2030-01-01T02:30:00Z", at=clock.now())
    await schedule.edit(repeat=Cron("0 * * * *"))
    await fire_until(timed, clock, T0 + 5 * HOUR, HOUR / 2)
    assert await ledger(schedule, 6) == [
        (1, "on_time", ""),
        (2.5, "late", ""),
        (4, "on_time", ""),
        (5, "on_time", ""),
    ]
    late = (await schedule.ledger(T0 + 2 * HOUR, T0 + 3 * HOUR))[0]
    assert late.late_by == HOUR


async def test_a_pause_of_a_rule_that_counts_from_ends_skips_the_one_firing_it_waited_for(
    timed: Scheduler, clock: ManualClock
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h", after="end"), schedule_id="s")
    await schedule.pause()
    clock.advance(5 * HOUR)
    assert (await schedule.resume()).next_at == T0 + 6 * HOUR
    assert await ledger(schedule, 6) == [(1, "skipped", "paused")]


@pytest.mark.slow
async def test_a_window_in_the_past_is_read_without_what_came_later(timed: Scheduler, clock: ManualClock) -> None:
    schedule = await timed.schedule("work", repeat=Every("1m", anchor=T0), schedule_id="s")
    await fire_until(timed, clock, T0 + HOUR, MINUTE)
    assert [hours * 60 for hours, _, _ in brief(await schedule.ledger(T0 + 10 * MINUTE, T0 + 13 * MINUTE))] == [
        10,
        11,
        12,
    ]
    assert len(await schedule.ledger(T0, T0 + HOUR, limit=7)) == 7


@pytest.mark.slow
async def test_more_rows_than_were_asked_for_do_not_hide_one_another(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1m", anchor=T0), schedule_id="s", overlap="skip")
    for _ in range(30):
        clock.advance(MINUTE)
        await fire(timed)
    await schedule.trigger(overlap="allow")
    entries = await schedule.ledger(T0, T0 + HOUR, limit=25)
    assert [entry.outcome for entry in entries] == ["on_time", *["skipped"] * 24]
    last = await schedule.ledger(T0 + 25 * MINUTE, T0 + 31 * MINUTE)
    assert sorted(entry.outcome for entry in last) == ["skipped"] * 6 + ["triggered"]


async def test_rows_are_kept_for_as_long_as_was_set_and_nothing_older_is_told(
    make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    scheduler = await make_scheduler(clock=clock, keep_ledger=DAY).connect()
    schedule = await scheduler.schedule("work", repeat=Every("1h"), schedule_id="s", misfire="skip")
    clock.advance(10.5 * HOUR)
    await fire(scheduler)
    await fire_until(scheduler, clock, T0 + 20 * HOUR, HOUR / 2)
    clock.advance(15.5 * HOUR)  # at 35.5: what was before 11.5 is older than a day
    await fire(scheduler)
    before = clock.now() - DAY
    assert await store_of(scheduler).ledger.prune(before, 100) == 1
    assert len(await rows_of(db, "s")) == 1
    entries = await ledger(schedule, 36)
    assert entries[0] == (12, "on_time", "")
    assert {(outcome, reason) for hours, outcome, reason in entries if hours > 20} == {("skipped", "misfire")}


async def test_a_worker_prunes_old_rows_by_itself(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler(keep_ledger=3600)
    await scheduler.connect()
    now = datetime.now(UTC)
    await db["jobs.ledger"].insert_many(
        [
            {"_id": name, "schedule_id": "s", "at": now - age, "until": now - age, "outcome": "skipped"}
            for name, age in (("old", 2 * HOUR), ("new", MINUTE))
        ]
    )
    await scheduler.start()

    async def pruned() -> bool:
        return [row["_id"] for row in await rows_of(db, "s")] == ["new"]

    await eventually(pruned)
