"""One attempt at a webhook, against raw listeners: what is sent, what counts as success, and what is kept."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession
from yarl import URL

from harness.sinks import Received, Sink, free_port, reply
from harness.waiting import eventually
from harness.webhooks import NOW, SECRETS, VAULT, Vault, call, facts, local_session
from mainspring.jobtypes.http import webhook
from mainspring.jobtypes.http.secret_references import MASK, Scrubber
from mainspring.jobtypes.http.webhook import (
    WebhookError,
    WebhookFailed,
    WebhookRejected,
    WebhookResponse,
    parse_request,
    send,
)
from mainspring.model.privacy.secrets import Lent


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with local_session() as session:
        yield session


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with Sink() as sink:
        yield sink


def verifies(name: str, request: Received) -> bool:
    key = base64.b64decode(SECRETS[name].removeprefix("whsec_"))
    signed = f"{request.header('webhook-id')}.{request.header('webhook-timestamp')}.".encode() + request.body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return expected in (request.header("webhook-signature") or "").split(" ")


async def test_what_is_configured_is_what_arrives(session: ClientSession, sink: Sink) -> None:
    response = await call(
        session,
        sink.url + "/users/{{data.id}}?a=1",
        {"id": "x/y"},
        method="PUT",
        headers={"X-Attempt": "{{attempt}}", "Authorization": "Bearer secret://token", "user-agent": "mine"},
        query={"when": "{{scheduled_at}}"},
        body={"id": "{{data.id}}", "attempt": "{{attempt}}", "at": "{{timestamp}}", "job": "job {{job.id}}"},
    )
    (request,) = sink.received
    assert request.line == "PUT /users/x%2Fy?a=1&when=2026-11-15T12%3A00%3A00.000Z HTTP/1.1"
    assert json.loads(request.body) == {
        "id": "x/y",
        "attempt": 2,
        "at": "2026-11-15T12:00:00.000Z",
        "job": "job job-1",
    }
    assert dict(request.headers) == {
        "Host": f"127.0.0.1:{sink.port}",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "Content-Length": str(len(request.body)),
        "X-Attempt": "2",
        "Authorization": "Bearer canary-token-value",
        "user-agent": "mine",
        "Mainspring-Fencing-Token": "7",
        "webhook-id": "msg_job-1",
        "webhook-timestamp": str(int(NOW.timestamp())),
    }
    assert (response.status, response.body, response.body_note) == (200, None, None)
    assert response.url == sink.url + request.path


async def test_a_body_is_sent_as_json_text_or_bytes(session: ClientSession, sink: Sink) -> None:
    for fields, body, kind in (
        ({"body": ["ä"]}, b'["\\u00e4"]', "application/json"),
        ({"body": "ä"}, "ä".encode(), "text/plain; charset=utf-8"),
        ({"body_base64": "AP8="}, b"\x00\xff", "application/octet-stream"),
        ({"body": "<a/>", "headers": {"content-type": "text/xml"}}, b"<a/>", "text/xml"),
        ({}, b"", None),
    ):
        await call(session, sink.url, **fields)
        assert (sink.received[-1].body, sink.received[-1].header("content-type")) == (body, kind)


async def test_the_bytes_that_are_sent_are_signed_with_every_secret_and_one_id(
    session: ClientSession, sink: Sink
) -> None:
    request = parse_request({"url": sink.url, "body": {"at": "{{timestamp}}"}, "sign_with": ["next", "signer"]})
    for attempt in (1, 2):
        await send(session, request, facts(attempt=attempt), VAULT)
    assert [verifies(name, one) for one in sink.received for name in ("next", "signer")] == [True] * 4
    assert len({one.header("webhook-id") for one in sink.received}) == 1


async def test_while_a_secret_is_being_replaced_both_of_its_values_sign_and_neither_is_kept(
    session: ClientSession, sink: Sink
) -> None:
    sink.answers = [reply(200, "\n".join((SECRETS["signer"], SECRETS["next"][6:])).encode())]
    request = parse_request({"url": sink.url, "body": {}, "sign_with": ["renewed"]})
    kept = await send(session, request, facts(), Vault({"renewed": [SECRETS["next"], SECRETS["signer"]]}))
    assert [verifies(name, sink.received[0]) for name in ("next", "signer")] == [True] * 2
    assert kept.body == f"{MASK}\n{MASK}"


@pytest.mark.parametrize(
    ("status", "retry_on", "outage"),
    [(404, None, False), (410, None, False), (302, None, False), (500, None, True), (503, [], True), (429, None, True),
     (404, ["4xx"], False)],
)  # fmt: skip
async def test_an_error_tells_breakers_whether_the_target_is_down(
    session: ClientSession, sink: Sink, status: int, retry_on: Any, outage: bool
) -> None:
    sink.answers = [reply(status)]
    with pytest.raises(WebhookError) as raised:
        await call(session, sink.url, **({} if retry_on is None else {"retry_on": retry_on}))
    assert raised.value.outage is outage


async def test_no_answer_at_all_is_an_outage_and_no_request_at_all_is_not(session: ClientSession) -> None:
    nobody = f"http://127.0.0.1:{free_port('127.0.0.1')}"
    tries: tuple[dict[str, Any], ...] = ({}, {"retry_on": []})
    for fields in tries:
        with pytest.raises(WebhookError) as raised:
            await call(session, nobody, **fields)
        assert raised.value.outage is True
    never: tuple[tuple[str, dict[str, Any]], ...] = (
        ("http://10.0.0.1/", {}),
        (nobody, {"headers": {"X": "secret://missing"}}),
    )
    for url, fields in never:
        with pytest.raises(WebhookRejected) as rejected:
            await call(session, url, **fields)
        assert rejected.value.outage is None


async def test_the_trace_is_passed_on_when_it_is_one(session: ClientSession, sink: Sink) -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    for given in (trace, "00-x\r\nX-Evil: 1"):
        await send(session, parse_request({"url": sink.url}), facts(traceparent=given), VAULT)
    assert [one.header("traceparent") for one in sink.received] == [trace, None]


@pytest.mark.parametrize(
    ("status", "fields"),
    [(200, {}), (204, {}), (299, {}), (404, {"success": [200, 404]}), (302, {"success": ["3xx"]})],
)
async def test_a_status_among_those_of_success_is_one(
    session: ClientSession, sink: Sink, status: int, fields: dict[str, Any]
) -> None:
    sink.answers = [reply(status)]
    assert (await call(session, sink.url, **fields)).status == status


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (400, {}),
        (401, {}),
        (404, {}),
        (410, {}),
        (410, {"retry_on": ["4xx"]}),
        (503, {"retry_on": []}),
        (302, {}),
    ],
)
async def test_a_status_that_trying_again_does_not_mend_is_final(
    session: ClientSession, sink: Sink, status: int, fields: dict[str, Any]
) -> None:
    sink.answers = [reply(status, b"why", Location="/x")]
    with pytest.raises(WebhookRejected, match=f"answered {status}") as caught:
        await call(session, sink.url, **fields)
    assert caught.value.response is not None
    assert (caught.value.response.status, caught.value.response.body) == (status, "why")
    assert sink.connections == 1


@pytest.mark.parametrize(
    ("status", "wait", "seconds"),
    [
        (408, None, None),
        (425, "", None),
        (429, "7", 7.0),
        (500, "soon", None),
        (503, "999999999", 86400.0),
        (503, "Sun, 15 Nov 2026 11:00:00 GMT", 0.0),
    ],
)
async def test_a_status_that_may_pass_is_tried_again_when_the_target_says(
    session: ClientSession, sink: Sink, status: int, wait: str | None, seconds: float | None
) -> None:
    sink.answers = [reply(status, b"", **({} if wait is None else {"Retry_After": wait}))]
    with pytest.raises(WebhookFailed, match=f"answered {status}") as caught:
        await call(session, sink.url)
    assert caught.value.retry_after == seconds


async def test_the_date_of_retry_after_is_read_by_the_attempts_own_clock(session: ClientSession, sink: Sink) -> None:
    sink.answers = [reply(503, Retry_After="Sun, 15 Nov 2026 13:00:00 GMT")]
    with pytest.raises(WebhookFailed) as caught:
        await call(session, sink.url)
    assert 3500 < (caught.value.retry_after or 0) <= 3600


async def test_a_broken_connection_is_tried_again_unless_told_otherwise(session: ClientSession, sink: Sink) -> None:
    closed = f"http://127.0.0.1:{free_port('127.0.0.1')}/canary?key=canary"
    answers = [
        b"",
        b"canary\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\ncanary",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ncanary\r\n",
        b"HTTP/1.1 999999 X\r\n\r\n",
    ]
    for url, answer in ((closed, b""), *((sink.url + "/canary", answer) for answer in answers)):
        sink.answers = [answer]
        with pytest.raises(WebhookFailed, match="broke:") as caught:
            await call(session, url)
        assert "canary" not in str(caught.value)
        assert caught.value.response is None
        with pytest.raises(WebhookRejected):
            await call(session, url, retry_on=["5xx"])


async def test_a_target_that_is_silent_or_slow_ends_at_the_timeout(session: ClientSession, sink: Sink) -> None:
    async def silent(request: Received, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def trickle(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.01)

    for script in (silent, trickle):
        sink.answers = [script]
        with pytest.raises(WebhookFailed, match=r"did not answer in full within 0\.3 s"):
            await call(session, sink.url, timeout=0.3)


async def test_of_an_endless_body_only_the_beginning_is_read(session: ClientSession, sink: Sink) -> None:
    ended = asyncio.Event()

    async def endless(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
        finally:
            ended.set()

    sink.answers = [endless]
    response = await call(session, sink.url, max_response=1000)
    assert (response.body, response.body_note) == ("x" * 1000, "cut after 1,000 bytes")
    await eventually(ended.is_set)


async def test_a_compressed_body_is_unpacked_no_further_than_it_is_kept(session: ClientSession, sink: Sink) -> None:
    sink.answers = [reply(200, gzip.compress(b"0" * 50_000_000), Content_Encoding="gzip")]
    response = await call(session, sink.url, max_response=100)
    assert (response.body, response.body_note) == ("0" * 100, "cut after 100 bytes")
    sink.answers = [reply(200, gzip.compress(b"small"), Content_Encoding="gzip")]
    assert (await call(session, sink.url)).body == "small"


def redirecting(*places: str, status: int = 302) -> list[Any]:
    return [*(reply(status, Location=place) for place in places), reply(200, b"end")]


async def test_redirects_are_followed_as_far_as_they_are_allowed(session: ClientSession, sink: Sink) -> None:
    sink.answers = redirecting("/1", f"{sink.url}/2?x=1#part", "3")
    response = await call(session, sink.url + "/a/b", redirects=3)
    assert (response.body, response.url) == ("end", sink.url + "/3")
    assert [one.path for one in sink.received] == ["/a/b", "/1", "/2?x=1", "/3"]
    sink.answers = redirecting("/1", "/2", "/3")
    with pytest.raises(WebhookRejected, match="after 2 redirects") as caught:
        await call(session, sink.url, redirects=2)
    assert caught.value.response is not None


@pytest.mark.parametrize(
    ("status", "method", "after", "body"),
    [
        (301, "POST", "GET", b""),
        (302, "PUT", "PUT", b"[1]"),
        (303, "PUT", "GET", b""),
        (307, "POST", "POST", b"[1]"),
        (308, "POST", "POST", b"[1]"),
    ],
)
async def test_a_redirect_keeps_or_drops_method_and_body_as_its_status_says(
    session: ClientSession, sink: Sink, status: int, method: str, after: str, body: bytes
) -> None:
    sink.answers = redirecting("/next", status=status)
    await call(session, sink.url, method=method, body=[1], redirects=1)
    assert (sink.received[1].line.split(" ")[0], sink.received[1].body) == (after, body)
    assert (sink.received[1].header("content-type") is None) == (not body)


async def test_on_another_server_no_credential_arrives(session: ClientSession, sink: Sink) -> None:
    headers = {"Authorization": "Bearer secret://token", "X-Api-Key": "k", "Cookie": "a=b", "Accept-Language": "de"}
    async with Sink() as other:
        sink.answers = redirecting("/same", other.url, status=307)
        await call(session, sink.url, headers=headers, body={"a": 1}, sign_with=["signer"], redirects=2)
        assert sink.received[1].header("authorization") == "Bearer canary-token-value"
        assert {name.lower() for name, _ in other.received[0].headers} == {
            *("host", "accept", "accept-encoding", "accept-language", "user-agent", "content-type", "content-length")
        }


def test_no_redirect_leads_from_https_to_http() -> None:
    kept = WebhookResponse(307, {}, None, None, 1, "")
    there = webhook._Call("POST", URL("https://a.example/"), {}, b"", Scrubber(), {})
    with pytest.raises(WebhookRejected, match="from https to http"):
        webhook._redirected(there, webhook._Answer(kept, "http://a.example/", None))
    assert webhook._redirected(there, webhook._Answer(kept, "/x", None)).url == URL("https://a.example/x")


async def test_cookies_of_one_answer_are_not_sent_with_the_next_request(session: ClientSession, sink: Sink) -> None:
    sink.answers = [reply(200, Set_Cookie="session=canary; Path=/")]
    first = await call(session, sink.url)
    await call(session, sink.url)
    assert sink.received[1].header("cookie") is None
    assert first.headers["set-cookie"] == MASK


async def test_no_secret_is_kept_of_an_answer_that_repeats_it(session: ClientSession, sink: Sink) -> None:
    token, key = SECRETS["token"], SECRETS["signer"]

    async def echo(request: Received, writer: asyncio.StreamWriter) -> None:
        basic = base64.b64encode(f"user:{token}".encode()).decode()
        said = json.dumps({"headers": request.headers, "basic": basic, "key": key, "bare": key.removeprefix("whsec_")})
        writer.write(reply(400, said.encode(), X_Echo=token, X_Basic=basic))
        await writer.drain()

    sink.answers = [echo]
    for limit in (65536, 200):
        with pytest.raises(WebhookRejected) as caught:
            headers = {"Authorization": "Bearer secret://token"}
            await call(session, sink.url, headers=headers, sign_with=["signer"], max_response=limit)
        kept = f"{caught.value!r} {caught.value.response}"
        for part in (
            token,
            token[:8],
            token[-8:],
            key[:12],
            key[-12:],
            base64.b64encode(token.encode()).decode()[4:16],
        ):
            assert part not in kept
        assert MASK in kept


async def test_no_credential_or_hidden_value_that_a_template_put_in_is_kept(session: ClientSession, sink: Sink) -> None:
    async def echo(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(200, repr((request.headers, request.body)).encode()))

    sink.answers = [echo]
    asked = {
        "headers": {"Authorization": "Bearer {{data.key}}", "X-Other": "{{data.pin}}"},
        "body": {"p": "{{data.pin}}"},
    }
    request = parse_request({"url": sink.url, **asked})
    kept = await send(session, request, facts({"key": "k3y-value", "pin": "p1n-value"}), VAULT, hidden=["p1n-value"])
    assert "k3y-value" in repr(sink.received) and repr(sink.received).count("p1n-value") == 2
    assert "k3y-value" not in repr(kept) and "p1n-value" not in repr(kept)


async def test_no_secret_is_kept_of_a_redirect_that_repeats_it(session: ClientSession, sink: Sink) -> None:
    token = SECRETS["token"]
    headers = {"Authorization": "secret://token"}
    sink.answers = redirecting(f"/{token}?t={token}")
    assert token not in str(await call(session, sink.url, headers=headers, redirects=1))
    for place in (f"http://{token}:x/", f"http://{token}@a.example/", f"ftp://{token}/", f"http://{token}.localhost/"):
        sink.answers = redirecting(place)
        with pytest.raises(WebhookError) as caught:
            await call(session, sink.url, headers=headers, redirects=1)
        assert token not in f"{caught.value} {caught.value.response}"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"headers": {"A": "secret://missing"}}, "no secret 'missing'"),
        ({"sign_with": ["missing"]}, "no secret 'missing'"),
        ({"headers": {"A": "x secret://broken"}}, "'broken' is empty, or has a line break"),
        ({"sign_with": ["weak"]}, "24 to 64 bytes"),
        ({"headers": {"A": "{{data.evil}}"}}, "header A has a line break"),
        ({"headers": {"A": "{{data.wide}}"}}, "header A has a line break"),
        ({"headers": {"A": "{{data.nothing}}"}}, "nothing at"),
        ({"body": ["{{data.nothing}}"]}, "nothing at"),
    ],
)
async def test_what_cannot_be_filled_in_is_final_and_nothing_is_sent(
    session: ClientSession, sink: Sink, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(WebhookRejected) as caught:
        await call(session, sink.url, {"evil": "canary\r\nX-B: 1", "wide": "canary嘊"}, **fields)
    assert said in str(caught.value)
    assert "canary" not in str(caught.value)
    assert sink.connections == 0


async def test_the_jobs_data_cannot_ask_for_a_secret(session: ClientSession, sink: Sink) -> None:
    data = {"x": "secret://token", "y": "{{job.id}}"}
    await call(session, sink.url, data, headers={"A": "{{data.x}} secret://token {{data.y}}"})
    assert sink.received[0].header("A") == "secret://token canary-token-value {{job.id}}"


async def test_a_failure_to_look_a_secret_up_is_not_taken_for_its_absence(session: ClientSession, sink: Sink) -> None:
    class Away:
        async def lend(self, name: str, origin: str) -> Lent:
            raise ConnectionError("the database is away")

    with pytest.raises(ConnectionError):
        await send(session, parse_request({"url": sink.url, "sign_with": ["a"]}), facts(), Away())
    assert sink.connections == 0
