"""Guarantees on three nodes whose primary steps down, with workers that are killed and transactions that fail.

`MAINSPRING_GUARANTEES=full` runs it at its full size: two thousand jobs of each kind.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from pymongo.errors import PyMongoError

from cluster.asking import Asking
from harness.processes import APP_VARIABLE, Fleet, WorkerProcess
from harness.servers import Servers
from mainspring import Scheduler

FULL = os.environ.get("MAINSPRING_GUARANTEES") == "full"
JOBS, ROUNDS, WORKERS = (2000, 6, 4) if FULL else (150, 1, 2)
PATIENCE = 400.0 if FULL else 90.0
OPTIONS: dict[str, Any] = {"lease": 3.0, "concurrency": 8, "operation_timeout": 5}
APP = {APP_VARIABLE: "harness.apps.guarantees"}


@pytest.fixture
async def uri(three_nodes: Servers) -> AsyncIterator[str]:
    """A database of the test's own, on three nodes that soon give up the transactions of a dead client."""
    for node in three_nodes.nodes:
        with node.client() as client:
            client.admin.command({"setParameter": 1, "transactionLifetimeLimitSeconds": 5})
    yield three_nodes.uri(f"t_{secrets.token_hex(4)}")


class Harm:
    """Kills workers, lets the primary step down, and lets transactions fail, one after the other."""

    def __init__(self, servers: Servers, fleet: Fleet, faults: list[dict[str, Any]]) -> None:
        self._servers = servers
        self._fleet = fleet
        self._faults = faults
        self._workers: list[WorkerProcess] = []
        self.killed = 0

    async def start(self) -> None:
        self._workers = [self._fleet.launch(environment=APP, **OPTIONS) for _ in range(WORKERS)]
        await self._fleet.up(self._workers)

    async def do(self, ask: Asking) -> None:
        """A few rounds of everything, each while there is something left to be done."""
        for number in range(ROUNDS):
            for place, how in enumerate(self._faults):
                with _fault(self._servers, how):
                    await self._progress(ask)
                if FULL or place % 2:
                    self._kill_one()
            await asyncio.to_thread(self._servers.step_down)
            await asyncio.to_thread(self._servers.primary)
            if number < ROUNDS - 1:
                await self._progress(ask)

    def _kill_one(self) -> None:
        victim = self._workers.pop(random.randrange(len(self._workers)))
        victim.kill()
        self.killed += 1
        self._workers.append(self._fleet.launch(environment=APP, **OPTIONS))

    async def _progress(self, ask: Asking) -> None:
        """Wait until some more jobs have ended, or for a moment."""
        for _ in range(40 if FULL else 10):
            await asyncio.sleep(0.05)
            if not await _live(ask):
                return


_TRANSIENT = ["TransientTransactionError"]
_UNKNOWN = ["UnknownTransactionCommitResult"]
_CONFLICTS: dict[str, Any] = {"failCommands": ["insert", "update"], "errorCode": 112, "errorLabels": _TRANSIENT}
_IN_TRANSACTIONS: list[dict[str, Any]] = [
    _CONFLICTS,
    {"failCommands": ["commitTransaction"], "errorCode": 251, "errorLabels": _TRANSIENT},
    {"failCommands": ["commitTransaction"], "closeConnection": True},
    {"failCommands": ["commitTransaction"], "writeConcernError": {"code": 64, "errmsg": "late"}},
    {"failCommands": ["commitTransaction"], "errorCode": 64, "errorLabels": _UNKNOWN},
]
_ON_THE_WAY: list[dict[str, Any]] = [
    _CONFLICTS,
    {"failCommands": ["update"], "closeConnection": True},
    {"failCommands": ["update", "find"], "writeConcernError": {"code": 64, "errmsg": "late"}},
    {"failCommands": ["update"], "errorCode": 11602},
]


@contextmanager
def _fault(servers: Servers, how: dict[str, Any]) -> Iterator[None]:
    """Let a third of these commands fail, as long as the primary is there to do so."""
    with ExitStack() as stack:
        try:
            mode = {"activationProbability": 0.3}
            stack.enter_context(servers.fail_point("failCommand", mode, appName="mainspring", **how))
        except (PyMongoError, AssertionError):
            pass
        yield


async def _live(ask: Asking) -> int:
    try:
        return await ask.live()
    except PyMongoError:
        return 1


async def _drained(servers: Servers, ask: Asking) -> None:
    """Everything is mended; wait for the rest."""
    await asyncio.to_thread(servers.primary)
    for _ in range(int(PATIENCE / 0.2)):
        if not await _live(ask):
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"after {PATIENCE} s there are {dict(await ask.states())}")


async def test_each_effect_of_an_exactly_once_job_takes_place_once_whatever_befalls_it(
    three_nodes: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    for name in ("paid", "sums"):
        await ask.db.create_collection(name)
    harm = Harm(three_nodes, fleet, _IN_TRANSACTIONS)
    await harm.start()
    jobs = await scheduler.schedule_bulk([{"name": "pay"}] * JOBS)
    await harm.do(ask)
    await _drained(three_nodes, ask)

    assert await ask.states() == {"completed": JOBS}
    paid = Counter([str(one["job"]) async for one in ask.db["paid"].find({}, hint="_id_")])
    sums = {str(one["_id"]): one["n"] async for one in ask.db["sums"].find({}, hint="_id_")}
    wanted = {job.id: 1 for job in jobs}
    assert (paid, sums) == (wanted, wanted)
    runs = Counter(event["job"] for event in fleet.history.events("run"))
    assert harm.killed >= 2
    assert max(runs.values()) > 1  # some handlers were run again, or this has shown nothing


async def test_a_job_that_executes_at_most_once_is_never_started_twice_whatever_befalls_it(
    three_nodes: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    harm = Harm(three_nodes, fleet, _ON_THE_WAY)
    await harm.start()
    await scheduler.schedule_bulk([{"name": "shout"}] * JOBS)
    await harm.do(ask)
    await _drained(three_nodes, ask)

    documents = await ask.documents()
    started = Counter(event["job"] for event in fleet.history.events("shouted"))
    assert [job for job, count in started.items() if count > 1] == []
    ends = Counter((one["state"], (one.get("error") or {}).get("type")) for one in documents.values())
    assert set(ends) <= {("completed", None), ("failed", "AtMostOnce")}
    assert sum(ends.values()) == JOBS and ends["completed", None] <= len(started)
    unstarted = [one for job, one in documents.items() if one["state"] == "completed" and job not in started]
    assert unstarted == []
