"""Clients without a key that send slowly, too much, or nothing: they take neither memory nor the service away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from attack.asking import status_of
from attack.books import Row, probe
from attack.stage import Service, Stage

_DEADLINES = {"MAINSPRING_HEADER_SECONDS": "3", "MAINSPRING_BODY_SECONDS": "3"}
_PATIENCE = 45.0
_ROOM = 24 * 1024 * 1024
_HEAD = b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n"
_ADDRESS = "127.0.0.40"


@dataclass
class WaitingFor:
    """A connection that a client holds open."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ends(self, seconds: float) -> bytes | None:
        """What was said until the service closed it; None where it did not."""
        said = bytearray()
        try:
            async with asyncio.timeout(seconds):
                while piece := await self.reader.read(65536):
                    said += piece
        except TimeoutError:
            return None
        except ConnectionError:
            pass
        return bytes(said)

    async def says(self) -> bytes:
        """What the service says until it closes, or falls silent."""
        said = bytearray()
        with suppress(TimeoutError, ConnectionError):
            while piece := await asyncio.wait_for(self.reader.read(65536), 1 if said else 5):
                said += piece
        return bytes(said)


async def _open(service: Service, content: bytes, source: str = _ADDRESS) -> WaitingFor:
    parts = urlsplit(service.client.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, local_addr=(source, 0))
    writer.write(content)
    with suppress(ConnectionError):
        await writer.drain()
    return WaitingFor(reader, writer)


async def _close(held: Sequence[WaitingFor]) -> None:
    for one in held:
        one.writer.close()


async def _service(stage: Stage, **environment: str) -> Service:
    """A service with a key, whose deadlines are short, as an operator may set them."""
    uri = stage.spare()
    made = stage.run("keys", "create", "ops", "--role", "admin", "--uri", uri)
    assert await asyncio.to_thread(made.wait, 90) == 0, made.output
    service = await stage.serve("serve", "--uri", uri, **_DEADLINES, **environment)
    service.client.keys["admin"] = next(word for word in made.output.split() if word.startswith("ms_"))
    assert (await service.client.get("/api/session", "admin")).ok
    return service


@probe("slowness", "Without a key no body is read, and what is not finished is closed in time")
async def unfinished(stage: Stage, row: Row) -> None:
    service = await _service(stage)
    before = service.memory
    kinds = {
        "a body without a key": _HEAD + b"\r\n" + b"x" * 990_000,
        "a body with a wrong key": _HEAD + b"Authorization: Bearer ms_x\r\n\r\n" + b"x" * 990_000,
        "half of the headers": _HEAD,
        "half of a header's line": b"GET /api/session HTTP/1.1\r\nHost: local",
        "nothing": b"",
        "a body in chunks that never ends": b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        b"application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nxxxxx\r\n",
    }
    held = {kind: [await _open(service, content) for _ in range(20)] for kind, content in kinds.items()}
    answer = await service.client.get("/api/session", "admin")
    row.check(answer.ok, f"while 120 connections are held: {answer}")
    rose = service.memory - before
    row.check(rose < _ROOM, f"120 connections took {rose / 1e6:.0f} MB")
    flat = [(kind, one) for kind, connections in held.items() for one in connections]
    ends = await asyncio.gather(*(one.ends(_PATIENCE) for _, one in flat))
    for (kind, _), said in zip(flat, ends, strict=True):
        shut = said is not None and status_of(said) not in (200, 201)
        row.check(shut, f"{kind}: " + ("still open" if said is None else f"answered {said[:200]!r}"))
    row.note = f"{rose / 1e6:.0f} MB for 120 connections"
    for connections in held.values():
        await _close(connections)
    service.command.stop()


@probe("slowness", "Connections of one address are bounded, and others are served meanwhile")
async def many(stage: Stage, row: Row) -> None:
    service = await _service(stage, MAINSPRING_CONNECTIONS_PER_ADDRESS="100")
    held = [await _open(service, b"GET /api/session HTTP/1.1\r\n") for _ in range(300)]
    ends = await asyncio.gather(*(one.ends(1.0) for one in held))
    row.check(sum(said is not None for said in ends) >= 150, "most of 300 connections of one address were taken")
    for source in ("127.0.0.1", "127.0.0.41", "127.0.0.42"):
        answer = await service.client.get("/api/session", "admin", source=source)
        row.check(answer.ok, f"from {source} while {_ADDRESS} has 300 connections: {answer}")
    await _close(held)
    service.command.stop()


_SMUGGLING = (
    b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nxxxxxx",
    b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: +5\r\n\r\nxxxxx",
    b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    b"GET /api/session HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"y" * 100_000 + b"\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /api/session HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(5000)) + b"\r\n",
    b"GET /api/session HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
)


@probe("slowness", "Requests that are framed in two ways, or are too large, are refused", fast=True)
async def framing(stage: Stage, row: Row) -> None:
    for content in _SMUGGLING:
        held = await _open(stage.service, content, "127.0.0.1")
        said = await held.says()
        row.check(status_of(said) >= 400 or not said, f"{content[:200]!r} → {said[:200]!r}")
        row.check(b'"status":"ok"' not in said, f"{content[:200]!r}: a second request was answered")
        held.writer.close()
