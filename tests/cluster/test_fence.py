"""Every verb of a holder, spoken by one whose claim has gone to another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from cluster.asking import Asking
from harness.inside import documents_of
from mainspring import Scheduler
from mainspring.clock import ManualClock
from mainspring.config.settings import make_settings
from mainspring.errors import ClaimLost
from mainspring.model.jobs.job import JobError
from mainspring.model.jobs.outcome import Cancelled, Completed, Failed, Lost, Outcome, Released, Retried, Snoozed
from mainspring.store import Store
from mainspring.store.connection import Connection
from mainspring.store.jobs.claim import Batch
from mainspring.store.jobs.end_fields import Finish
from mainspring.store.jobs.leases import ProgressUpdate

pytestmark = pytest.mark.core

LEASE = 10.0
ENDINGS: list[Outcome] = [
    Completed("stale"),
    Failed(JobError("Stale", "stale")),
    Retried(0.0, JobError("Stale", "stale")),
    Snoozed(0.0),
    Cancelled("stale"),
    Released(),
]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(uri: str, clock: ManualClock) -> AsyncIterator[Store]:
    connection = await Connection.open(make_settings({"lease": LEASE}), clock, uri=uri)
    yield Store(connection)
    await connection.close()


async def _claim(store: Store, worker: str) -> Batch:
    candidates = await store.claims.candidates("default", 10)
    return await store.claims.claim(candidates, worker, LEASE, lambda document: 9)


async def test_no_verb_of_a_stale_holder_changes_a_job_that_another_one_holds(
    store: Store, clock: ManualClock, scheduler: Scheduler, ask: Asking
) -> None:
    job = await scheduler.schedule("work", run_at=clock.now())
    stale = await _claim(store, "stale")
    clock.advance(2 * LEASE)
    assert len(await store.rescues.rescue()) == 1
    (held,) = documents_of(await _claim(store, "rightful"))
    id, now = held["_id"], clock.now()
    before = await ask.job(job.id)
    assert (before["worker"], before["token"]) == ("rightful", 2)
    clock.advance(1)

    renewals = await asyncio.to_thread(store.renewals)
    assert await asyncio.to_thread(renewals.renew, [stale.claim], [id]) == {id}
    assert await store.claims.renew_one(id, 1, LEASE) is False
    assert (await store.claims.resolve(stale)).jobs == []
    await store.progress_updates.write([ProgressUpdate(id, 1, {"percent": 99.0, "note": "stale"}, ["stale"])], 100)
    await asyncio.to_thread(renewals.started, [id], [stale.claim])
    finishes = [Finish(id, 1, 1, "stale", now, now, ending) for ending in ENDINGS]
    for finish in finishes:
        assert await store.finishing.finish([finish]) == [Lost()]
    with pytest.raises(ClaimLost):
        async with store.transactions.open() as transaction:
            await store.transactions.complete_in(transaction, finishes[0])
    assert await store.rescues.rescue() == []
    assert await ask.job(job.id) == before

    (ending,) = await store.finishing.finish([Finish(id, 2, 2, "rightful", now, now, Completed("mine"))])
    assert ending == Completed("mine")
    assert (await ask.job(job.id))["result"] == "mine"
