"""What an explanation costs: a handful of reads along indexes, whatever else is stored; and it changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from harness.listening import Listener
from harness.looking import Database
from mainspring import JobContext, Limit, Rate, Scheduler

# Whether an index has ever held an array stays with it, and changes what it costs to read.
pytestmark = pytest.mark.fresh_database

Document = dict[str, Any]
NOW = datetime.now(UTC).replace(microsecond=0)
WORKER = "host:1:abc"
BEFORE, FUTURE, FINISHED, RUNNING, IN_LINE = 700, 4000, 4000, 50, 30
# What the driver adds, and what cannot be explained.
_ADDED = {"lsid", "$clusterTime", "$db", "txnNumber", "$readPreference", "writeConcern", "maxTimeMS", "readConcern"}


def job(number: int, state: str = "pending", **fields: Any) -> Document:
    return {
        "_id": ObjectId(),
        "v": 1,
        "name": "report",
        "data": {"tenant": f"t{number % 10}"},
        "queue": "mail",
        "priority": 5,
        "state": state,
        "run_at": NOW - timedelta(minutes=5),
        "created_at": NOW - timedelta(minutes=5),
        "rev": 0,
        "token": 0,
        "tries": 0,
        **fields,
    }


def jobs(line: str) -> Iterator[Document]:
    """A long queue, a line, what runs, and what must not matter: future jobs, and those that ended long ago."""
    for n in range(BEFORE):
        yield job(n, ready=True, priority=n % 5 + 1)
    for n in range(IN_LINE):
        yield job(n, line=line, waiting_for={"by": "limit", "note": "", "since": NOW})
    for n in range(FUTURE):
        yield job(n, ready=True, priority=n % 10 + 1, run_at=NOW + timedelta(hours=1, seconds=n))
    for n in range(FINISHED):
        state = ("completed", "failed")[n % 2]
        yield job(n, state, finished_at=NOW - timedelta(hours=1 + n % 60))
    for n in range(RUNNING):
        yield job(n, "running", worker=WORKER, claimed_at=NOW, lease_until=NOW + timedelta(hours=1))


def parts(explained: Any) -> Iterator[Mapping[str, Any]]:
    """Every document inside what the server explains."""
    if isinstance(explained, Mapping):
        yield explained
        for value in explained.values():
            yield from parts(value)
    elif isinstance(explained, list):
        for value in explained:
            yield from parts(value)


async def cost(db: Database, command: Document) -> tuple[set[str], int, int]:
    """The stages of a read, and how many keys and documents it looks at."""
    asked = {key: value for key, value in command.items() if key not in _ADDED}
    explained = await db.command("explain", asked, verbosity="executionStats")
    found = list(parts(explained))
    stages = {str(part["stage"]) for part in found if "stage" in part}
    keys = max(int(part.get("totalKeysExamined", 0)) for part in found)
    return stages, keys, max(int(part.get("totalDocsExamined", 0)) for part in found)


@pytest.mark.slow
async def test_an_explanation_is_a_handful_of_reads_along_indexes(uri: str, db: Database) -> None:
    listener = Listener()
    async with AsyncMongoClient[Document](uri, event_listeners=[listener]) as client:
        scheduler = Scheduler(client=client)

        @scheduler.job(
            "report", queue="mail", concurrency=Limit(2, key="tenant"), rate=Rate("100/s"), sequence="tenant"
        )
        async def report(ctx: JobContext, tenant: str) -> None: ...

        await scheduler.connect()
        line = "c:name:report:tenant=t1"
        await db.jobs.insert_many(list(jobs(line)))
        await db["jobs.gates"].insert_one({"_id": line, "line": True, "rev": 1, "grants": [{"w": WORKER, "n": 2}]})
        await db["jobs.controls"].insert_many(
            {"_id": f"pause:name:report:tenant=x{n}", "kind": "pause", "scope": "name", "target": "report"}
            | {"key": "tenant", "value": f"x{n}", "at": NOW}
            for n in range(50)
        )
        asked = job(1, ready=True, run_at=NOW)
        await db.jobs.insert_one(asked)
        await db.jobs.update_many({"state": "running"}, {"$set": {"seq": "report:t1"}}, hint="lease")
        listener.clear()
        explanation = await scheduler.explain(str(asked["_id"]))
        heard = list(listener.commands)
        await scheduler.stop()

    told = {one.kind: one for one in explanation.gates}
    assert told["position"].data["before"] == {"count": BEFORE, "over": False}
    assert told["line"].data["before"] == {"count": IN_LINE, "over": False}
    assert told["concurrency"].data["holders"] and told["sequence"].data["before"]["count"] == RUNNING
    assert {next(iter(command)) for command in heard} <= {"find", "aggregate"}
    assert len(heard) <= 24
    looked_at = 0
    for command in heard:
        stages, keys, documents = await cost(db, command)
        assert "COLLSCAN" not in stages and "SORT" not in stages, command
        looked_at += max(keys, documents)
    # What it counts and lists, and little beside: nothing of the future, the past or the other pauses' values.
    assert looked_at < BEFORE + 3 * IN_LINE + 5 * RUNNING + 150, looked_at
