"""Schedules that fire every second, while their processes are killed and the primary steps down.

`MAINSPRING_FIRINGS=full` runs it at its full size: two hundred schedules for a minute, and eight processes.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cluster.asking import Asking
from cluster.firings import Firings
from harness.changes import Changes
from harness.checker import Reasons, check
from harness.processes import Fleet, WorkerProcess
from harness.servers import Servers
from mainspring import Scheduler

FULL = os.environ.get("MAINSPRING_FIRINGS") == "full"
SECONDS, SCHEDULES, PROCESSES = (60.0, 200, 8) if FULL else (8.0, 100, 4)
OPTIONS: dict[str, Any] = {"lease": 6.0, "concurrency": 8, "prefetch": 0}
KILL_EVERY = 3.0
STEP_DOWNS = 2


@pytest.fixture
async def uri(three_nodes: Servers) -> AsyncIterator[str]:
    """A database of the test's own, on three nodes."""
    yield three_nodes.uri(f"t_{secrets.token_hex(4)}")


@pytest.mark.timeout(420 if FULL else 300)
async def test_each_of_many_firings_makes_one_job_whatever_happens_to_processes_and_servers(
    three_nodes: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes
) -> None:
    workers = await fleet.start_many(PROCESSES, **OPTIONS)
    start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=10)
    firings = Firings(SCHEDULES, start, start + timedelta(seconds=SECONDS))
    await firings.store(scheduler)
    reasons = Reasons(outage=True)
    await asyncio.gather(
        _kill_and_replace(fleet, workers, firings.end, reasons), _step_down(three_nodes, firings.start, firings.end)
    )
    await ask.fired_out(60)
    await ask.drained(90)

    documents = await ask.documents()
    assert len(reasons.killed) >= SECONDS / KILL_EVERY / 2
    assert firings.check(documents, fleet.history) == []
    found, outcomes = await firings.check_ledgers(scheduler)
    assert found == []
    assert outcomes.total() == len(firings.jobs)
    assert {document["state"] for document in documents.values()} == {"completed"}
    assert check(fleet.history, documents, changes.read(), reasons=reasons) == []


async def _kill_and_replace(fleet: Fleet, workers: list[WorkerProcess], until: datetime, reasons: Reasons) -> None:
    """kill -9 a process every few seconds, and start another."""
    while datetime.now(UTC) < until:
        await asyncio.sleep(KILL_EVERY * random.uniform(0.8, 1.2))
        victim = workers.pop(random.randrange(len(workers)))
        victim.kill()
        reasons.killed[victim.id] = time.monotonic()
        workers.append(fleet.launch(**OPTIONS))


async def _step_down(servers: Servers, start: datetime, end: datetime) -> None:
    for turn in range(STEP_DOWNS):
        at = start + (end - start) * (turn + 1) / (STEP_DOWNS + 1)
        await asyncio.sleep(max(0.0, (at - datetime.now(UTC)).total_seconds()))
        await asyncio.to_thread(servers.step_down)
        await asyncio.to_thread(servers.primary)
