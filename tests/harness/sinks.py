"""Raw listeners for HTTP clients under test: what arrives is kept byte by byte, and hardly anything is parsed."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

_LONGEST_HEAD = 16 * 1024 * 1024
Script = Callable[["Received", asyncio.StreamWriter], Awaitable[None]]


def reply(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    """An answer for the wire; `Retry_After="1"` becomes a header."""
    lines = [
        f"HTTP/1.1 {status} Said",
        "Connection: close",
        *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items()),
    ]
    if "Transfer_Encoding" not in headers:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


@dataclass
class Received:
    """One request as it came."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes
    rest: bytes = b""
    """What came after the end of the request: more than nothing was smuggled."""

    def header(self, name: str) -> str | None:
        return next((value for given, value in self.headers if given.lower() == name.lower()), None)

    @property
    def path(self) -> str:
        return self.line.split(" ")[1]


@dataclass
class Sink:
    """A listener that keeps what it is sent, and answers from a list; the last answer is given again and again."""

    host: str = "127.0.0.1"
    port: int = 0
    answers: list[bytes | Script] = field(default_factory=lambda: [reply()])
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    places: list[str] = field(default_factory=list)
    """The address of this machine that each connection was made to."""
    _server: asyncio.Server | None = None
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=_LONGEST_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.places.append(writer.get_extra_info("sockname")[0])
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            request = await _read_request(reader)
            self.received.append(request)
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(request, writer)
            if writer.can_write_eof():
                writer.write_eof()
            request.rest = await reader.read()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client is gone, or the listener is
        finally:
            writer.close()
            self._serving.discard(task)


async def _read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *rest = head[:-4].split("\r\n")
    headers = [(one.partition(":")[0], one.partition(":")[2].strip(" ")) for one in rest]
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    assert not re.search(r"(?im)^transfer-encoding:", head)
    return Received(line, headers, await reader.readexactly(length))


def free_port(*hosts: str) -> int:
    """A port that is free on all of these addresses."""
    for _ in range(50):
        opened = [socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) for host in hosts]
        try:
            opened[0].bind((hosts[0], 0))
            port: int = opened[0].getsockname()[1]
            for one, host in zip(opened[1:], hosts[1:], strict=True):
                one.bind((host, port))
            return port
        except OSError:
            continue
        finally:
            for one in opened:
                one.close()
    raise AssertionError("no port is free on all of these addresses")
