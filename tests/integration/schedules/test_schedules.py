"""Schedules as things one can manage: created, declared again, changed, paused, triggered, skipped and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.firing import DAY, HOUR, MINUTE, T0, fire, instants_of, jobs_of, ledger, rows_of
from harness.inside import inside
from harness.looking import Database, count_jobs
from mainspring import (
    AnyOf,
    At,
    Calendar,
    CalendarNotFound,
    ConfigurationError,
    Cron,
    Every,
    Except,
    Retry,
    RRule,
    Rule,
    ScheduleNotFound,
    Scheduler,
)
from mainspring.clock import ManualClock

Make = Callable[..., Scheduler]

NINE = Cron("0 9 * * *")


async def stored(db: Database) -> int:
    return await db["jobs.schedules"].count_documents({}, hint="_id_")


# -- creating ------------------------------------------------------------------------------------------------------


async def test_a_schedule_is_what_was_asked_for(timed: Scheduler) -> None:
    schedule = await timed.schedule(
        "report",
        {"to": ["a", "b"], "deep": {"n": 1}},
        repeat=Cron("0 9 * * *", "Asia/Kolkata"),
        schedule_id="daily",
        queue="slow",
        priority=7,
        timeout=60,
        retry=Retry(attempts=2),
        tags=["t"],
        start_within=3600,
        start_at=T0 + DAY,
        end_at=T0 + 10 * DAY,
        max_runs=5,
        jitter=timedelta(minutes=5),
        misfire="all",
        misfire_grace=30,
        misfire_limit=7,
        start_deadline=7200,
        overlap="queue_one",
        pause_after=3,
    )
    assert schedule == await timed.schedules.get("daily") == await schedule.refresh()
    assert (schedule.id, schedule.name, schedule.state) == ("daily", "report", "active")
    assert schedule.data == {"to": ["a", "b"], "deep": {"n": 1}}
    assert schedule.rule == Cron("0 9 * * *", "Asia/Kolkata")
    assert schedule.next_at == datetime(2030, 1, 2, 3, 30, tzinfo=UTC)
    assert schedule.due_at is not None and schedule.next_at <= schedule.due_at < schedule.next_at + 5 * MINUTE
    assert (schedule.queue, schedule.priority, schedule.tags, schedule.pause_after) == ("slow", 7, ("t",), 3)
    assert (schedule.start_at, schedule.end_at, schedule.jitter) == (T0 + DAY, T0 + 10 * DAY, 5 * MINUTE)
    policy = schedule.policy
    assert (policy.misfire, policy.misfire_grace, policy.misfire_limit) == ("all", 30, 7)
    assert (policy.start_deadline, policy.overlap, policy.max_runs) == (7200, "queue_one", 5)
    assert (schedule.runs, schedule.failures, schedule.last_at, schedule.paused, schedule.rev) == (0, 0, None, None, 0)


async def test_the_defaults_are_those_that_are_promised(timed: Scheduler) -> None:
    schedule = await timed.schedule("work", repeat=NINE)
    assert schedule.id.startswith("work-") and len(schedule.id) == len("work-") + 8
    assert (schedule.policy.misfire, schedule.policy.misfire_grace) == ("latest", 60)
    assert (schedule.policy.overlap, schedule.policy.max_runs, schedule.jitter) == ("allow", None, timedelta(0))
    assert (schedule.queue, schedule.priority, schedule.declared_by) == ("default", 5, None)


async def test_a_firing_makes_a_job_with_all_that_the_schedule_says(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await timed.schedule(
        "report", {"n": 1}, repeat=NINE, schedule_id="daily", queue="slow", priority=2, timeout=9, tags=["t"], retry=4
    )
    clock.advance(9 * HOUR)
    await fire(timed)
    job = await timed.get_job("daily@2030-01-01T09:00:00Z")
    assert (job.name, job.data, job.queue, job.priority, job.tags) == ("report", {"n": 1}, "slow", 2, ("t",))
    assert (job.schedule_id, job.scheduled_for, job.run_at) == ("daily", T0 + 9 * HOUR, T0 + 9 * HOUR)
    (document,) = await jobs_of(db, "daily")
    assert (document["timeout"], document["retry"]["attempts"], document["ready"]) == (9, 4, True)
    schedule = await timed.schedules.get("daily")
    assert (schedule.runs, schedule.last_at, schedule.last_job_id) == (1, T0 + 9 * HOUR, job.id)
    assert schedule.next_at == T0 + 33 * HOUR
    assert [found.id async for found in timed.jobs(schedule_id="daily")] == [job.id]


RULES: list[tuple[Rule, list[float]]] = [
    (Cron("0 */8 * * *"), [8, 16, 24]),
    (Every("5h"), [5, 10, 15, 20]),
    (Every("5h", anchor=T0 - HOUR), [4, 9, 14, 19, 24]),
    (At([T0 + 2 * HOUR, T0 + 30 * HOUR, T0 - HOUR]), [2]),
    (RRule("FREQ=HOURLY;INTERVAL=10", start=T0), [10, 20]),
    (AnyOf(Cron("0 6 * * *"), At([T0 + 7 * HOUR])), [6, 7]),
]


@pytest.mark.parametrize(("rule", "hours"), RULES, ids=lambda value: getattr(type(value), "__name__", ""))
async def test_rules_of_every_kind_fire_at_their_instants(
    timed: Scheduler, clock: ManualClock, db: Database, rule: Rule, hours: list[float]
) -> None:
    await timed.schedule("work", repeat=rule, schedule_id="s")
    for _ in range(48):
        clock.advance(HOUR / 2)
        await fire(timed)
    assert [(at - T0) / HOUR for at in await instants_of(db, "s")] == hours


async def test_an_h_in_a_cron_is_made_of_the_schedules_id(timed: Scheduler) -> None:
    rule = Cron("H H * * *")
    one = await timed.schedule("work", repeat=rule, schedule_id="one")
    other = await timed.schedule("work", repeat=rule, schedule_id="other")
    assert one.next_at != other.next_at
    assert one.next_at == Cron("H H * * *", seed="one").next(T0)
    (first,) = await timed.schedules.preview(rule, 1, schedule_id="one")
    assert first.at == one.next_at


async def test_an_every_without_an_anchor_begins_where_the_schedule_begins(
    timed: Scheduler, clock: ManualClock
) -> None:
    clock.advance(90)
    assert (await timed.schedule("work", repeat=Every("1h"), schedule_id="a")).next_at == T0 + 90 * MINUTE / 60 + HOUR
    begun = await timed.schedule("work", repeat=Every("1h"), schedule_id="b", start_at=T0 + 2 * DAY)
    assert begun.next_at == T0 + 2 * DAY


async def test_jitter_moves_when_the_job_is_made_and_not_what_it_is_called(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=NINE, schedule_id="s", jitter=3600)
    assert schedule.due_at is not None and schedule.next_at == T0 + 9 * HOUR < schedule.due_at
    clock.advance(9 * HOUR)
    assert await fire(timed) == []
    clock.advance(schedule.due_at - clock.now())
    await fire(timed)
    (job,) = await jobs_of(db, "s")
    assert (job["_id"], job["scheduled_for"], job["run_at"]) == (
        "s@2030-01-01T09:00:00Z",
        T0 + 9 * HOUR,
        schedule.due_at,
    )
    assert await rows_of(db, "s") == []


async def test_a_preview_tells_what_a_schedule_will_do_and_stores_nothing(timed: Scheduler, db: Database) -> None:
    await timed.calendars.put("h", Calendar(["2030-01-02"]))
    rule = Except(Cron("30 2 * * *", "Europe/Berlin"), "h", then="next")
    found = await timed.schedules.preview(rule, 3, start=datetime(2030, 3, 30, tzinfo=UTC))
    assert [firing.at.isoformat() for firing in found] == [
        "2030-03-30T02:30:00+01:00",
        "2030-03-31T03:00:00+02:00",
        "2030-04-01T02:30:00+02:00",
    ]
    assert "does not exist" in " ".join(found[1].notes) and found[0].notes == ()
    jittered = await timed.schedules.preview(
        NINE, 2, jitter=600, schedule_id="s", start_at=T0 + DAY, end_at=T0 + 2 * DAY
    )
    schedule = await timed.schedule("work", repeat=NINE, schedule_id="s", jitter=600, start_at=T0 + DAY)
    assert [(firing.at, firing.due) for firing in jittered] == [(schedule.next_at, schedule.due_at)]
    assert "jitter moves it" in jittered[0].notes[0]
    await schedule.delete()
    assert await stored(db) == 0
    with pytest.raises(CalendarNotFound, match="nowhere"):
        await timed.schedules.preview(Except(NINE, "nowhere"))


async def test_upcoming_firings_are_those_that_will_come(timed: Scheduler, clock: ManualClock) -> None:
    schedule = await timed.schedule("work", repeat=NINE, schedule_id="s", max_runs=3, jitter=3600)
    assert [firing.at for firing in await schedule.upcoming()] == [T0 + 9 * HOUR + n * DAY for n in range(3)]
    clock.advance(9 * HOUR + MINUTE / 60)  # the first waits for its jitter
    assert [firing.at for firing in await schedule.upcoming(2)] == [T0 + 9 * HOUR + n * DAY for n in range(2)]
    clock.advance(2 * HOUR)
    await fire(timed)
    await schedule.skip_next()
    assert [firing.at for firing in await schedule.upcoming()] == [T0 + 9 * HOUR + n * DAY for n in (2, 3)]
    await schedule.pause()
    assert len(await schedule.upcoming()) == 2
    with pytest.raises(ConfigurationError, match="count must be a whole number from 0"):
        await schedule.upcoming(-1)


# -- again and again -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule", [NINE, Every("5m"), Cron("H 9 * * *"), At([T0 + HOUR]), Every("5m", after="end")], ids=repr
)
async def test_declaring_the_same_again_changes_nothing(timed: Scheduler, clock: ManualClock, rule: Rule) -> None:
    options: dict[str, Any] = {"repeat": rule, "schedule_id": "s", "jitter": 3, "tags": ["a"], "retry": Retry(delay=1)}
    data = {"at": datetime(2030, 1, 1, 1, 1, 1, 123456, tzinfo=UTC), "deep": {"list": [1, 2.5, None]}}
    first = await timed.schedule("work", data, **options)
    clock.advance(77)
    second = await timed.schedule("work", data, **options)
    assert (second.rev, second.updated_at, second.next_at) == (first.rev, first.updated_at, first.next_at)
    assert second.rule == first.rule


async def test_many_processes_that_declare_the_same_at_once_make_one(make_scheduler: Make, db: Database) -> None:
    schedulers = [make_scheduler() for _ in range(5)]
    made = await asyncio.gather(*(one.schedule("work", repeat=NINE, schedule_id="s") for one in schedulers))
    assert {schedule.rev for schedule in made} == {0}
    assert await stored(db) == 1


async def test_a_changed_rule_takes_effect_at_once(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    first = await timed.schedule("work", repeat=NINE, schedule_id="s")
    clock.advance(HOUR)
    second = await timed.schedule("work", repeat=Cron("30 1 * * *"), schedule_id="s")
    assert (second.rev, second.next_at, second.created_at) == (first.rev + 1, T0 + 1.5 * HOUR, first.created_at)
    clock.advance(HOUR / 2)
    await fire(timed)
    clock.advance(8 * HOUR)
    await fire(timed)
    assert await instants_of(db, "s") == [T0 + 1.5 * HOUR]


async def test_what_was_due_before_a_change_is_fired_by_the_old_rule(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("old", repeat=NINE, schedule_id="s")
    clock.advance(9 * HOUR + MINUTE / 2)
    await schedule.edit(repeat=Cron("0 10 * * *"), priority=1)
    clock.advance(HOUR)
    await fire(timed)
    assert [(job["scheduled_for"], job["priority"]) for job in await jobs_of(db, "s")] == [
        (T0 + 9 * HOUR, 5),
        (T0 + 10 * HOUR, 1),
    ]


async def test_a_decision_that_was_taken_on_the_old_rule_is_refused_after_a_change(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    """What a process has read before a change it cannot write back after it."""
    await timed.schedule("work", repeat=NINE, schedule_id="s")
    firing = (await inside(timed).store()).firing
    old = await firing.load(["s"])
    await timed.schedule("work", repeat=Cron("0 12 * * *"), schedule_id="s")
    clock.advance(10 * HOUR)
    assert await firing.advance(old) == []
    schedule = await timed.schedules.get("s")
    assert (schedule.rule, schedule.next_at) == (Cron("0 12 * * *"), T0 + 12 * HOUR)
    assert await count_jobs(db) == 0


async def test_a_running_job_never_writes_an_old_rule_back(scheduler: Scheduler, db: Database) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    @scheduler.job("work")
    async def work(n: int = 0) -> None:
        begun.set()
        await go_on.wait()

    await scheduler.start()
    schedule = await scheduler.schedule("work", repeat=Every(0.2), schedule_id="s", overlap="skip", pause_after=3)
    await asyncio.wait_for(begun.wait(), 60)
    changed = await schedule.edit(repeat=Cron("0 0 1 1 *"), data={"n": 1}, priority=3)
    go_on.set()
    (job,) = [job async for job in scheduler.jobs(schedule_id="s")]
    assert (await scheduler.wait(job.id, timeout=60)).state == "completed"
    await schedule.trigger()  # which takes note of the run's end
    after = await schedule.refresh()
    assert (after.rule, after.data, after.priority) == (Cron("0 0 1 1 *"), {"n": 1}, 3)
    assert after.next_at == changed.next_at and after.next_at is not None and after.next_at.month == 1


async def test_an_edit_changes_what_is_given_and_leaves_the_rest(timed: Scheduler) -> None:
    await timed.schedule("work", {"n": 1}, repeat=Every("1h"), schedule_id="s", queue="q", tags=["t"], max_runs=9)
    edited = await timed.schedules.edit("s", data={"n": 2}, priority=1, overlap="skip", retry=7)
    assert (edited.data, edited.priority, edited.policy.overlap) == ({"n": 2}, 1, "skip")
    assert (edited.queue, edited.tags, edited.policy.max_runs, edited.next_at) == ("q", ("t",), 9, T0 + HOUR)
    again = await timed.schedules.edit("s", data={"n": 2}, priority=1)
    assert again.rev == edited.rev
    rule = await timed.schedules.edit("s", repeat=Every("2h"))
    assert (rule.next_at, rule.data) == (T0 + 2 * HOUR, {"n": 2})


async def test_an_edit_takes_options_away_that_are_to_be_removed(timed: Scheduler) -> None:
    options: dict[str, Any] = {"end_at": T0 + DAY, "max_runs": 3, "jitter": 5, "overlap": "skip", "pause_after": 2}
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s", **options)
    edited = await schedule.edit(remove=["end_at", "jitter", "overlap"], max_runs=4)
    assert (edited.end_at, edited.jitter, edited.policy.overlap) == (None, timedelta(0), "allow")
    assert (edited.policy.max_runs, edited.pause_after) == (4, 2)
    bare = await schedule.edit(remove=["max_runs", "pause_after"])
    assert (bare.policy.max_runs, bare.pause_after) == (None, None)


async def test_an_edit_may_take_the_calendars_of_a_rule_away_and_bring_others(timed: Scheduler) -> None:
    await timed.calendars.put("h", Calendar(["2030-01-01"]))
    schedule = await timed.schedule("work", repeat=Except(NINE, "h"), schedule_id="s")
    assert schedule.next_at == T0 + 33 * HOUR
    assert (await schedule.edit(repeat=NINE)).next_at == T0 + 9 * HOUR
    assert (await schedule.edit(repeat=Except(NINE, "h"))).next_at == T0 + 33 * HOUR


async def test_a_changed_calendar_takes_effect_at_once(timed: Scheduler, clock: ManualClock) -> None:
    await timed.calendars.put("h", Calendar(["2030-01-01"]))
    schedule = await timed.schedule("work", repeat=Except(NINE, "h"), schedule_id="s")
    other = await timed.schedule("work", repeat=NINE, schedule_id="other")
    clock.advance(HOUR)
    await timed.calendars.put("h", Calendar(["2030-01-02"]))
    assert (await schedule.refresh()).next_at == T0 + 9 * HOUR
    assert (await other.refresh()).rev == other.rev


async def test_schedules_that_did_not_follow_a_calendar_do_so_when_it_is_stored_again(
    timed: Scheduler, db: Database
) -> None:
    """The process that changed the calendar may have died before all schedules followed."""
    await timed.calendars.put("h", Calendar(["2030-01-01"]))
    schedule = await timed.schedule("work", repeat=Except(NINE, "h"), schedule_id="s")
    store = await inside(timed).store()
    await store.calendars.put("h", Calendar(["2030-01-02"]), None)
    assert (await schedule.refresh()).next_at == T0 + 33 * HOUR
    await timed.calendars.put("h", Calendar(["2030-01-02"]))
    assert (await schedule.refresh()).next_at == T0 + 9 * HOUR


async def test_edits_of_many_at_once_are_all_kept(timed: Scheduler) -> None:
    schedule = await timed.schedule("work", repeat=NINE, schedule_id="s")
    changes: list[dict[str, Any]] = [{"priority": 1}, {"queue": "q"}, {"tags": ["t"]}, {"max_runs": 4}, {"timeout": 5}]
    await asyncio.gather(*(schedule.edit(**change) for change in changes))
    after = await schedule.refresh()
    assert (after.priority, after.queue, after.tags, after.policy.max_runs) == (1, "q", ("t",), 4)
    assert after.rev == schedule.rev + 5


async def test_a_change_that_leaves_the_rule_leaves_a_firing_due_whose_jitter_is_not_over(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=NINE, schedule_id="s", jitter=3600)
    clock.advance(9 * HOUR)
    edited = await schedule.edit(end_at=T0 + 90 * DAY)
    assert edited.next_at == T0 + 9 * HOUR
    assert await ledger(schedule) == [(9, "expected", "")]
    clock.advance(HOUR)
    await fire(timed)
    assert await instants_of(db, "s") == [T0 + 9 * HOUR]
    assert [outcome for _, outcome, _ in await ledger(schedule)] in (["on_time"], ["late"])


async def test_a_changed_rule_does_without_a_firing_whose_jitter_was_not_over(
    timed: Scheduler, clock: ManualClock
) -> None:
    schedule = await timed.schedule("work", repeat=NINE, schedule_id="s", jitter=3600)
    clock.advance(9 * HOUR)
    await schedule.edit(repeat=Cron("0 12 * * *"))
    assert await ledger(schedule) == [(12, "expected", "")]


async def test_raising_max_runs_lets_an_ended_schedule_go_on_from_now(timed: Scheduler, clock: ManualClock) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s", max_runs=1)
    clock.advance(HOUR)
    await fire(timed)
    assert (await schedule.refresh()).state == "ended"
    clock.advance(5 * HOUR)
    edited = await schedule.edit(max_runs=2)
    assert (edited.state, edited.next_at) == ("active", T0 + 7 * HOUR)
    assert await ledger(schedule, 9) == [(1, "on_time", ""), (7, "expected", ""), (8, "expected", "")]


# -- finding -------------------------------------------------------------------------------------------------------


async def test_schedules_are_listed_by_state_name_and_tag_in_the_order_of_their_ids(
    timed: Scheduler, clock: ManualClock
) -> None:
    await timed.schedule("b", repeat=NINE, schedule_id="2", tags=["x", "y"])
    await timed.schedule("a", repeat=NINE, schedule_id="1", tags=["x"])
    await timed.schedule("a", repeat=At([T0 + HOUR]), schedule_id="3")
    await timed.schedules.pause("2")
    clock.advance(HOUR)
    await fire(timed)

    async def ids(**wanted: Any) -> list[str]:
        return [schedule.id async for schedule in timed.schedules.find(**wanted)]

    assert await ids() == ["1", "2", "3"]
    assert await ids(state="active") == ["1"]
    assert await ids(state="paused") == ["2"]
    assert await ids(state="ended") == ["3"]
    assert await ids(name="a") == ["1", "3"]
    assert await ids(tag="x") == ["1", "2"]
    assert await ids(tag="x", name="b", state="paused") == ["2"]
    with pytest.raises(ConfigurationError, match=r"no state 'asleep'; a schedule is active, paused, ended"):
        await ids(state="asleep")


@pytest.mark.slow
async def test_many_schedules_are_listed_to_the_last(timed: Scheduler) -> None:
    names = [f"s{n:03}" for n in range(450)]
    for place in range(0, len(names), 50):
        some = names[place : place + 50]
        await asyncio.gather(*(timed.schedule("work", repeat=NINE, schedule_id=name) for name in some))
    assert [schedule.id async for schedule in timed.schedules.find()] == names


async def test_unknown_ids_are_told_by_every_verb(timed: Scheduler) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: timed.schedules.get("x"),
        lambda: timed.schedules.pause("x"),
        lambda: timed.schedules.resume("x"),
        lambda: timed.schedules.skip_next("x"),
        lambda: timed.schedules.trigger("x"),
        lambda: timed.schedules.edit("x", priority=1),
        lambda: timed.schedules.delete("x"),
        lambda: timed.schedules.ledger("x", T0, T0 + DAY),
        lambda: timed.schedules.upcoming("x"),
        lambda: timed.schedules.backfill("x", T0 - DAY, T0),
        lambda: timed.schedules.preview_backfill("x", T0 - DAY, T0),
    ]
    for call in calls:
        with pytest.raises(ScheduleNotFound, match="No schedule has the id 'x'"):
            await call()
    for wrong in ("", None, 5):
        with pytest.raises(ConfigurationError, match="A schedule's id is a non-empty text"):
            await timed.schedules.get(wrong)  # type: ignore[arg-type]
