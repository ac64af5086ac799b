"""Queues over HTTP: backlog, workers, activity, what waits, and pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from api.conftest import Api
from harness.api_keys import keyed
from harness.inside import inside
from harness.waiting import eventually
from mainspring import Limit, Scheduler
from mainspring.model.views.statistics import Counts, Kind

Make = Callable[..., Scheduler]


async def queues(api: Api) -> dict[str, Any]:
    return {one["name"]: one for one in (await api.get("/api/queues")).data}


async def test_due_and_scheduled_jobs_are_told_apart_with_the_oldest_that_is_due(api: Api) -> None:
    for delay, priority in ((0, 5), (0, 1), (3600, 5), (3600, 10), (3600, 1)):
        await api.scheduler.schedule("x", queue="mail", delay=delay, priority=priority)
    queue = (await queues(api))["mail"]
    assert (queue["due"], queue["scheduled"], queue["ready"], queue["waiting"]) == (2, 3, 5, 0)
    assert queue["oldestDueAt"].endswith("Z")
    await api.scheduler.schedule("x", queue="later", delay=3600)
    assert (await queues(api))["later"]["oldestDueAt"] is None


async def test_a_queue_without_a_worker_is_marked_only_when_jobs_are_due(api: Api, make_scheduler: Make) -> None:
    await api.scheduler.schedule("x", queue="mail")
    await api.scheduler.schedule("x", queue="later", delay=3600)
    found = await queues(api)
    assert (found["mail"]["noWorker"], found["later"]["noWorker"]) == (True, False)
    other = make_scheduler(queues=["mail"], concurrency=7)
    other.job("y")(lambda: None)
    await other.start()
    queue = (await queues(api))["mail"]
    assert (queue["noWorker"], queue["workers"], queue["slots"], queue["utilisation"]) == (False, 1, 7, 0.0)


async def test_a_draining_worker_serves_no_queue(api: Api) -> None:
    store = await inside(api.scheduler).store()
    worker = {"_id": "w", "beat_at": store.clock.now(), "queues": ["mail"], "concurrency": 3}
    await store.connection.workers.insert_one(worker)
    assert (await queues(api))["mail"]["workers"] == 1
    await api.scheduler.workers.drain("w")
    assert (await queues(api))["mail"]["workers"] == 0


async def test_a_queue_that_is_empty_stays_for_as_long_as_its_activity_is_shown(api: Api) -> None:
    store, lately = await inside(api.scheduler).store(), timedelta(minutes=10)
    counts = Counts()
    counts.ended("completed", 5)
    minute = api.scheduler.now().replace(second=0, microsecond=0)
    for queue, ago in (("quick", lately), ("quiet", 4 * lately)):
        await store.statistics.add("w", [(Kind(minute - ago, queue, "x"), counts)])
    found = await queues(api)
    assert list(found) == ["quick"] and (found["quick"]["due"], sum(found["quick"]["activity"]["ended"])) == (0, 1)
    tenant = await keyed(api, "viewer", queues=["quick", "quiet"])
    assert list(await queues(tenant)) == ["quick"]


@pytest.mark.slow
async def test_utilisation_activity_and_time_to_drain_come_from_the_workers(api: Api, make_scheduler: Make) -> None:
    scheduler, going = make_scheduler(queues=["mail"], concurrency=4), asyncio.Event()

    @scheduler.job("quick")
    async def quick(fail: bool) -> None:
        if fail:
            raise ValueError("no")

    @scheduler.job("slow", concurrency=2)
    async def slow() -> None:
        await going.wait()

    await scheduler.start()
    ended = [await scheduler.schedule("quick", {"fail": n == 0}, queue="mail", retry=1) for n in range(3)]
    for job in ended:
        await scheduler.wait(job.id, 60)
    for _ in range(5):
        await scheduler.schedule("slow", queue="mail")

    async def told() -> bool:
        queue = (await queues(api))["mail"]
        activity = queue["activity"]
        return (
            (queue["running"], queue["slots"], queue["waiting"]) == (2, 4, 3)
            and queue["utilisation"] == 0.5
            and (sum(activity["ended"]), sum(activity["failed"])) == (3, 1)
            and len(activity["ended"]) == 30
            and queue["perMinute"] > 0
            and queue["drainMs"] > 0
        )

    await eventually(told)
    detail = (await api.get("/api/queues/mail")).data
    assert [(wait["by"], wait["gate"], wait["count"]) for wait in detail["waits"]] == [("limit", "c:name:slow", 3)]
    assert (detail["lookedAt"], len(detail["activity"]["ended"])) == (3, 60)
    going.set()


async def test_the_time_to_drain_is_unknown_while_nothing_leaves_the_queue(api: Api) -> None:
    await api.scheduler.schedule("x", queue="mail")
    queue = (await queues(api))["mail"]
    assert (queue["drainMs"], queue["perMinute"]) == (None, None)


async def test_the_names_that_are_due_next_are_counted(api: Api) -> None:
    for name in ("a", "b", "a"):
        await api.scheduler.schedule(name, queue="team/mail")
    await api.scheduler.schedule("c", queue="team/mail", delay=3600)
    detail = (await api.get("/api/queues/team/mail")).data
    assert detail["names"] == [{"name": "a", "count": 2}, {"name": "b", "count": 1}]
    assert (detail["due"], detail["sampled"]) == (3, 3)


@pytest.mark.slow
async def test_queues_come_in_pages_that_leave_none_out(api: Api) -> None:
    wanted = [f"q{n:02}" for n in range(45)]
    await api.scheduler.schedule_bulk([{"name": "x", "queue": queue} for queue in wanted])
    found: list[str] = []
    cursor = None
    while True:
        page = await api.get("/api/queues", params={"limit": "20"} | ({"cursor": cursor} if cursor else {}))
        found += [one["name"] for one in page.data]
        cursor = page.body["next"]
        if cursor is None:
            break
    assert found == wanted
    assert [one.name for one in await api.scheduler.queues.all()] == wanted
    assert (await api.get("/api/queues", params={"limit": "21"})).status == 422


async def test_a_long_backlog_gets_the_counts_that_short_ones_leave(api: Api) -> None:
    await api.scheduler.schedule_bulk([{"name": "x", "queue": "long"} for _ in range(900)])
    await api.scheduler.schedule("x", queue="short")
    found = await queues(api)
    assert found["short"]["due"] == 1
    assert found["long"]["due"] == found["long"]["counted"] == 800


async def test_a_tenant_sees_its_own_queues_without_notes_of_operators(api: Api) -> None:
    await api.scheduler.schedule("x", queue="a")
    await api.scheduler.schedule("x", queue="b")
    await api.scheduler.queues.pause("a", reason="secret reason", actor="ada")
    tenant = await keyed(api, "viewer", queues=["a", "nothing"])
    (queue,) = (await tenant.get("/api/queues")).data
    assert (queue["name"], queue["paused"]["reason"], queue["paused"]["actor"]) == ("a", "", None)
    assert (await tenant.get("/api/queues/b")).status == 404
    assert (await tenant.get("/api/queues/a")).data["paused"]["actor"] is None


@pytest.mark.slow
async def test_limits_tell_which_jobs_hold_them_and_which_keys_are_saturated(api: Api, make_scheduler: Make) -> None:
    scheduler, going = make_scheduler(), asyncio.Event()

    @scheduler.job("charge", concurrency=Limit(1, key="tenant"))
    async def charge(tenant: str) -> None:
        await going.wait()

    await scheduler.start()
    first = await scheduler.schedule("charge", {"tenant": "acme"})
    for tenant in ("acme", "acme", "globex"):
        await scheduler.schedule("charge", {"tenant": tenant})

    async def told() -> bool:
        (limit,) = [one for one in (await api.get("/api/limits")).data if one["target"] == "charge"]
        uses = {use["value"]: use for use in limit["uses"]}
        return (
            list(uses) == ["acme", "globex"]
            and (uses["acme"]["taken"], uses["acme"]["waiting"], uses["acme"]["full"]) == (1, 2, True)
            and [holder["jobId"] for holder in uses["acme"]["holders"]] == [first.id]
            and uses["acme"]["holders"][0]["worker"] == scheduler.workers.own_id
            and uses["globex"]["waiting"] == 0
        )

    await eventually(told)
    going.set()


async def test_a_breaker_tells_its_story_and_its_last_failure(api: Api) -> None:
    await api.post("/api/breakers/name/x/open", {"reason": "down", "openFor": "1h"})
    await api.post("/api/breakers/name/x/close", {"reason": "up again"})
    await api.post("/api/breakers/name/x/close", {"reason": "nothing to close"})
    (breaker,) = (await api.get("/api/breakers")).data
    assert [(one["state"], one["reason"], one["actor"]) for one in breaker["story"]] == [
        ("closed", "up again", "local"),
        ("open", "down", "local"),
    ]
    assert breaker["lastFailure"] is None
    tenant = await keyed(api, "viewer", prefixes=["x"])
    (seen,) = (await tenant.get("/api/breakers")).data
    assert {(one["reason"], one["actor"]) for one in seen["story"]} == {("", None)}
