"""Requests that say what the service does not know: refused with the right name, never answered as if they had not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from api.conftest import Api
from mainspring import Cron, Scheduler
from mainspring.api.app import make_app
from mainspring.api.settings import service_settings


def endpoints(routes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """The methods and paths of all routes, with something in place of their parameters."""
    for route in routes:
        if hasattr(route, "original_router"):
            yield from endpoints(route.original_router.routes)
        elif getattr(route, "methods", None) and route.include_in_schema:
            for method in sorted(route.methods - {"HEAD"}):
                yield method, re.sub(r"\{(\w+)(?::path)?\}", lambda found: PLACES.get(found[1], "x"), route.path)


PLACES = {"scope": "queue", "id": "6890b1f2c7a4e1d2f3a4b5c6"}
ALL = sorted(set(endpoints(make_app(Scheduler("mongodb://127.0.0.1:1/x"), service_settings()).routes)))


def test_the_walk_meets_every_kind_of_route() -> None:
    assert len(ALL) > 60
    assert {method for method, _ in ALL} == {"GET", "POST", "PUT", "PATCH", "DELETE"}


@pytest.mark.slow
async def test_an_unknown_parameter_is_refused_by_every_route(api: Api) -> None:
    for method, path in ALL:
        reply = await api.call(method, f"{path}?bogus=1", json={} if method != "GET" else None)
        assert (reply.status, reply.body["errors"][0]["field"]) == (422, "query.bogus"), (method, path)
        assert "There is no parameter 'bogus'" in reply.body["detail"], (method, path)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/api/jobs?status=failed", "did you mean 'state'?"),
        ("/api/jobs?tags=red", "did you mean 'tag'?"),
        ("/api/audit?actr=me", "did you mean 'actor'?"),
        ("/api/stats?que=mail", "did you mean 'queue'?"),
        ("/api/schedules?status=active", "did you mean 'state'?"),
        ("/api/jobs/search?schedule_id=x", "did you mean 'scheduleId'?"),
        ("/api/jobs/search?q=x", "this path takes cursor, dedupeKey, error,"),
        ("/api/queues?name=x", "this path takes cursor, limit."),
        ("/api/workers?name=x", "this path takes none."),
    ],
)
async def test_the_parameter_that_was_meant_is_named(api: Api, path: str, meant: str) -> None:
    reply = await api.get(path)
    assert reply.status == 422 and meant in reply.body["detail"]


async def test_jobs_are_listed_by_state_name_queue_tag_and_kind(api: Api) -> None:
    scheduler = api.scheduler
    plain = await scheduler.schedule("a", queue="one", tags=["red"], delay=60)
    ended = await scheduler.schedule("b", queue="two", delay=60)
    await scheduler.cancel(ended.id)
    nightly = await scheduler.schedule("a", repeat=Cron("0 0 1 1 *"), queue="two", tags=["red"], schedule_id="nightly")

    async def listed(query: str) -> list[str]:
        return [one["_id"] for one in (await api.get(f"/api/jobs?{query}")).data]

    assert await listed("") == [nightly.id, ended.id, plain.id]
    assert await listed("state=cancelled") == [ended.id]
    assert await listed("state=failed") == []
    assert await listed("name=a") == [nightly.id, plain.id]
    assert await listed("tag=red&kind=job") == [plain.id]
    assert await listed("queue=two") == [nightly.id, ended.id]
    assert await listed("kind=schedule") == [nightly.id]


async def test_a_list_goes_on_with_the_same_choice(api: Api) -> None:
    jobs = [await api.scheduler.schedule("a" if n % 2 else "b", delay=60) for n in range(6)]
    wanted = [job.id for job in reversed(jobs) if job.name == "a"]
    first = await api.get("/api/jobs?name=a&limit=2")
    second = await api.get(f"/api/jobs?name=a&limit=2&cursor={first.body['next']}")
    assert [one["_id"] for one in first.data + second.data] == wanted
    assert (await api.get(f"/api/jobs?name=b&cursor={first.body['next']}")).status == 422


async def test_a_state_that_no_job_has_is_refused_with_those_that_there_are(api: Api) -> None:
    reply = await api.get("/api/jobs?state=done")
    assert reply.status == 422 and "'completed'" in reply.body["detail"]


WEBHOOK: dict[str, Any] = {
    "schedule": "0 3 * * *",
    "timezone": "Europe/Paris",
    "endpoint": "https://api.example.com/hook",
}


async def test_what_creates_a_schedule_changes_and_previews_it(api: Api) -> None:
    made = (await api.post("/api/jobs", {**WEBHOOK, "id": "nightly"})).data
    assert (made["_id"], made["timezone"]) == ("nightly", "Europe/Paris")
    for change in (
        WEBHOOK,
        {**WEBHOOK, "schedule": "0 4 * * *", "jitter": "30s", "misfireGrace": "5m", "pauseAfter": 3},
    ):
        firings = (await api.post("/api/schedules/preview", {**change, "count": 1})).data
        changed = (await api.put("/api/schedules/nightly", change)).data
        assert firings[0]["local"].partition("T")[2][:5] == change["schedule"][2:3].zfill(2) + ":00"
        assert (changed["id"], changed["name"], changed["rule"]["timezone"]) == (
            "nightly",
            "mainspring:http",
            "Europe/Paris",
        )
    assert (changed["jitter"], changed["policy"]["misfireGrace"], changed["pauseAfter"]) == ("30s", "5m", 3)
    edited = (await api.put("/api/jobs/nightly", {"schedule": "0 5 * * *", "misfireGrace": "2m"})).data
    assert edited["schedule"] == "0 5 * * *"
    assert (await api.get("/api/schedules/nightly")).data["policy"]["misfireGrace"] == "2m"


async def test_a_schedule_that_is_stored_disabled_is_paused_until_it_is_enabled(api: Api) -> None:
    assert (await api.put("/api/schedules/nightly", {**WEBHOOK, "enabled": False})).data["state"] == "paused"
    assert (await api.put("/api/schedules/nightly", WEBHOOK)).data["state"] == "paused"
    assert (await api.put("/api/schedules/nightly", {**WEBHOOK, "enabled": True})).data["state"] == "active"


@pytest.mark.parametrize("body", [{"endpoint": "https://api.example.com/x"}, {**WEBHOOK, "id": "other"}])
async def test_a_schedule_without_times_or_with_another_id_is_not_stored(api: Api, body: dict[str, Any]) -> None:
    assert (await api.put("/api/schedules/nightly", body)).status == 422
    assert (await api.get("/api/schedules")).data == []


@pytest.mark.parametrize(
    ("field", "body"),
    [
        (field, {"name": "x", field: 60})
        for field in ("delay", "timeout", "startWithin", "dedupeWindow", "jitter", "misfireGrace", "startDeadline")
    ],
)
async def test_a_duration_without_a_unit_is_refused_with_how_to_write_it(
    api: Api, field: str, body: dict[str, Any]
) -> None:
    reply = await api.post("/api/jobs", body)
    assert (reply.status, reply.body["errors"][0]["field"]) == (422, field)
    assert 'write "60s" for seconds, "60ms" for milliseconds' in reply.body["detail"]


async def test_a_duration_is_text_and_means_the_same_as_in_python(api: Api) -> None:
    before = api.scheduler.now()
    made = (await api.post("/api/jobs", {"name": "x", "delay": "1m", "timeout": "5m", "startWithin": "1h"})).data
    job = await api.scheduler.get_job(made["_id"])
    assert 55 < (job.run_at - before).total_seconds() < 120
    assert (job.timeout, job.start_within) == (timedelta(minutes=5), timedelta(hours=1))
    shown = (await api.get(f"/api/jobs/{job.id}/detail")).data
    assert (shown["timeout"], shown["startWithin"]) == ("5m", "1h")


async def test_retries_are_counted_and_paused_as_other_services_do(api: Api) -> None:
    for delay in (5000, "5s"):
        made = (await api.post("/api/jobs", {"name": "x", "retryAttempts": 3, "retryDelay": delay})).data
        assert (made["retryAttempts"], made["retryDelay"]) == (3, 5000)
        retry = (await api.scheduler.get_job(made["_id"])).retry_policy
        assert retry is not None and (retry.attempts, retry.delay) == (4, 5.0)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("cron", "schedule"),
        ("tz", "timezone"),
        ("retry", "retryAttempts"),
        ("countdown", "delay"),
        ("eta", "runAt"),
        ("run_at_", "runAt"),
    ],
)
async def test_the_field_that_another_tool_calls_otherwise_is_named(api: Api, word: str, meant: str) -> None:
    reply = await api.post("/api/jobs", {"name": "x", word: "1"})
    assert reply.status == 422 and reply.body["errors"][0]["field"] == word
    assert f"did you mean {meant}?" in reply.body["detail"]


async def test_an_error_speaks_no_python(api: Api) -> None:
    reply = await api.post("/api/jobs", {"name": "x", "every": 60})
    assert reply.status == 422 and "not 60ms" in reply.body["detail"] and "datetime" not in reply.body["detail"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_a_number_that_json_does_not_have_is_refused_by_every_way_to_make_a_job(api: Api, number: str) -> None:
    bodies = {
        "/api/jobs": f'{{"name": "x", "data": {{"deep": [{{"n": {number}}}]}}}}',
        "/api/v1/create-job": f'{{"type": "x", "data": {{"n": {number}}}}}',
        "/api/dead-letters/retry": f'{{"everything": true, "data": {{"n": {number}}}}}',
        "/api/schedules/preview": f'{{"schedule": "0 9 * * *", "data": {{"n": {number}}}}}',
    }
    for path, body in bodies.items():
        refused = await api.call("POST", path, data=body, headers={"Content-Type": "application/json"})
        assert refused.status == 422, (path, refused.text)
    bulk = await api.call(
        "POST", "/api/jobs/bulk", data=bodies["/api/jobs"], headers={"Content-Type": "application/x-ndjson"}
    )
    assert '"error"' in bulk.text and '"id"' not in bulk.text, bulk.text


async def test_broken_json_is_told_by_its_place_not_as_a_field(api: Api) -> None:
    reply = await api.call("POST", "/api/jobs", data='{"name": "x",}', headers={"Content-Type": "application/json"})
    assert reply.status == 400 and "errors" not in reply.body
    assert "at character" in reply.body["detail"]


@pytest.mark.parametrize("body", [{"concurrency": 3}, {"concurrency": {"limit": 3}}])
async def test_a_limit_over_http_may_be_a_number_as_in_python(api: Api, body: dict[str, Any]) -> None:
    assert (await api.put("/api/limits/queue/http", body)).data["concurrency"] == {"limit": 3}
    assert (await api.put("/api/limits/queue/http", {"rate": "100/minute"})).data["rate"]["rate"] == "100/60s"


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/api/keys", {"name": "a", "expiresAt": "2020-01-01T00:00:00Z"}, "expiresAt"),
        ("POST", "/api/breakers/queue/a/open", {"openFor": "0s"}, "openFor"),
        ("POST", "/api/jobs", {"name": "a", "every": "1h", "id": "\x00"}, "id"),
        (
            "POST",
            "/api/alerts",
            {
                "name": "a",
                "kind": "dead_letters",
                "repeatEvery": "1s",
                "to": [{"type": "email", "to": ["a@example.com"]}],
            },
            "repeatEvery",
        ),
        ("POST", "/api/jobs", {"name": "a", "label": "\x00"}, "label"),
        ("POST", "/api/jobs", {"name": "a", "timeout": "0s"}, "timeout"),
        ("POST", "/api/jobs", {"name": "a", "throttle": "0s"}, "throttle"),
        ("GET", "/api/jobs/search?scheduleId=%00", None, "scheduleId"),
        ("GET", "/api/jobs/export?flowId=%00", None, "flowId"),
    ],
)
async def test_what_the_library_refuses_is_told_with_the_name_of_the_field_in_the_api(
    api: Api, method: str, path: str, body: dict[str, Any] | None, field: str
) -> None:
    reply = await api.call(method, path, json=body)
    assert (reply.status, reply.body["errors"][0]["field"]) == (422, field)
    assert field in reply.body["detail"] and "_" not in reply.body["detail"]


async def test_the_words_of_the_caller_stay_as_they_are_in_a_refusal(api: Api) -> None:
    reply = await api.post("/api/jobs", {"name": "a", "repeat": {"at": ["2020-01-01T00:00:00Z"]}, "id": "run_at"})
    assert (reply.status, "'run_at'" in reply.body["detail"]) == (422, True)


@pytest.mark.parametrize(
    ("path", "body", "field", "detail"),
    [
        ("/api/limits/queue/a", {"concurrency": 0}, "concurrency", "greater than or equal to 1"),
        ("/api/limits/queue/a", {"concurrency": {"limit": 0}}, "concurrency.limit", "greater than or equal to 1"),
        ("/api/limits/queue/a", {"concurrency": {}}, "concurrency.limit", "Field required"),
        ("/api/limits/queue/a", {"rate": 5}, "rate", "valid string"),
        ("/api/jobs", {"name": "a", "retryDelay": -1}, "retryDelay", "greater than or equal to 0"),
        ("/api/jobs", {"name": "a", "retryDelay": "soon"}, "retryDelay", "is not a duration"),
        ("/api/jobs", {"name": "a", "encrypt": [1]}, "encrypt.0", "valid string"),
        ("/api/jobs", {"name": "a", "encrypt": 5}, "encrypt", "valid boolean"),
        ("/api/jobs", {"endpoint": "https://a.example.com", "query": {"a": {"b": 1}}}, "query.a", "valid list"),
        ("/api/jobs", {"endpoint": "https://a.example.com", "query": {"a": [1]}}, "query.a.0", "valid string"),
        ("/api/jobs", {"endpoint": "https://a.example.com", "retryOn": ["5xx", 1.5]}, "retryOn.1", "valid string"),
        ("/api/jobs", {"name": "a", "bogus": 1}, "bogus", "no such field"),
        (
            "/api/flows",
            {"name": "a", "nodes": [{"name": "a", "job": "a", "item": "b", "over": {"node": 1}}]},
            "nodes.0.over.node",
            "valid string",
        ),
        ("/api/flows", {"name": "a", "nodes": [{"job": "a", "tolerate": -1}]}, "nodes.0.tolerate", "or equal to 0"),
    ],
)
async def test_a_fault_of_a_field_of_several_types_names_the_field_alone(
    api: Api, path: str, body: dict[str, Any], field: str, detail: str
) -> None:
    reply = await api.call("PUT" if "limits" in path else "POST", path, json=body)
    assert (reply.status, [one["field"] for one in reply.body["errors"]]) == (422, [field])
    assert detail in reply.body["errors"][0]["detail"]
    if path == "/api/jobs":
        line = json.loads((await api.call("POST", "/api/jobs/bulk", json=[body])).text)
        assert (line["error"]["field"], detail in line["error"]["detail"]) == (field, True)
