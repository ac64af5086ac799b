"""Schedules of flows over HTTP: each firing starts the flow; what is refused; and what keys with a scope may do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api.conftest import Api
from harness.api_keys import actions
from harness.pages import ROOT, blocks
from harness.waiting import eventually
from mainspring import Calendar, Cron

SOON = 20
YEARLY = "0 0 1 1 *"
NODES: list[dict[str, Any]] = [
    {"name": "first", "job": "a", "data": {"n": 1, "password": "hunter2-hunter2"}},
    {"name": "second", "job": "b", "after": ["first"], "fills": [{"at": ["n"], "node": "first"}]},
]
BODY: dict[str, Any] = {"name": "nightly", "nodes": NODES, "schedule": YEARLY, "timezone": "Europe/Berlin"}


async def test_a_flow_with_a_rule_is_answered_as_a_schedule(api: Api) -> None:
    more = {"id": "nightly", "overlap": "skip", "misfire": "latest", "maxRuns": 5, "tags": ["t"], "queue": "q"}
    reply = await api.post("/api/flows", {**BODY, **more})
    assert reply.status == 201, reply.text
    made = reply.data
    assert (made["kind"], made["jobId"], made["name"], made["queue"]) == (
        "schedule",
        "nightly",
        "mainspring:flow",
        "q",
    )
    assert (made["schedule"], made["timezone"], made["maxRuns"], made["tags"]) == (YEARLY, "Europe/Berlin", 5, ["t"])
    coming = (await api.get("/api/schedules/nightly/upcoming?count=1")).data
    assert made["nextRunAt"] == coming[0]["at"]
    stored = (await api.get("/api/schedules/nightly")).data
    assert (stored["policy"]["overlap"], stored["policy"]["misfire"]) == ("skip", "latest")
    assert (await api.get("/api/flows")).data == []
    assert await actions(api) == [("schedule.create", "nightly")]
    for path in ("schedules/nightly", "schedules", "jobs/nightly", "jobs", "audit"):
        assert "hunter2" not in (await api.get(f"/api/{path}")).text, path


@pytest.mark.slow
async def test_each_firing_starts_the_flow(api: Api) -> None:
    ran: list[Any] = []

    @api.scheduler.job("a")
    async def a(n: int, password: str) -> int:
        ran.append(("a", n))
        return n + 1

    @api.scheduler.job("b")
    async def b(n: int) -> None:
        ran.append(("b", n))

    made = (await api.post("/api/flows", BODY)).data
    await api.scheduler.start()
    root = (await api.post(f"/api/schedules/{made['jobId']}/trigger")).data

    async def ended() -> bool:
        return bool((await api.get(f"/api/jobs/{root['id']}")).data["state"] == "completed")

    await eventually(ended, SOON)
    assert ran == [("a", 1), ("b", 2)]
    flow = (await api.get(f"/api/flows/{root['id']}")).data
    assert (flow["name"], flow["counts"]) == ("nightly", {"completed": 2})


async def test_a_repeated_request_makes_one_schedule_and_an_id_replaces_it(api: Api) -> None:
    key = {"Idempotency-Key": "k"}
    first, second = [await api.post("/api/flows", BODY, headers=key) for _ in range(2)]
    assert first.data["jobId"] == second.data["jobId"] and second.headers["idempotency-replayed"] == "true"
    assert len((await api.get("/api/schedules")).data) == 1
    for every in ("1h", "2h"):
        body = {**BODY, "schedule": None, "timezone": None, "every": every, "id": "x", "enabled": every == "1h"}
        assert (await api.post("/api/flows", body)).status == 201
    found = (await api.get("/api/schedules/x")).data
    assert (found["text"], found["state"]) == ("every 2h", "paused")


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"schedule": "61 * * * *"}, "schedule", "61"),
        ({"every": "5m"}, "every", "one of"),
        ({"runAt": "2030-01-01T00:00:00Z"}, "runAt", "startAt"),
        ({"delay": "1h"}, "delay", "startAt"),
        ({"expiresAt": "2030-01-01T00:00:00Z"}, "expiresAt", "startWithin"),
        ({"dedupeKey": "k"}, "dedupeKey", "each firing"),
        ({"schedule": None, "timezone": None, "overlap": "skip"}, "overlap", "for schedules"),
        ({"schedule": None, "timezone": None, "id": "x"}, "id", "for schedules"),
        ({"schedule": None, "timezone": None, "enabled": False}, "enabled", "Only a schedule"),
        ({"overlap": "sometimes"}, "overlap", "skip"),
        ({"nodes": [{"job": "x", "after": ["y"]}]}, "nodes.0.after", "'y'"),
        ({"nodes": [{"job": "x", "data": {"text": "x" * 300_000}}]}, "nodes", "over the limit"),
        ({"cron": YEARLY}, "cron", "no such field"),
    ],
)
async def test_a_refusal_names_the_field(api: Api, changes: dict[str, Any], field: str, words: str) -> None:
    reply = await api.post("/api/flows", {**BODY, **changes})
    assert reply.status == 422, reply.text
    assert reply.body["errors"][0]["field"] == field and words in reply.body["detail"], reply.text
    assert (await api.get("/api/schedules")).data == [] and await actions(api) == []


async def test_the_schedule_of_the_how_to_is_stored(api: Api) -> None:
    page = ROOT / "docs" / "howto" / "http-api.md"
    (example,) = [json.loads(one.text) for one in blocks(page) if (one.mark, one.argument) == ("flow", "schedule")]
    made = (await api.post("/api/flows", example)).data
    assert (made["jobId"], made["schedule"], made["timezone"]) == ("nightly", "0 3 * * *", "Europe/Berlin")
    assert made["nextRunAt"] is not None


# -- keys with a scope -------------------------------------------------------------------------------------------------

BEYOND = "This flow has jobs out of this key's scope; nothing was changed. Use a key that reaches all of them."


async def key(api: Api, **scope: Any) -> Api:
    return api.with_key((await api.scheduler.api_keys.create("ops", "operator", **scope)).text)


def within(queue: str) -> dict[str, Any]:
    return {**BODY, "nodes": [{**node, "queue": queue} for node in NODES]}


async def test_a_key_makes_schedules_of_flows_within_its_scope_only(api: Api) -> None:
    tenant = await key(api, queues=["acme"])
    made = await tenant.post("/api/flows", within("acme"))
    assert made.status == 201 and made.data["queue"] == "acme", made.text
    refused = await tenant.post("/api/flows", within("globex"))
    assert (refused.status, refused.body["errors"][0]["field"]) == (403, "nodes.0.queue")
    refused = await tenant.post("/api/flows", {**within("acme"), "queue": "globex"})
    assert (refused.status, refused.body["errors"][0]["field"]) == (403, "queue")
    refused = await tenant.post("/api/flows", {**within("acme"), "id": "taken"})
    assert (refused.status, refused.body["errors"][0]["field"]) == (422, "id")
    await api.scheduler.calendars.put("globex:holidays", Calendar(days=["2030-12-25"]))
    rule = {"cron": YEARLY, "except": ["globex:holidays"]}
    refused = await tenant.post("/api/flows", {**within("acme"), "schedule": None, "timezone": None, "repeat": rule})
    assert refused.status == 404, refused.text
    named = await key(api, prefixes=["a", "b"])
    refused = await named.post("/api/flows", BODY)
    assert (refused.status, refused.body["errors"][0]["field"]) == (403, "name")


async def foreign(api: Api) -> str:
    """The id of a schedule in the queue `acme` that starts a flow with a node in the queue `globex`."""
    flow = api.scheduler.flow("mixed", queue="acme")
    own = flow.add("a", queue="acme", name="own")
    flow.add("hidden-job", {"n": own.result}, after=own, queue="globex", name="foreign")
    return (await api.scheduler.schedule(flow, repeat=Cron(YEARLY), schedule_id="mixed")).id


async def test_a_key_with_a_scope_is_not_shown_foreign_nodes_of_a_schedule(api: Api) -> None:
    tenant, id = await key(api, queues=["acme"]), await foreign(api)
    for path in (f"schedules/{id}", "schedules", f"jobs/{id}", "jobs"):
        text = (await tenant.get(f"/api/{path}")).text
        assert '"own"' in text and "hidden-job" not in text and "foreign" not in text, path


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "schedules/mixed/trigger", {}),
        ("POST", "schedules/mixed/resume", {}),
        ("POST", "schedules/mixed/backfill", {"start": "2020-12-01T00:00:00Z", "end": "2021-02-01T00:00:00Z"}),
        ("PATCH", "schedules/mixed", {"schedule": "* * * * *"}),
        ("PUT", "jobs/mixed", {"schedule": "* * * * *"}),
    ],
)
async def test_a_key_with_a_scope_starts_no_flow_with_foreign_nodes_by_its_schedule(
    api: Api, method: str, path: str, body: dict[str, Any]
) -> None:
    tenant, id = await key(api, queues=["acme"]), await foreign(api)
    before = await api.scheduler.schedules.get(id)
    refused = await tenant.call(method, f"/api/{path}", json=body)
    assert (refused.status, refused.body["detail"]) == (403, BEYOND)
    assert await api.scheduler.schedules.get(id) == before
    assert [job async for job in api.scheduler.jobs()] == []
    admin = api.with_key((await api.scheduler.api_keys.create("admin", "admin")).text)
    assert (await admin.call(method, f"/api/{path}", json=body)).status in (200, 201)
