"""Queues, pauses, limits and breakers over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api.conftest import Api
from harness.api_keys import actions, keyed
from harness.waiting import eventually
from mainspring import Breaker, Limit


async def test_a_queue_is_paused_and_resumed(api: Api) -> None:
    await api.scheduler.schedule("x", queue="mail")
    made = await api.post("/api/pauses", {"queue": "mail", "reason": "no server"})
    assert (made.status, made.data["scope"], made.data["target"], made.data["actor"]) == (201, "queue", "mail", "local")
    assert (await api.get("/api/pauses")).data == [made.data]
    (queue,) = (await api.get("/api/queues")).data
    assert (queue["name"], queue["ready"], queue["paused"]["reason"]) == ("mail", 1, "no server")
    assert (await api.post("/api/pauses/resume", {"queue": "mail"})).data == made.data
    gone = await api.post("/api/pauses/resume", {"queue": "mail"})
    assert (gone.status, gone.body["detail"]) == (404, "There is no pause of the queue 'mail'.")
    assert (await api.get("/api/pauses")).data == []
    assert await actions(api) == [("pause.create", "queue:mail"), ("pause.resume", "queue:mail")]


async def test_a_pause_by_key_holds_back_those_jobs_only(api: Api) -> None:
    done: list[str] = []

    @api.scheduler.job("x")
    def handle(tenant: str) -> None:
        done.append(tenant)

    assert (await api.post("/api/pauses", {"name": "x", "key": {"tenant": "acme"}})).data["value"] == "acme"
    held = await api.scheduler.schedule("x", {"tenant": "acme"})
    free = await api.scheduler.schedule("x", {"tenant": "other"})
    await api.scheduler.start()
    await api.scheduler.wait(free.id, 60)
    assert done == ["other"]
    await api.post("/api/pauses/resume", {"name": "x", "key": {"tenant": "acme"}})
    await api.scheduler.wait(held.id, 60)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"queue": "a", "name": "b"},
        {"queue": {"$ne": None}},
        {"queue": "a", "key": {"t": {"$gt": ""}}},
        {"queue": "a", "key": {"$where": "1"}},
        {"queue": "a", "key": {"t": "\ud800"}},
        {"queue": "a", "key": {}},
        {"queue": "a", "key": {"a": 1, "b": 2}},
        {"queue": "a", "actor": "me"},
        {"queue": ""},
    ],
)
async def test_what_cannot_be_paused_is_refused(api: Api, body: dict[str, Any]) -> None:
    assert (await api.post("/api/pauses", body)).status == 422
    assert (await api.post("/api/pauses/resume", body)).status == 422
    assert (await api.get("/api/pauses")).data == []


async def test_limits_are_set_shown_and_removed(api: Api) -> None:
    api.scheduler.job("x", concurrency=5)(lambda: None)
    (declared,) = (await api.get("/api/limits")).data
    assert (declared["counts"]["concurrency"], declared["override"]) == ({"limit": 5}, None)
    body = {"concurrency": {"limit": 2, "key": "tenant"}, "rate": {"rate": "10/minute"}, "reason": "slow"}
    made = await api.put("/api/limits/name/x", body)
    assert (made.data["concurrency"], made.data["reason"]) == ({"limit": 2, "key": "tenant"}, "slow")
    (changed,) = (await api.get("/api/limits")).data
    assert changed["counts"]["concurrency"] == {"limit": 2, "key": "tenant"}
    assert changed["declared"]["concurrency"] == {"limit": 5}
    assert (await api.put("/api/limits/queue/team%2Fmail", {"concurrency": {"limit": 1}})).status == 200
    assert (await api.delete("/api/limits/queue/team/mail")).status == 200
    assert (await api.delete("/api/limits/name/x")).status == 200
    assert (await api.delete("/api/limits/name/x")).status == 404
    assert await actions(api) == [
        ("limit.put", "name:x"),
        ("limit.put", "queue:team/mail"),
        ("limit.delete", "queue:team/mail"),
        ("limit.delete", "name:x"),
    ]


async def test_a_number_that_is_too_large_to_be_stored_is_a_number_all_the_same(api: Api) -> None:
    reply = await api.post("/api/pauses", {"queue": "a", "key": {"t": 10**30}})
    assert (reply.status, reply.data["value"]) == (201, 1e30)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"concurrency": 0},
        {"concurrency": {"limit": 0}},
        {"rate": {"rate": "often"}},
        {"rate": {"rate": "1/s", "key": ".."}},
        {"concurrency": {"limit": {"$gt": 0}}},
        {"concurrency": {"limit": 1}, "at": "2026-01-01T00:00:00Z"},
    ],
)
async def test_a_limit_that_cannot_be_is_refused(api: Api, body: dict[str, Any]) -> None:
    assert (await api.put("/api/limits/queue/a", body)).status == 422
    assert (await api.put("/api/limits/tenant/a", {"concurrency": {"limit": 1}})).status == 422
    assert (await api.get("/api/limits")).data == []


async def test_a_breaker_is_opened_and_closed_by_hand(api: Api) -> None:
    api.scheduler.job("x", breaker=Breaker(errors=0.5, window=60))(lambda: None)
    (declared,) = (await api.get("/api/breakers")).data
    assert (declared["state"], declared["rule"]["window"]) == ("closed", "1m")
    opened = (await api.post("/api/breakers/name/x/open", {"openFor": "1m", "reason": "down"})).data
    assert (opened["state"], opened["reason"], opened["openUntil"] is None) == ("open", "down", False)
    assert (await api.post("/api/breakers/queue/a/b/open", {"key": {"target": "t"}})).data["value"] == "t"
    assert (await api.post("/api/breakers/name/x/close", {})).data["state"] == "closed"
    assert await actions(api) == [
        ("breaker.open", "name:x"),
        ("breaker.open", "queue:a/b"),
        ("breaker.close", "name:x"),
    ]
    for body in ({"openFor": 60_000}, {"openFor": "1ms"}, {"state": "open"}, {"key": {"a": {"$ne": 1}}}):
        assert (await api.post("/api/breakers/name/x/open", body)).status == 422
    assert (await api.post("/api/breakers/tenant/x/open", {})).status == 422


async def test_queues_tell_what_is_ready_waiting_and_running(api: Api) -> None:
    scheduler = api.scheduler
    going = asyncio.Event()

    @scheduler.job("slow", concurrency=1, queue="a")
    async def slow() -> None:
        await going.wait()

    await scheduler.start()
    jobs = await scheduler.schedule_bulk([{"name": "slow"} for _ in range(3)])
    await scheduler.schedule("later", delay=3600, queue="b")

    async def counts() -> bool:
        found = {one["name"]: one for one in (await api.get("/api/queues")).data}
        shown = {name: (one["ready"], one["waiting"], one["running"]) for name, one in found.items()}
        return shown.get("a") == (0, 2, 1) and shown.get("b") == (1, 0, 0)

    await eventually(counts)
    going.set()
    for job in jobs:
        await scheduler.wait(job.id, 60)


CHANGES = [
    ("POST", "/api/pauses", {"queue": "b"}),
    ("POST", "/api/pauses", {"name": "acme.x"}),
    ("POST", "/api/pauses/resume", {"queue": "b"}),
    ("PUT", "/api/limits/queue/b", {"concurrency": {"limit": 1}}),
    ("PUT", "/api/limits/name/acme.x", {"concurrency": {"limit": 1}}),
    ("DELETE", "/api/limits/queue/b", None),
    ("POST", "/api/breakers/queue/b/open", {}),
    ("POST", "/api/breakers/queue/b/close", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_a_key_with_a_scope_steers_nothing_of_others(api: Api, method: str, path: str, body: Any) -> None:
    await api.scheduler.queues.pause("b")
    await api.scheduler.limits.set(queue="b", concurrency=3)
    await api.scheduler.limits.open_breaker(queue="b")
    tenant, viewer = await keyed(api, "operator", queues=["a"]), await keyed(api, "viewer")
    options = {} if body is None else {"json": body}
    assert (await tenant.call(method, path, **options)).status == 404
    assert (await viewer.call(method, path, **options)).status == 403
    assert await actions(api) == []
    assert [one.target for one in await api.scheduler.limits.pauses()] == ["b"]
    assert [one.state for one in await api.scheduler.limits.breakers()] == ["open"]
    assert [one.concurrency for one in await api.scheduler.limits.all()] == [Limit(3)]


async def test_a_key_with_a_scope_sees_and_steers_its_own_queues(api: Api) -> None:
    for queue in ("a", "b"):
        await api.scheduler.schedule("x", queue=queue, delay=60)
        await api.scheduler.queues.pause(queue)
        await api.scheduler.limits.set(queue=queue, concurrency=3)
        await api.scheduler.limits.open_breaker(queue=queue)
    tenant = await keyed(api, "operator", queues=["a"])
    for path in ("/api/pauses", "/api/limits", "/api/breakers"):
        assert [one["target"] for one in (await tenant.get(path)).data] == ["a"]
    assert [one["name"] for one in (await tenant.get("/api/queues")).data] == ["a"]
    assert (await tenant.post("/api/pauses/resume", {"queue": "a"})).status == 200
    named = await keyed(api, "viewer", prefixes=["acme."])
    assert (await named.get("/api/queues")).data == []


async def test_pausing_and_limiting_what_nothing_has_is_noted_and_a_paused_job_tells_why_it_waits(api: Api) -> None:
    made = (await api.post("/api/jobs", {"name": "x", "queue": "mail"})).data
    paused = await api.post("/api/pauses", {"queue": "mial"})
    assert paused.status == 201 and "has the queue 'mial' now" in paused.data["note"]
    limited = (await api.put("/api/limits/name/y", {"concurrency": 1})).data
    assert "has the job name 'y' now" in limited["note"]
    assert (await api.post("/api/pauses", {"queue": "mail", "reason": "later"})).data["note"] is None
    shown = (await api.get(f"/api/jobs/{made['jobId']}")).data
    assert shown["waiting"] == "The queue 'mail' is paused by local: later"
