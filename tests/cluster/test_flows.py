"""Flows of every kind while workers are killed, also in the middle of spawning and suspending, and replies are lost.

Each seed starts flows made by chance: handlers that wait for calls, maps with keys and without, gathers, signals that
come early or late, and times, several levels deep, with growth, tolerated failures, `fail_fast` and further rounds
(`Continue`); declared graphs, chains and batches; some are cancelled and some are retried. At the end every write of
the database is replayed and held against the promises: no waiting job is released before its predecessors have ended,
or twice from one wait, or never; each child exists once; no signal is lost or taken twice; each flow has the outcome
that its plan has by rules of the test's own. `test_flow_failovers.py` does the same on three nodes.

`MAINSPRING_FLOWS=full` runs two hundred seeds, larger ones, in both files together; `MAINSPRING_FLOWS=40-59` runs these
seeds at the usual size.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from cluster.asking import Asking
from harness.flows.running import SIZE, Rampage, seeds
from harness.processes import Fleet
from harness.proxy import Proxy
from harness.servers import Servers
from mainspring import Scheduler

SEEDS = seeds(range(2), full=range(150))
CALLS = ["update", "insert", "find", "findAndModify", "aggregate"]
WRITES = ["update", "insert", "findAndModify"]


@contextmanager
def _lost_replies(proxy: Proxy) -> Iterator[None]:
    proxy.lose_replies(CALLS, 0.1)
    yield
    proxy.lose_replies((), 0)


def _faults(servers: Servers, proxy: Proxy) -> list[AbstractContextManager[None]]:
    often = {"activationProbability": 0.1}
    ours: dict[str, Any] = {"appName": "mainspring", "failCommands": WRITES}
    late = {"code": 64, "errmsg": "waiting for replication timed out"}
    return [
        _lost_replies(proxy),
        servers.fail_point("failCommand", often, **ours, writeConcernError=late),
        servers.fail_point("failCommand", often, **ours, closeConnection=True),
    ]


@pytest.mark.parametrize("seed", SEEDS)
async def test_flows_end_as_they_must_while_workers_are_killed_and_replies_are_lost(
    seed: int,
    servers: Servers,
    proxy: Proxy,
    fleet: Fleet,
    make_scheduler: Callable[..., Scheduler],
    ask: Asking,
    uri: str,
) -> None:
    lossy = seed % 2 == 1
    through = f"mongodb://127.0.0.1:{proxy.port}/{ask.db.name}?directConnection=true&heartbeatFrequencyMS=500"
    rampage = Rampage(seed, fleet, make_scheduler(), uri, SIZE, through=through if lossy else None)

    async def harm() -> None:
        if lossy:
            for fault in _faults(servers, proxy):
                with fault:
                    await asyncio.sleep(1.0)
        await rampage.kill_some(1 if lossy else 3)

    try:
        await rampage.run(harm)
        assert rampage.broken(await ask.documents()) == []
    finally:
        rampage.close()
