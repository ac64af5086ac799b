"""What looking at schedules costs: with ten thousand stored, no call examines more than two thousand keys."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from harness.firing import T0
from harness.looking import Database
from harness.profiling import Spent, profiled
from mainspring import Cron, Scheduler
from mainspring.clock import ManualClock

pytestmark = pytest.mark.fresh_database

STORED = 10_000
MOST = 2_000
FIRED = 20


@pytest.fixture
async def full(timed: Scheduler, clock: ManualClock, db: Database) -> Scheduler:
    """Ten thousand schedules, of which one in a thousand is rare; forty of them with a full ledger and jobs."""
    await timed.schedule("work", repeat=Cron("*/5 * * * *"), schedule_id="a")
    found = await db["jobs.schedules"].find_one({"_id": "a"})
    assert found is not None
    clock.advance(timedelta(hours=2))
    cursor, soon = T0 + timedelta(hours=2), T0 + timedelta(hours=2, minutes=5)
    documents = []
    for number in range(STORED):
        name = "rare" if number % 1000 == 999 else "work"
        last = {"at": cursor, "job": f"s{number:05}@2030-01-01T02:00:00Z"}
        rule = {**found["rule"], "expression": f"{number % 60} * * * *" if number % 2 else "*/5 * * * *"}
        documents.append(
            {**found, "_id": f"s{number:05}", "job": {**found["job"], "name": name}, "rule": rule, "cursor": cursor}
            | {"next_at": soon, "due_at": soon, "fire_at": soon, "last": last}
        )
    await db["jobs.schedules"].insert_many(documents)
    jobs: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for number in range(0, 80, 2):
        for ago in range(FIRED):
            at = cursor - ago * timedelta(minutes=5)
            id = f"s{number:05}@{at:%Y-%m-%dT%H:%M:%SZ}"
            rows.append(
                {"_id": id, "schedule_id": f"s{number:05}", "at": at, "until": at, "outcome": "late", "job": id}
            )
            jobs.append({"_id": id, "v": 1, "state": "completed", "name": "work", "queue": "default"})
        for ago in range(100):
            at = cursor - timedelta(days=1, minutes=5 * ago)
            id = f"s{number:05}@{at:%Y-%m-%dT%H:%M:%SZ}"
            rows.append({"_id": id, "schedule_id": f"s{number:05}", "at": at, "until": at, "outcome": "missed"})
    await db["jobs.ledger"].insert_many(rows)
    await db.jobs.insert_many(jobs)
    return timed


def check(spent: Spent, most: int = MOST) -> None:
    assert 0 < spent.keys <= most
    assert spent.documents <= most
    assert spent.scans == 0


@pytest.mark.parametrize(
    "filter",
    [
        {},
        {"order": "next"},
        {"name": "rare"},
        {"text": "09999"},
        {"state": "failing"},
        {"state": "paused"},
        {"order": "next", "name": "rare"},
    ],
    ids=str,
)
@pytest.mark.slow
async def test_a_page_examines_so_many_keys_wherever_it_begins(
    full: Scheduler, db: Database, filter: dict[str, Any]
) -> None:
    after, found = None, 0
    for _ in range(3):
        async with profiled(db) as spent:
            page = await full.schedules.search(**filter, limit=40, after=after)
        check(spent)
        after, found = page.next, found + len(page.schedules)
    if not filter or filter == {"order": "next"}:
        assert found == 120


@pytest.mark.slow
async def test_the_last_firings_of_a_page_examine_so_many_keys(full: Scheduler, db: Database) -> None:
    ids = [f"s{number:05}" for number in range(0, 80, 2)]
    async with profiled(db) as spent:
        found = await full.schedules.recent(ids, FIRED)
    check(spent)
    assert {(one.outcome, one.job_state) for firings in found.values() for one in firings} == {("late", "completed")}
    assert sum(map(len, found.values())) == 40 * FIRED


@pytest.mark.slow
async def test_counting_what_is_to_come_examines_so_many_keys_and_ends(full: Scheduler, db: Database) -> None:
    for _ in range(100):
        async with profiled(db) as spent:
            coming = await full.schedules.coming()
        check(spent)
        if coming.complete:
            break
    assert (coming.complete, coming.schedules) == (True, STORED + 1)
    assert coming.buckets[0].firings == STORED // 2 + 12 * (STORED // 2 + 1)
