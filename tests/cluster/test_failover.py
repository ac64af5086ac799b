"""A replica set of three nodes that loses its primary again and again while jobs are scheduled and run."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from pymongo.errors import PyMongoError
from pymongo.write_concern import WriteConcern

from cluster.asking import Asking
from cluster.load import Load
from harness.changes import Changes
from harness.checker import Reasons, check
from harness.inside import inside
from harness.processes import Fleet
from harness.servers import Node, Servers
from harness.waiting import eventually
from mainspring import Job, Scheduler, Unavailable
from mainspring.clock import ServerClock
from mainspring.store.codec import document_id
from mainspring.store.connection import Connection

WORKERS = 3
LEASE = 8.0


@pytest.fixture
async def uri(three_nodes: Servers) -> AsyncIterator[str]:
    """A database of the test's own, on three nodes."""
    yield three_nodes.uri(f"t_{secrets.token_hex(4)}")


async def test_nothing_is_lost_when_the_primary_is_killed_steps_down_or_hangs_under_load(
    three_nodes: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes
) -> None:
    workers = await fleet.start_many(WORKERS, lease=LEASE)
    async with Load(scheduler) as load:
        await load.goes_on()
        killed = three_nodes.primary()
        await asyncio.to_thread(killed.kill)
        await asyncio.to_thread(three_nodes.primary)
        await load.goes_on()
        killed.start()
        await asyncio.to_thread(three_nodes.step_down)
        await asyncio.to_thread(three_nodes.primary)
        await load.goes_on()
        hung = three_nodes.primary()
        hung.pause()
        await asyncio.sleep(6)
        hung.resume()
        await load.goes_on()
    await ask.drained(60)

    assert all(worker.alive for worker in workers)
    documents = await ask.documents()
    assert {document["state"] for document in documents.values()} == {"completed"}
    found = check(
        fleet.history, documents, changes.read(), acknowledged=load.acknowledged, reasons=Reasons(outage=True)
    )
    assert found == []


async def test_a_claim_that_no_majority_has_is_not_run(
    three_nodes: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes
) -> None:
    """Such a claim may be rolled back, and its token given to another worker, which would make the fence worthless."""
    await eventually(lambda: _is_connected(scheduler))  # the worker with little time finds the indexes built
    hasty = await fleet.start(lease=30, operation_timeout=1.5)
    job = await scheduler.schedule("work", {"seconds": 4}, delay=3600)
    primary = three_nodes.primary()
    others = [node for node in three_nodes.nodes if node is not primary]
    with _replication_stopped(others):
        await _make_due(ask, job)
        # It claims the job on the primary, which cannot tell anybody, and gives up waiting for the majority.
        await eventually(lambda: _has_token(ask, job, 1), timeout=60)
        before = len(fleet.history.events("error", worker=hasty.id))
        await eventually(lambda: len(fleet.history.events("error", worker=hasty.id)) >= before + 3, timeout=60)
        assert await _has_token(ask, job, 1)
        await asyncio.to_thread(primary.kill)
    await asyncio.to_thread(three_nodes.primary)
    await _make_due(ask, job)  # that was lost, too
    await fleet.start(lease=30)
    await ask.drained(60)
    primary.start()

    documents = await ask.documents()
    assert [run.token for run in fleet.history.runs()] == [1]
    assert check(fleet.history, documents, changes.read(), acknowledged=[job.id]) == []


async def _is_connected(scheduler: Scheduler) -> bool:
    """Connect; the election of a busy machine's new replica set may come in between."""
    try:
        await scheduler.connect()
    except Unavailable:
        return False
    return True


async def _make_due(ask: Asking, job: Job) -> None:
    """Let a job that was to run later run now; no majority is waited for."""
    jobs = ask.jobs.with_options(write_concern=WriteConcern(1))
    await jobs.update_one({"_id": document_id(job.id)}, [{"$set": {"run_at": "$created_at"}}])


async def _has_token(ask: Asking, job: Job, token: int) -> bool:
    return bool((await ask.job(job.id))["token"] == token)


async def test_the_servers_clock_is_read_right_also_while_there_is_no_primary(
    three_nodes: Servers, scheduler: Scheduler
) -> None:
    """The answer comes after the election: half of the way there and back is not when the server said it."""
    store = await inside(scheduler).store()
    killed = three_nodes.primary()
    await asyncio.to_thread(killed.kill)
    assert isinstance(store.clock, ServerClock)
    store.clock.forget()
    try:
        await eventually(lambda: _read_clock(store.connection))
        off = store.clock.now() - datetime.now(UTC)
    finally:
        killed.start()
    assert abs(off) < timedelta(seconds=0.5)


async def _read_clock(connection: Connection) -> bool:
    try:
        await connection.read_clock()
    except PyMongoError:  # the connection to the old primary has to be given up first
        return False
    return True


@contextmanager
def _replication_stopped(nodes: list[Node]) -> Iterator[None]:
    """Nodes that answer, and vote, and copy nothing."""

    def switch(mode: str) -> None:
        for node in nodes:
            with node.client() as client:
                client.admin.command({"configureFailPoint": "stopReplProducer", "mode": mode})

    switch("alwaysOn")
    try:
        yield
    finally:
        switch("off")
