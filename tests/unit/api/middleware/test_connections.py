"""The deadlines of a connection, by a clock that stands still until it is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from uvicorn.server import ServerState

from mainspring.api.middleware.connections import ConnectionLimits, GuardedConfig, GuardedProtocol

HEAD = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"


class Loop:
    """As much of an event loop as a connection uses, with a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, act: Callable[[], None]) -> Timer:
        self.timers.append(Timer(at, act))
        return self.timers[-1]

    def call_later(self, seconds: float, act: Callable[[], None]) -> Timer:
        return self.call_at(self.now + seconds, act)

    def create_task(self, work: Any) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(work)

    def pass_by(self, seconds: float) -> None:
        """Let time pass, and do what is due in its order."""
        end = self.now + seconds
        while due := [one for one in self.timers if one.at <= end]:
            first = min(due, key=lambda one: one.at)
            self.timers.remove(first)
            self.now = max(self.now, first.at)
            if not first.cancelled:
                first.act()
        self.now = end


class Timer:
    def __init__(self, at: float, act: Callable[[], None]) -> None:
        self.at, self.act, self.cancelled = at, act, False

    def when(self) -> float:
        return self.at

    def cancel(self) -> None:
        self.cancelled = True


class Transport(asyncio.Transport):
    """Takes what is written; `unread` of it the client has not taken yet."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1), "sockname": ("192.0.2.2", 80)})
        self.written = b""
        self.unread = 0
        self.closing = self.aborted = self.paused = False

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Line:
    """A connection whose application reads the whole body and then waits to be told to answer."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.answering = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            while (message := await receive())["type"] == "http.request" and message["more_body"]:
                pass
            await self.answering.wait()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        config = GuardedConfig(app, ConnectionLimits(9, 9, 10.0, 30.0), lifespan="off", log_config=None)
        self.transport = Transport()
        self.protocol = GuardedProtocol(config, ServerState(), {}, self.loop)
        self.protocol.connection_made(self.transport)

    async def send(self, data: bytes) -> None:
        self.protocol.data_received(data)
        await self.settle()

    async def answer(self) -> None:
        self.answering.set()
        await self.settle()

    async def settle(self) -> None:
        """Let the application do what it can."""
        for _ in range(5):
            await asyncio.sleep(0)

    async def leave(self) -> None:
        self.protocol.connection_lost(None)
        await self.answer()


@pytest.fixture
async def line() -> Any:
    one = Line()
    yield one
    await one.leave()


async def test_the_headers_have_one_deadline_however_often_something_comes(line: Line) -> None:
    for _ in range(9):
        await line.send(HEAD[:1] if line.protocol.conn.trailing_data[0] == b"" else b"O")
        line.loop.pass_by(1.0)
    assert not line.transport.closing
    line.loop.pass_by(1.0)
    assert line.transport.closing and line.transport.written.startswith(b"HTTP/1.1 408 ")


async def test_a_body_has_its_deadline_anew_with_each_byte(line: Line) -> None:
    await line.send(HEAD)
    for _ in range(10):
        line.loop.pass_by(29.0)
        await line.send(b"x")
    assert not line.transport.closing
    line.loop.pass_by(29.9)
    assert not line.transport.closing
    line.loop.pass_by(0.2)
    assert line.transport.written.startswith(b"HTTP/1.1 408 ")


async def test_nothing_more_is_read_of_a_body_before_the_application_asks_for_it(line: Line) -> None:
    line.protocol.data_received(HEAD)
    assert line.transport.paused
    await line.settle()
    assert not line.transport.paused


async def test_what_has_come_of_a_body_is_dropped_with_the_answer(line: Line) -> None:
    await line.send(HEAD + b"x" * 100)
    await line.answer()
    assert not line.protocol.cycle.body


async def test_a_client_is_not_blamed_while_nothing_is_read_of_what_it_sends(line: Line) -> None:
    line.protocol.data_received(HEAD)
    line.loop.pass_by(300.0)
    assert not line.transport.closing


async def test_a_request_that_is_all_there_may_take_its_time(line: Line) -> None:
    await line.send(HEAD + b"x" * 100)
    line.loop.pass_by(3600.0)
    assert not line.transport.closing
    await line.answer()
    assert line.transport.written.startswith(b"HTTP/1.1 200 ")


async def test_the_next_request_has_a_deadline_from_its_first_byte_on(line: Line) -> None:
    await line.send(HEAD + b"x" * 100)
    await line.answer()
    line.loop.pass_by(4.0)
    await line.send(b"G")
    line.loop.pass_by(9.9)
    assert not line.transport.closing
    line.loop.pass_by(0.2)
    assert b"HTTP/1.1 408 " in line.transport.written


async def test_a_client_that_reads_slowly_is_waited_for_and_one_that_does_not_is_let_go(line: Line) -> None:
    await line.send(HEAD + b"x" * 100)
    line.transport.unread = 100_000
    line.protocol.pause_writing()
    for _ in range(5):
        line.transport.unread -= 1
        line.loop.pass_by(30.0)
        assert not line.transport.closing
    line.loop.pass_by(30.0)
    assert line.transport.aborted


async def test_the_end_of_an_answer_that_nobody_reads_is_not_kept_for_ever(line: Line) -> None:
    await line.send(b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    line.transport.unread = 1000
    await line.answer()
    assert line.transport.closing and not line.transport.aborted
    line.loop.pass_by(31.0)
    assert line.transport.aborted
