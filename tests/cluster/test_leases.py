"""Keeping a lease while the handler blocks everything, and giving it up when the database cannot be reached."""

from __future__ import annotations

import time

import pytest

from cluster.asking import Asking
from harness.changes import Changes
from harness.checker import Reasons, check
from harness.processes import Fleet
from harness.proxy import Proxy
from harness.waiting import eventually
from mainspring import Scheduler


@pytest.mark.core
async def test_a_handler_that_blocks_the_event_loop_for_three_leases_keeps_its_claim(
    fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    lease = 2.0
    await fleet.start_many(2, lease=lease)
    job = await scheduler.schedule("block", {"seconds": 3 * lease})
    await ask.drained(60)

    document = await ask.job(job.id)
    (run,) = fleet.history.runs()
    assert run.ended is not None and run.ended - run.started >= 3 * lease
    assert (document["state"], document["token"], len(document["attempts"])) == ("completed", 1, 1)
    assert check(fleet.history, await ask.documents()) == []


async def test_a_worker_cut_off_from_the_database_stops_its_handlers_before_their_leases_end(
    proxy: Proxy, fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes
) -> None:
    lease = 4.0
    through_proxy = f"mongodb://127.0.0.1:{proxy.port}/{ask.db.name}?directConnection=true"
    cut_off = await fleet.start(uri=through_proxy, lease=lease)
    jobs = [await scheduler.schedule("talk", {"first": 60, "later": 0.2}) for _ in range(3)]
    await eventually(lambda: len(fleet.history.runs()) == 3)
    heir = await fleet.start(lease=lease)
    proxy.cut()
    leases = [(await ask.job(job.id))["lease_until"].timestamp() for job in jobs]
    wall = time.time() - time.monotonic()
    await ask.drained(40)

    by_job = fleet.history.runs_by_job()
    for job, lease_until in zip(jobs, leases, strict=True):
        first, second = by_job[job.id]
        assert (first.worker, first.how, second.worker) == (cut_off.id, "cancelled", heir.id)
        assert first.ended is not None and first.ended + wall < lease_until
        assert first.ended < second.started
    reasons = Reasons(outage=True)
    assert check(fleet.history, await ask.documents(), changes.read(), reasons=reasons) == []

    # Once it can reach the database again, it goes on as if nothing had been.
    heir.kill()
    proxy.mend()
    later = await scheduler.schedule("work")
    await ask.drained(40)
    assert [run.worker for run in fleet.history.runs_by_job()[later.id]] == [cut_off.id]
