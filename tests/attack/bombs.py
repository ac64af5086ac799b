"""Answers that are meant to harm the client: too large, too many, too slow, or misleading."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Awaitable, Callable

from harness.sinks import reply

_MEGABYTE = 1024 * 1024
_HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


async def _send(writer: asyncio.StreamWriter, piece: bytes, times: int) -> None:
    for _ in range(times):
        writer.write(piece)
        await writer.drain()


async def _gzip(rest: str, writer: asyncio.StreamWriter) -> None:
    """Hundreds of megabytes of nothing, compressed."""
    body = b"".join([gzip.compress(bytes(_MEGABYTE))] * 200)
    writer.write(_HEAD + f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()


async def _body(rest: str, writer: asyncio.StreamWriter) -> None:
    """A body of 400 MB, said beforehand or not."""
    length = f"Content-Length: {400 * _MEGABYTE}\r\n\r\n".encode() if rest == "said" else b"\r\n"
    writer.write(_HEAD + length)
    await _send(writer, b"x" * _MEGABYTE, 400)


async def _chunks(rest: str, writer: asyncio.StreamWriter) -> None:
    """The same in chunks that never end."""
    writer.write(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    piece = b"x" * 65536
    await _send(writer, f"{len(piece):x}\r\n".encode() + piece + b"\r\n", 6400)


async def _headers(rest: str, writer: asyncio.StreamWriter) -> None:
    """200,000 headers."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    await _send(writer, b"".join(b"X-%d: y\r\n" % one for one in range(1000)), 200)
    writer.write(b"\r\n")


async def _header(rest: str, writer: asyncio.StreamWriter) -> None:
    """A header of 5 MB."""
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    await _send(writer, b"y" * _MEGABYTE, 5)
    writer.write(b"\r\n\r\n")


async def _continue(rest: str, writer: asyncio.StreamWriter) -> None:
    """2,000 times `100 Continue` before the answer."""
    await _send(writer, b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 20)
    writer.write(reply(200, b"at last"))


async def _slow(rest: str, writer: asyncio.StreamWriter) -> None:
    """A byte a second, in the headers or in the body."""
    writer.write(b"HTTP/1.1 200 OK\r\n" if rest == "headers" else _HEAD + b"Content-Length: 10000\r\n\r\n")
    for _ in range(600):
        writer.write(b"X")
        await writer.drain()
        await asyncio.sleep(1)


async def _silent(rest: str, writer: asyncio.StreamWriter) -> None:
    """Nothing at all."""
    await asyncio.sleep(600)


async def _later(rest: str, writer: asyncio.StreamWriter) -> None:
    """A Retry-After, as it is given in the path."""
    writer.write(reply(503, Retry_After=rest))


async def _cookies(rest: str, writer: asyncio.StreamWriter) -> None:
    writer.write(reply(200, b"ok", Set_Cookie="planted=by-the-target; Path=/"))


BOMBS: dict[str, Callable[[str, asyncio.StreamWriter], Awaitable[None]]] = {
    "gzip": _gzip,
    "body": _body,
    "chunks": _chunks,
    "headers": _headers,
    "header": _header,
    "continue": _continue,
    "slow": _slow,
    "silent": _silent,
    "later": _later,
    "cookies": _cookies,
}
