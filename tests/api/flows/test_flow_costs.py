"""What looking at flows costs: a bounded number of keys, however large a flow is and however few flows match."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from api.conftest import Api
from harness.looking import Database
from harness.profiling import profiled
from mainspring.model.flows.graph import MOST_NODES

pytestmark = pytest.mark.fresh_database


@pytest.fixture
def db(side_client: AsyncMongoClient[dict[str, Any]], uri: str) -> Database:
    return side_client.get_database(uri.rpartition("/")[2].partition("?")[0])


@pytest.mark.slow
async def test_a_look_at_the_largest_flow_examines_a_bounded_number_of_keys(api: Api, db: Database) -> None:
    flow = api.scheduler.flow("large", delay=3600)
    names = [f"n{number:04}" for number in range(MOST_NODES)]
    for name in names:
        flow.add("nobody", name=name)
    flow_id = (await flow.start()).id
    one = {"v": 1, "name": "nobody", "queue": "default", "state": "pending", "flow": flow_id}
    parts = [{**one, "_id": f"{flow_id}.{name}", "node": name} for name in names]
    below = [{**one, "_id": f"{flow_id}.n0000.{n:08}", "node": "n0000/items"} for n in range(3_000)]
    await db["jobs"].insert_many([*parts, *below])
    async with profiled(db) as spent:
        found = (await api.get(f"/api/flows/{flow_id}")).data
    assert len(found["nodes"]) == MOST_NODES and found["nodes"][-1]["state"] == "pending"
    assert found["complete"] is False and spent.keys <= 2_100 and not spent.scans


@pytest.mark.slow
async def test_flows_that_match_are_found_behind_thousands_that_do_not(api: Api, db: Database) -> None:
    rare = (await api.post("/api/flows", {"name": "rare", "delay": "1h", "nodes": [{"job": "x"}]})).data["id"]
    stored = await db["jobs"].find_one({"_id": ObjectId(rare)}, hint="_id_")
    assert stored is not None
    made = stored["created_at"]
    other = {"v": 1, "name": "x", "queue": "default", "state": "completed", "root": True, "finished_at": made}
    await db["jobs"].insert_many([{**other, "created_at": made + timedelta(seconds=n + 1)} for n in range(3_000)])
    async with profiled(db) as spent:
        assert [flow.id for flow in await api.scheduler.flows.all(2, name="rare")] == [rare]
    assert spent.longest <= 2_100
    assert [flow.id async for flow in api.scheduler.flows.find(state="pending")] == [rare]
    first = await api.scheduler.flows.all(2)
    second = await api.scheduler.flows.all(2, after=first[-1])
    assert len({flow.id for flow in first + second}) == 4
