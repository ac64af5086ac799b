"""Workers over HTTP."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import pytest

from api.conftest import Api
from harness.api_keys import keyed
from harness.inside import inside
from harness.waiting import eventually
from mainspring import Scheduler

Make = Callable[..., Scheduler]


async def test_workers_tell_where_they_are_and_what_they_can_do(api: Api, make_scheduler: Make) -> None:
    assert (await api.get("/api/workers")).data == []
    other = make_scheduler(queues=["a"], concurrency=3)
    other.job("x", version=2, upgrade={1: lambda data: data})(lambda: None)
    await other.start()
    (worker,) = (await api.get("/api/workers")).data
    assert (worker["host"], worker["pid"], worker["live"]) == (socket.gethostname(), os.getpid(), True)
    assert (worker["queues"], worker["handlers"], worker["versions"]) == (["a"], ["x"], {"x": 2})
    assert (worker["concurrency"], worker["running"]) == (3, 0)
    assert worker["startedAt"].endswith("Z") and worker["beatAt"].endswith("Z")


async def test_a_worker_that_is_heard_of_no_more_is_not_live(api: Api, make_scheduler: Make) -> None:
    other = make_scheduler()
    await other.start()
    store = await inside(api.scheduler).store()
    await store.connection.workers.insert_one(
        {"_id": "dead", "beat_at": store.clock.now().replace(year=2020), "host": "h", "pid": 1}
    )
    found = {one["id"]: one["live"] for one in (await api.get("/api/workers")).data}
    assert (len(found), found["dead"]) == (2, False)
    assert sorted(found.values()) == [False, True]


async def test_workers_are_for_keys_that_reach_everything(api: Api) -> None:
    tenant, viewer = await keyed(api, "admin", queues=["a"]), await keyed(api, "viewer")
    assert (await tenant.get("/api/workers")).status == 403
    assert (await viewer.get("/api/workers")).status == 200


@pytest.mark.slow
async def test_an_operator_drains_a_worker_and_cancels_that(api: Api, make_scheduler: Make) -> None:
    other = make_scheduler()
    await other.start()
    worker = other.workers.own_id
    operator, viewer = await keyed(api, "operator"), await keyed(api, "viewer")
    tenant = await keyed(api, "admin", queues=["a"])
    store = await inside(api.scheduler).store()
    # This worker never looks, so that the drain stays as it is.
    await store.connection.workers.insert_one({"_id": "w:1", "beat_at": store.clock.now(), "host": "h", "pid": 1})
    assert (await viewer.post("/api/workers/w:1/drain")).status == 403
    assert (await tenant.post("/api/workers/w:1/drain")).status == 403
    assert (await operator.post("/api/workers/unknown/drain")).status == 404
    drained = (await operator.post("/api/workers/w:1/drain", {"reason": "host goes"})).data
    assert drained["drain"]["reason"] == "host goes" and drained["drain"]["actor"].startswith("key:")
    assert (await tenant.delete("/api/workers/w:1/drain")).status == 403
    assert (await operator.delete("/api/workers/w:1/drain")).data["drain"] is None
    assert (await operator.delete("/api/workers/w:1/drain")).status == 409
    rows = await api.scheduler.audit.find(target="w:1")
    assert {row.action for row in rows} == {"worker.drain", "worker.cancel_drain"}
    assert (await operator.post(f"/api/workers/{worker}/drain")).status == 200
    await eventually(lambda: other.workers.own_id is None)
