"""What webhooks of the attacks are sent to: listeners on every address, and a DNS server that leads there.

A connection to one of the two public addresses is allowed; any other is a stray one. What a target answers depends on
the path: see `answer`.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

from attack import bombs, network
from harness.naming import Names, naming
from harness.sinks import Received, Sink, free_port, reply

PORTS = (22, 25, 80, 443, 2375, 6379, 8080)
"""What is listened on in a network of its own: what attackers of internal networks look for."""
OWN, OTHER = "evil.test", "victim.test"
"""Names of the two public servers."""


async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
    """What a target says: `/status/503`, `/to/302?place=URL`, a bomb, or 200 with what it was sent."""
    parts = urlsplit(request.path)
    kind, _, rest = parts.path.strip("/").partition("/")
    if kind == "status" and rest.isdecimal():
        writer.write(reply(int(rest)))
    elif kind == "to" and rest.isdecimal():
        place = parse_qs(parts.query).get("place", [""])[0]
        writer.write(reply(int(rest), Location=place))
    elif kind in bombs.BOMBS:
        await bombs.BOMBS[kind](unquote(rest), writer)
    elif kind == "echo":
        writer.write(reply(200, repr((request.line, request.headers)).encode() + request.body))
    else:
        writer.write(reply(200, b"ok"))
    await writer.drain()


@dataclass
class Targets:
    """All listeners, and the names that lead to them."""

    sinks: list[Sink] = field(default_factory=list)
    turns: dict[str, list[list[str]]] = field(default_factory=dict)
    """What the DNS server answers for a name, one turn after the other; any other name belongs to this machine."""
    port: int = 80
    names: Names | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        self.turns |= {OWN: [[network.public()]], OTHER: [[network.other_public()]]}
        self.turns |= {"good.example": [[network.public()]]}
        self.names = await self._stack.enter_async_context(naming(self.turns))
        if network.inside():
            places = [(host, port) for host in ("0.0.0.0", "::") for port in PORTS]
        else:
            hosts = (network.public(), network.other_public(), "127.0.0.1", "::1")
            self.port = free_port(*hosts)
            places = [(host, self.port) for host in hosts]
        for host, port in places:
            sink = Sink(host, port, answers=[answer])
            self.sinks.append(await self._stack.enter_async_context(sink))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def url(self, path: str, host: str = OWN) -> str:
        return f"http://{host}{self._port}{path}"

    @property
    def _port(self) -> str:
        return "" if self.port == 80 else f":{self.port}"

    @property
    def connections(self) -> int:
        return sum(sink.connections for sink in self.sinks)

    @property
    def strays(self) -> list[str]:
        """The connections that should not have been made: to which address and port."""
        allowed = {network.public(), network.other_public()}
        return [f"{place} port {sink.port}" for sink in self.sinks for place in sink.places if place not in allowed]

    @property
    def received(self) -> list[Received]:
        return [one for sink in self.sinks for one in sink.received]

    def at(self, path: str) -> list[Received]:
        """The requests whose path begins so."""
        return [one for one in self.received if one.path.startswith(path)]

    def asked(self, name: str) -> int:
        """How often the address of a name was asked for."""
        assert self.names is not None
        return self.names.asked[name]

    def clear(self) -> None:
        """Forget what was received; connections stay counted."""
        for sink in self.sinks:
            sink.received.clear()
