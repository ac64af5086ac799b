"""A listener for HTTP clients that keep their connections: every byte is kept, request by request."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_END = b"\r\n\r\n"


@dataclass
class Tap:
    """What came, as it came. `rest` is what belongs to no whole request: more than nothing was smuggled."""

    requests: list[bytes] = field(default_factory=list)
    rest: bytes = b""
    connections: int = 0
    port: int = 0
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(lambda: _Line(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class _Line(asyncio.Protocol):
    """One connection: a whole request is answered, and the next one is awaited."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap
        tap.connections += 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._tap.rest += data
        while (end := _end_of_request(self._tap.rest)) is not None:
            self._tap.requests.append(self._tap.rest[:end])
            self._tap.rest = self._tap.rest[end:]
            self._transport.write(_ANSWER)


def _end_of_request(data: bytes) -> int | None:
    head, found, body = data.partition(_END)
    if not found:
        return None
    length = re.search(rb"(?im)^content-length: *(\d+)\r?$", head + b"\r\n")
    size = int(length[1]) if length else 0
    return len(head) + len(_END) + size if len(body) >= size else None
