"""The paths of the older service: /api/v1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from api.conftest import Api, serving
from mainspring import Scheduler

Make = Callable[..., Scheduler]
MAIL = {"to": "user@example.com", "subject": "Scheduled Email", "message": "This is a test email."}


async def test_a_mail_is_created_for_a_time_and_answered_as_it_was(api: Api) -> None:
    body = {"type": "email", "data": MAIL, "scheduledTime": "2126-02-12T12:47:00"}
    reply = await api.post("/api/v1/create-job", body)
    assert (reply.status, reply.body["success"]) == (201, True)
    job = reply.body["job"]
    assert (job["type"], job["data"], job["status"]) == ("email", MAIL, "pending")
    assert (job["scheduledTime"], job["timezone"]) == ("2126-02-12T12:47:00.000Z", "UTC")
    assert len(job["_id"]) == 24 and job["createdAt"].endswith("Z") and job["__v"] == 0
    assert (await api.get(f"/api/v1/job/{job['_id']}")).body == {"success": True, "job": job}
    assert (await api.get("/api/v1/jobs")).body == {"success": True, "jobs": [job], "next": None, "complete": True}
    assert (await api.get(f"/api/jobs/{job['_id']}")).data["type"] == "email", "it is the same thing on all paths"


@pytest.mark.parametrize("kind", ["email", "http", "work"])
@pytest.mark.parametrize("time", ["0602-12-01T21:12:14Z", "9999-12-31T23:59:59", "0001-01-01T00:00:00+14:00"])
async def test_a_time_at_the_ends_of_the_calendar_is_refused(api: Api, kind: str, time: str) -> None:
    data = {"email": MAIL, "http": {"url": "https://example.com/"}}.get(kind, {})
    reply = await api.post("/api/v1/create-job", {"type": kind, "data": data, "scheduledTime": time})
    assert (reply.status, reply.body["errors"][0]["field"]) == (422, "scheduledTime")


async def test_a_time_without_an_offset_is_in_the_configured_zone_and_the_answer_says_which(
    make_scheduler: Make,
) -> None:
    async with serving(make_scheduler(), timezone="Asia/Kolkata") as api:
        body: dict[str, Any] = {"type": "email", "data": MAIL, "scheduledTime": "2125-02-12T12:47:00"}
        here = (await api.post("/api/v1/create-job", body)).body["job"]
        exact = (await api.post("/api/v1/create-job", {**body, "scheduledTime": "2125-02-12T12:47:00+01:00"})).body
    assert (here["scheduledTime"], here["timezone"]) == ("2125-02-12T07:17:00.000Z", "Asia/Kolkata")
    assert exact["job"]["scheduledTime"] == "2125-02-12T11:47:00.000Z"


async def test_a_handler_and_a_webhook_are_types_too(api: Api) -> None:
    one = (await api.post("/api/v1/create-job", {"type": "resize", "data": {"width": 640}})).body["job"]
    hook = {"url": "https://example.com/x", "method": "PUT", "headers": {"Authorization": "canary"}, "body": [1]}
    other = (await api.post("/api/v1/create-job", {"type": "http", "data": hook})).body["job"]
    assert (one["type"], one["data"]) == ("resize", {"width": 640})
    assert (other["type"], other["data"]["endpoint"], other["data"]["body"]) == ("http", "https://example.com/x", [1])
    assert other["data"]["headers"] == {"Authorization": "[redacted]"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "type"),
        ({"type": "email", "data": {}}, "data.to"),
        ({"type": "email", "data": MAIL, "when": 1}, "when"),
        ({"type": "email", "data": MAIL, "scheduledTime": "tomorrow"}, "scheduledTime"),
        ({"type": "http", "data": {"url": "http://127.0.0.1/"}}, "endpoint"),
        ({"type": "http", "data": {"url": "https://example.com/", "schedule": "* * * * *"}}, "data"),
        ({"type": "http", "data": {"url": 1}}, "data.url"),
        ({"type": "mainspring:http", "data": {}}, "name"),
        ({"type": "email", "data": MAIL, "scheduledTime": "0001-01-01T00:00:00+23:59"}, "scheduledTime"),
    ],
)
async def test_what_is_wrong_is_told_with_its_field(api: Api, body: dict[str, Any], field: str) -> None:
    reply = await api.post("/api/v1/create-job", body)
    assert (reply.status, reply.body["success"]) == (422, False), reply.text
    assert reply.body["errors"][0]["field"] == field, reply.text


async def test_schedules_are_not_jobs_here(api: Api) -> None:
    made = (await api.post("/api/jobs", {"name": "x", "every": 60_000})).data["jobId"]
    assert (await api.get(f"/api/v1/job/{made}")).status == 404
    assert (await api.get("/api/v1/jobs")).body["jobs"] == []


async def test_a_scope_counts_here_as_well(api: Api) -> None:
    job = await api.scheduler.schedule("other", delay=600)
    tenant = api.with_key((await api.scheduler.api_keys.create("t", "operator", queues=["acme"])).text)
    assert (await tenant.get(f"/api/v1/job/{job.id}")).status == 404
    assert (await tenant.get("/api/v1/jobs")).body["jobs"] == []
    assert (await tenant.post("/api/v1/create-job", {"type": "other"})).status == 403
