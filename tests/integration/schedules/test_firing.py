"""Firing, close to the store: one job per firing, whichever process fires, and whichever dies in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from pymongo import AsyncMongoClient, UpdateOne

from harness.explaining import Cost, explain
from harness.firing import (
    DAY,
    HOUR,
    MINUTE,
    T0,
    document_of,
    end_run,
    fire,
    fire_until,
    instants_of,
    jobs_of,
    ledger,
    rows_of,
    store_of,
)
from harness.inside import inside
from harness.listening import Listener
from harness.looking import Database, count_jobs
from harness.pruning import prune
from harness.refusing import refusing
from harness.waiting import eventually
from mainspring import Calendar, Cron, Every, Except, Notice, Retry, Schedule, Scheduler
from mainspring.clock import ManualClock
from mainspring.engine.chores.upkeep.refresh_timezones import RefreshTimezones
from mainspring.engine.services.timekeeper import announce_fired
from mainspring.model.schedules.firing_plan import Overlap
from mainspring.store.schedules import firing as firing_module
from mainspring.store.schedules import schedules as schedules_module
from mainspring.store.schedules import zone_versions
from mainspring.store.schedules.firing import FEW, Firing

Make = Callable[..., Scheduler]


async def decide_only(scheduler: Scheduler, *ids: str) -> tuple[Firing, list[Any], str]:
    """Store the decisions about some schedules, as a process that dies right after it."""
    firing = store_of(scheduler).firing
    now = store_of(scheduler).clock.now()
    documents = await firing.load(ids)
    ends = await firing.ends(documents)
    steps = [firing.decide(document, {}, ends, now) for document in documents]
    mine, turn = await firing.store_decisions(steps, now)
    return firing, mine, turn


# -- one job per firing --------------------------------------------------------------------------------------------


async def test_many_processes_that_fire_the_same_schedules_make_one_job_per_firing(
    make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    schedulers = [await make_scheduler(clock=clock).connect() for _ in range(4)]
    names = [f"s{n}" for n in range(12)]
    for name in names:
        await schedulers[0].schedule("work", repeat=Every("1m", anchor=T0), schedule_id=name)
    seen: list[str] = []
    for _ in range(10):
        clock.advance(MINUTE)
        for one in await asyncio.gather(*(fire(scheduler) for scheduler in schedulers)):
            seen += [job["_id"] for fired in one for job in fired.jobs]
    expected = [T0 + n * MINUTE for n in range(1, 11)]
    for name in names:
        assert await instants_of(db, name) == expected
        schedule = await schedulers[0].schedules.get(name)
        assert (schedule.runs, schedule.next_at) == (10, T0 + 11 * MINUTE)
        assert "making" not in await document_of(db, name)
    # Each job is told of once, by the process that has made it.
    assert len(seen) == len(set(seen)) == 120


async def test_two_that_have_read_the_same_take_one_decision(
    make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    one, other = [await make_scheduler(clock=clock).connect() for _ in range(2)]
    await one.schedule("work", repeat=Every("1m", anchor=T0), schedule_id="s", max_runs=3)
    clock.advance(MINUTE)
    read = [await store_of(scheduler).firing.load(["s"]) for scheduler in (one, other)]
    first = await store_of(one).firing.advance(read[0])
    second = await store_of(other).firing.advance(read[1])
    assert ([len(fired.jobs) for fired in first], second) == ([1], [])
    assert (await one.schedules.get("s")).runs == 1


async def test_a_change_and_a_firing_at_once_lose_neither(
    make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    one, other = [await make_scheduler(clock=clock).connect() for _ in range(2)]
    schedule = await one.schedule("work", {"n": 0}, repeat=Every("1m", anchor=T0), schedule_id="s")
    for n in range(1, 9):
        clock.advance(MINUTE)
        await asyncio.gather(fire(other), schedule.edit(data={"n": n}), fire(one))
    assert await instants_of(db, "s") == [T0 + n * MINUTE for n in range(1, 9)]
    assert (await schedule.refresh()).data == {"n": 8}


async def test_a_crash_before_the_jobs_are_made_is_made_good_by_another(
    make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    dying, other = [await make_scheduler(clock=clock).connect() for _ in range(2)]
    schedule = await dying.schedule("work", repeat=Every("1h"), schedule_id="s", misfire="latest")
    clock.advance(3 * HOUR)
    await decide_only(dying, "s")
    assert await count_jobs(db) == 0 and (await document_of(db, "s"))["making"]["jobs"]
    assert await fire(other) == []  # its maker has a second
    clock.advance(1)
    fired = await fire(other)
    assert [len(one.jobs) for one in fired] == [2]
    assert await instants_of(db, "s") == [T0 + 2 * HOUR, T0 + 3 * HOUR]
    document = await document_of(db, "s")
    assert "making" not in document and document["fire_at"] == T0 + 4 * HOUR
    assert await ledger(schedule, 4) == [
        (1, "missed", "the latest run stands for it"),
        (2, "late", ""),
        (3, "on_time", ""),
    ]
    assert (await schedule.refresh()).runs == 2


async def test_a_crash_after_the_jobs_are_made_repeats_nothing(
    make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    dying, other = [await make_scheduler(clock=clock).connect() for _ in range(2)]
    await dying.schedule("work", repeat=Every("1h"), schedule_id="s")
    clock.advance(3 * HOUR)
    firing, mine, _ = await decide_only(dying, "s")
    await firing.carry_out(mine, "another turn", clock.now())  # all but the clearing
    jobs, rows = await jobs_of(db, "s"), await rows_of(db, "s")
    await end_run(db, jobs[0]["_id"], at=clock.now())
    clock.advance(1)
    fired = await fire(other)
    assert [(one.jobs, one.rows) for one in fired] == [([], [])]
    assert [job["_id"] for job in await jobs_of(db, "s")] == [job["_id"] for job in jobs]
    assert await rows_of(db, "s") == rows
    assert "making" not in await document_of(db, "s")


async def test_a_process_that_was_held_up_after_its_decision_makes_nothing_twice(
    make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    slow, other = [await make_scheduler(clock=clock).connect() for _ in range(2)]
    await slow.schedule("work", repeat=Every("1h"), schedule_id="s")
    clock.advance(HOUR)
    firing, mine, turn = await decide_only(slow, "s")
    clock.advance(HOUR)
    await fire(other)
    assert len(await jobs_of(db, "s")) == 2
    await firing.carry_out(mine, turn, clock.now())  # it goes on an hour later
    assert len(await jobs_of(db, "s")) == 2
    document = await document_of(db, "s")
    assert "making" not in document and document["fire_at"] == T0 + 3 * HOUR


async def test_a_decision_that_took_too_long_to_store_is_left_to_others(
    timed: Scheduler, clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    clock.advance(HOUR)
    ticks = iter([0.0, 11.0])
    with monkeypatch.context() as patched:
        patched.setattr(firing_module, "monotonic", lambda: next(ticks))
        firing = store_of(timed).firing
        assert await firing.advance(await firing.load(["s"])) == []
    assert await count_jobs(db) == 0
    clock.advance(1)
    await fire(timed)
    assert await instants_of(db, "s") == [T0 + HOUR]


async def test_a_change_waits_for_a_decision_that_is_being_carried_out_and_then_helps(
    make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    dying, other = [await make_scheduler(clock=clock).connect() for _ in range(2)]
    await dying.schedule("work", {"n": 1}, repeat=Every("1h"), schedule_id="s")
    clock.advance(HOUR)
    await decide_only(dying, "s")
    await other.schedules.edit("s", data={"n": 2}, repeat=Every("2h"))
    (job,) = await jobs_of(db, "s")
    assert (job["scheduled_for"], job["data"]) == (T0 + HOUR, {"n": 1})


async def test_a_trigger_that_died_half_way_is_made_by_another(
    make_scheduler: Make, clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying, other = [await make_scheduler(clock=clock).connect() for _ in range(2)]
    await dying.schedule("work", repeat=Every("1h"), schedule_id="s")

    async def die(*arguments: Any) -> None:
        raise RuntimeError("dead")

    monkeypatch.setattr(store_of(dying).firing, "advance", die)
    with pytest.raises(RuntimeError, match="dead"):
        await dying.schedules.trigger("s")
    assert await count_jobs(db) == 0
    clock.advance(1)
    await fire(other)
    (job,) = await jobs_of(db, "s")
    assert job["_id"].startswith("s!") and job["ready"]
    assert (await document_of(db, "s"))["fire_at"] == T0 + HOUR


async def test_finished_jobs_of_firings_are_kept_for_a_while_whatever_was_set(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    """A process that was held up must find the id taken."""
    await timed.schedule("work", repeat=Every("1h"), schedule_id="s")
    plain = await timed.schedule("work")
    await timed.cancel(plain.id)
    clock.advance(HOUR)
    await fire(timed)
    await end_run(db, "s@2030-01-01T01:00:00Z", at=clock.now())
    clock.advance(9 * MINUTE)
    assert await prune(timed, keep_finished=0, keep_failed=0) == 1
    assert len(await jobs_of(db, "s")) == 1
    clock.advance(2 * MINUTE)
    assert await prune(timed, keep_finished=0, keep_failed=0) == 1
    assert await count_jobs(db) == 0


# -- what cannot be read -------------------------------------------------------------------------------------------

BROKEN: list[dict[str, Any]] = [
    {"$set": {"rule.kind": "moon"}},
    {"$set": {"rule": {"kind": "cron", "expression": "never"}}},
    {"$unset": {"rule": ""}},
    {"$set": {"rule": {"kind": "cron", "expression": "0 * * * *", "timezone": "Mars/Base"}}},
    {"$set": {"calendars": [{"name": "h"}]}},
    {"$set": {"rule": {"kind": "except", "rule": {"kind": "every", "period": "1h"}, "calendars": ["nowhere"]}}},
    {"$unset": {"cursor": ""}},
    {"$set": {"live": 5}},
    {"$unset": {"job": ""}},
    {"$set": {"misfire": "?"}},
]


async def test_a_schedule_that_cannot_be_read_is_paused_with_the_reason_and_harms_no_other(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    for place in range(len(BROKEN)):
        await timed.schedule("work", repeat=Every("1h"), schedule_id=f"broken{place}")
    await timed.schedule("work", repeat=Every("1h"), schedule_id="sound")
    for place, damage in enumerate(BROKEN):
        await db["jobs.schedules"].update_one({"_id": f"broken{place}"}, damage)
    clock.advance(2 * HOUR)
    await fire(timed)
    assert len(await instants_of(db, "sound")) == 2
    for place in range(len(BROKEN)):
        document = await document_of(db, f"broken{place}")
        assert document["paused"]["reason"].startswith("it cannot be read: "), BROKEN[place]
        assert document["paused"]["actor"] == "mainspring" and "fire_at" not in document
    assert "kind of rule" in (await document_of(db, "broken0"))["paused"]["reason"]


async def test_a_schedule_whose_rule_cannot_be_read_can_be_shown_repaired_and_deleted(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    heard: list[Schedule] = []
    timed.on("schedule:pause", heard.append)
    for name in ("a", "b", "c"):
        await timed.schedule("work", repeat=Every("1h"), schedule_id=name)
    for name in ("a", "b"):
        await db["jobs.schedules"].update_one({"_id": name}, {"$set": {"rule.kind": "moon"}})
    clock.advance(HOUR)
    announce_fired(inside(timed).events, await fire(timed))
    assert sorted(schedule.id for schedule in heard) == ["a", "b"]
    assert [schedule.state async for schedule in timed.schedules.find()] == ["paused", "paused", "active"]
    broken = await timed.schedules.get("a")
    assert "cannot be read: 'moon' is not a kind of rule" in broken.rule.describe()
    assert await broken.ledger(T0, T0 + DAY) == []
    await broken.trigger()
    await broken.pause("known")
    repaired = await broken.edit(repeat=Every("2h", anchor=T0))
    assert (await repaired.resume()).next_at == T0 + 2 * HOUR
    await db["jobs.schedules"].update_one({"_id": "b"}, {"$unset": {"rule": ""}})
    again = await timed.schedule("work", repeat=Every("1h"), schedule_id="b")
    assert (await again.resume()).next_at == T0 + 2 * HOUR
    await db["jobs.schedules"].update_one({"_id": "a"}, {"$set": {"rule.kind": "moon"}})
    await timed.schedules.delete("a")


# -- what it costs -------------------------------------------------------------------------------------------------


@pytest.fixture
async def heard(uri: str, db: Database) -> AsyncIterator[tuple[Scheduler, Listener]]:
    """A scheduler whose commands are listened to, with 3,000 schedules of which 300 are due."""
    listener = Listener()
    async with AsyncMongoClient[dict[str, Any]](uri, event_listeners=[listener]) as client:
        scheduler = Scheduler(client=client)
        await scheduler.connect()
        model = await scheduler.schedule("work", repeat=Cron("0 0 1 1 *"), schedule_id="model")
        document = await document_of(db, "model")
        now = datetime.now(UTC)
        copies = [
            {**document, "_id": f"s{n}", "fire_at": now + (timedelta(hours=n) if n >= 300 else -timedelta(seconds=1))}
            for n in range(3000)
        ]
        await db["jobs.schedules"].insert_many(copies)
        await model.delete()
        listener.clear()
        yield scheduler, listener
        await scheduler.stop()


async def costs(listener: Listener, db: Database) -> list[Cost]:
    asked = listener.named("find", "jobs.schedules")
    return [cost for command in asked for cost in await explain(db, command, "jobs.schedules")]


@pytest.mark.fresh_database
@pytest.mark.slow
async def test_what_is_due_is_read_from_one_index_alone(heard: tuple[Scheduler, Listener], db: Database) -> None:
    scheduler, listener = heard
    outlook = await store_of(scheduler).firing.outlook()
    assert len(outlook.due) == 300 == len(await store_of(scheduler).firing.due(outlook.now))
    found = await costs(listener, db)
    assert [cost.matched for cost in found] == [FEW, 300, 300]
    for cost in found:
        assert cost.documents == 0 and cost.keys <= cost.matched + 1, cost
        assert "SORT" not in cost.stages and "COLLSCAN" not in cost.stages


@pytest.mark.fresh_database
@pytest.mark.slow
async def test_the_idle_look_reads_a_few_keys_however_many_schedules_there_are(
    heard: tuple[Scheduler, Listener], db: Database
) -> None:
    scheduler, listener = heard
    await db["jobs.schedules"].delete_many({"_id": {"$in": [f"s{n}" for n in range(300)]}})
    outlook = await store_of(scheduler).firing.outlook()
    assert outlook.due == [] and len(outlook.soonest) == FEW
    (found,) = await costs(listener, db)
    assert found.documents == 0 and found.keys <= FEW + 1 and "SORT" not in found.stages, found


@pytest.mark.fresh_database
@pytest.mark.slow
async def test_looking_whether_zones_have_changed_takes_one_seek_per_zone(
    heard: tuple[Scheduler, Listener], db: Database
) -> None:
    scheduler, listener = heard
    zones = [{"zones": f"Zone/{n % 3}:{n % 3}"} for n in range(3000)]
    await db["jobs.schedules"].bulk_write([UpdateOne({"_id": f"s{n}"}, {"$set": one}) for n, one in enumerate(zones)])
    listener.clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(schedules_module, "is_current", lambda printed: True)
        assert await store_of(scheduler).schedules.refresh_timezones() == ([], [])
    (command,) = listener.named("aggregate", "jobs.schedules")
    asked = {key: command[key] for key in ("aggregate", "pipeline", "cursor", "hint")}
    explained = str(await db.command("explain", asked, verbosity="executionStats"))
    assert "DISTINCT_SCAN" in explained and "'totalDocsExamined': 0" in explained


# -- zones ---------------------------------------------------------------------------------------------------------


async def test_new_rules_of_a_zone_move_the_next_firing(
    timed: Scheduler, clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, zone in (("berlin", "Europe/Berlin"), ("tokyo", "Asia/Tokyo"), ("utc", "UTC")):
        await timed.schedule("work", repeat=Cron("0 9 * * *", zone), schedule_id=name)
    store = await inside(timed).store()
    assert await store.schedules.refresh_timezones() == ([], [])
    # As if the stored instant had been computed by other rules, an hour off.
    old = T0 + 7 * HOUR
    changes = {"next_at": old, "due_at": old, "fire_at": old, "zones": "Europe/Berlin:0badcafe"}
    await db["jobs.schedules"].update_one({"_id": "berlin"}, {"$set": changes})
    before = {name: await timed.schedules.get(name) for name in ("berlin", "tokyo", "utc")}
    moved, _ = await store.schedules.refresh_timezones()
    assert moved == ["berlin"]
    after = await timed.schedules.get("berlin")
    assert (after.next_at, after.due_at) == (T0 + 8 * HOUR, T0 + 8 * HOUR)
    assert (await document_of(db, "berlin"))["zones"] == zone_versions.zones_fingerprint(("Europe/Berlin",))
    assert await timed.schedules.get("tokyo") == before["tokyo"]
    assert await store.schedules.refresh_timezones() == ([], [])


async def test_several_workers_that_follow_a_zone_change_each_schedule_once(
    timed: Scheduler, make_scheduler: Make, clock: ManualClock, db: Database
) -> None:
    for n in range(6):
        await timed.schedule("work", repeat=Cron("0 9 * * *", "Europe/Berlin"), schedule_id=f"s{n}")
    await db["jobs.schedules"].update_many({"_id": {"$gt": ""}}, {"$set": {"zones": "Europe/Berlin:0badcafe"}})
    other = await make_scheduler(clock=clock).connect()
    followed = await asyncio.gather(*(store_of(one).schedules.refresh_timezones() for one in (timed, other)))
    assert sorted(schedule_id for moved, _ in followed for schedule_id in moved) == [f"s{n}" for n in range(6)]
    assert {(await document_of(db, f"s{n}"))["rev"] for n in range(6)} == {1}


async def test_a_zone_is_followed_a_few_schedules_at_a_time(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    for n in range(5):
        await timed.schedule("work", repeat=Cron("0 9 * * *", "Europe/Berlin"), schedule_id=f"s{n}")
    await db["jobs.schedules"].update_many({"_id": {"$gt": ""}}, {"$set": {"zones": "Europe/Berlin:0badcafe"}})
    sizes = [len((await store_of(timed).schedules.refresh_timezones(2))[0]) for _ in range(4)]
    assert sizes == [2, 2, 1, 0]


async def test_a_schedule_that_cannot_follow_its_zone_does_not_keep_others_from_it(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    for name in ("a", "bad", "c"):
        await timed.schedule("work", repeat=Cron("0 9 * * *", "Europe/Berlin"), schedule_id=name)
    await db["jobs.schedules"].update_many({"_id": {"$gt": ""}}, {"$set": {"zones": "Europe/Berlin:0badcafe"}})
    async with refusing(db, "jobs.schedules", {"_id": "bad"}):
        assert [await store_of(timed).schedules.refresh_timezones(2) for _ in range(3)] == [
            (["a"], []),
            (["c"], []),
            ([], []),
        ]


async def test_a_worker_that_finds_another_at_the_zones_looks_again_and_takes_over(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = await make_scheduler().connect()
    await scheduler.schedule("work", repeat=Cron("0 9 * * *", "Europe/Berlin"), schedule_id="s")
    workers = store_of(scheduler).workers
    assert await workers.lock("zones", "another", 30)
    await scheduler.start()
    (chore,) = [one for one in inside(scheduler).worker.chores if isinstance(one, RefreshTimezones)]
    inside(scheduler).worker.chores.remove(chore)
    await db["jobs.schedules"].update_one({"_id": "s"}, {"$set": {"zones": "Europe/Berlin:0badcafe"}})
    assert await chore.run_once() is False and chore.every < 60
    await workers.unlock("zones", "another")
    assert await chore.run_once() is True
    assert (await document_of(db, "s"))["zones"] == zone_versions.zones_fingerprint(("Europe/Berlin",))


async def test_following_a_zone_waits_for_a_decision_and_leaves_runs_that_wait_alone(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await timed.schedule("work", repeat=Cron("0 * * * *", "Europe/Berlin"), schedule_id="s", overlap="queue_all")
    for _ in range(2):
        clock.advance(HOUR)
        await fire(timed)
    clock.advance(HOUR)
    await decide_only(timed, "s")
    await db["jobs.schedules"].update_one({"_id": "s"}, {"$set": {"zones": "Europe/Berlin:0badcafe"}})
    await (await inside(timed).store()).schedules.refresh_timezones()
    document = await document_of(db, "s")
    assert "making" not in document and document["next_at"] == T0 + 4 * HOUR
    assert document["fire_at"] <= clock.now() + timedelta(seconds=1)
    assert len(await jobs_of(db, "s")) == 3


async def test_a_worker_follows_zones_when_it_starts(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler()
    schedule = await scheduler.schedule("work", repeat=Cron("0 9 * * *", "Asia/Kolkata"), schedule_id="s")
    assert schedule.next_at is not None
    wrong = {"next_at": schedule.next_at + 365 * DAY, "zones": "Asia/Kolkata:0badcafe"}
    await db["jobs.schedules"].update_one({"_id": "s"}, {"$set": wrong})
    await scheduler.start()

    async def followed() -> bool:
        return (await scheduler.schedules.get("s")).next_at == schedule.next_at

    await eventually(followed)


def test_the_print_of_a_zone_is_made_of_its_rules() -> None:
    printed = zone_versions.zones_fingerprint(("Europe/Berlin", "UTC", "Asia/Tokyo"))
    assert printed is not None and zone_versions.is_current(printed)
    assert [part.partition(":")[0] for part in printed.split()] == ["Asia/Tokyo", "Europe/Berlin"]
    assert not zone_versions.is_current(printed.replace("Europe/Berlin:", "Europe/Berlin:0"))
    assert zone_versions.zones_fingerprint(("UTC",)) is None
    assert zone_versions.zones_fingerprint(("Europe/Paris",)) != zone_versions.zones_fingerprint(("Europe/Berlin",))


# -- failing schedules ---------------------------------------------------------------------------------------------


async def test_a_schedule_whose_runs_fail_in_a_row_pauses_itself_promptly_with_the_reason(
    scheduler: Scheduler, db: Database
) -> None:
    heard: list[Schedule] = []
    scheduler.on("schedule:pause", heard.append)
    go_on = asyncio.Event()

    @scheduler.job("work", retry=Retry(attempts=1))
    async def work() -> None:
        await go_on.wait()
        raise ValueError("the mill is broken")

    await scheduler.start()
    schedule = await scheduler.schedule("work", repeat=Every("1h"), schedule_id="s", pause_after=2)
    await schedule.trigger()
    await schedule.trigger()

    async def nobody_looks_for_an_hour() -> bool:
        document = await document_of(db, "s")
        return len(document["live"]) == 2 and document["fire_at"] == schedule.next_at

    async def paused() -> bool:
        return (await schedule.refresh()).state == "paused"

    await eventually(nobody_looks_for_an_hour)
    go_on.set()
    await eventually(paused)
    after = await schedule.refresh()
    assert after.paused is not None and (after.paused.actor, after.failures) == ("mainspring", 2)
    assert after.paused.reason == "2 runs in a row have failed; the last one: the mill is broken"
    await eventually(lambda: [one.id for one in heard] == ["s"])
    assert (await schedule.resume()).failures == 0


async def test_a_run_that_succeeds_or_is_cancelled_begins_the_count_anew(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s", pause_after=3)
    states = ["failed", "failed", "completed", "failed", "failed", "cancelled", "failed", "failed"]
    for place, state in enumerate(states):
        clock.advance(HOUR)
        await fire(timed)
        await end_run(db, (await jobs_of(db, "s"))[place]["_id"], state, clock.now(), "no")
    clock.advance(HOUR)
    await fire(timed)
    after = await schedule.refresh()
    assert (after.state, after.failures, after.runs) == ("active", 2, 9)
    await end_run(db, (await jobs_of(db, "s"))[-1]["_id"], "failed", clock.now(), "at last")
    clock.advance(HOUR)
    await fire(timed)
    after = await schedule.refresh()
    assert (after.state, after.failures, after.runs) == ("paused", 3, 9)
    assert (await ledger(schedule, 11))[-1] == (10, "skipped", "paused")


async def test_a_retry_of_a_run_is_no_failure_and_eats_no_firing(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await timed.schedule("work", repeat=Every("1h"), schedule_id="s", pause_after=1)
    await fire_until(timed, clock, T0 + HOUR, HOUR)
    (job,) = await jobs_of(db, "s")
    await db.jobs.update_one({"_id": job["_id"]}, {"$set": {"run_at": T0 + 3 * HOUR, "tries": 1}})
    await fire_until(timed, clock, T0 + 3 * HOUR, HOUR)
    assert await instants_of(db, "s") == [T0 + n * HOUR for n in (1, 2, 3)]


# -- from the end of the run ---------------------------------------------------------------------------------------


async def test_the_next_run_begins_a_period_after_the_end_of_the_one_before(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h", after="end"), schedule_id="s")
    assert schedule.next_at == T0 + HOUR
    clock.advance(HOUR)
    await fire(timed)
    waiting = await schedule.refresh()
    assert (waiting.state, waiting.next_at) == ("active", None)
    clock.advance(5 * HOUR)
    await fire(timed)
    assert len(await jobs_of(db, "s")) == 1
    await end_run(db, "s@2030-01-01T01:00:00Z", at=T0 + 5.5 * HOUR)
    clock.advance(HOUR / 4)
    firing = store_of(timed).firing
    await firing.advance(await firing.load(["s"]))
    assert (await schedule.refresh()).next_at == T0 + 6.5 * HOUR
    clock.advance(HOUR / 4)
    await fire(timed)
    assert await instants_of(db, "s") == [T0 + HOUR, T0 + 6.5 * HOUR]


@pytest.mark.slow
async def test_the_end_of_a_run_is_not_noticed_too_late_by_whoever_did_not_run_it(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    """It looks once a period, and the next run is due a period after the end."""
    await timed.schedule("work", repeat=Every("1h", after="end"), schedule_id="s")
    clock.advance(HOUR)
    await fire(timed)
    ended = clock.advance(MINUTE)
    await end_run(db, "s@2030-01-01T01:00:00Z", at=ended)
    await fire_until(timed, clock, T0 + 3 * HOUR, MINUTE)
    jobs = await jobs_of(db, "s")
    assert (jobs[1]["scheduled_for"], jobs[1]["created_at"]) == (ended + HOUR, ended + HOUR)


async def test_a_run_that_ended_during_a_pause_does_not_make_the_next_one_late(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h", after="end"), schedule_id="s")
    clock.advance(HOUR)
    await fire(timed)
    await schedule.pause()
    await end_run(db, "s@2030-01-01T01:00:00Z", at=clock.advance(MINUTE))
    clock.advance(5 * HOUR)
    resumed_at = clock.now()
    await schedule.resume()
    await fire(timed)
    assert (await schedule.refresh()).next_at == resumed_at + HOUR


@pytest.mark.slow
async def test_a_worker_counts_from_the_end_of_its_runs(scheduler: Scheduler, db: Database) -> None:
    @scheduler.job("work")
    async def work() -> None:
        await asyncio.sleep(0.1)

    await scheduler.start()
    await scheduler.schedule("work", repeat=Every(0.2, after="end"), schedule_id="s")

    async def thrice() -> bool:
        return len([job for job in await jobs_of(db, "s") if job["state"] == "completed"]) >= 3

    await eventually(thrice)
    jobs = [job for job in await jobs_of(db, "s") if job["state"] == "completed"]
    for before, after in pairwise(jobs):
        assert after["scheduled_for"] == before["finished_at"] + timedelta(seconds=0.2)


# -- events --------------------------------------------------------------------------------------------------------


async def test_a_worker_tells_of_firings_that_were_not_as_expected(make_scheduler: Make, db: Database) -> None:
    scheduler = make_scheduler()
    heard: list[tuple[str, Notice]] = []
    for event in ("schedule:late", "schedule:missed", "schedule:skipped"):
        scheduler.on(event, lambda notice, event=event: heard.append((event, notice)))
    created: list[str] = []
    scheduler.on("job:created", lambda job: created.append(job.id))
    now = datetime.now(UTC)
    policies: tuple[tuple[str, Overlap], ...] = (("free", "allow"), ("busy", "skip"))
    for name, overlap in policies:
        await scheduler.schedule(
            "work", repeat=Every("1h", anchor=now - 6 * HOUR - MINUTE / 2), schedule_id=name, overlap=overlap
        )
    past = now - 5 * HOUR
    await db["jobs.schedules"].update_many(
        {"_id": {"$in": ["free", "busy"]}}, {"$set": {"cursor": past, "since": past, "fire_at": past}}
    )
    await db["jobs.schedules"].update_one({"_id": "busy"}, {"$set": {"live": ["run"]}})
    held = {"state": "running", "token": 1, "rev": 1, "lease_until": now + HOUR}
    await db.jobs.insert_one({"_id": "run", "v": 1, "name": "x", "queue": "q", "schedule_id": "busy", **held})
    await scheduler.start()
    await eventually(lambda: {event for event, _ in heard} == {"schedule:late", "schedule:missed", "schedule:skipped"})
    missed = next(notice for event, notice in heard if event == "schedule:missed" and notice.schedule_id == "free")
    assert isinstance(missed, Notice) and (missed.outcome, missed.name) == ("missed", "work")
    skipped = next(notice for event, notice in heard if event == "schedule:skipped")
    assert (skipped.schedule_id, skipped.reason) == ("busy", "overlap: run is still going")
    late = next(notice for event, notice in heard if event == "schedule:late")
    assert late.schedule_id == "free" and late.late_by is not None and late.job_id in created


@pytest.mark.slow
async def test_a_worker_fires_at_the_instant_that_was_named(scheduler: Scheduler, db: Database) -> None:
    await scheduler.calendars.put("h", Calendar(["2020-01-01"]))
    await scheduler.schedule("work", repeat=Except(Cron("* * * * * *"), "h"), schedule_id="s")
    await scheduler.start()

    async def several() -> bool:
        return len(await jobs_of(db, "s")) >= 3

    await eventually(several)
    instants = await instants_of(db, "s")
    assert {after - before for before, after in pairwise(instants)} == {timedelta(seconds=1)}
    assert all(at.microsecond == 0 for at in instants)
