"""Workers whose clocks are an hour off, beside one whose clock is right."""

from __future__ import annotations

import time

import pytest

from cluster.asking import Asking
from cluster.skew import HOUR, HOW, moved
from harness.changes import Changes
from harness.checker import check
from harness.processes import Fleet
from mainspring import Scheduler

LEASE = 5.0
DELAYS = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("how", HOW)
async def test_a_worker_whose_clock_is_an_hour_off_starts_nothing_early_and_takes_nothing_from_others(
    fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes, how: str
) -> None:
    workers = [fleet.launch(lease=LEASE, concurrency=4, environment=moved(how, seconds)) for seconds in (-HOUR, HOUR)]
    workers.append(fleet.launch(lease=LEASE, concurrency=4))
    await fleet.up(workers)
    wall = time.time() - time.monotonic()
    # Longer than a lease, so that one who judged leases by its own clock would take them.
    held = [await scheduler.schedule("work", {"seconds": 1.5 * LEASE}) for _ in range(6)]
    jobs = [await scheduler.schedule("work", delay=delay) for delay in DELAYS for _ in range(5)]
    await ask.drained(60)

    documents = await ask.documents()
    assert check(fleet.history, documents, changes.read(), acknowledged=[job.id for job in [*held, *jobs]]) == []
    runs = fleet.history.runs()
    assert len(runs) == len(held) + len(jobs)
    assert {run.worker for run in runs} == {worker.id for worker in workers}
    for run in runs:
        due = documents[run.job]["run_at"].timestamp()
        assert run.started + wall > due - 0.01, "started early"
        assert run.started + wall < due + LEASE, "started late"
    assert fleet.history.events("rescue") == []
