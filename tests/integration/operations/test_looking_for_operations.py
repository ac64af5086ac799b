"""How workers learn of operations: by seldom looks, in time for each start, and at once by the change stream."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.operating import counts, fill, jobs
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.clock import ManualClock, monotonic
from mainspring.engine.chores.jobs.run_operations import RunOperations

Make = Callable[..., Scheduler]


def chore_of(scheduler: Scheduler) -> RunOperations:
    """The chore of a worker, whose passes are taken by hand from now on."""
    (chore,) = [one for one in inside(scheduler).worker.chores if isinstance(one, RunOperations)]
    inside(scheduler).worker.chores = []
    return chore


def has_looked(scheduler: Scheduler) -> bool:
    """Whether the next look is far ahead."""
    due = [rounds._due.get(RunOperations.name, 0.0) for rounds in inside(scheduler).worker._rounds]
    return monotonic() + 60 < max(due) < float("inf")


async def test_an_idle_worker_seldom_looks_for_operations_and_in_time_for_the_first_start(
    make_scheduler: Make, clock: ManualClock
) -> None:
    scheduler = make_scheduler(clock=clock)
    await scheduler.start()
    chore = chore_of(scheduler)
    await eventually(lambda: inside(scheduler).worker.watcher.listening)
    await chore.run_once()
    assert chore.every == 5
    operation = await scheduler.operations.create("cancel", {"name": "work"}, reason="a test")
    pauses = []
    for seconds in (0, 7, 3):
        clock.advance(seconds)
        await chore.run_once()
        pauses.append(chore.every)
    assert pauses == [5, 3, 1]
    assert (await operation.refresh()).finished


async def test_a_worker_without_a_change_stream_looks_for_operations_every_second(
    standalone: Servers, make_scheduler: Make
) -> None:
    scheduler = make_scheduler(standalone.uri("operations"))
    await scheduler.start()
    chore = chore_of(scheduler)
    await chore.run_once()
    assert chore.every == 1


async def test_an_operation_of_another_process_is_told_of_by_the_change_stream(
    make_scheduler: Make, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunOperations, "every", 3600.0)
    worker, other = make_scheduler(), make_scheduler()
    await fill(worker, db, *jobs(2))
    await worker.start()
    await eventually(lambda: inside(worker).worker.watcher.listening and has_looked(worker))
    operation = await other.operations.create("cancel", {"name": "work"}, reason="a test", start_after=0)
    assert counts(await operation.wait(60)) == ("completed", 2, 0, 0)


async def test_an_operation_behind_a_hundred_that_cannot_be_carried_on_is_carried_out(
    make_scheduler: Make, db: Database
) -> None:
    scheduler = make_scheduler()
    await fill(scheduler, db, *jobs(2))
    operation = await scheduler.operations.create("cancel", {"name": "work"}, reason="a test", start_after=0)
    stored = await db["jobs.operations"].find_one({"_id": operation.id})
    assert stored is not None
    earlier = stored["starts_at"] - timedelta(hours=1)
    malformed = {**stored, "state": 7, "starts_at": earlier}
    await db["jobs.operations"].insert_many([{**malformed, "_id": f"malformed-{number}"} for number in range(100)])
    await scheduler.start()
    assert counts(await operation.wait(30)) == ("completed", 2, 0, 0)
