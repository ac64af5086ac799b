"""A redrive whose workers are killed half-way goes on in the next ones, and retries each dead letter once.

The suite does it with 3,000 dead letters; `TEST_DEAD_LETTERS=100000` with as many as one likes.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from cluster.asking import Asking
from harness.changes import Changes
from harness.dead import dead_letters
from harness.processes import Fleet
from harness.waiting import eventually
from mainspring import Redrive, Scheduler

COUNT = int(os.environ.get("TEST_DEAD_LETTERS", "3000"))
KILLS = 2
# No worker serves the queue of the dead letters: what is done to them is the redrive's doing alone.
OPTIONS: dict[str, Any] = {"lease": 3.0, "queues": ["default"]}
_CHUNK = 10_000


async def fill(ask: Asking, count: int) -> None:
    letters = dead_letters(count, datetime.now(UTC), queue="parked")
    while chunk := list(islice(letters, _CHUNK)):
        await ask.jobs.insert_many(chunk, ordered=False)


async def further_than(redrive: Redrive, done: int) -> Redrive:
    async def fact() -> Redrive | None:
        now = await redrive.refresh()
        return now if now.done > done else None

    found: Redrive = await eventually(fact, timeout=120, every=0.002)
    return found


@pytest.mark.timeout(120 + COUNT / 100)
async def test_a_redrive_that_is_killed_half_way_retries_each_dead_letter_exactly_once(
    scheduler: Scheduler, fleet: Fleet, ask: Asking, changes: Changes
) -> None:
    await scheduler.connect()
    await fill(ask, COUNT)
    redrive = await scheduler.dead_letters.retry(queue="parked")
    assert (redrive.matched, redrive.done) == (COUNT, 500)
    done = redrive.done
    for _ in range(KILLS):
        worker = await fleet.start(**OPTIONS)
        done = (await further_than(redrive, done + COUNT // 10)).done
        worker.kill()
    assert not (await redrive.refresh()).finished
    await fleet.start(**OPTIONS)
    await eventually(lambda: _finished(redrive), timeout=60 + COUNT / 200)

    ended = await redrive.refresh()
    assert (ended.state, ended.done, ended.skipped) == ("done", COUNT, 0)
    documents = await ask.documents()
    assert len(documents) == COUNT
    assert {(one["state"], one["rev"], one["redrive"]) for one in documents.values()} == {("pending", 3, redrive.id)}
    moves = changes.read()
    assert {tuple(change.kind for change in moves[job]) for job in documents} == {("insert", "update")}


async def _finished(redrive: Redrive) -> bool:
    return (await redrive.refresh()).finished
