"""A job that is rescued at the very moment in which its holder ends it."""

from __future__ import annotations

import asyncio
import random

from bson import ObjectId

from cluster.asking import Asking
from harness.changes import Changes
from harness.inside import documents_of
from mainspring import Scheduler
from mainspring.clock import ManualClock
from mainspring.config.settings import make_settings
from mainspring.model.jobs.outcome import Completed, Lost, Outcome
from mainspring.store import Store
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.end_fields import Finish

ROUNDS = 8
JOBS = 100
LEASE = 10.0


async def test_a_job_finished_and_rescued_at_once_ends_in_one_way_only(
    uri: str, scheduler: Scheduler, ask: Asking, changes: Changes
) -> None:
    clock = ManualClock()
    settings = make_settings({"lease": LEASE})
    connections = [await Connection.open(settings, clock, uri=uri) for _ in range(3)]
    holder, *rescuers = [Store(connection) for connection in connections]
    endings: dict[ObjectId, Outcome] = {}
    for _ in range(ROUNDS):
        await scheduler.schedule_bulk([{"name": "race", "run_at": clock.now()}] * JOBS)
        claimed = await _claim(holder)
        assert len(claimed) == JOBS
        clock.advance(2 * LEASE)
        endings |= await _race(holder, rescuers, claimed, clock)
        await ask.jobs.update_many({"ready": True}, {"$unset": {"ready": 1}}, hint="claim")  # out of the next round
    for connection in connections:
        await connection.close()

    completed = {job for job, ending in endings.items() if isinstance(ending, Completed)}
    lost = {job for job, ending in endings.items() if isinstance(ending, Lost)}
    assert completed and lost, "one side has always won: this was no race"
    assert len(completed) + len(lost) == ROUNDS * JOBS
    for job in completed:
        document = await ask.job(str(job))
        assert (document["state"], [a["outcome"] for a in document["attempts"]]) == ("completed", ["completed"])
    for job in lost:
        document = await ask.job(str(job))
        assert (document["state"], [a["outcome"] for a in document["attempts"]]) == ("pending", ["lost"])
    for moves in changes.read().values():
        states = [change.fields["state"] for change in moves if "state" in change.fields]
        assert states in (["pending", "running", "completed"], ["pending", "running", "pending"])


async def _claim(store: Store) -> list[Document]:
    candidates = await store.claims.candidates("default", JOBS)
    batch = await store.claims.claim(candidates, "holder", LEASE, lambda document: 3)
    return documents_of(batch)


async def _race(
    holder: Store, rescuers: list[Store], claimed: list[Document], clock: ManualClock
) -> dict[ObjectId, Outcome]:
    """Rescue all and finish all, in small parts and at once."""
    parts = [claimed[start : start + 5] for start in range(0, JOBS, 5)]
    random.shuffle(parts)

    async def finish(part: list[Document]) -> list[tuple[ObjectId, Outcome]]:
        await asyncio.sleep(random.uniform(0, 0.15))
        now = clock.now()
        finishes = [Finish(d["_id"], d["token"], d["tries"], "holder", now, now, Completed("mine")) for d in part]
        done = await holder.finishing.finish(finishes)
        return [(d["_id"], ending) for d, ending in zip(part, done, strict=True)]

    sweeps = [asyncio.create_task(rescuer.rescues.rescue(JOBS)) for rescuer in rescuers]
    finished = await asyncio.gather(*[finish(part) for part in parts])
    await asyncio.gather(*sweeps)
    endings = dict(pair for part in finished for pair in part)
    await rescuers[0].rescues.rescue(JOBS)
    return endings
