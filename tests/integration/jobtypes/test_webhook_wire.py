"""Hostile texts everywhere: what stands on the wire is what was configured, one request and its headers, no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from urllib.parse import unquote

import pytest
from aiohttp import ClientSession
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.sinks import Sink
from harness.webhooks import call, local_session
from mainspring import InvalidJob
from mainspring.jobtypes.http.webhook import WebhookRejected

OWN = ["host", "user-agent", "accept", "accept-encoding", "mainspring-fencing-token", "webhook-id", "webhook-timestamp"]
PIECES = st.sampled_from(
    ["\r\n", "\n", "\r", "\x00", "\x0b", "\x85", "\u2028", "嘊嘍", "X: y", ":", " ", "\t", "%0d%0a", "%", "{{", "}}",
     "{{data.v}}", "secret://token", "/", "..", "?", "#", "&", "=", "\\", '"', "HTTP/1.1",
     "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "a", "é"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=5).map("".join)
NAMES = st.text(st.sampled_from("abcXYZ-0_"), min_size=1, max_size=8).map("X-".__add__) | TEXTS


class Wire:
    """A sink and a session in an event loop of their own, since each example is a plain function call."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._stack = AsyncExitStack()
        self.sink, self.session = runner.run(self._open())

    async def _open(self) -> tuple[Sink, ClientSession]:
        sink = await self._stack.enter_async_context(Sink())
        return sink, await self._stack.enter_async_context(local_session())

    def call(self, url: str, data: dict[str, str], **fields: object) -> None:
        self.sink.received.clear()
        self.sink.connections = 0
        self._runner.run(call(self.session, self.sink.url + url, data, **fields))

    def close(self) -> None:
        self._runner.run(self._stack.aclose())


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with asyncio.Runner() as runner:
        wire = Wire(runner)
        yield wire
        wire.close()


LOOSE = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)


@LOOSE
@given(TEXTS, TEXTS)
def test_values_of_the_job_change_neither_request_line_nor_headers(wire: Wire, value: str, other: str) -> None:
    fields = {
        "headers": {"X-Value": "<{{data.h}}>"},
        "body": {"v": "{{data.v}}", "w": "<{{data.v}}>"},
        "query": {"q": "{{data.v}}"},
    }
    try:
        wire.call("/{{data.v}}-/end?p={{data.v}}", {"v": value, "h": other}, **fields)
    except WebhookRejected:
        assert wire.sink.connections == 0
        return
    (request,) = wire.sink.received
    method, path, version = request.line.split(" ")
    assert (method, version, wire.sink.connections, request.rest) == ("POST", "HTTP/1.1", 1, b"")
    steps, _, query = path.partition("?")
    assert [unquote(step) for step in steps.split("/")] == ["", value + "-", "end"]
    assert [unquote(pair) for pair in query.split("&")] == [f"p={value}", f"q={value}"]
    assert sorted(name.lower() for name, _ in request.headers) == sorted(
        [*OWN, "x-value", "content-type", "content-length"]
    )
    assert request.header("X-Value") == f"<{other}>"
    assert json.loads(request.body) == {"v": value, "w": f"<{value}>"}


@LOOSE
@given(st.dictionaries(NAMES, TEXTS, max_size=3), TEXTS | st.just("/ok"), st.sampled_from(["GET", "PUT"]) | TEXTS)
def test_what_an_author_writes_is_refused_or_sent_as_it_is(
    wire: Wire, headers: dict[str, str], path: str, method: str
) -> None:
    try:
        wire.call("/" + path, {"v": "value"}, headers=headers, method=method, templates=False)
    except (InvalidJob, WebhookRejected):
        assert wire.sink.connections == 0
        return
    (request,) = wire.sink.received
    assert (request.line.count(" "), wire.sink.connections, request.rest) == (2, 1, b"")
    assert request.line.startswith(f"{method.upper()} /")
    names = sorted(name.lower() for name, _ in request.headers if name.lower() != "content-length")
    assert names == sorted({*OWN, *(name.lower() for name in headers)})
    for name, value in headers.items():
        assert request.header(name) == value.replace("secret://token", "canary-token-value").strip()
