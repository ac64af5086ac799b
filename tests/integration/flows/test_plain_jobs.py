"""Plain jobs pay nothing for flows: no field of theirs, and no key of an index, is there for flows."""

from __future__ import annotations

import asyncio
from typing import Any

from pymongo import MongoClient

from mainspring import Fail, Retry, Scheduler
from mainspring.store.schema import BEFORE, CHECK, FLOW, FLOW_ENDED, ROOTS

OF_FLOWS = {"flow", "root", "node", "label", "before", "waits", "check_at", "because", "after", "refs", "round"}
OF_FLOWS |= {"spawned", "cancel_tree", "retry_tree"}


async def test_plain_jobs_have_no_field_of_flows_and_no_key_in_their_indexes(scheduler: Scheduler, uri: str) -> None:
    @scheduler.job("plain", retry=Retry(attempts=2, delay=0.01))
    async def plain(n: int) -> int:
        if n % 3 == 0:
            raise Fail("as planned")
        if n % 3 == 1:
            await asyncio.sleep(0)
            return n
        raise RuntimeError("as planned")

    jobs = await scheduler.schedule_bulk([{"name": "plain", "data": {"n": n}} for n in range(9)])
    later = await scheduler.schedule("plain", {"n": 1}, delay=3600)
    async with scheduler:
        for job in jobs:
            await scheduler.wait(job.id, timeout=60)
    await scheduler.cancel(later.id)
    with MongoClient[dict[str, Any]](uri) as client:
        database = client.get_default_database()
        found = list(database["jobs"].find({}, hint="_id_"))
        assert len(found) == 10
        assert set().union(*found) & OF_FLOWS == set()
        keys = database.command("validate", "jobs")["keysPerIndex"]
    indexes = (BEFORE, CHECK, FLOW, FLOW_ENDED, ROOTS)
    assert {name: keys[name] for name in indexes} == dict.fromkeys(indexes, 0)
