"""What reaches the service before it knows the caller: headers alone, bounded, and no cause to keep others out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from api.access.test_authentication import PROTECTING, check_problem
from api.conftest import Api, serving
from mainspring import Scheduler
from mainspring.client.service_backend import ServiceBackend

Make = Callable[..., Scheduler]
BODY = "Content-Type: application/json\r\nContent-Length: 1000000\r\n"


@dataclass
class Line:
    """A connection on which bytes are written by hand."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, text: str) -> None:
        self.writer.write(text.encode("latin-1"))

    async def status(self) -> int:
        """The status of the answer; its headers are read too."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 60)
        return int(head.split()[1])

    async def rest(self) -> bytes:
        """All that comes until the service closes the connection; nothing where it was closed while more was sent."""
        try:
            return await asyncio.wait_for(self.reader.read(), 60)
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def connected(api: Api) -> AsyncIterator[Line]:
    host, _, port = api.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Line(reader, writer)
    finally:
        writer.close()


def head(request: str, *headers: str) -> str:
    return "".join(f"{line}\r\n" for line in (f"{request} HTTP/1.1", "Host: localhost", *headers))


# -- nothing is read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_line", ["POST /api/jobs", "POST /api/jobs/bulk", "PUT /api/jobs/x", "POST /livez"])
@pytest.mark.parametrize("key", [None, "ms_abcdefghijkl_" + "a" * 43])
async def test_nothing_of_a_body_is_read_before_the_caller_is_recognised(
    api: Api, request_line: str, key: str | None
) -> None:
    await api.scheduler.api_keys.create("ops", "admin")
    async with connected(api) as line:
        shown = () if key is None else (f"Authorization: Bearer {key}",)
        line.send(head(request_line, *shown) + BODY + "\r\n" + "x" * 1000)
        assert await line.status() == 401


async def test_a_body_that_was_not_wanted_does_not_spoil_the_connection(api: Api) -> None:
    text = (await api.scheduler.api_keys.create("ops", "admin")).text
    async with connected(api) as line:
        line.send(head("POST /api/jobs", "Content-Type: application/json", "Content-Length: 5") + "\r\n")
        assert await line.status() == 401
        line.send("12345" + head("GET /api/session", f"Authorization: Bearer {text}", "Connection: close") + "\r\n")
        assert b"HTTP/1.1 200 OK" in await line.rest()


@pytest.mark.parametrize("size", [17_000, 100_000])
async def test_headers_that_are_too_large_are_refused(api: Api, size: int) -> None:
    async with connected(api) as line:
        line.send(head("GET /livez", f"X-Long: {'x' * size}") + "\r\n")
        assert await line.status() in (400, 431)
        await line.rest()


async def test_headers_of_a_usual_size_are_taken(api: Api) -> None:
    assert (await api.get("/livez", headers={"X-Long": "x" * 8000})).status == 200
    reply = await api.get("/livez?" + "x" * 16_384)
    check_problem(reply, 431, "16,384 bytes")


async def test_a_body_whose_end_is_told_in_two_ways_is_refused(api: Api) -> None:
    async with connected(api) as line:
        both = ("Content-Type: application/json", "Content-Length: 4", "Transfer-Encoding: chunked")
        line.send(head("POST /api/jobs", *both) + "\r\n0\r\n\r\n" + head("GET /livez") + "\r\n")
        assert await line.status() == 400
        assert b"HTTP/1.1" not in await line.rest()


@pytest.mark.parametrize(
    "host", ["localhost#evil", "evil@localhost", "localhost/evil", "localhost?evil", "localhost:80:80", "local\thost"]
)
async def test_a_host_is_this_machine_only_if_the_whole_of_it_says_so(api: Api, host: str) -> None:
    async with connected(api) as line:
        line.send(f"GET /api/session HTTP/1.1\r\nHost: {host}\r\n\r\n")
        assert await line.status() in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:3000", "localhost.", "127.0.0.1", "[::1]:3000", "[::1]"])
async def test_this_machine_has_several_names(api: Api, host: str) -> None:
    assert (await api.get("/api/session", headers={"Host": host})).status == 200


# -- keys that are wrong -----------------------------------------------------------------------------------------------


async def test_wrong_keys_never_lock_out_a_right_one(api: Api) -> None:
    text = (await api.scheduler.api_keys.create("ops", "admin")).text
    wrong = [(await api.with_key(f"{text[:-3]}{number:03}").get("/api/session")).status for number in range(31)]
    assert wrong == [401] * 30 + [429]
    assert (await api.with_key(text).get("/api/session")).status == 200
    refused = await api.with_key(f"{text[:-3]}999").get("/api/session")
    check_problem(refused, 429, "wrong keys")
    assert int(refused.headers["retry-after"]) > 0


async def test_an_old_key_in_a_forgotten_program_locks_nobody_out(api: Api) -> None:
    text = (await api.scheduler.api_keys.create("ops", "admin")).text
    old = await api.scheduler.api_keys.create("old")
    await api.scheduler.api_keys.revoke(old.key.id)
    assert (await api.with_key(old.text).get("/api/session")).status == 401
    for _ in range(40):
        await api.with_key(old.text).get("/api/session")
    assert (await api.with_key(text).get("/api/session")).status == 200


async def test_requests_that_are_refused_count_against_no_key_of_the_same_address(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    first, second = [(await scheduler.api_keys.create(name, "admin")).text for name in ("one", "two")]
    async with serving(scheduler, requests_per_minute=3) as api:
        anybody = [(await api.get("/api/session")).status for _ in range(8)]
        assert anybody == [401] * 6 + [429] * 2
        for text in (first, second):
            assert [(await api.with_key(text).get("/api/session")).status for _ in range(4)] == [200] * 3 + [429]


async def test_a_wrong_key_that_comes_again_is_not_looked_up_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (await api.scheduler.api_keys.create("ops", "admin")).text
    looked_up: list[str] = []
    plain = ServiceBackend(api.scheduler).check_api_key

    async def counted(given: str) -> Any:
        looked_up.append(given)
        return await plain(given)

    monkeypatch.setattr(ServiceBackend, "check_api_key", staticmethod(counted))
    wrong = f"{text[:-3]}000"
    for one in (wrong, wrong, text, wrong, text):
        await api.with_key(one).get("/api/session")
    assert looked_up == [wrong, text, text]


# -- what goes wrong ---------------------------------------------------------------------------------------------------


async def test_an_answer_to_a_fault_has_the_headers_that_protect_browsers(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*args: Any, **options: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(api.scheduler.api_keys, "all", fail)
    reply = await api.get("/api/keys")
    check_problem(reply, 500, "This is an internal error")
    assert {name: reply.headers.get(name) for name in PROTECTING} == PROTECTING
    assert reply.headers["cache-control"] == "no-store"
    assert "secret" not in reply.text


async def test_a_fault_at_the_door_is_answered_in_the_same_way(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*args: Any, **options: Any) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(ServiceBackend, "any_api_key", fail)
    reply = await api.get("/api/session")
    check_problem(reply, 500, "This is an internal error")
    assert reply.headers["cache-control"] == "no-store"
