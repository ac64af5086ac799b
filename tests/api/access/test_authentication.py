"""Which callers are let in, what every caller is told, and what stays outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from api.conftest import Api, Reply, serving
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import Scheduler

Make = Callable[..., Scheduler]
KEY = {"name": "ops", "role": "admin"}
ELSEWHERE = {"Origin": "https://evil.example"}
PROTECTING = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def check_problem(reply: Reply, status: int, words: str) -> None:
    assert (reply.status, reply.headers["content-type"]) == (status, "application/problem+json"), reply.text
    assert (reply.body["status"], reply.body["success"]) == (status, False)
    assert words in reply.body["detail"]


async def keys_of(api: Api) -> int:
    return len(await api.scheduler.api_keys.all())


async def test_the_service_says_that_it_is_alive_to_anybody(api: Api) -> None:
    reply = await api.get("/livez", headers={"X-Forwarded-For": "203.0.113.9"})
    assert (reply.status, reply.body) == (200, {"status": "ok"})


async def test_whoever_is_on_this_machine_is_let_in_while_there_is_no_key(api: Api) -> None:
    assert (await api.get("/api/session")).status == 200
    await api.scheduler.api_keys.create("ops", "admin")
    assert (await api.get("/api/session")).status == 401


async def test_taking_the_last_key_back_does_not_open_the_door(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    made = await scheduler.api_keys.create("ops", "admin")
    await scheduler.api_keys.revoke(made.key.id)
    async with serving(scheduler) as api:
        check_problem(await api.get("/api/session"), 401, "An API key is needed.")


@pytest.mark.parametrize(
    "header",
    [
        *("X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Via", "X-Real-IP"),
        *("CF-Connecting-IP", "True-Client-IP"),
    ],
)
async def test_a_forwarded_request_is_not_one_of_this_machine(api: Api, header: str) -> None:
    check_problem(await api.get("/api/session", headers={header: "127.0.0.1"}), 401, "from this very machine")


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::1", "a:b:c"])
async def test_a_name_that_another_site_points_here_is_refused(api: Api, host: str) -> None:
    reply = await api.post("/api/keys", KEY, headers={"Host": host})
    check_problem(reply, 403, "does not name this machine")
    assert await keys_of(api) == 0


async def test_a_name_that_was_configured_is_this_machines(make_scheduler: Make) -> None:
    async with serving(make_scheduler(), hosts="jobs.internal, other") as api:
        assert (await api.get("/api/session", headers={"Host": "JOBS.internal:3000"})).status == 200
        assert (await api.get("/api/session", headers={"Host": "jobs.internal.evil"})).status == 403


@pytest.mark.parametrize(
    "headers",
    [
        ELSEWHERE,
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://[::1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
async def test_a_page_of_another_site_cannot_change_anything(api: Api, headers: dict[str, str]) -> None:
    check_problem(await api.post("/api/keys", KEY, headers=headers), 403, "another site")
    assert await keys_of(api) == 0


async def test_our_own_pages_are_let_in(api: Api) -> None:
    headers = {"Origin": api.url, "Sec-Fetch-Site": "same-origin"}
    assert (await api.get("/api/session", headers=headers)).status == 200


@pytest.mark.parametrize("body", [b"name=ops", b'{"name": "ops"}', b""], ids=str)
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"])
async def test_a_form_cannot_change_anything(api: Api, kind: str, body: bytes) -> None:
    reply = await api.call("POST", "/api/keys", data=body, headers={"Content-Type": kind})
    check_problem(reply, 415, "application/json")
    assert await keys_of(api) == 0


async def test_no_other_origin_is_given_leave(api: Api) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    reply = await api.call("OPTIONS", "/api/keys", headers=ELSEWHERE | asked)
    assert reply.status >= 400
    assert not [name for name in reply.headers if name.startswith("access-control-")]


async def test_who_is_not_recognised_is_told_how_to_be(api: Api) -> None:
    await api.scheduler.api_keys.create("ops", "admin")
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic eDp5"}, {"X-Api-Key": ""}):
        reply = await api.get("/api/session", headers=headers)
        check_problem(reply, 401, "mainspring keys create")
        assert reply.headers["www-authenticate"] == 'Bearer realm="mainspring"'


async def test_a_key_is_taken_only_as_it_is(api: Api) -> None:
    text = (await api.scheduler.api_keys.create("ops", "admin")).text
    assert (await api.with_key(text).get("/api/session")).status == 200
    assert (await api.get("/api/session", headers={"X-Api-Key": text})).status == 200
    for wrong in (
        text[:-1],
        text + "a",
        text.lower(),
        text.upper(),
        "x" + text,
        text.replace("ms_", "MS_"),
        f"{text}\t.",
    ):
        assert (await api.with_key(wrong).get("/api/session")).status == 401, wrong
    assert (await api.get(f"/api/session?key={text}&api_key={text}")).status == 401


async def test_a_revoked_key_is_refused_at_once(api: Api) -> None:
    made = await api.scheduler.api_keys.create("ops", "admin")
    assert (await api.with_key(made.text).get("/api/session")).status == 200
    await api.scheduler.api_keys.revoke(made.key.id)
    assert (await api.with_key(made.text).get("/api/session")).status == 401


@pytest.mark.parametrize("path", ["/livez", "/docs", "/openapi.json", "/api/session", "/nothing", "/static/docs.css"])
async def test_every_answer_has_the_headers_that_protect_browsers(api: Api, path: str) -> None:
    reply = await api.get(path)
    assert {name: reply.headers.get(name) for name in PROTECTING} == PROTECTING
    assert "server" not in reply.headers
    assert path.startswith("/static/") or reply.headers["cache-control"] == "no-store"


async def test_what_goes_wrong_is_a_problem(api: Api) -> None:
    check_problem(await api.get("/nothing"), 404, "Not Found")
    check_problem(await api.get("/static/../app.py"), 404, "Not Found")
    refused = await api.delete("/api/audit")
    check_problem(refused, 405, "This path has no method DELETE; it takes GET.")
    assert refused.headers["allow"] == "GET"
    refused = await api.delete("/api/pauses")
    check_problem(refused, 405, "This path has no method DELETE; it takes GET, POST.")
    assert refused.headers["allow"] == "GET, POST"
    check_problem(await api.delete("/api/pauses/resume"), 405, "it takes POST.")
    check_problem(await api.post("/api/keys", {**KEY, "hash": "x"}), 422, "There is no such field")
    check_problem(await api.delete("/api/keys/nobody"), 404, "There is no valid API key")
    broken = await api.call("POST", "/api/keys", data="{", headers={"Content-Type": "application/json"})
    check_problem(broken, 400, "not valid JSON")


async def test_a_body_that_is_too_large_is_refused_however_it_is_sent(make_scheduler: Make) -> None:
    async def in_pieces() -> Any:
        for _ in range(100):
            yield b" " * 1024

    async with serving(make_scheduler(), max_body=2048) as api:
        check_problem(await api.post("/api/keys", {"name": "x" * 3000}), 413, "MAINSPRING_MAX_BODY")
        reply = await api.call("POST", "/api/keys", data=in_pieces(), headers={"Content-Type": "application/json"})
        check_problem(reply, 413, "2,048 bytes")


async def test_a_body_that_says_it_is_too_large_is_refused_before_any_of_it_has_come(api: Api) -> None:
    host, _, port = api.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /api/keys HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: 99999999\r\n\r\n".encode())
    line = await asyncio.wait_for(reader.readline(), 60)
    writer.close()
    assert b" 413 " in line


async def test_who_asks_too_often_is_told_when_to_come_back(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    first, second = [(await scheduler.api_keys.create(name, "viewer")).text for name in ("one", "two")]
    async with serving(scheduler, requests_per_minute=4) as api:
        statuses = [(await api.with_key(first).get("/api/session")).status for _ in range(5)]
        assert statuses == [200, 200, 200, 200, 429]
        refused = await api.with_key(first).get("/api/session")
        check_problem(refused, 429, "MAINSPRING_REQUESTS_PER_MINUTE")
        assert int(refused.headers["retry-after"]) > 0
        assert [(await api.with_key(second).get("/api/session")).status for _ in range(4)] == [200] * 4
        assert (await api.get("/livez")).status == 200


async def test_while_mongodb_is_away_the_answer_is_503_and_no_acknowledged_job_is_lost() -> None:
    servers = Servers(1)
    servers.start()
    scheduler = Scheduler(servers.uri("away"), operation_timeout=1)
    replies: list[Reply] = []
    try:
        async with serving(scheduler) as api:
            load = [asyncio.create_task(keep_creating(api, replies)) for _ in range(4)]
            await eventually(lambda: len(replies) > 20)
            servers.nodes[0].kill()
            await eventually(lambda: any(reply.status == 503 for reply in replies), 60)
            servers.nodes[0].start()
            await eventually(lambda: [reply.status for reply in replies[-20:]] == [201] * 20, 60)
            for task in load:
                task.cancel()
            await asyncio.wait(load)
            assert {reply.status for reply in replies} == {201, 503}
            assert all(int(reply.headers["retry-after"]) > 0 for reply in replies if reply.status == 503)
            for reply in replies:
                if reply.status == 201:
                    assert (await api.get(f"/api/jobs/{reply.data['jobId']}")).status == 200
    finally:
        await scheduler.stop(graceful=False)
        servers.stop()


async def keep_creating(api: Api, replies: list[Reply]) -> None:
    while True:
        replies.append(await api.post("/api/jobs", {"name": "work"}))
        await asyncio.sleep(0.02)
