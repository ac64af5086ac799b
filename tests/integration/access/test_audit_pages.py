"""Pages of the audit log: filtered by actor, target, action and time, at a bounded cost however long the log is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.looking import Database
from mainspring import ConfigurationError, Scheduler

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROWS = 3000
# The bound is found by as many keys as are examined then; each end of a time takes the logarithm of the rows.
MOST_KEYS = 2000


def row(n: int) -> dict[str, Any]:
    """The row of a minute: every third is Ada's, one in a thousand a deletion, and each target has two hundred."""
    return {
        "_id": n,
        "id": f"row{n}",
        "at": NOON + timedelta(minutes=n),
        "address": None,
        "key": None,
        "actor": "ada" if n % 3 == 0 else "bob",
        "action": "job.delete" if n % 1000 == 0 else "job.cancel" if n % 2 else "schedule.pause",
        "target": f"thing {n % 15}",
        "before": None,
        "after": None,
        "prev": "0" * 64,
        "hash": f"{n:064x}",
    }


@pytest.fixture
async def log(scheduler: Scheduler, db: Database) -> Scheduler:
    await scheduler.connect()
    await db["jobs.audit"].insert_many([row(n) for n in range(1, ROWS + 1)])
    return scheduler


async def all_pages(log: Scheduler, limit: int = 200, **wanted: Any) -> list[int]:
    """The numbers of all rows that a filter finds, page by page."""
    found, before = [], None
    while True:
        page = await log.audit.find(before=before, limit=limit, **wanted)
        found += [one.n for one in page]
        if page.next is None:
            return found
        assert before is None or page.next < before
        before = page.next


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ({"action": "job.delete"}, lambda n: n % 1000 == 0),
        ({"action": "job.*"}, lambda n: n % 1000 == 0 or n % 2),
        ({"actor": "ada", "action": "job.delete"}, lambda n: n % 3000 == 0),
        ({"actor": "ada", "target": "thing 3"}, lambda n: n % 15 == 3),
        ({"since": NOON + timedelta(minutes=2990)}, lambda n: n >= 2990),
        ({"since": NOON + timedelta(minutes=10), "until": NOON + timedelta(minutes=12)}, lambda n: n in (10, 11)),
        ({"until": NOON + timedelta(minutes=1)}, lambda n: False),
        ({"since": NOON + timedelta(days=30)}, lambda n: False),
        ({"action": "nothing"}, lambda n: False),
        ({}, lambda n: True),
    ],
)
async def test_a_filter_finds_all_of_its_rows_and_no_others(
    log: Scheduler, wanted: dict[str, Any], chosen: Callable[[int], Any]
) -> None:
    assert await all_pages(log, **wanted) == [n for n in range(ROWS, 0, -1) if chosen(n)]


async def test_a_page_that_is_full_with_its_last_row_has_no_next(log: Scheduler) -> None:
    since = NOON + timedelta(minutes=ROWS - 3)
    page = await log.audit.find(limit=4, since=since)
    assert (len(page), page.next) == (4, None)
    assert (await log.audit.find(limit=3, since=since)).next == ROWS - 2


@pytest.mark.fresh_database
@pytest.mark.parametrize(
    "wanted",
    [
        {"action": "nothing"},
        {"actor": "bob", "action": "nothing"},
        {"target": "thing 1", "actor": "nothing"},
        {"since": NOON + timedelta(minutes=5), "until": NOON + timedelta(minutes=2900), "action": "nothing"},
    ],
)
@pytest.mark.slow
async def test_a_page_examines_a_bounded_number_of_keys(log: Scheduler, db: Database, wanted: dict[str, Any]) -> None:
    await db.command("profile", 2)
    page = await log.audit.find(**wanted)
    await db.command("profile", 0)
    told = await db["system.profile"].find({"ns": f"{db.name}.jobs.audit"}).to_list()
    assert told and sum(one.get("keysExamined", 0) for one in told) <= MOST_KEYS
    assert sum(one.get("docsExamined", 0) for one in told) <= MOST_KEYS
    assert page == [] and (page.next is not None or "target" in wanted)


@pytest.mark.parametrize(
    "wanted", [{"action": "*"}, {"action": "job*"}, {"action": ".*"}, {"action": ""}, {"since": datetime(2026, 1, 1)}]
)
async def test_a_filter_that_makes_no_sense_is_refused(scheduler: Scheduler, wanted: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        await scheduler.audit.find(**wanted)
