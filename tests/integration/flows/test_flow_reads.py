"""Reading flows: bounded counts of live and ended members, from two indexes of which a claim writes neither."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.profiling import profiled
from harness.waiters import LONG_AGO
from mainspring import JobContext, Scheduler
from mainspring.store import Store
from mainspring.store.schema import FLOW, FLOW_ENDED

pytestmark = pytest.mark.fresh_database


@pytest.fixture
async def store(scheduler: Scheduler) -> Store:
    await scheduler.connect()
    return await inside(scheduler).store()


def member(node: str, number: int, state: str, **fields: Any) -> dict[str, Any]:
    base = {"_id": f"root.{node}.{number:08}", "v": 1, "name": "x", "queue": "default"}
    return base | {"state": state, "flow": "root", "node": node, "token": 0, **fields}


async def written(db: Database, index: str) -> tuple[int, int]:
    """How many entries were ever added to an index of jobs, and removed from it."""
    details = (await db.command("collStats", "jobs", indexDetails=True))["indexDetails"][index]["cursor"]
    return details["insert calls"], details["remove calls"]


async def test_a_claim_writes_no_index_of_flows(scheduler: Scheduler, db: Database) -> None:
    @scheduler.job("fan")
    async def fan(ctx: JobContext) -> int:
        return len(await ctx.map("pages", "page", [{"n": n} for n in range(7)]))

    @scheduler.job("page")
    async def page(n: int) -> int:
        return n

    async with scheduler:
        root = await scheduler.schedule("fan")
        assert (await scheduler.wait(root.id, timeout=60)).result == 7
    # Each page is added when it is stored and when it ends, and by no claim.
    assert await written(db, FLOW) == (7, 7) and await written(db, FLOW_ENDED) == (7, 0)


async def test_running_and_pending_jobs_are_found_behind_a_look_of_blocked_ones(store: Store, db: Database) -> None:
    blocked = [member("pages", number, "blocked") for number in range(300)]
    lease = LONG_AGO + timedelta(minutes=1)
    running = [member("pages", number, "running", lease_until=lease) for number in range(300, 303)]
    pending = [member("pages", number, "pending") for number in range(303, 900)]
    ended = [member("pages", number, "completed", finished_at=LONG_AGO) for number in range(900, 1_300)]
    others = [member("report", number, "pending") for number in range(3)]
    await db.jobs.insert_many([*blocked, *running, *pending, *ended, *others])
    async with profiled(db) as spent:
        found = await store.flow_reads.count("root")
    assert found.counts["pages"] == {"blocked": 250, "running": 3, "pending": 250, "completed": 250}
    assert found.capped == {("pages", state) for state in ("blocked", "running", "pending", "completed")}
    assert found.counts["report"] == {"pending": 3} and found.complete
    assert spent.keys <= 2_100 and not spent.scans
    exact = await store.flow_reads.count("root", exact=True)
    assert exact.counts["pages"] == {"blocked": 300, "running": 3, "pending": 597, "completed": 400}
    assert exact.counts["report"] == {"pending": 3} and not exact.capped
    assert await store.flow_reads.total("root", "pages") == 1_300


async def test_nodes_behind_the_most_keys_are_left_out_and_the_count_says_so(store: Store, db: Database) -> None:
    states = ("pending", "completed")
    jobs = [member(f"n{node:03}", number, states[node % 2]) for node in range(20) for number in range(10)]
    await db.jobs.insert_many([one | {"finished_at": LONG_AGO} for one in jobs])
    assert (await store.flow_reads.count("root", most=250)).complete
    few = await store.flow_reads.count("root", most=120)
    assert not few.complete and len(few.counts) == 12 - 1  # the last node may have been cut


async def test_sealing_the_nodes_of_a_retried_flow_reads_no_items_of_maps(store: Store, db: Database) -> None:
    items = [member("pages/items", number, "pending") for number in range(500)]
    waits = {"ids": ["root.report#after"], "total": 1, "sealed": False, "retried": True, "when": "success"}
    node = member("report", 0, "blocked", waits=waits) | {"_id": "root.report"}
    await db.jobs.insert_many([*items, node])
    async with profiled(db) as spent:
        assert await store.flow_retries._seal("root")
    stored = await db.jobs.find_one({"_id": "root.report"}, hint="_id_")
    assert stored is not None and stored["waits"]["sealed"] is True
    assert spent.documents <= 5
