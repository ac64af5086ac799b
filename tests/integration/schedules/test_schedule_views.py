"""Looking at many schedules: pages and their order, the last firings of each, and what is to come of all of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from harness.firing import DAY, HOUR, T0, brief, end_run, fire, fire_until
from harness.looking import Database
from mainspring import Calendar, ConfigurationError, Cron, Every, Except, InvalidSchedule, Scheduler
from mainspring.clock import ManualClock
from mainspring.model.access.api_keys import Scope
from mainspring.store.schedules import timing, views


async def pages(scheduler: Scheduler, **filter: Any) -> list[list[str]]:
    """The ids of all pages of a search."""
    found, after = [], None
    while True:
        page = await scheduler.schedules.search(**filter, after=after)
        found.append([one.id for one in page.schedules])
        if page.next is None:
            return found
        after = page.next


async def listed(scheduler: Scheduler, **filter: Any) -> list[str]:
    """The ids of all pages of a search, one after the other."""
    return [id for page in await pages(scheduler, **filter) for id in page]


async def several(scheduler: Scheduler) -> None:
    for number in range(7):
        await scheduler.schedule(
            "even" if number % 2 == 0 else "odd",
            repeat=Cron(f"{59 - number} * * * *"),
            schedule_id=f"s{number}",
            queue="a" if number < 3 else "b",
            tags=["third"] if number % 3 == 0 else [],
        )


async def test_a_page_follows_the_other_in_the_order_of_ids_or_of_next_firings(timed: Scheduler) -> None:
    await several(timed)
    assert await pages(timed, limit=3) == [["s0", "s1", "s2"], ["s3", "s4", "s5"], ["s6"]]
    assert await pages(timed, limit=3, order="next") == [["s6", "s5", "s4"], ["s3", "s2", "s1"], ["s0"]]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ({"name": "odd"}, ["s1", "s3", "s5"]),
        ({"queue": "a"}, ["s0", "s1", "s2"]),
        ({"tag": "third"}, ["s0", "s3", "s6"]),
        ({"text": "S4"}, ["s4"]),
        ({"text": "OD"}, ["s1", "s3", "s5"]),
        ({"state": "paused"}, ["s2"]),
        ({"state": "active", "name": "even"}, ["s0", "s4", "s6"]),
        ({"state": "ended"}, []),
        ({"scope": Scope(("b",), ("o",))}, ["s3", "s5"]),
    ],
    ids=str,
)
async def test_a_page_has_what_matches_and_nothing_else(
    timed: Scheduler, filter: dict[str, Any], expected: list[str]
) -> None:
    await several(timed)
    await timed.schedules.pause("s2", "why")
    assert await listed(timed, limit=2, **filter) == expected


async def test_a_page_looks_at_so_many_schedules_and_says_where_it_ended(
    timed: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await several(timed)
    monkeypatch.setattr(views, "SCANNED", 4)
    monkeypatch.setattr(views, "_FIRST_BATCH", 2)
    page = await timed.schedules.search(text="s6", limit=2)
    assert (page.schedules, page.complete) == ((), False)
    assert page.next is not None
    rest = await timed.schedules.search(text="s6", limit=2, after=page.next)
    assert ([one.id for one in rest.schedules], rest.next, rest.complete) == (["s6"], None, True)


async def test_schedules_that_fire_at_the_same_instant_are_each_listed_once(timed: Scheduler) -> None:
    for number in range(9):
        await timed.schedule("work", repeat=Cron("0 * * * *"), schedule_id=f"s{number}")
    assert await listed(timed, limit=2, order="next") == [f"s{number}" for number in range(9)]


async def test_a_schedule_is_failing_while_its_last_job_has_failed(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    for id in ("good", "bad", "again"):
        await timed.schedule("work", repeat=Every("1h"), schedule_id=id)
    await fire_until(timed, clock, T0 + HOUR, HOUR)
    await end_run(db, "good@2030-01-01T01:00:00Z")
    await end_run(db, "bad@2030-01-01T01:00:00Z", "failed", why="no")
    await db.jobs.update_one({"_id": "again@2030-01-01T01:00:00Z"}, {"$set": {"last_failure_at": clock.now()}})
    page = await timed.schedules.search(state="failing")
    assert [one.id for one in page.schedules] == ["again", "bad"]
    assert page.last_states == {"again": "retrying", "bad": "failed"}
    assert (await timed.schedules.search(name="work")).last_states["good"] == "completed"
    await fire_until(timed, clock, T0 + 2 * HOUR, HOUR)
    assert (await timed.schedules.search(state="failing")).schedules == ()


async def test_a_search_that_cannot_be_is_refused(timed: Scheduler) -> None:
    for wrong in ({"state": "odd"}, {"order": "odd"}, {"order": "next", "state": "paused"}, {"text": ""}, {"limit": 0}):
        with pytest.raises(ConfigurationError):
            await timed.schedules.search(**wrong)
    await timed.schedule("work", repeat=Every("1h"), schedule_id="a")
    await timed.schedule("work", repeat=Every("1h"), schedule_id="b")
    page = await timed.schedules.search(limit=1)
    with pytest.raises(ConfigurationError, match="another list"):
        await timed.schedules.search(limit=1, order="next", after=page.next)


# -- the last firings --------------------------------------------------------------------------------------------------


async def recent(scheduler: Scheduler, count: int = 20) -> list[tuple[float, str, str | None]]:
    found = (await scheduler.schedules.recent(["s"], count))["s"]
    return [((one.at - T0) / HOUR, one.outcome, one.job_state) for one in found]


async def test_the_last_firings_have_their_outcome_and_the_state_of_their_job(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    await fire_until(timed, clock, T0 + 2 * HOUR, HOUR)
    await end_run(db, "s@2030-01-01T01:00:00Z")
    await end_run(db, "s@2030-01-01T02:00:00Z", "failed", why="no")
    await timed.schedules.skip_next("s", "not this one")
    clock.advance(HOUR)
    await fire(timed)
    clock.advance(HOUR + timedelta(seconds=30))
    await fire(timed)
    clock.advance(HOUR)
    await timed.schedules.trigger("s")
    assert await recent(timed) == [
        (1, "on_time", "completed"),
        (2, "on_time", "failed"),
        (3, "skipped", None),
        (4, "late", "pending"),
        (5, "late", "pending"),
        (5 + 30 / 3600, "triggered", "pending"),
    ]
    firings = (await timed.schedules.recent(["s"]))["s"]
    assert (firings[2].reason, firings[3].late_by) == ("by hand: not this one", timedelta(seconds=30))
    assert [at for at, _, _ in await recent(timed, 2)] == [5, 5 + 30 / 3600]


async def test_a_firing_that_is_not_decided_is_due_and_one_during_a_pause_is_skipped(
    timed: Scheduler, clock: ManualClock
) -> None:
    await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    clock.advance(2 * HOUR)
    assert await recent(timed) == [(1, "due", None), (2, "due", None)]
    await fire(timed)
    await timed.schedules.pause("s")
    clock.advance(HOUR)
    assert (await recent(timed))[-1] == (3, "skipped", None)


async def test_the_last_firings_reach_back_over_a_change_of_the_rule(timed: Scheduler, clock: ManualClock) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    await fire_until(timed, clock, T0 + 3 * HOUR, HOUR)
    await schedule.edit(repeat=Every("2h", anchor=T0))
    await fire_until(timed, clock, T0 + 6 * HOUR, HOUR)
    assert [at for at, _, _ in await recent(timed)] == [1, 2, 3, 4, 6]
    assert [at for at, _, _ in await recent(timed, 3)] == [3, 4, 6]


async def test_triggers_do_not_hide_what_became_of_a_firing(timed: Scheduler, clock: ManualClock) -> None:
    await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    await timed.schedules.skip_next("s")
    clock.advance(HOUR)
    await fire(timed)
    for _ in range(3):
        clock.advance(timedelta(minutes=1))
        await timed.schedules.trigger("s")
    assert [outcome for _, outcome, _ in await recent(timed, 3)] == ["triggered"] * 3
    assert [outcome for _, outcome, _ in await recent(timed, 4)] == ["skipped", *["triggered"] * 3]


async def test_the_last_firings_are_of_the_scope_and_a_malformed_schedule_has_none(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    for id in ("a", "b", "c"):
        await timed.schedule("work", repeat=Every("1h"), schedule_id=id, queue=id)
    await fire_until(timed, clock, T0 + HOUR, HOUR)
    await db["jobs.schedules"].update_one({"_id": "c"}, {"$set": {"cursor": "odd"}})
    found = await timed.schedules.recent(["a", "b", "c", "none"], scope=Scope(("a", "c")))
    assert {id: len(firings) for id, firings in found.items()} == {"a": 1, "c": 0}
    await db.jobs.update_one({"_id": "a@2030-01-01T01:00:00Z"}, {"$set": {"queue": "z"}})
    assert (await timed.schedules.recent(["a"], scope=Scope(("a",))))["a"][0].job_state is None


async def test_days_that_a_calendar_leaves_out_are_no_last_firings(timed: Scheduler, clock: ManualClock) -> None:
    await timed.calendars.put("second", Calendar(["2030-01-02"]))
    await timed.schedule("work", repeat=Except(Every("12h", anchor=T0), "second"), schedule_id="s")
    await fire_until(timed, clock, T0 + 3 * DAY, 12 * HOUR)
    assert [at for at, _, _ in await recent(timed)] == [12, 48, 60, 72]


async def test_the_ledger_is_read_backwards_page_by_page(timed: Scheduler, clock: ManualClock) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    await fire_until(timed, clock, T0 + 3 * HOUR, HOUR)
    await timed.schedules.skip_next("s", "why")
    await fire_until(timed, clock, T0 + 5 * HOUR, HOUR)
    await schedule.edit(repeat=Every("30m", anchor=T0))
    await timed.schedules.pause("s")
    clock.advance(HOUR)
    await timed.schedules.resume("s")
    seen, end = list[tuple[float, str, str]](), T0 + DAY
    while page := await schedule.ledger(T0, end, limit=2, latest=True):
        seen, end = [*brief(page), *seen], page[0].at
    assert seen == brief(await schedule.ledger(T0, clock.now() + timedelta(milliseconds=1)))
    assert [outcome for _, outcome, _ in seen] == [*["on_time"] * 3, "skipped", "on_time", "skipped", "skipped"]


# -- what is to come ---------------------------------------------------------------------------------------------------


async def test_the_coming_firings_of_all_schedules_are_counted(timed: Scheduler) -> None:
    await timed.schedule("report", repeat=Cron("0 * * * *"), schedule_id="hourly")
    await timed.schedule("sync", repeat=Cron("*/10 * * * *"), schedule_id="often", queue="b")
    await timed.schedule("sync", repeat=Cron("0 12 * * *", "Europe/Paris"), schedule_id="daily", queue="b")
    await timed.schedules.pause("daily")
    coming = await timed.schedules.coming(heaviest=1)
    assert (coming.start, coming.end, coming.schedules, coming.paused, coming.complete) == (T0, T0 + DAY, 3, 1, True)
    assert {(one.firings, one.herd, one.schedules) for one in coming.buckets} == {(7, 2, 2)}
    assert {heavy.id for one in coming.buckets for heavy in one.heaviest} == {"often"}
    await timed.schedules.delete("often")
    await timed.schedules.resume("daily")
    coming = await timed.schedules.coming(scope=Scope(("b",)))
    assert [(one.at - T0, one.firings) for one in coming.buckets] == [(11 * HOUR, 1)]
    spring = await timed.schedules.coming(T0 + 80 * DAY, T0 + 100 * DAY, "1d")
    assert [change.zone for change, _ in spring.clock_changes] == ["Europe/Paris"]


async def test_many_schedules_are_read_in_turns_and_the_answer_says_so(
    timed: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await several(timed)
    monkeypatch.setattr(views, "WINDOW", 3)
    monkeypatch.setattr(timing, "WINDOW", 3)
    seen = []
    for _ in range(4):
        coming = await timed.schedules.coming()
        seen.append((coming.schedules, coming.complete, coming.buckets[0].firings))
    assert seen == [(3, False, 3), (6, False, 6), (7, True, 7), (7, True, 7)]
    await timed.schedules.delete("s0")
    for _ in range(3):
        coming = await timed.schedules.coming()
    assert coming.schedules == 6


async def test_firings_skipped_by_hand_and_runs_that_are_used_up_do_not_count(timed: Scheduler) -> None:
    await timed.schedule("work", repeat=Cron("0 * * * *"), schedule_id="few", max_runs=2)
    await timed.schedule("work", repeat=Cron("0 * * * *"), schedule_id="skipped")
    await timed.schedules.skip_next("skipped")
    coming = await timed.schedules.coming()
    by_hour = {(one.at - T0) // HOUR: one.firings for one in coming.buckets}
    assert [by_hour[hour] for hour in (1, 2, 3)] == [1, 2, 1]


async def test_a_malformed_schedule_does_not_spoil_the_counts(timed: Scheduler, db: Database) -> None:
    await timed.schedule("work", repeat=Cron("0 * * * *"), schedule_id="good")
    await timed.schedule("work", repeat=Cron("0 * * * *"), schedule_id="bad")
    await db["jobs.schedules"].update_one(
        {"_id": "bad"}, {"$set": {"rule": {"kind": "odd"}, "calendars": [{"name": 5}], "cursor": "x", "job": 7}}
    )
    coming = await timed.schedules.coming()
    assert {one.firings for one in coming.buckets} == {1}


async def test_a_window_that_cannot_be_is_refused(timed: Scheduler) -> None:
    for wrong in ({"step": "1s"}, {"start": T0, "end": T0}, {"start": T0.replace(tzinfo=None)}, {"heaviest": 99}):
        with pytest.raises(InvalidSchedule):
            await timed.schedules.coming(**wrong)
