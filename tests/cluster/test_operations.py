"""An operation whose workers are killed half-way goes on in the next ones, and changes each job once.

The suite does it with 3,000 jobs; `TEST_OPERATION_JOBS=100000` with as many as one likes.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Any

import pytest

from cluster.asking import Asking
from harness.changes import Changes
from harness.operating import counts, jobs
from harness.processes import Fleet
from harness.waiting import eventually
from mainspring import Operation, Scheduler

COUNT = int(os.environ.get("TEST_OPERATION_JOBS", "3000"))
KILLS = 2
# No worker serves the queue of the jobs: what is done to them is the operation's doing alone.
OPTIONS: dict[str, Any] = {"lease": 3.0, "queues": ["default"]}
_CHUNK = 10_000


async def further_than(operation: Operation, changed: int) -> int:
    async def fact() -> int | None:
        now = (await operation.refresh()).progress.changed
        return now if now > changed else None

    found: int = await eventually(fact, timeout=120, every=0.002)
    return found


@pytest.mark.timeout(120 + COUNT / 100)
async def test_an_operation_that_is_killed_half_way_changes_each_job_exactly_once(
    scheduler: Scheduler, fleet: Fleet, ask: Asking, changes: Changes
) -> None:
    await scheduler.connect()
    stored = jobs(COUNT, queue="parked")
    while chunk := list(islice(stored, _CHUNK)):
        await ask.jobs.insert_many(chunk, ordered=False)
    operation = await scheduler.operations.create(
        "set_priority", {"queue": "parked"}, priority=1, reason="a test", start_after=0
    )
    changed = 0
    for _ in range(KILLS):
        worker = await fleet.start(**OPTIONS)
        changed = await further_than(operation, changed + COUNT // 10)
        worker.kill()
    assert not (await operation.refresh()).finished
    await fleet.start(**OPTIONS)
    await fleet.start(**OPTIONS)
    ended = await operation.wait(60 + COUNT / 200)
    assert counts(ended) == ("completed", COUNT, 0, 0)
    documents = await ask.documents()
    assert len(documents) == COUNT
    assert {(one["priority"], one["rev"], tuple(one["requests"])) for one in documents.values()} == {
        (1, 1, (operation.id,))
    }
    moves = changes.read()
    assert {tuple(change.kind for change in moves[job]) for job in documents} == {("insert", "update")}
    await eventually(lambda: _noted(scheduler, operation), timeout=60)


async def _noted(scheduler: Scheduler, operation: Operation) -> bool:
    rows = await scheduler.audit.find(target=operation.id)
    return [row.action for row in rows] == ["operation.end"]
