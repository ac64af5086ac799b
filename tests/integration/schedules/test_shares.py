"""The shares of schedules that workers fire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from zlib import crc32

import pytest

from harness.inside import inside
from harness.looking import Database, count_jobs
from mainspring import At, Scheduler
from mainspring.clock import ManualClock
from mainspring.engine.services import timekeeper

NUMBER = 120


async def _fire_nothing() -> float:
    return 3600.0


async def test_of_many_due_schedules_a_worker_leaves_their_share_to_those_that_have_started_after_it(
    make_scheduler: Callable[..., Scheduler], clock: ManualClock, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timekeeper, "_KNOWN_FOR", 3600.0)
    monkeypatch.setattr(timekeeper, "_KNOWN_FOR_MANY", 0.0)
    first, second = make_scheduler(clock=clock), make_scheduler(clock=clock)
    await first.start()
    await second.start()
    monkeypatch.setattr(inside(second).worker.timekeeper, "run_once", _fire_nothing)
    due = clock.now() + timedelta(seconds=5)
    ids = [f"once-{n}" for n in range(NUMBER)]
    await asyncio.gather(*(first.schedule("work", repeat=At([due]), schedule_id=one) for one in ids))
    assert inside(first).worker._peers.rank(None) == (0, 1)
    await clock.advance(timedelta(seconds=5))
    place, number = inside(first).worker._peers.rank(None)
    assert number == 2
    assert await count_jobs(db) == sum(crc32(one.encode()) % 2 == place for one in ids) < NUMBER
