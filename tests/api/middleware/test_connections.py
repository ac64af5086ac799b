"""Connections: bounded in number, and none is held by a client that sends nothing, or reads nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_network
from typing import Any

import pytest

from api.conftest import serving
from api.middleware.test_before_authentication import BODY, Line, connected, head
from harness.waiting import eventually
from mainspring import Scheduler
from mainspring.api.middleware.connections import ConnectionLimits

Make = Callable[..., Scheduler]
PATIENT: dict[str, Any] = {"header_seconds": 600, "body_seconds": 600}


@pytest.mark.parametrize("begun", ["", "GET /livez", "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Half"])
async def test_a_connection_that_does_not_come_to_the_end_of_its_headers_is_closed(
    make_scheduler: Make, begun: str
) -> None:
    async with serving(make_scheduler(), header_seconds=0.2) as api, connected(api) as line:
        line.send(begun)
        answer = await line.rest()
        assert not answer or b" 408 " in answer


async def test_headers_that_come_byte_by_byte_have_one_deadline_for_all(make_scheduler: Make) -> None:
    async with serving(make_scheduler(), header_seconds=0.2) as api, connected(api) as line:
        line.send(head("GET /livez"))
        async with dripping(line, "X-A: b\r\n"):
            answer = await line.rest()
        assert not answer or b" 408 " in answer


async def test_a_body_that_stops_half_way_is_given_up(make_scheduler: Make) -> None:
    async with serving(make_scheduler(), body_seconds=0.2) as api, connected(api) as line:
        line.send(head("POST /api/jobs", "Content-Type: application/json", "Content-Length: 1000") + '\r\n{"name"')
        assert b" 408 " in await line.rest()
        assert [job.name async for job in api.scheduler.jobs()] == []


async def test_a_bulk_that_stops_half_way_is_given_up_and_what_it_has_sent_is_stored(make_scheduler: Make) -> None:
    # Long enough for the service to read the line on a busy machine, before the deadline ends the body.
    async with serving(make_scheduler(), body_seconds=3) as api, connected(api) as line:
        kind = ("Content-Type: application/x-ndjson", "Content-Length: 1000")
        line.send(head("POST /api/jobs/bulk", *kind) + '\r\n{"name": "work"}\n')
        await line.rest()

        async def stored() -> bool:
            return [job.name async for job in api.scheduler.jobs()] == ["work"]

        await eventually(stored)


async def test_a_client_that_was_refused_does_not_keep_its_connection_by_sending_on(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    await scheduler.api_keys.create("ops", "admin")
    async with serving(scheduler, body_seconds=0.2) as api, connected(api) as line:
        line.send(head("POST /api/jobs") + BODY + "\r\n")
        async with dripping(line, "x"):
            answer = await line.rest()
    # Where bytes arrive after the service has closed, the client's system may drop the answer with the connection.
    assert answer == b"" or b" 401 " in answer


@asynccontextmanager
async def dripping(line: Line, text: str) -> AsyncIterator[None]:
    """A client that keeps sending a little."""

    async def drip() -> None:
        while True:
            line.send(text)
            await asyncio.sleep(0.02)

    task = asyncio.create_task(drip())
    try:
        yield
    finally:
        task.cancel()


@pytest.mark.parametrize(
    ("bounds", "status", "words"),
    [
        ({"connections": 3}, b" 503 ", b"MAINSPRING_CONNECTIONS "),
        ({"connections_per_address": 3}, b" 429 ", b"MAINSPRING_CONNECTIONS_PER_ADDRESS "),
    ],
)
async def test_connections_are_bounded_and_closed_ones_make_room(
    make_scheduler: Make, bounds: dict[str, int], status: bytes, words: bytes
) -> None:
    async with serving(make_scheduler(), **PATIENT, **bounds) as api:
        async with AsyncExitStack() as stack:
            for _ in range(3):
                line = await stack.enter_async_context(connected(api))
                line.send(head("GET /livez") + "\r\n")
                assert await line.status() == 200
                line.send(head("POST /api/jobs") + BODY + "\r\n")
            async with connected(api) as one_more:
                answer = await one_more.rest()
            assert status in answer and words in answer and b"Retry-After: " in answer
            assert b"X-Frame-Options: DENY" in answer

        async def answered() -> bool:
            async with connected(api) as line:
                line.send(head("GET /livez", "Connection: close") + "\r\n")
                return b" 200 OK" in await line.rest()

        await eventually(answered)


def test_a_trusted_proxy_may_have_more_connections_than_others() -> None:
    guard = ConnectionLimits(5, 2, 1, 1, (ip_network("10.0.0.0/8"),))
    assert [guard.enter(host) is None for host in ("10.0.0.1", "10.0.0.1", "::ffff:10.0.0.1")] == [True] * 3
    assert [guard.enter("192.0.2.1") is None for _ in range(3)] == [True, True, False]
    refused = guard.enter("192.0.2.2")
    assert refused is not None and refused[0] == 503
    guard.leave("192.0.2.1")
    assert guard.enter("192.0.2.2") is None


async def test_what_is_no_http_is_answered_with_the_headers_that_protect_browsers(make_scheduler: Make) -> None:
    async with serving(make_scheduler(), **PATIENT) as api, connected(api) as line:
        line.send("\x16\x03\x01 nonsense\r\n\r\n")
        answer = await line.rest()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"X-Content-Type-Options: nosniff" in answer and b"Cache-Control: no-store" in answer
