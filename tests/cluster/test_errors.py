"""Errors of all kinds from the database: none of them ends a worker's loop."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from cluster.asking import Asking
from cluster.load import Load
from harness.changes import Changes
from harness.checker import Reasons, check
from harness.processes import Fleet
from harness.servers import Servers
from mainspring import Scheduler

WORKERS = 2
LEASE = 4.0
SOMETIMES = {"activationProbability": 0.3}
COMMANDS = ["find", "update", "insert", "delete", "aggregate", "getMore", "distinct", "count", "findAndModify", "hello"]
# From internal errors over refused rights, lost cursors and full disks to primaries that are none.
CODES = (1, 2, 8, 13, 18, 20, 43, 50, 59, 64, 72, 89, 91, 96, 112, 133, 136, 175, 189, 202, 211, 237, 246, 251, 262)
MORE_CODES = (280, 286, 290, 291, 292, 317, 356, 9001, 10107, 11600, 11601, 11602, 13388, 13435, 14031, 17280, 51003)
FOR_EACH = 0.2


async def test_no_error_of_the_database_ends_a_worker(
    servers: Servers, fleet: Fleet, scheduler: Scheduler, uri: str, ask: Asking, changes: Changes
) -> None:
    quick = uri + "&heartbeatFrequencyMS=500"  # so that a primary that says it is none is soon asked again
    workers = await fleet.start_many(WORKERS, uri=quick, lease=LEASE)
    jobs = await scheduler.schedule_bulk([{"name": "work"}] * 1000 + [{"name": "work", "data": {"seconds": 1}}] * 20)
    names = itertools.cycle(["mainspring", "mainspring", "mainspring-heartbeat"])
    async with Load(scheduler, every=0.05) as load:
        for code, name in zip((*CODES, *MORE_CODES), names, strict=False):
            await _fail_for_a_while(servers, name, errorCode=code)
        await _fail_for_a_while(servers, "mainspring", closeConnection=True)
    errors = {event["worker"] for event in fleet.history.events("error")}
    assert errors == {worker.id for worker in workers}, "no worker has met an error"
    await ask.drained(60)

    assert all(worker.alive for worker in workers)
    documents = await ask.documents()
    assert {document["state"] for document in documents.values()} == {"completed"}
    acknowledged = load.acknowledged | {job.id for job in jobs}
    reasons = Reasons(outage=True)
    assert check(fleet.history, documents, changes.read(), acknowledged=acknowledged, reasons=reasons) == []
    later = await scheduler.schedule_bulk([{"name": "work"}] * 100)
    await ask.drained(60)
    assert await ask.states([job.id for job in later]) == {"completed": 100}


async def _fail_for_a_while(servers: Servers, name: str, **error: Any) -> None:
    with servers.fail_point("failCommand", SOMETIMES, appName=name, failCommands=COMMANDS, **error):
        await asyncio.sleep(FOR_EACH)
