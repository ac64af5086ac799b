"""Downtime: two hours in which no worker fired, under each policy and for rules of several kinds. Exact counts, and the
ledger's word for every firing."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from harness.firing import HOUR, MINUTE, T0, fire, fire_until, instants_of, jobs_of, rows_of
from harness.inside import inside
from harness.looking import Database, count_jobs
from mainspring import At, Calendar, Cron, Every, Except, LedgerEntry, Notice, RRule, Rule, Scheduler
from mainspring.clock import ManualClock
from mainspring.engine.services.timekeeper import announce_fired

BEFORE = T0 + HOUR
"""Until then all is well."""
BACK = T0 + 3 * HOUR + MINUTE / 2
"""Then a worker fires again."""
AFTER = T0 + 4 * HOUR

RULES: dict[str, Rule] = {
    "every minute": Every("1m", anchor=T0),
    "every 40 minutes": Every("40m", anchor=T0),
    "every quarter, in a zone": Cron("*/15 * * * *", "Asia/Kolkata"),
    "at the full hour": Cron("0 * * * *"),
    "at instants": At([T0 + n * HOUR / 4 for n in (1, 5, 6, 7, 12, 15)]),
    "by recurrence": RRule("FREQ=MINUTELY;INTERVAL=20", start=T0),
    "but not on holidays": Except(Every("10m", anchor=T0), "h"),
}


MOMENT = timedelta(milliseconds=1)


async def live_through(scheduler: Scheduler, clock: ManualClock, **options: Any) -> None:
    """An hour of service, two hours and half a minute without, and service again; one schedule for each rule."""
    await scheduler.calendars.put("h", Calendar(["2030-05-01"]))
    for name, rule in RULES.items():
        await scheduler.schedule("work", repeat=rule, schedule_id=name, **options)
    await fire_until(scheduler, clock, BEFORE, MINUTE)
    clock.advance(BACK - clock.now())
    await fire(scheduler)
    clock.advance(MINUTE / 2)
    await fire_until(scheduler, clock, AFTER, MINUTE)


def firings(rule: Rule, start: datetime, end: datetime) -> list[datetime]:
    """Those after `start` and up to `end`."""
    bound = rule.bind("s", {"h": Calendar(["2030-05-01"])})
    return list(bound.between(start + MOMENT, end + MOMENT))


async def ledger_of(scheduler: Scheduler, name: str) -> list[LedgerEntry]:
    return await scheduler.schedules.ledger(name, T0, AFTER + MOMENT)


def outcomes(entries: list[LedgerEntry]) -> Counter[str]:
    return Counter(entry.outcome for entry in entries)


def fates(rule: Rule) -> tuple[list[datetime], list[datetime], list[datetime]]:
    """All firings, those that were missed, and those that were late and within the grace."""
    grace = BACK - MINUTE - MOMENT
    return firings(rule, T0, AFTER), firings(rule, BEFORE, grace), firings(rule, grace, BACK)


@pytest.mark.slow
async def test_skip_makes_no_job_for_what_was_missed(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    await live_through(timed, clock, misfire="skip")
    for name, rule in RULES.items():
        every, missed, late = fates(rule)
        made = [at for at in every if at not in missed]
        entries = await ledger_of(timed, name)
        assert await instants_of(db, name) == made, name
        expected = {"on_time": len(made) - len(late), "late": len(late), "skipped": len(missed)}
        assert outcomes(entries) == +Counter(expected), name
        assert {entry.reason for entry in entries if entry.outcome == "skipped"} == {"misfire"}
        assert len(await rows_of(db, name)) == len(late) + 1


@pytest.mark.slow
async def test_latest_makes_one_job_for_all_that_was_missed(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    await live_through(timed, clock)
    for name, rule in RULES.items():
        every, missed, late = fates(rule)
        made = [at for at in every if at not in missed[:-1]]
        entries = await ledger_of(timed, name)
        assert await instants_of(db, name) == made, name
        expected = {"on_time": len(made) - len(late) - 1, "late": len(late) + 1, "missed": len(missed) - 1}
        assert outcomes(entries) == +Counter(expected), name
        stands = {entry.job_id for entry in entries if entry.outcome == "missed"}
        assert stands <= {job["_id"] for job in await jobs_of(db, name) if job["scheduled_for"] == missed[-1]}


@pytest.mark.slow
async def test_all_makes_up_for_the_latest_ones_up_to_the_limit(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await live_through(timed, clock, misfire="all", misfire_limit=5)
    for name, rule in RULES.items():
        every, missed, late = fates(rule)
        made = [at for at in every if at not in missed[:-5]]
        assert await instants_of(db, name) == made, name
        tardy = len(late) + len(missed[-5:])
        expected = {"on_time": len(made) - tardy, "late": tardy, "missed": len(missed[:-5])}
        assert outcomes(await ledger_of(timed, name)) == +Counter(expected), name


async def test_the_rules_of_these_tests_have_missed_and_late_firings() -> None:
    counts = {name: tuple(len(part) for part in fates(rule)) for name, rule in RULES.items()}
    assert counts["every minute"] == (240, 119, 1)
    assert all(missed for _, missed, _ in counts.values())
    assert len([name for name, (_, _, late) in counts.items() if late]) >= 4


async def test_nothing_is_made_up_for_that_is_older_than_the_start_deadline(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule(
        "work", repeat=Every("40m", anchor=T0), schedule_id="s", misfire="all", start_deadline=3600
    )
    for minutes in (40, 180, 200):
        clock.advance(T0 + minutes * MINUTE - clock.now())
        await fire(timed)
    assert [(at - T0) / MINUTE for at in await instants_of(db, "s")] == [40, 120, 160, 200]
    entries = await schedule.ledger(BEFORE, BACK)
    assert [((entry.at - T0) / MINUTE, entry.outcome, entry.reason) for entry in entries] == [
        (80, "skipped", "expired"),
        (120, "late", ""),
        (160, "late", ""),
    ]


async def test_a_late_job_still_has_its_whole_time_to_start(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    await timed.schedule("work", repeat=Every("1h"), schedule_id="s", start_within=60)
    clock.advance(2.5 * HOUR)
    await fire(timed)
    (job,) = await jobs_of(db, "s")
    assert (job["scheduled_for"], job["run_at"]) == (T0 + 2 * HOUR, clock.now())
    assert job["start_by"] == clock.now() + MINUTE


async def test_missed_late_and_skipped_firings_are_told_to_those_who_listen(
    timed: Scheduler, clock: ManualClock
) -> None:
    heard: list[tuple[str, Notice]] = []
    for event in ("schedule:late", "schedule:missed", "schedule:skipped"):
        timed.on(event, lambda notice, event=event: heard.append((event, notice)))
    await timed.schedule("work", repeat=Every("1m", anchor=T0), schedule_id="latest")
    await timed.schedule("work", repeat=Every("1m", anchor=T0), schedule_id="skip", misfire="skip", misfire_grace=1)
    clock.advance(10 * MINUTE + MINUTE / 6)
    announce_fired(inside(timed).events, await fire(timed))
    told = {(notice.schedule_id, event): notice for event, notice in heard}
    missed = told["latest", "schedule:missed"]
    assert (missed.name, missed.at, missed.until, missed.count) == ("work", T0 + MINUTE, T0 + 8 * MINUTE, 8)
    assert (missed.outcome, missed.reason) == ("missed", "the latest run stands for it")
    assert missed.job_id == "latest@2030-01-01T00:09:00Z"
    late = [notice for event, notice in heard if event == "schedule:late"]
    assert [(notice.at, notice.late_by) for notice in late] == [
        (T0 + 9 * MINUTE, 1.1666666666666667 * MINUTE),
        (T0 + 10 * MINUTE, MINUTE / 6),
    ]
    skipped = told["skip", "schedule:missed"]
    assert (skipped.outcome, skipped.reason, skipped.count) == ("skipped", "misfire", 10)
    assert isinstance(missed, Notice)


@pytest.mark.parametrize("misfire", ["skip", "latest", "all"])
async def test_a_million_missed_firings_are_resolved_with_few_documents(
    timed: Scheduler, clock: ManualClock, db: Database, misfire: Any
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1s", anchor=T0), schedule_id="s", misfire=misfire)
    clock.advance(timedelta(seconds=1_000_000))
    await fire(timed)
    taken = {"skip": 0, "latest": 1, "all": 100}[misfire]
    assert await count_jobs(db) == taken + 61  # and those within the grace
    (span,) = [row for row in await rows_of(db, "s") if "span" in row]
    assert span["count"] == 1_000_000 - taken - 61
    entries = await schedule.ledger(T0 + timedelta(days=5), T0 + timedelta(days=6), limit=10)
    assert {entry.outcome for entry in entries} == {"skipped" if misfire == "skip" else "missed"}
    assert (await schedule.refresh()).next_at == clock.now() + timedelta(seconds=1)
