"""Workers that are stopped past their leases and come back."""

from __future__ import annotations

import asyncio
from typing import Any

from cluster.asking import Asking
from harness.changes import Changes
from harness.checker import Reasons, check
from harness.processes import Fleet, WorkerProcess
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.model.job import Job

LEASE = 2.0
ROUNDS = 2
ZOMBIES = 2
JOBS_EACH = 3


async def test_what_a_zombie_still_says_is_refused_and_the_second_holder_ends_the_job(
    fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes
) -> None:
    zombies = await fleet.start_many(ZOMBIES, lease=LEASE, concurrency=JOBS_EACH)
    rescuer = await fleet.start(lease=LEASE, concurrency=20)
    acknowledged: set[str] = set()
    for _ in range(ROUNDS):
        jobs = await _rise_from_the_dead(fleet, scheduler, ask, zombies, rescuer)
        acknowledged |= {job.id for job in jobs}

    reasons = Reasons(paused={zombie.id for zombie in zombies})
    documents = await ask.documents()
    assert check(fleet.history, documents, changes.read(), acknowledged=acknowledged, reasons=reasons) == []


async def _rise_from_the_dead(
    fleet: Fleet, scheduler: Scheduler, ask: Asking, zombies: list[WorkerProcess], rescuer: WorkerProcess
) -> list[Job]:
    """One round: the zombies take jobs, are stopped past their leases, and come back while the rescuer runs them."""
    rescuer.pause()  # so that the zombies are the first holders
    drafts = [{"name": "talk", "data": {"first": LEASE * 0.7, "later": LEASE * 1.5}}] * (ZOMBIES * JOBS_EACH)
    jobs = await scheduler.schedule_bulk(drafts)
    ids = {job.id for job in jobs}
    await eventually(lambda: len([run for run in fleet.history.runs() if run.job in ids]) == len(jobs))
    await asyncio.sleep(0.3)  # so that they have something to say that is not said yet
    for zombie in zombies:
        zombie.pause()
    rescuer.resume()

    def rescuer_runs_all() -> bool:
        runs = [run for run in fleet.history.runs() if run.job in ids]
        return {run.job for run in runs if run.worker == rescuer.id} == ids

    await eventually(rescuer_runs_all, timeout=30)
    before = {job.id: await ask.job(job.id) for job in jobs}
    for zombie in zombies:
        zombie.resume()
    await eventually(lambda: ids <= {event["job"] for event in fleet.history.events("lost")}, timeout=20)
    await ask.drained(20)
    for job in jobs:
        _judge(before[job.id], await ask.job(job.id), rescuer)
    assert all(zombie.alive for zombie in zombies)
    return jobs


def _judge(running: dict[str, Any], ended: dict[str, Any], rescuer: WorkerProcess) -> None:
    assert (running["state"], running["token"], running["worker"]) == ("running", 2, rescuer.id)
    assert (ended["state"], ended["token"], ended["result"]) == ("completed", 2, 2)
    first, second = ended["attempts"]
    assert (first["outcome"], first["token"]) == ("lost", 1)
    assert (second["outcome"], second["token"], second["worker"]) == ("completed", 2, rescuer.id)
    assert set(second["log"]) == {"token 2"}
    assert ended["progress"] == {"percent": 2.0, "note": "token 2"}


async def test_a_zombie_that_comes_back_after_the_job_has_ended_changes_nothing(
    fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    zombie = await fleet.start(lease=LEASE)
    job = await scheduler.schedule("talk", {"first": 0.5, "later": 0.1})
    await eventually(fleet.history.runs)
    zombie.pause()
    await fleet.start(lease=LEASE)
    await ask.drained(30)
    ended = await ask.job(job.id)
    zombie.resume()
    await eventually(lambda: fleet.history.events("lost", worker=zombie.id, job=job.id), timeout=20)
    await asyncio.sleep(LEASE / 2)  # time for a heartbeat and for notes, were they wrongly accepted
    assert await ask.job(job.id) == ended
