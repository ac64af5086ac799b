"""A schedule that the server refuses to change, or whose document cannot be read, does not keep others from firing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from harness.firing import HOUR, T0, document_of, fire, instants_of, jobs_of, ledger, store_of
from harness.inside import inside
from harness.looking import Database
from harness.refusing import refusing
from harness.waiting import eventually
from mainspring import Calendar, Every, Except, Scheduler, ScheduleStateError
from mainspring.clock import ManualClock, monotonic
from mainspring.store import refusals
from mainspring.store.collection import Collection

Make = Callable[..., Scheduler]


async def hourly(scheduler: Scheduler, *ids: str, **options: Any) -> None:
    for schedule_id in ids:
        await scheduler.schedule("work", repeat=Every("1h", anchor=T0), schedule_id=schedule_id, **options)


async def decide(scheduler: Scheduler, db: Database, schedule_id: str) -> None:
    """Store the decision about a schedule and do nothing of it, as a process that dies right after it."""
    firing = store_of(scheduler).firing
    now = store_of(scheduler).clock.now()
    steps = [firing.decide(document, {}, {}, now) for document in await firing.load([schedule_id])]
    await firing.store_decisions(steps, now)
    assert "making" in await document_of(db, schedule_id)


async def test_a_schedule_that_cannot_be_changed_does_not_keep_others_from_firing(
    timed: Scheduler, clock: ManualClock, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await hourly(timed, "a", "bad", "c", "d")
    clock.advance(HOUR)
    async with refusing(db, "jobs.schedules", {"_id": "bad"}):
        await fire(timed)
        for one in ("a", "c", "d"):
            assert await instants_of(db, one) == [T0 + HOUR]
        assert "Schedule bad does not fire: MongoDB refuses to change it" in caplog.text
        clock.advance(HOUR)
        await fire(timed)
        assert len(await instants_of(db, "c")) == 2


async def test_a_schedule_that_could_not_be_changed_fires_when_it_can_be(
    timed: Scheduler, clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hourly(timed, "bad")
    clock.advance(HOUR)
    async with refusing(db, "jobs.schedules", {"_id": "bad"}):
        await fire(timed)
    monkeypatch.setattr(refusals, "monotonic", lambda: float("inf"))
    await fire(timed)
    assert await instants_of(db, "bad") == [T0 + HOUR]


async def test_a_schedule_whose_decision_is_refused_is_paused_and_says_why(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await hourly(timed, "a", "bad", "c")
    clock.advance(HOUR)
    async with refusing(db, "jobs.schedules", {"_id": "bad", "making": {"$exists": True}}):
        fired = await fire(timed)
    assert {one.schedule["_id"]: one.paused for one in fired} == {"a": False, "bad": True, "c": False}
    paused = (await timed.schedules.get("bad")).paused
    assert paused is not None and paused.actor == "mainspring"
    assert paused.reason.startswith("MongoDB refuses what it would become: Document failed validation")
    assert await instants_of(db, "c") == [T0 + HOUR]
    assert (await (await timed.schedules.get("bad")).resume()).paused is None


async def test_an_error_that_is_not_about_a_schedule_does_not_pause_it(
    timed: Scheduler, clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hourly(timed, "a", "b", "c")
    clock.advance(HOUR)
    write, failures = Collection.bulk_write, 5

    async def fails_at_first(self: Collection, *args: Any, **options: Any) -> Any:
        nonlocal failures
        if self.name == "jobs.schedules" and failures:
            failures -= 1
            raise OperationFailure("an error of the server", 8)
        return await write(self, *args, **options)

    monkeypatch.setattr(Collection, "bulk_write", fails_at_first)
    await fire(timed)
    for one in ("a", "b", "c"):
        assert (await timed.schedules.get(one)).paused is None
    seconds = monotonic()
    monkeypatch.setattr(refusals, "monotonic", lambda: seconds + 3)
    await fire(timed)
    for one in ("a", "b", "c"):
        assert await instants_of(db, one) == [T0 + HOUR]


async def test_a_schedule_whose_decision_cannot_be_cleared_does_not_keep_others_from_being_cleared(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await hourly(timed, "a", "bad", "c")
    clock.advance(HOUR)
    stuck = {"_id": "bad", "runs": {"$gt": 0}, "making": {"$exists": False}}
    async with refusing(db, "jobs.schedules", stuck):
        await fire(timed)
        for one in ("a", "c"):
            assert "making" not in await document_of(db, one)
        assert len(await jobs_of(db, "bad")) == 1


async def test_a_run_that_cannot_be_cancelled_does_not_keep_other_schedules_from_being_cleared(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await hourly(timed, "a", "b", overlap="cancel_running")
    clock.advance(HOUR)
    await fire(timed)
    (held,) = await jobs_of(db, "a")
    clock.advance(HOUR)
    async with refusing(db, "jobs", {"_id": held["_id"]}):
        await fire(timed)
    assert len(await jobs_of(db, "a")) == 2
    assert [job["state"] for job in await jobs_of(db, "b")] == ["cancelled", "pending"]


async def test_a_row_that_cannot_be_stored_does_not_keep_a_firing_from_its_end(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await hourly(timed, "a", "b", misfire="skip")
    clock.advance(3 * HOUR + timedelta(minutes=30))
    async with refusing(db, "jobs.ledger", {"schedule_id": "a"}):
        await fire(timed)
    for one in ("a", "b"):
        assert "making" not in await document_of(db, one)
    assert {row["schedule_id"] async for row in db["jobs.ledger"].find({}, hint="_id_")} == {"b"}


async def test_a_decision_that_cannot_be_read_is_given_up_and_its_firing_is_noted_as_missed(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await hourly(timed, "bad", "good")
    clock.advance(HOUR)
    await decide(timed, db, "bad")
    await db["jobs.schedules"].update_one({"_id": "bad"}, {"$unset": {"making.jobs.0.due": ""}})
    clock.advance(timedelta(seconds=2))
    await fire(timed)
    document = await document_of(db, "bad")
    assert "making" not in document and "it cannot be read" in document["paused"]["reason"]
    assert await instants_of(db, "good") == [T0 + HOUR]
    told = await ledger(await timed.schedules.get("bad"), hours=1.5)
    assert told[-1] == (1.0, "missed", "its job could not be made")
    await (await timed.schedules.get("bad")).resume()
    clock.advance(HOUR)
    await fire(timed)
    assert await instants_of(db, "bad") == [T0 + 2 * HOUR]


async def test_a_schedule_whose_decision_is_no_document_can_be_deleted(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await hourly(timed, "bad")
    await db["jobs.schedules"].update_one({"_id": "bad"}, {"$set": {"making": "nonsense"}})
    await timed.schedules.delete("bad")
    assert await db["jobs.schedules"].find_one({"_id": "bad"}) is None


async def test_a_schedule_that_cannot_be_changed_can_be_deleted_and_a_change_says_why_not(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await hourly(timed, "bad")
    clock.advance(HOUR)
    await decide(timed, db, "bad")
    clock.advance(timedelta(seconds=2))
    async with refusing(db, "jobs.schedules", {"_id": "bad"}):
        with pytest.raises(ScheduleStateError, match="MongoDB refuses every change"):
            await (await timed.schedules.get("bad")).pause("to see")
        await timed.schedules.delete("bad")
    assert await db["jobs.schedules"].find_one({"_id": "bad"}) is None


async def test_an_error_with_ended_runs_does_not_keep_a_worker_from_firing(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler()
    ran: list[str] = []

    @scheduler.job("work")
    async def work() -> None:
        ran.append("x")

    await scheduler.start()
    timekeeper = inside(scheduler).worker.timekeeper
    firing = store_of(scheduler).firing
    load = firing.load

    async def loading(ids: Any, *more: Any) -> Any:
        if "ended" in ids:
            raise TypeError("a document that cannot be dealt with")
        return await load(ids, *more)

    monkeypatch.setattr(firing, "load", loading)
    timekeeper.run_ended("ended")
    await scheduler.schedule("work", repeat=Every(0.1), schedule_id="soon")
    await eventually(lambda: ran)


async def test_a_calendar_that_cannot_be_read_pauses_its_schedules_and_no_others(
    timed: Scheduler, clock: ManualClock, make_scheduler: Make, db: Database
) -> None:
    for name in ("broken", "whole"):
        await timed.calendars.put(name, Calendar(["2030-12-24"]))
        rule = Except(Every("1h", anchor=T0), name)
        await timed.schedule("work", repeat=rule, schedule_id=name)
    await db["jobs.calendars"].update_one({"_id": "broken"}, {"$set": {"calendar": {"days": 7}}})
    clock.advance(HOUR)
    await fire(await make_scheduler(clock=clock).connect())
    assert await instants_of(db, "whole") == [T0 + HOUR]
    assert "it cannot be read" in (await document_of(db, "broken"))["paused"]["reason"]
    assert [one.name for one in await timed.calendars.all()] == ["whole"]
    await timed.calendars.put("broken", Calendar(["2030-12-25"]))
    assert (await timed.calendars.get("broken")).rev == 2


async def test_a_schedule_that_cannot_follow_a_calendar_does_not_keep_others_from_it(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await timed.calendars.put("days", Calendar(["2030-12-24"]))
    for name in ("a", "bad", "c"):
        await timed.schedule("work", repeat=Except(Every("1h", anchor=T0), "days"), schedule_id=name)
    async with refusing(db, "jobs.schedules", {"_id": "bad"}):
        await timed.calendars.put("days", Calendar(["2030-12-25"]))
    revs = {name: (await document_of(db, name))["calendars"][0]["rev"] for name in ("a", "bad", "c")}
    assert revs == {"a": 2, "bad": 1, "c": 2}
