"""A replica set of three nodes that loses its primary again and again while jobs are scheduled and run."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
from cluster.asking import Asking
from cluster.load import Load
from harness.changes import Changes
from harness.checker import Reasons, check
from harness.processes import Fleet
from harness.servers import Servers

from mainspring import Scheduler

WORKERS = 3
LEASE = 8.0


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Servers]:
    servers = Servers(3, name="three")
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@pytest.fixture
async def uri(three_nodes: Servers) -> AsyncIterator[str]:
    """A database of the test's own, on three nodes."""
    yield three_nodes.uri(f"t_{secrets.token_hex(4)}")


async def test_nothing_is_lost_when_the_primary_is_killed_steps_down_or_hangs_under_load(
    three_nodes: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes
) -> None:
    workers = await fleet.start_many(WORKERS, lease=LEASE)
    async with Load(scheduler) as load:
        await asyncio.sleep(1)
        killed = three_nodes.primary()
        await asyncio.to_thread(killed.kill)
        await asyncio.to_thread(three_nodes.primary)
        await asyncio.sleep(2)
        killed.start()
        await asyncio.to_thread(three_nodes.step_down)
        await asyncio.to_thread(three_nodes.primary)
        await asyncio.sleep(2)
        hung = three_nodes.primary()
        hung.pause()
        await asyncio.sleep(6)
        hung.resume()
        await asyncio.sleep(2)
    await ask.drained(60)

    assert len(load.acknowledged) > 100
    assert all(worker.alive for worker in workers)
    documents = await ask.documents()
    assert {document["state"] for document in documents.values()} == {"completed"}
    found = check(
        fleet.history, documents, changes.read(), acknowledged=load.acknowledged, reasons=Reasons(outage=True)
    )
    assert found == []
