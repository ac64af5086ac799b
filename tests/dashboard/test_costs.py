"""What the pages cost the database: no request of any page examines more than 2,000 keys, however much is stored.

The pages are opened in the browser, so that a request that a page makes is counted without being listed here.
`make bench` measures the same with a million jobs and ten thousand schedules.
"""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from dashboard.conftest import Board
from harness.browsing import PAGES, reads_of
from harness.inside import inside
from harness.profiling import profiled
from harness.stored import STATES, used_job
from mainspring import Every
from mainspring.model.jobs.draft import Draft

Document = dict[str, Any]
MOST = 2_000
JOBS, SCHEDULES, FLOWS, MEMBERS = 24_000, 2_600, 3_000, 6_000


async def _store(board: Board, db: Any) -> None:
    """Store jobs of several states, names and queues, and schedules: one by the product, and copies of it."""
    store = await inside(board.scheduler).store()
    now = board.scheduler.now()
    template = store.inserts.document(Draft("name-0", {}, run_at=now))
    jobs = [used_job(template, now, n) for n in range(JOBS)]
    await db.jobs.insert_many(jobs, ordered=False)
    await board.scheduler.schedule("name-1", repeat=Every("1h"), schedule_id="schedule-0")
    [one] = await db["jobs.schedules"].find({}, hint="_id_").to_list()
    await db["jobs.schedules"].insert_many([{**one, "_id": f"schedule-{n}"} for n in range(1, SCHEDULES)])


async def _store_flows(board: Board, db: Any) -> str:
    """Store flows: one by the product, to which many members are added, and copies of its root; return its id."""
    flow = board.scheduler.flow("flow-0")
    flow.map("name-0", [{"n": 1}, {"n": 2}], name="pages")
    started = await flow.start()
    store = await inside(board.scheduler).store()
    template, now = store.inserts.document(Draft("name-0", {}, run_at=board.scheduler.now())), board.scheduler.now()
    await db.jobs.insert_many(
        [
            used_job(template, now, n)
            | {"_id": f"{started.id}.pages.items.{n:08d}", "flow": started.id, "node": "pages/items"}
            for n in range(1, MEMBERS)
        ]
    )
    root = await db.jobs.find_one({"root": True}, hint="roots")
    blocked = {"state": "blocked", "waits": {"ids": [], "sealed": True, "total": [], "signals": ["go"]}}
    copies = [{**root, "_id": ObjectId(), "label": f"flow-{n % 30}"} for n in range(FLOWS)]
    await db.jobs.insert_many([copy | (blocked if n % 2 else {}) for n, copy in enumerate(copies)])
    return started.id


@pytest.mark.fresh_database
@pytest.mark.slow
async def test_no_request_of_any_page_examines_more_than_two_thousand_keys(
    board: Board, uri: str, side_client: AsyncMongoClient[Document]
) -> None:
    db = side_client[uri.rpartition("/")[2].partition("?")[0]]
    await _store(board, db)
    ids = [str(one["_id"]) for state in STATES if (one := await db.jobs.find_one({"state": state}, hint="_id_"))]
    flow = await _store_flows(board, db)
    of_flow = [f"/flows/{flow}{rest}" for rest in ("?node=pages", "?view=table", "?view=time")]
    of_flow += [f"/jobs?flow={flow}", f"/jobs?flow={flow}&node=pages&state=failed", f"/jobs/{flow}"]
    reads = await reads_of(board.page, board.api.url, (*PAGES, *(f"/jobs/{id}" for id in ids), *of_flow))
    dear = {}
    for path in reads:
        async with profiled(db) as spent:
            assert (await board.api.get(path)).status == 200, path
        if max(spent.keys, spent.documents) > MOST or spent.scans:
            dear[path] = (spent.keys, spent.documents, spent.scans)
    assert len(reads) > len(PAGES) and dear == {}
