"""Calendars in the database: put, read, change, delete, import, and what schedules make of it."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.pages import ROOT, blocks
from mainspring import (
    Calendar,
    CalendarNotFound,
    ConfigurationError,
    Cron,
    Except,
    InvalidSchedule,
    Scheduler,
    ScheduleStateError,
)
from mainspring.clock import ManualClock
from mainspring.store import Store

HOLIDAYS = Calendar(["2030-12-24"], yearly=["12-25"], description="public holidays")
ICS = """BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTAMP:20200101T000000Z
DTSTART;VALUE=DATE:20301224
END:VEVENT
BEGIN:VEVENT
DTSTAMP:20200101T000000Z
DTSTART:20291231T233000Z
END:VEVENT
BEGIN:VEVENT
DTSTAMP:20200101T000000Z
DTSTART;VALUE=DATE:20191128
RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH
END:VEVENT
END:VCALENDAR
"""


@pytest.fixture
async def store(scheduler: Scheduler) -> Store:
    return await inside(scheduler).store()


@pytest.fixture
def clocked(make_scheduler: Callable[..., Scheduler]) -> tuple[Scheduler, ManualClock]:
    """A scheduler with a clock that is moved by hand."""
    clock = ManualClock(datetime(2030, 12, 20, tzinfo=UTC))
    return make_scheduler(clock=clock), clock


async def test_a_calendar_is_stored_under_its_name_and_read_back(scheduler: Scheduler) -> None:
    stored = await scheduler.calendars.put("holidays", HOLIDAYS, actor="ada")
    assert (stored.name, stored.calendar, stored.rev, stored.actor) == ("holidays", HOLIDAYS, 1, "ada")
    assert await scheduler.calendars.get("holidays") == stored


async def test_storing_the_same_again_changes_nothing(scheduler: Scheduler) -> None:
    first = await scheduler.calendars.put("holidays", HOLIDAYS, actor="ada")
    assert await scheduler.calendars.put("holidays", HOLIDAYS, actor="eve") == first


async def test_a_change_is_a_new_revision_and_the_old_one_is_kept(scheduler: Scheduler, store: Store) -> None:
    await scheduler.calendars.put("holidays", HOLIDAYS)
    changed = await scheduler.calendars.put("holidays", HOLIDAYS | Calendar(["2030-12-31"]))
    assert changed.rev == 2
    kept = await store.calendars.in_force([("holidays", 1), ("holidays", 2), ("holidays", 3), ("other", 1)])
    assert kept == {("holidays", 1): HOLIDAYS, ("holidays", 2): changed.calendar}


async def test_revisions_are_found_by_a_process_that_has_not_seen_them(
    scheduler: Scheduler, make_scheduler: Callable[..., Scheduler]
) -> None:
    for number in range(1, 5):
        await scheduler.calendars.put("holidays", Calendar([date(2030, 1, number)]))
    other = await inside(make_scheduler()).store()
    keys = [("holidays", rev) for rev in range(1, 5)]
    assert await other.calendars.in_force(keys) == {
        ("holidays", rev): Calendar([date(2030, 1, rev)]) for rev in range(1, 5)
    }


async def test_of_many_changes_at_once_none_is_lost(
    scheduler: Scheduler, make_scheduler: Callable[..., Scheduler]
) -> None:
    others = [make_scheduler() for _ in range(3)]
    changes = [(at, Calendar([date(2030, 1, n + 1)])) for n, at in enumerate([scheduler, *others] * 2)]
    stored = await asyncio.gather(*(at.calendars.put("holidays", calendar) for at, calendar in changes))
    assert sorted(one.rev for one in stored) == list(range(1, 9))
    store = await inside(make_scheduler()).store()
    kept = await store.calendars.in_force([("holidays", one.rev) for one in stored])
    assert kept == {("holidays", one.rev): one.calendar for one in stored}


async def test_all_calendars_are_listed_by_name_without_their_past(scheduler: Scheduler) -> None:
    for name in ("weekend", "holidays", "ünlü"):
        await scheduler.calendars.put(name, Calendar(weekdays=["SAT"]))
        await scheduler.calendars.put(name, Calendar(weekdays=["SAT", "SUN"]))
    await scheduler.calendars.put("gone", Calendar())
    await scheduler.calendars.delete("gone")
    assert [(one.name, one.rev) for one in await scheduler.calendars.all()] == [
        ("holidays", 2),
        ("weekend", 2),
        ("ünlü", 2),
    ]


async def test_what_is_not_there_is_not_found(scheduler: Scheduler) -> None:
    with pytest.raises(CalendarNotFound, match="'holidays'"):
        await scheduler.calendars.get("holidays")
    with pytest.raises(CalendarNotFound):
        await scheduler.calendars.delete("holidays")
    await scheduler.calendars.put("holidays", HOLIDAYS)
    await scheduler.calendars.delete("holidays")
    with pytest.raises(CalendarNotFound):
        await scheduler.calendars.get("holidays")
    with pytest.raises(CalendarNotFound):
        await scheduler.calendars.delete("holidays")


async def test_a_revision_never_means_two_things_even_after_a_delete(scheduler: Scheduler, store: Store) -> None:
    await scheduler.calendars.put("holidays", HOLIDAYS)
    await scheduler.calendars.delete("holidays")
    again = await scheduler.calendars.put("holidays", Calendar(["2031-01-01"]))
    assert again.rev == 2
    store.calendars._known.clear()
    kept = await store.calendars.in_force([("holidays", 1), ("holidays", 2)])
    assert kept == {("holidays", 1): HOLIDAYS, ("holidays", 2): again.calendar}


async def test_a_large_calendar_is_stored_whole(scheduler: Scheduler) -> None:
    calendar = Calendar([date(1990, 1, 1) + timedelta(days=2 * n) for n in range(20_000)])
    await scheduler.calendars.put("large", calendar)
    assert (await scheduler.calendars.get("large")).calendar == calendar


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, 5, "holidays@1"])
async def test_what_is_no_name_is_refused(scheduler: Scheduler, name: Any) -> None:
    with pytest.raises(ConfigurationError, match="calendar's name"):
        await scheduler.calendars.put(name, HOLIDAYS)


async def test_what_is_no_calendar_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidSchedule, match="must be a Calendar"):
        await scheduler.calendars.put("holidays", ["2030-12-24"])  # type: ignore[arg-type]


async def test_an_ics_file_is_imported_around_the_present_day(clocked: tuple[Scheduler, ManualClock]) -> None:
    scheduler, _ = clocked
    stored = await scheduler.calendars.import_ics("holidays", ICS, actor="ada")
    assert stored.calendar.contains(date(2030, 12, 24))
    assert stored.calendar.contains(date(2029, 12, 31))
    assert stored.calendar.contains(date(2050, 11, 24)), "twenty years from now, not from when the file was written"
    assert stored.actor == "ada"
    berlin = await scheduler.calendars.import_ics("holidays", ICS.encode(), timezone="Europe/Berlin")
    assert berlin.calendar.contains(date(2030, 1, 1))
    assert not berlin.calendar.contains(date(2029, 12, 31))
    with pytest.raises(InvalidSchedule, match=r"This \.ics file cannot be read"):
        await scheduler.calendars.import_ics("holidays", "garbage")
    assert (await scheduler.calendars.get("holidays")).rev == 2


async def test_a_schedule_follows_a_change_of_its_calendar_at_once(clocked: tuple[Scheduler, ManualClock]) -> None:
    scheduler, _ = clocked
    await scheduler.calendars.put("holidays", Calendar(["2030-12-20"]))
    rule = Except(Cron("0 9 * * *"), "holidays")
    made = await scheduler.schedule("report", repeat=rule, schedule_id="report")
    assert made.next_at == datetime(2030, 12, 21, 9, tzinfo=UTC)
    await scheduler.calendars.put("holidays", Calendar(ranges=[("2030-12-20", "2030-12-26")]))
    assert (await scheduler.schedules.get("report")).next_at == datetime(2030, 12, 27, 9, tzinfo=UTC)
    await scheduler.calendars.put("holidays", Calendar())
    assert (await scheduler.schedules.get("report")).next_at == datetime(2030, 12, 20, 9, tzinfo=UTC)


async def test_the_ledger_judges_the_past_by_the_calendar_of_its_time(clocked: tuple[Scheduler, ManualClock]) -> None:
    scheduler, clock = clocked
    await scheduler.calendars.put("holidays", Calendar(["2030-12-20"]))
    rule = Except(Cron("0 9 * * *"), "holidays")
    await scheduler.schedule("report", repeat=rule, schedule_id="report")
    clock.advance(timedelta(hours=12))
    await scheduler.calendars.put("holidays", Calendar(["2030-12-21"]))
    entries = await scheduler.schedules.ledger(
        "report", clock.now() - timedelta(days=1), clock.now() + timedelta(days=2)
    )
    assert [(f"{one.at:%d}", one.outcome, one.reason) for one in entries] == [
        ("20", "skipped", "calendar holidays"),
        ("21", "skipped", "calendar holidays"),
        ("22", "expected", ""),
    ]


async def test_a_calendar_that_a_schedule_needs_is_not_deleted(scheduler: Scheduler) -> None:
    await scheduler.calendars.put("holidays", HOLIDAYS)
    rule = Except(Cron("0 9 * * *"), "holidays")
    await scheduler.schedule("report", repeat=rule, schedule_id="report")
    with pytest.raises(ScheduleStateError, match="'holidays' is needed by report"):
        await scheduler.calendars.delete("holidays")
    await scheduler.schedules.delete("report")
    await scheduler.calendars.delete("holidays")


async def test_a_schedule_whose_calendar_is_missing_is_not_made(scheduler: Scheduler) -> None:
    with pytest.raises(CalendarNotFound, match=r"'holidays'; store one with calendars\.put"):
        await scheduler.schedule("report", repeat=Except(Cron("0 9 * * *"), "holidays"), schedule_id="report")


async def test_the_page_about_calendars_does_what_it_says(
    clocked: tuple[Scheduler, ManualClock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, _ = clocked
    (tmp_path / "holidays.ics").write_text(ICS)
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "howto" / "calendars.md"
    names: dict[str, Any] = {"scheduler": scheduler}
    for block in [one for one in blocks(page) if one.language == "python"]:
        code = compile(block.text, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        outcome = eval(code, names)
        if outcome is not None:
            await outcome
    changed = await scheduler.calendars.get("holidays")
    assert (changed.rev, changed.actor) == (3, "ada")
    assert changed.calendar.contains(date(2030, 5, 31))


async def test_a_stored_calendar_can_be_read_by_any_program(scheduler: Scheduler, db: Database) -> None:
    await scheduler.calendars.put("holidays", HOLIDAYS, actor="ada")
    document = await db["jobs.calendars"].find_one({"_id": "holidays"})
    assert document is not None
    assert document["calendar"] == {
        "days": ["2030-12-24"],
        "yearly": ["12-25"],
        "description": "public holidays",
    }
    assert (document["rev"], document["actor"]) == (1, "ada")
