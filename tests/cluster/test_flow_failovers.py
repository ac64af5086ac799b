"""Flows of every kind on three nodes whose primary steps down, with workers that are killed: see `test_flows.py`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator

import pytest

from cluster.asking import Asking
from harness.flows.running import SIZE, Rampage, seeds
from harness.processes import Fleet
from harness.servers import Servers
from mainspring import Scheduler

SEEDS = seeds(range(1000, 1001), full=range(1000, 1050))


@pytest.fixture
async def uri(three_nodes: Servers) -> AsyncIterator[str]:
    """A database of the test's own, on three nodes."""
    yield three_nodes.uri(f"t_{secrets.token_hex(4)}")


@pytest.mark.parametrize("seed", SEEDS)
async def test_flows_end_as_they_must_while_the_primary_steps_down(
    seed: int, three_nodes: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking, uri: str
) -> None:
    rampage = Rampage(seed, fleet, scheduler, uri, SIZE)

    async def harm() -> None:
        await asyncio.sleep(rampage.dice.uniform(0.2, 1.5))
        await asyncio.to_thread(three_nodes.step_down)
        await asyncio.to_thread(three_nodes.primary)
        await rampage.kill_some(1)

    try:
        await rampage.run(harm)
        assert rampage.broken(await ask.documents()) == []
    finally:
        rampage.close()
