"""Many processes at one queue.

`MAINSPRING_CLAIMS=full` runs it at its full size: sixteen processes and ten thousand jobs.
"""

from __future__ import annotations

import os
from collections import Counter

from cluster.asking import Asking
from harness.changes import Changes
from harness.checker import check
from harness.processes import Fleet
from mainspring import Scheduler

PROCESSES, JOBS = (16, 10_000) if os.environ.get("MAINSPRING_CLAIMS") == "full" else (8, 3_000)


async def test_many_processes_run_each_of_thousands_of_jobs_exactly_once(
    fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes
) -> None:
    await fleet.start_many(PROCESSES, lease=30)
    jobs = await scheduler.schedule_bulk([{"name": "work"}] * JOBS)
    await ask.drained(90)

    documents = await ask.documents()
    assert Counter(document["state"] for document in documents.values()) == {"completed": JOBS}
    claimed_again = {id: document["token"] - 1 for id, document in documents.items() if document["token"] != 1}
    assert claimed_again == (_given_back(changes) if claimed_again else {})
    assert {len(document["attempts"]) for document in documents.values()} == {1}
    runs = fleet.history.runs()
    assert Counter(run.job for run in runs) == dict.fromkeys((job.id for job in jobs), 1)
    assert len({run.worker for run in runs}) > 1
    assert check(fleet.history, documents, acknowledged=[job.id for job in jobs]) == []


def _given_back(changes: Changes) -> Counter[str]:
    """How often each job was given back: a worker that is slow to start a claimed job leaves it to the others."""
    return Counter(
        job for job, seen in changes.read().items() for change in seen[1:] if change.fields.get("state") == "pending"
    )
