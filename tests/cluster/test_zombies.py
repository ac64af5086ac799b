"""Workers that are stopped past their leases and come back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cluster.asking import Asking
from harness.changes import Changes
from harness.checker import Reasons, check
from harness.processes import Fleet, WorkerProcess
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.model.jobs.job import Job

LEASE = 5.0
ROUNDS = 2
ZOMBIES = 2
JOBS_EACH = 3


def end_those_with_token(folder: Path, token: int) -> None:
    """Let jobs of `talk_on` come to their end under this token."""
    folder.mkdir(exist_ok=True)
    (folder / str(token)).touch()


async def test_what_a_zombie_still_says_is_refused_and_the_second_holder_ends_the_job(
    fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes, tmp_path: Path
) -> None:
    zombies = await fleet.start_many(ZOMBIES, lease=LEASE, concurrency=JOBS_EACH)
    rescuer = await fleet.start(lease=LEASE, concurrency=20)
    acknowledged: set[str] = set()
    for number in range(ROUNDS):
        jobs = await _rise_from_the_dead(fleet, scheduler, ask, zombies, rescuer, tmp_path / f"round-{number}")
        acknowledged |= {job.id for job in jobs}

    reasons = Reasons(paused={zombie.id for zombie in zombies})
    documents = await ask.documents()
    assert check(fleet.history, documents, changes.read(), acknowledged=acknowledged, reasons=reasons) == []


async def _rise_from_the_dead(
    fleet: Fleet,
    scheduler: Scheduler,
    ask: Asking,
    zombies: list[WorkerProcess],
    rescuer: WorkerProcess,
    folder: Path,
) -> list[Job]:
    """One round: the zombies take jobs, are stopped past their leases, and come back while the rescuer runs them."""
    rescuer.pause()  # so that the zombies are the first holders
    jobs = await scheduler.schedule_bulk([{"name": "talk_on", "data": {"folder": str(folder)}}] * (ZOMBIES * JOBS_EACH))
    ids = {job.id for job in jobs}
    await eventually(lambda: len([run for run in fleet.history.runs() if run.job in ids]) == len(jobs))
    await asyncio.sleep(0.3)  # so that they have something to say that is not said yet
    for zombie in zombies:
        zombie.pause()
    rescuer.resume()

    def rescuer_runs_all() -> bool:
        runs = [run for run in fleet.history.runs() if run.job in ids]
        return {run.job for run in runs if run.worker == rescuer.id} == ids

    await eventually(rescuer_runs_all, timeout=60)
    before = {job.id: await ask.job(job.id) for job in jobs}
    end_those_with_token(folder, 1)
    for zombie in zombies:
        zombie.resume()
    await eventually(lambda: ids <= {event["job"] for event in fleet.history.events("lost")}, timeout=60)
    end_those_with_token(folder, 2)
    await ask.drained(60)
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


@pytest.mark.core
async def test_a_zombie_that_comes_back_after_the_job_has_ended_changes_nothing(
    fleet: Fleet, scheduler: Scheduler, ask: Asking, tmp_path: Path
) -> None:
    zombie = await fleet.start(lease=LEASE)
    job = await scheduler.schedule("talk_on", {"folder": str(tmp_path)})
    await eventually(fleet.history.runs)
    zombie.pause()
    end_those_with_token(tmp_path, 2)
    await fleet.start(lease=LEASE)
    await ask.drained(60)
    ended = await ask.job(job.id)
    end_those_with_token(tmp_path, 1)
    zombie.resume()
    await eventually(lambda: fleet.history.events("lost", worker=zombie.id, job=job.id), timeout=60)
    await asyncio.sleep(LEASE / 2)  # time for a heartbeat and for notes, were they wrongly accepted
    assert await ask.job(job.id) == ended
