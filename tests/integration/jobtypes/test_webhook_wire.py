"""Hostile texts everywhere: what stands on the wire is what was configured, one request and its headers, no more.

Every byte is looked at, on one connection after another request: whatever is smuggled shows as a request of its own.
MAINSPRING_FUZZ=full tries 100,000 examples of each.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import unquote, unquote_to_bytes

import pytest
from aiohttp import ClientSession
from hypothesis import event, given
from hypothesis import strategies as st

from harness.fuzzing import LONG, examples, mostly
from harness.sinks import Received
from harness.tap import Tap
from harness.webhooks import call, local_session
from mainspring import InvalidJob
from mainspring.jobtypes.http.webhook import WebhookRejected

pytestmark = LONG
OWN = ["host", "user-agent", "accept", "accept-encoding", "mainspring-fencing-token", "webhook-id", "webhook-timestamp"]
PIECES = st.sampled_from(
    ["\r\n", "\n", "\r", "\x00", "\x0b", "\x85", "\u2028", "嘊嘍", "X: y", ":", " ", "\t", "%0d%0a", "%", "{{", "}}",
     "{{data.v}}", "secret://token", "/", "..", "?", "#", "&", "=", "\\", '"', "HTTP/1.1",
     "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\r\nContent-Length: 0\r\n\r\n", "a", "é", "\udc0d\udc0a"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=5), max_size=5).map("".join)
PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
SOUND = st.text(st.sampled_from("abcXYZ-0_"), min_size=1, max_size=8).map("X-".__add__)
NAMES = mostly(SOUND, TEXTS)
METHODS = st.sampled_from(["GET", "PUT", "delete", "POST", "Patch"])
PATHS = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#\\"), max_size=20)
KINDS: dict[str, Callable[[bytes], str]] = {
    "application/json": lambda body: str(json.loads(body)["v"]),
    "text/plain": lambda body: body.decode()[6:],
    "application/x-www-form-urlencoded": lambda body: unquote(body.decode("ascii"))[6:],
    "text/xml": lambda body: html.unescape(body.decode())[6:],
}
"""What a reader of each kind of text makes of it, after `{"v":` or `value=`."""


class Wire:
    """A tap and a session in an event loop of their own, since each example is a plain function call."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._stack = AsyncExitStack()
        self.tap, self.session = runner.run(self._open())

    async def _open(self) -> tuple[Tap, ClientSession]:
        tap = await self._stack.enter_async_context(Tap())
        return tap, await self._stack.enter_async_context(local_session())

    def call(self, url: str, data: dict[str, str], **fields: object) -> Received | None:
        """What came, or None if it was refused, and nothing did."""
        self.tap.requests.clear()
        try:
            self._runner.run(call(self.session, self.tap.url + url, data, **fields))
        except (InvalidJob, WebhookRejected):
            assert (self.tap.requests, self.tap.rest) == ([], b"")
            event("refused")
            return None
        event("sent")
        assert self.tap.rest == b""
        (raw,) = self.tap.requests
        return read(raw)

    def close(self) -> None:
        self._runner.run(self._stack.aclose())


def read(raw: bytes) -> Received:
    """A request by its bytes. Nothing stands in its head that a lenient reader could take for the end of a line."""
    head, _, body = raw.partition(b"\r\n\r\n")
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\xff]", head)
    line, *rest = head.decode("ascii").split("\r\n")
    assert re.fullmatch(r"[A-Z]+ /[\x21-\x7e]* HTTP/1\.1", line)
    return Received(line, [(one.partition(":")[0], one.partition(":")[2].strip(" ")) for one in rest], body)


def names_of(request: Received) -> list[str]:
    return sorted(name.lower() for name, _ in request.headers)


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with asyncio.Runner() as runner:
        wire = Wire(runner)
        yield wire
        wire.close()


@examples(300)
@given(TEXTS, PLAIN | TEXTS)
@pytest.mark.slow
def test_values_of_the_job_change_neither_request_line_nor_headers(wire: Wire, value: str, other: str) -> None:
    fields = {
        "headers": {"X-Value": "<{{data.h}}>"},
        "body": {"v": "{{data.v}}", "w": "<{{data.v}}>"},
        "query": {"q": "{{data.v}}"},
    }
    request = wire.call("/{{data.v}}-/end?p={{data.v}}", {"v": value, "h": other}, **fields)
    if request is None:
        return
    steps, _, query = request.path.partition("?")
    assert request.line.startswith("POST ")
    assert [unquote(step) for step in steps.split("/")] == ["", value + "-", "end"]
    assert [unquote(pair) for pair in query.split("&")] == [f"p={value}", f"q={value}"]
    assert names_of(request) == sorted([*OWN, "x-value", "content-type", "content-length"])
    assert request.header("X-Value") == f"<{other}>"
    assert json.loads(request.body) == {"v": value, "w": f"<{value}>"}


@examples(300)
@given(TEXTS, st.sampled_from(sorted(KINDS)))
@pytest.mark.slow
def test_values_of_the_job_stay_where_they_are_put_in_texts_of_every_kind(wire: Wire, value: str, kind: str) -> None:
    text = '{"v": "{{data.v}}"}' if kind == "application/json" else "value={{data.v}}"
    request = wire.call("/", {"v": value}, headers={"Content-Type": kind}, body=text)
    if request is None:
        assert not value.isascii()
        return
    assert KINDS[kind](request.body) == value
    assert names_of(request) == sorted([*OWN, "content-type", "content-length"])


@examples(300)
@given(
    st.dictionaries(NAMES, mostly(PLAIN, TEXTS), max_size=3),
    mostly(PATHS, TEXTS),
    mostly(METHODS, TEXTS),
    st.dictionaries(PLAIN | TEXTS, PLAIN | TEXTS, max_size=2),
    st.none() | TEXTS | st.dictionaries(TEXTS, TEXTS, max_size=2),
)
@pytest.mark.slow
def test_what_an_author_writes_is_refused_or_sent_as_it_is(
    wire: Wire, headers: dict[str, str], path: str, method: str, query: dict[str, str], body: Any
) -> None:
    given = {"headers": headers, "method": method, "query": query, "body": body, "templates": False}
    request = wire.call("/" + path, {"v": "value"}, **given)
    if request is None:
        return
    assert request.line.startswith(f"{method.upper()} /")
    check_target(request.path, "/" + path, query)
    check_body(request.body, body)
    ignored = ("content-length", "content-type")
    sent = [name for name in names_of(request) if name not in ignored]
    assert sent == sorted({*OWN, *(name.lower() for name in headers)} - set(ignored))
    for name, value in headers.items():
        assert request.header(name) == value.replace("secret://token", "canary-token-value").strip()


def check_target(sent: str, written: str, query: dict[str, str]) -> None:
    """The path and the query say what was written, and after it the pairs of the query."""
    path, _, search = sent.partition("?")
    path_written, _, search_written = written.partition("?")
    pairs = search.split("&")[-len(query) :] if query else []
    assert unquote_to_bytes(path) == unquote_to_bytes(path_written)
    assert [tuple(unquote(half) for half in pair.split("=")) for pair in pairs] == list(query.items())
    before = search.removesuffix("&".join(pairs)).removesuffix("&" if query and search_written else "")
    assert unquote_to_bytes(before) == unquote_to_bytes(search_written)


def check_body(sent: bytes, written: Any) -> None:
    if isinstance(written, dict):
        assert json.loads(sent) == written
    else:
        assert sent == (written or "").encode()
