"""Draining one worker: it claims no more, finishes its jobs and ends. A cancelled drain ends nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from harness.inside import inside
from harness.waiting import eventually
from mainspring import Scheduler, WorkerNotFound, WorkerStateError

Make = Callable[..., Scheduler]


async def gone(client: Scheduler, worker: str) -> bool:
    return worker not in {one.id for one in await client.workers.all()}


@pytest.mark.slow
async def test_a_drained_worker_finishes_its_job_claims_no_other_and_ends(
    scheduler: Scheduler, make_scheduler: Make
) -> None:
    going, started = asyncio.Event(), asyncio.Event()

    @scheduler.job("slow")
    async def slow() -> str:
        started.set()
        await going.wait()
        return "finished"

    await scheduler.start()
    worker = scheduler.workers.own_id
    assert worker is not None
    client = make_scheduler()
    job = await client.schedule("slow")
    await started.wait()
    drained = await client.workers.drain(worker, reason="the machine is replaced", actor="ada")
    assert drained.drain is not None
    assert (drained.drain.reason, drained.drain.actor, drained.drain.ended) == (
        "the machine is replaced",
        "ada",
        False,
    )
    producer = inside(scheduler).worker.producer
    await eventually(lambda: producer.held)
    second = await client.schedule("slow")
    assert not await gone(client, worker)
    going.set()
    assert (await client.wait(job.id)).result == "finished"
    await eventually(lambda: gone(client, worker))
    await eventually(lambda: scheduler.workers.own_id is None)
    assert (await client.get_job(second.id)).state == "pending"
    # The Scheduler itself goes on, and can be started again.
    await scheduler.start()
    assert (await scheduler.wait(second.id)).state == "completed"


@pytest.mark.slow
async def test_a_cancelled_drain_lets_the_worker_claim_again(scheduler: Scheduler, make_scheduler: Make) -> None:
    going, started = asyncio.Event(), asyncio.Event()

    @scheduler.job("slow")
    async def slow() -> None:
        started.set()
        await going.wait()

    await scheduler.start()
    worker = scheduler.workers.own_id
    assert worker is not None
    client = make_scheduler()
    await client.schedule("slow")
    await started.wait()
    await client.workers.drain(worker)
    producer = inside(scheduler).worker.producer
    await eventually(lambda: producer.held)
    second = await client.schedule("slow")
    assert (await client.workers.cancel_drain(worker)).drain is None
    await eventually(lambda: not producer.held)
    going.set()
    assert (await client.wait(second.id)).state == "completed"
    assert scheduler.workers.own_id == worker
    with pytest.raises(WorkerStateError, match="does not drain"):
        await client.workers.cancel_drain(worker)


async def test_a_drain_that_has_ended_cannot_be_cancelled(scheduler: Scheduler, make_scheduler: Make) -> None:
    store = await inside(scheduler).store()
    now = store.clock.now()
    await store.connection.workers.insert_one({"_id": "w", "beat_at": now, "drain": {"at": now}})
    assert await store.workers.end_drain("w")
    with pytest.raises(WorkerStateError, match="has finished its jobs"):
        await make_scheduler().workers.cancel_drain("w")


async def test_a_cancelled_drain_is_not_ended_by_a_worker_that_was_about_to(scheduler: Scheduler) -> None:
    store = await inside(scheduler).store()
    now = store.clock.now()
    await store.connection.workers.insert_one({"_id": "w", "beat_at": now, "drain": {"at": now}})
    await scheduler.workers.cancel_drain("w")
    assert not await store.workers.end_drain("w")


async def test_only_a_live_worker_can_be_drained(scheduler: Scheduler) -> None:
    store = await inside(scheduler).store()
    await store.connection.workers.insert_one({"_id": "dead", "beat_at": store.clock.now().replace(year=2020)})
    for worker in ("dead", "never"):
        with pytest.raises(WorkerNotFound, match=worker):
            await scheduler.workers.drain(worker)
        with pytest.raises(WorkerNotFound, match=worker):
            await scheduler.workers.cancel_drain(worker)


async def test_a_worker_reports_what_its_slots_run_its_memory_and_the_delay_of_its_loop(
    scheduler: Scheduler, make_scheduler: Make
) -> None:
    going = asyncio.Event()

    @scheduler.job("held", concurrency=2)
    async def held() -> None:
        await going.wait()

    await scheduler.start()
    client = make_scheduler()
    job = await client.schedule("held", queue="reports")

    async def reported() -> bool:
        (worker,) = await client.workers.all()
        return bool(worker.slots)

    await eventually(reported)
    (worker,) = await client.workers.all()
    (slot,) = worker.slots
    assert (slot.job_id, slot.name, slot.queue, slot.gates) == (job.id, "held", "reports", ("c:name:held",))
    assert slot.since is not None and worker.busy == {"reports": 1}
    assert worker.memory is not None and worker.memory > 10_000_000
    assert worker.loop_lag is not None and worker.loop_lag >= 0
    going.set()


async def test_a_first_beat_ends_a_drain_of_an_earlier_worker_with_the_same_id(scheduler: Scheduler) -> None:
    store = await inside(scheduler).store()
    now = store.clock.now()
    await store.connection.workers.insert_one({"_id": "w", "beat_at": now, "drain": {"at": now}})
    renewals = await asyncio.to_thread(store.renewals)
    await asyncio.to_thread(renewals.beat, "w", {"host": "h"}, first=True)
    found = await store.workers.get("w")
    assert found is not None and found.drain is None
