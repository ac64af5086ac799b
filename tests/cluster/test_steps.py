"""Checkpoints while workers are killed: what was kept is not done again, and every job gets to its end."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from cluster.asking import Asking
from harness.processes import Fleet, WorkerProcess
from harness.waiting import eventually
from mainspring import Scheduler

# Without claiming ahead: each claim that is lost is an attempt then.
OPTIONS: dict[str, Any] = {"lease": 3.0, "concurrency": 4, "prefetch": 0}
JOBS, STEPS, KILLS = 40, 5, 8


async def _kill_one(fleet: Fleet, workers: list[WorkerProcess], dice: random.Random) -> None:
    """Kill a worker at some moment when it is busy, and let another take its place."""
    seen = len(fleet.history.events("effect"))

    def busy_or_done() -> bool:
        kept = {(event["job"], event["step"]) for event in fleet.history.events("kept")}
        return len(fleet.history.events("effect")) > seen + 3 or len(kept) == JOBS * STEPS

    await eventually(busy_or_done, timeout=60)
    await asyncio.sleep(dice.uniform(0, 0.1))
    workers.pop(dice.randrange(len(workers))).kill()
    workers += await fleet.start_many(1, **OPTIONS)


def _run_again(fleet: Fleet) -> list[dict[str, Any]]:
    """The effects that steps had after they had been kept."""
    kept: set[tuple[str, str]] = set()
    again = []
    for event in fleet.history.events():
        if event["kind"] == "kept":
            kept.add((event["job"], event["step"]))
        elif event["kind"] == "effect" and (event["job"], event["step"]) in kept:
            again.append(event)
    return again


async def test_no_step_that_was_kept_is_run_again_however_often_workers_are_killed(
    fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    dice = random.Random(5)
    items = [{"name": "stepped", "data": {"steps": STEPS, "seconds": 0.1}}] * JOBS
    jobs = await scheduler.schedule_bulk(items)
    workers = await fleet.start_many(3, **OPTIONS)
    for _ in range(KILLS):
        if not await ask.live():
            break
        await _kill_one(fleet, workers, dice)
    await ask.drained(90)

    documents = await ask.documents()
    assert {documents[job.id]["state"] for job in jobs} == {"completed"}
    assert _run_again(fleet) == []
    effects = fleet.history.events("effect")
    for job in jobs:
        kept = {step["name"]: step["result"] for step in documents[job.id]["steps"]}
        assert sorted(kept) == [f"step-{number}" for number in range(STEPS)]
        assert documents[job.id]["result"] == [kept[f"step-{number}"] for number in range(STEPS)]
        assert set(kept.values()) <= {event["mark"] for event in effects if event["job"] == job.id}
    lost = sum(len(documents[job.id]["attempts"]) - 1 for job in jobs)
    assert lost > 0, "no worker was killed in the middle of a job"
    # Each attempt that was lost has cost the step that it was in at most.
    assert len(effects) <= JOBS * STEPS + lost
