"""Schedules by hand: paused, resumed, triggered, skipped and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from harness.firing import DAY, HOUR, MINUTE, T0, fire, instants_of, ledger, rows_of
from harness.looking import Database, count_jobs
from mainspring import (
    At,
    Calendar,
    Cron,
    Every,
    Except,
    InvalidSchedule,
    Job,
    Pause,
    Schedule,
    ScheduleNotFound,
    Scheduler,
    ScheduleStateError,
)
from mainspring.clock import ManualClock

Make = Callable[..., Scheduler]

NINE = Cron("0 9 * * *")


async def stored(db: Database) -> int:
    return await db["jobs.schedules"].count_documents({}, hint="_id_")


# -- pausing -------------------------------------------------------------------------------------------------------


async def test_a_paused_schedule_fires_no_more_and_says_why(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    clock.advance(HOUR / 2)
    paused = await schedule.pause("the mill is broken", actor="ann")
    assert (paused.state, paused.next_at, paused.due_at) == ("paused", None, None)
    assert paused.paused == Pause(T0 + HOUR / 2, "the mill is broken", "ann")
    clock.advance(5 * HOUR)
    assert await fire(timed) == []
    assert await count_jobs(db) == 0


async def test_a_schedule_can_be_made_paused_and_fires_once_it_is_resumed(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s", paused=True)
    assert (schedule.state, schedule.next_at, schedule.paused) == ("paused", None, Pause(T0))
    clock.advance(1.5 * HOUR)
    assert await fire(timed) == []
    await schedule.resume()
    clock.advance(HOUR)
    await fire(timed)
    assert await instants_of(db, "s") == [T0 + 2 * HOUR]
    with pytest.raises(InvalidSchedule, match=r"schedules\.pause"):
        await schedule.edit(paused=True)


async def test_a_resumed_schedule_fires_from_then_on(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s", misfire="all")
    await schedule.pause()
    clock.advance(3.5 * HOUR)
    resumed = await schedule.resume()
    assert (resumed.state, resumed.next_at, resumed.paused) == ("active", T0 + 4 * HOUR, None)
    clock.advance(HOUR / 2)
    await fire(timed)
    assert await instants_of(db, "s") == [T0 + 4 * HOUR]
    again = await schedule.resume()
    assert again.rev == (await schedule.refresh()).rev


async def test_what_was_due_before_a_pause_is_still_fired(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    clock.advance(HOUR + MINUTE / 6)
    await schedule.pause()
    assert await instants_of(db, "s") == [T0 + HOUR]


async def test_a_paused_schedule_can_be_edited_and_stays_paused(timed: Scheduler, clock: ManualClock) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    await schedule.pause("why")
    edited = await schedule.edit(repeat=Every("2h"))
    assert (edited.state, edited.next_at, edited.rule) == ("paused", None, Every("2h", anchor=T0))
    again = await timed.schedule("work", repeat=Every("3h"), schedule_id="s")
    assert (again.state, again.paused) == ("paused", Pause(T0, "why"))


async def test_pausing_again_keeps_the_first_pause_and_takes_a_new_reason(timed: Scheduler, clock: ManualClock) -> None:
    schedule = await timed.schedule("work", repeat=NINE, schedule_id="s")
    first = await schedule.pause("why", actor="ann")
    clock.advance(HOUR)
    assert (await schedule.pause()).rev == first.rev
    again = await schedule.pause("because", actor="bob")
    assert again.paused == Pause(T0, "because", "bob")


async def test_pausing_is_told_to_those_who_listen(timed: Scheduler) -> None:
    heard: list[Schedule] = []
    timed.on("schedule:pause", heard.append)
    schedule = await timed.schedule("work", repeat=NINE, schedule_id="s")
    await schedule.pause("why", actor="ann")
    await schedule.pause()
    assert [(one.id, one.paused and one.paused.reason) for one in heard] == [("s", "why")]


# -- by hand -------------------------------------------------------------------------------------------------------


async def test_a_trigger_makes_a_job_now_and_leaves_the_firings_as_they_are(
    timed: Scheduler, clock: ManualClock
) -> None:
    schedule = await timed.schedule("work", {"n": 1}, repeat=NINE, schedule_id="s", queue="q", jitter=60, max_runs=1)
    clock.advance(HOUR)
    job = await schedule.trigger(reason="to see", actor="ann")
    assert job.id.startswith("s!") and (job.name, job.data, job.queue) == ("work", {"n": 1}, "q")
    assert (job.schedule_id, job.scheduled_for, job.run_at) == ("s", T0 + HOUR, T0 + HOUR)
    assert (await schedule.trigger()).id != job.id
    after = await schedule.refresh()
    assert (after.next_at, after.runs, after.last_job_id) == (T0 + 9 * HOUR, 0, None)
    first = (await schedule.ledger(T0, T0 + 2 * HOUR))[0]
    assert (first.outcome, first.reason, first.actor, first.job_id) == ("triggered", "to see", "ann", job.id)


async def test_a_paused_or_ended_schedule_can_be_triggered(timed: Scheduler, clock: ManualClock) -> None:
    schedule = await timed.schedule("work", repeat=At([T0 + HOUR]), schedule_id="s")
    await schedule.pause()
    assert (await schedule.trigger()).state == "pending"
    await schedule.resume()
    clock.advance(2 * HOUR)
    await fire(timed)
    assert (await schedule.refresh()).state == "ended"
    assert (await schedule.trigger()).state == "pending"
    assert (await schedule.refresh()).state == "ended"


@pytest.mark.slow
async def test_many_triggers_at_once_from_many_processes_make_a_job_each(
    make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    schedulers = [make_scheduler(clock=clock) for _ in range(4)]
    schedule = await schedulers[0].schedule("work", repeat=NINE, schedule_id="s")
    triggers = [scheduler.schedules.trigger("s") for scheduler in schedulers for _ in range(4)]
    jobs = await asyncio.gather(*triggers, *(schedule.skip_next() for _ in range(2)))
    assert len({job.id for job in jobs[:16] if isinstance(job, Job)}) == 16 == await count_jobs(db)
    assert (await schedule.refresh()).next_at == T0 + 9 * HOUR + 2 * DAY


async def test_the_next_firing_can_be_skipped_and_the_one_after_it_too(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    assert (await schedule.skip_next("holiday", actor="ann")).next_at == T0 + 2 * HOUR
    assert (await schedule.skip_next()).next_at == T0 + 3 * HOUR
    clock.advance(3 * HOUR)
    await fire(timed)
    assert await instants_of(db, "s") == [T0 + 3 * HOUR]
    entries = await schedule.ledger(T0, T0 + 4 * HOUR)
    assert [(entry.outcome, entry.reason, entry.actor) for entry in entries] == [
        ("skipped", "by hand: holiday", "ann"),
        ("skipped", "by hand", None),
        ("on_time", "", None),
    ]


@pytest.mark.parametrize("what", ["end", "pause", "calendar", "priority"])
async def test_what_was_skipped_by_hand_stays_skipped_whatever_else_is_changed(
    timed: Scheduler, clock: ManualClock, db: Database, what: str
) -> None:
    await timed.calendars.put("h", Calendar(["2031-01-01"]))
    schedule = await timed.schedule("work", repeat=Except(NINE, "h"), schedule_id="s")
    await schedule.skip_next()
    if what == "end":
        await schedule.edit(end_at=T0 + 90 * DAY)
    elif what == "pause":
        await schedule.pause()
        await schedule.resume()
    elif what == "calendar":
        await timed.calendars.put("h", Calendar(["2032-01-01"]))
    else:
        await schedule.edit(priority=1)
    for _ in range(48):
        clock.advance(HOUR)
        await fire(timed)
    assert await instants_of(db, "s") == [T0 + 33 * HOUR]
    assert await ledger(schedule, 48) == [(9, "skipped", "by hand"), (33, "on_time", "")]


async def test_a_calendar_that_brings_firings_back_takes_back_what_was_skipped_behind_them(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await timed.calendars.put("h", Calendar(["2030-01-01"]))
    schedule = await timed.schedule("work", repeat=Except(NINE, "h"), schedule_id="s")
    await schedule.skip_next()
    await timed.calendars.put("h", Calendar(["2031-01-01"]))
    assert (await schedule.refresh()).next_at == T0 + 9 * HOUR
    for _ in range(35):
        clock.advance(HOUR)
        await fire(timed)
    assert await instants_of(db, "s") == [T0 + 9 * HOUR, T0 + 33 * HOUR]
    assert await ledger(schedule, 35) == [(9, "on_time", ""), (33, "on_time", "")]


async def test_a_new_rule_takes_back_what_was_skipped_of_the_old_one(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=NINE, schedule_id="s")
    await schedule.skip_next()
    assert (await schedule.edit(repeat=Cron("0 9,10 * * *"))).next_at == T0 + 9 * HOUR
    for _ in range(11):
        clock.advance(HOUR)
        await fire(timed)
    assert await instants_of(db, "s") == [T0 + 9 * HOUR, T0 + 10 * HOUR]
    assert await ledger(schedule) == [(9, "on_time", ""), (10, "on_time", "")]


async def test_there_must_be_a_next_firing_to_be_skipped(timed: Scheduler) -> None:
    schedule = await timed.schedule("work", repeat=At([T0 + HOUR]), schedule_id="s")
    await schedule.skip_next()
    for _ in range(2):
        with pytest.raises(ScheduleStateError, match="no next firing that could be skipped"):
            await schedule.skip_next()
    assert (await schedule.refresh()).state == "ended"


async def test_a_deleted_schedule_is_gone_with_its_ledger_and_its_jobs_stay(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s", misfire="skip")
    clock.advance(10 * HOUR)
    await fire(timed)
    await schedule.trigger()
    await schedule.backfill(T0, T0 + 3 * HOUR)
    await schedule.delete()
    assert await stored(db) == 0 and await rows_of(db, "s") == []
    assert await count_jobs(db) == 4
    with pytest.raises(ScheduleNotFound):
        await schedule.delete()
    clock.advance(10 * HOUR)
    assert await fire(timed) == []
    again = await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    assert (again.runs, again.rev, again.next_at) == (0, 0, T0 + 21 * HOUR)
