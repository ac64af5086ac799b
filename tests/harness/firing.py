"""Firing schedules without a worker, on a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from harness.inside import inside
from harness.looking import Database
from mainspring import LedgerEntry, Schedule, Scheduler
from mainspring.clock import ManualClock
from mainspring.store import Store
from mainspring.store.schedules.firing import Fired

T0 = datetime(2030, 1, 1, tzinfo=UTC)
"""Where a ManualClock begins; a Tuesday."""
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def store_of(scheduler: Scheduler) -> Store:
    return inside(scheduler).open_store


async def fire(scheduler: Scheduler, passes: int = 50) -> list[Fired]:
    """Fire all that is due, as a timekeeper does."""
    firing = store_of(scheduler).firing
    fired: list[Fired] = []
    for _ in range(passes):
        due = await firing.due()
        if not due:
            return fired
        fired += await firing.advance(await firing.load([schedule_id for schedule_id, _ in due]))
    raise AssertionError(f"something is due for ever: {due}")


async def fire_until(scheduler: Scheduler, clock: ManualClock, until: datetime, step: timedelta) -> list[Fired]:
    """Let time pass in steps, firing at each."""
    fired = await fire(scheduler)
    while clock.now() < until:
        clock.advance(min(step, until - clock.now()))
        fired += await fire(scheduler)
    return fired


async def jobs_of(db: Database, schedule_id: str) -> list[dict[str, Any]]:
    """The jobs that a schedule has made, in the order of their firings."""
    order = [("schedule_id", 1), ("scheduled_for", 1)]
    return await db.jobs.find({"schedule_id": schedule_id}, sort=order, hint="schedule").to_list(None)


async def instants_of(db: Database, schedule_id: str) -> list[datetime]:
    """The firings that have a job, in order."""
    return [job["scheduled_for"] for job in await jobs_of(db, schedule_id)]


async def end_run(
    db: Database, job_id: str, state: str = "completed", at: datetime | None = None, why: str = ""
) -> None:
    """End a job as a worker would."""
    fields: dict[str, Any] = {"state": state, "finished_at": at or datetime.now(UTC)}
    if why:
        fields["error"] = {"type": "Error", "message": why}
    ended = await db.jobs.update_one({"_id": job_id}, {"$set": fields, "$unset": {"ready": 1, "waiting_for": 1}})
    assert ended.matched_count == 1


async def document_of(db: Database, schedule_id: str) -> dict[str, Any]:
    found = await db["jobs.schedules"].find_one({"_id": schedule_id})
    assert found is not None
    return found


async def rows_of(db: Database, schedule_id: str) -> list[dict[str, Any]]:
    """What is stored in the ledger of a schedule."""
    order = [("schedule_id", 1), ("until", 1)]
    return await db["jobs.ledger"].find({"schedule_id": schedule_id}, sort=order, hint="firings").to_list(None)


async def ledger(schedule: Schedule, hours: float = 24, since: datetime = T0) -> list[tuple[float, str, str]]:
    """The ledger in short: hours since the beginning, outcome and reason."""
    return brief(await schedule.ledger(since, since + hours * HOUR))


def brief(entries: Sequence[LedgerEntry]) -> list[tuple[float, str, str]]:
    return [((entry.at - T0) / HOUR, entry.outcome, entry.reason) for entry in entries]
