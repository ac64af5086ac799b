"""No request of the pages of queues, limits, dead letters and workers examines more than about 2,000 keys.

The profiler of a real server counts them, with many more jobs, gates, breakers and counts stored than that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from api.conftest import Api
from harness.api_keys import keyed
from harness.dead import dead_letter
from harness.inside import inside
from harness.waiting import eventually
from mainspring import Limit
from mainspring.model.views.windows import HOUR, MINUTE
from mainspring.store import Store

MOST = 2_200
MANY = 4_000
READS = (
    "/api/queues",
    "/api/queues/busy",
    "/api/limits",
    "/api/breakers",
    "/api/pauses",
    "/api/workers",
    "/api/dead-letters/groups",
    "/api/dead-letters/groups?queue=rare",
    "/api/dead-letters/groups?text=nothing",
    "/api/dead-letters?fingerprint={print}",
    "/api/dead-letters?fingerprint=unknown",
    "/api/redrives",
)

pytestmark = [pytest.mark.slow, pytest.mark.fresh_database]


@asynccontextmanager
async def spent(store: Store) -> AsyncIterator[dict[str, int]]:
    """The keys and documents that were examined inside, by the profiler."""
    db = store.connection.db
    sums = {"keys": 0, "documents": 0}
    await db.command("profile", 2)
    try:
        yield sums
    finally:
        await db.command("profile", 0)
        async for one in db["system.profile"].find({"ns": {"$ne": f"{db.name}.system.profile"}}):
            sums["keys"] += one.get("keysExamined", 0)
            sums["documents"] += one.get("docsExamined", 0)
        await db.drop_collection("system.profile")


def jobs(store: Store) -> list[dict[str, Any]]:
    """Jobs that are due, come later, wait at gates and run, in many queues; and dead letters of many causes."""
    now = store.clock.now()
    common = {"v": 1, "name": "x", "data": {}, "created_at": now, "rev": 0, "token": 0, "tries": 0}
    made = []
    for n in range(MANY):
        queue = "busy" if n % 2 else f"q{n % 60:02}"
        pending = common | {"queue": queue, "priority": n % 10 + 1, "state": "pending"}
        made.append(pending | {"ready": True, "run_at": now - timedelta(seconds=n)})
        made.append(pending | {"ready": True, "run_at": now + timedelta(days=1, seconds=n)})
        wait = {"by": "limit", "note": "full", "since": now}
        made.append(pending | {"run_at": now, "line": f"c:name:x:tenant={n % 900}", "waiting_for": wait})
        cause = {"type": f"E{n % 300}", "message": "failed"}
        made.append(dead_letter(now - timedelta(minutes=n), n, error=cause, queue="busy"))
        running = {"state": "running", "lease_until": now + HOUR, "worker": "w", "claim": "c", "priority": 5}
        made.append(common | running | {"queue": queue, "run_at": now})
    return [{"_id": ObjectId()} | one for one in made]


async def fill(api: Api, store: Store) -> None:
    now = store.clock.now()
    minute = now.replace(second=0, microsecond=0)
    connection = store.connection
    stored = jobs(store)
    for start in range(0, len(stored), 2000):
        await connection.jobs.insert_many(stored[start : start + 2000])
    gates = [
        {
            "_id": f"c:name:x:tenant={n}",
            "grants": [{"w": "w", "n": 1}],
            "limit": 1,
            "full": True,
            "line": True,
            "rev": 1,
        }
        for n in range(900)
    ]
    await connection.gates.insert_many(gates)
    breaker = {"kind": "breaker", "scope": "name", "target": "x", "key": "t", "state": "closed", "at": now}
    await connection.controls.insert_many([breaker | {"_id": f"breaker:name:x:t={n}", "value": n} for n in range(900)])
    # As workers and the roll-up leave them: minutes in sum, and the last ones of each worker.
    kinds = {str(n): {"queue": f"q{n}", "name": "x", "completed": 1} for n in range(200)}
    spans: list[dict[str, Any]] = [{"per": "minute", "at": minute - n * MINUTE} for n in range(6, 60)]
    spans += [{"per": "worker", "at": minute - n * MINUTE, "worker": f"w{m}"} for n in range(7) for m in range(40)]
    await connection.stats.insert_many([{"_id": id, "kinds": kinds} for id in spans])
    await connection.stats.insert_one({"_id": {"per": "marks"}, "minute": minute - 5 * MINUTE})
    hour = minute.replace(minute=0)
    groups = [{"per": "group", "at": hour - n % 24 * HOUR, "queue": "busy", "print": str(n)} for n in range(MANY)]
    await connection.stats.insert_many([{"_id": id, "failed": 1} for id in groups])
    slots = [{"job": str(n), "name": "x", "queue": "busy", "since": now, "gates": [gates[n]["_id"]]} for n in range(50)]
    workers = [
        {"_id": f"w{n}", "beat_at": now, "host": "h", "pid": n, "concurrency": 9, "slots": slots} for n in range(40)
    ]
    await connection.workers.insert_many(workers)
    api.scheduler.job("x", concurrency=Limit(1, key="tenant"))(lambda **data: None)


async def test_no_read_of_these_pages_examines_many_keys(api: Api) -> None:
    store = await inside(api.scheduler).store()
    await fill(api, store)
    viewer = await keyed(api, "viewer")
    tenant = await keyed(api, "viewer", queues=["busy", "q02"])
    (group, *_) = (await viewer.get("/api/dead-letters/groups?limit=1")).data
    for caller, paths in ((viewer, READS), (tenant, [path for path in READS if path != "/api/workers"])):
        for path in paths:
            async with spent(store) as sums:
                reply = await caller.get(path.format(print=group["fingerprint"]))
            assert reply.status == 200, (path, reply.text)
            assert sums["keys"] <= MOST and sums["documents"] <= MOST, (path, sums)


async def test_what_is_counted_within_these_bounds_is_right(api: Api) -> None:
    store = await inside(api.scheduler).store()
    await fill(api, store)
    groups = (await api.get("/api/dead-letters/groups")).data
    assert len(groups) == 50
    last_seen = [group["lastSeen"] for group in groups]
    assert last_seen == sorted(last_seen, reverse=True)
    # Each cause has 13 or 14 dead letters; with 50 groups, each is counted up to 16.
    assert {group["count"] for group in groups} <= {13, 14} and not any(group["capped"] for group in groups)
    (queue,) = [one for one in (await api.get("/api/queues")).data if one["name"] == "busy"]
    assert queue["due"] == queue["counted"]
    limit = next(one for one in (await api.get("/api/limits")).data if one["target"] == "x")
    assert all(use["waiting"] > 0 for use in limit["uses"][:50])

    async def seen() -> bool:
        jobs = (await api.get(f"/api/dead-letters?fingerprint={groups[0]['fingerprint']}&limit=200")).data
        return bool(len(jobs) == groups[0]["count"])

    await eventually(seen)
