"""Workers that are told to stop under load, one after the other, as a deployment does it."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from cluster.asking import Asking
from cluster.load import Load
from harness.changes import Changes
from harness.checker import Reasons, check
from harness.processes import Fleet
from harness.waiting import eventually
from mainspring import Scheduler

WORKERS = 3
RESTARTS = 5
GRACE = 2.0
# So long that nothing in this test can be waiting for a lease to run out.
LEASE = 60.0
LONG = 4 * GRACE


async def test_rolling_restarts_repeat_no_short_job_and_hand_long_ones_over_at_once(
    fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes
) -> None:
    options: dict[str, Any] = {"lease": LEASE, "grace": GRACE, "concurrency": 5}
    workers = await fleet.start_many(WORKERS, **options)
    stopped = []
    async with Load(scheduler, longest=GRACE / 4) as load:
        long = [await scheduler.schedule("work", {"seconds": LONG}, priority=1) for _ in range(4)]
        await eventually(lambda: {job.id for job in long} <= {run.job for run in fleet.history.runs()})
        # First the one that has begun a long job last, which surely is not done with it in its grace time.
        busy = max((run for job in long for run in fleet.history.runs_by_job()[job.id]), key=lambda run: run.started)
        workers.sort(key=lambda worker: worker.id != busy.worker)
        for _ in range(RESTARTS):
            oldest = workers.pop(0)
            oldest.terminate()
            stopped.append(oldest)
            workers.append(await fleet.start(**options))
            await asyncio.sleep(0.3)
    await ask.drained(60)

    assert [await worker.gone() for worker in stopped] == [0] * RESTARTS
    documents = await ask.documents()
    assert {document["state"] for document in documents.values()} == {"completed"}
    reasons = Reasons(stopped={worker.id for worker in stopped})
    acknowledged = load.acknowledged | {job.id for job in long}
    assert check(fleet.history, documents, changes.read(), acknowledged=acknowledged, reasons=reasons) == []

    by_job = fleet.history.runs_by_job()
    assert [job for job in load.acknowledged if len(by_job[job]) != 1] == []
    handed_over = [by_job[job.id] for job in long if len(by_job[job.id]) > 1]
    assert handed_over, "no long job met a stopping worker"
    for runs in handed_over:
        for first, second in itertools.pairwise(runs):
            assert first.how == "cancelled" and first.worker in reasons.stopped
            assert first.ended is not None and second.started - first.ended < LEASE / 6
    # Giving a job back costs no attempt.
    assert {documents[job.id]["tries"] for job in long} == {1}
    assert {len(documents[job.id]["attempts"]) for job in long} == {1}
