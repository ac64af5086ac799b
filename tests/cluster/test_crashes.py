"""Workers that die in the middle of their jobs."""

from __future__ import annotations

import time

import pytest

from cluster.asking import Asking
from harness.changes import Changes
from harness.checker import Reasons, check
from harness.processes import Fleet
from harness.waiting import eventually
from mainspring import Retry, Scheduler

LEASE = 5.0


@pytest.mark.core
async def test_jobs_of_a_killed_worker_are_rescued_counted_and_run_again(
    fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes
) -> None:
    victim = await fleet.start(lease=LEASE)
    jobs = [await scheduler.schedule("talk", {"first": 60, "later": 0.2}) for _ in range(3)]
    last = await scheduler.schedule("talk", {"first": 60, "later": 0.2}, retry=1)
    await eventually(lambda: len(fleet.history.runs()) == 4)
    victim.kill()
    reasons = Reasons(killed={victim.id: time.monotonic()})
    heir = await fleet.start(lease=LEASE)
    await ask.drained(60)

    documents = await ask.documents()
    for job in jobs:
        document = documents[job.id]
        assert document["state"] == "completed"
        assert [(a["n"], a["outcome"], a["worker"]) for a in document["attempts"]] == [
            (1, "lost", victim.id),
            (2, "completed", heir.id),
        ]
        assert document["attempts"][0]["error"]["type"] == "WorkerLost"
    dead = documents[last.id]
    assert (dead["state"], dead["error"]["type"], len(dead["attempts"])) == ("failed", "WorkerLost", 1)
    assert len(fleet.history.runs_by_job()[last.id]) == 1
    assert {event["job"] for event in fleet.history.events("rescue")} == set(documents)
    assert check(fleet.history, documents, changes.read(), acknowledged=[j.id for j in jobs], reasons=reasons) == []


async def test_a_job_that_kills_its_worker_ends_as_a_dead_letter_and_harms_no_neighbour(
    fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    first = await fleet.start(lease=LEASE)
    neighbours = [await scheduler.schedule("talk", {"first": 60, "later": 0}) for _ in range(3)]
    await eventually(lambda: len(fleet.history.runs()) == 3)
    poison = await scheduler.schedule("die", retry=Retry(attempts=3, delay=0.1))
    assert await first.gone() == -9
    second = await fleet.start(lease=LEASE)
    await ask.drained(60)

    # The suspect dies in a process of its own from here on, and the second worker lives.
    assert second.alive
    document = await ask.job(poison.id)
    assert (document["state"], len(document["attempts"])) == ("failed", 3)
    assert [attempt["outcome"] for attempt in document["attempts"]] == ["lost", "retried", "failed"]
    assert [(await ask.job(job.id))["state"] for job in neighbours] == ["completed"] * 3
    assert [(await ask.job(job.id))["tries"] for job in neighbours] == [2] * 3
