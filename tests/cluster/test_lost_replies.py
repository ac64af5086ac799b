"""Errors that do not mean "not done": replies lost after the write, write-concern errors, failovers in mid-command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from cluster.asking import Asking
from cluster.load import Load
from harness.changes import Changes
from harness.checker import check
from harness.processes import Fleet
from harness.proxy import Proxy
from harness.servers import Servers
from mainspring import Scheduler

WORKERS = 3
# Longer than the test: whatever leaked would still be running at its end, or would have been rescued and counted.
LEASE = 60.0
EACH = 1.5
OFTEN = {"activationProbability": 0.15}
CALLS = ["update", "insert", "find", "findAndModify", "delete"]
WRITES = ["update", "insert", "findAndModify", "delete"]


def _faults(servers: Servers, proxy: Proxy) -> list[Callable[[], AbstractContextManager[None]]]:
    """One after the other: what the client is told, and whether the server has done it."""

    def point(name: str, **data: Any) -> Callable[[], AbstractContextManager[None]]:
        return lambda: servers.fail_point(name, OFTEN, **data)

    @contextmanager
    def lost_replies() -> Iterator[None]:
        proxy.lose_replies(CALLS, 0.2)
        yield
        proxy.lose_replies((), 0)

    ours = {"appName": "mainspring"}
    unreplicated = {"code": 64, "errmsg": "waiting for replication timed out"}
    return [
        lost_replies,
        point("failCommand", **ours, failCommands=CALLS, closeConnection=True),
        point("failCommand", **ours, failCommands=WRITES, writeConcernError=unreplicated),
        point("failCommand", **ours, failCommands=CALLS, errorCode=11600),
        point("failCommand", **ours, failCommands=CALLS, errorCode=6),
        point("onPrimaryTransactionalWrite", closeConnection=True),
    ]


async def test_lost_replies_neither_leak_claims_nor_repeat_jobs(
    servers: Servers,
    proxy: Proxy,
    fleet: Fleet,
    make_scheduler: Callable[..., Scheduler],
    ask: Asking,
    changes: Changes,
) -> None:
    # A server that says it is no primary is not asked again before the next heartbeat, by default in ten seconds.
    through_proxy = f"mongodb://127.0.0.1:{proxy.port}/{ask.db.name}?directConnection=true&heartbeatFrequencyMS=500"
    workers = await fleet.start_many(WORKERS, uri=through_proxy, lease=LEASE)
    async with Load(make_scheduler(through_proxy)) as load:
        for fault in _faults(servers, proxy):
            with fault():
                await asyncio.sleep(EACH)
    await ask.drained(LEASE / 2)

    assert proxy.lost > 5
    assert load.acknowledged
    assert all(worker.alive for worker in workers)
    documents = await ask.documents()
    assert {document["state"] for document in documents.values()} == {"completed"}
    assert check(fleet.history, documents, changes.read(), acknowledged=load.acknowledged) == []
    repeated = {job: runs for job, runs in fleet.history.runs_by_job().items() if len(runs) != 1}
    assert repeated == {}
