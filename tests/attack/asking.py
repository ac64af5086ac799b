"""Requests of the attacks: as a caller with a key, or byte by byte over a socket of their own."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

_PATIENCE = 60.0
_SHOWN = 1500


@dataclass
class Answer:
    """What a request was answered with, and the request, to be printed."""

    request: str
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> Any:
        """The JSON of the answer; None where it is none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None

    @property
    def data(self) -> Any:
        body = self.body
        return body.get("data") if isinstance(body, dict) else None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        return 400 <= self.status < 500

    def __str__(self) -> str:
        return f"{self.request} → {self.status} {self.text[:300]}"


@dataclass
class Client:
    """Asks one service, with the keys of its callers by their names."""

    url: str
    keys: dict[str, str] = field(default_factory=dict)
    _sessions: dict[str, aiohttp.ClientSession] = field(default_factory=dict)
    asked: int = 0

    async def ask(
        self,
        method: str,
        path: str,
        by: str | None = None,
        *,
        json: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        source: str = "127.0.0.1",
    ) -> Answer:
        """One request by a caller, who is anonymous without a name, from an address of this machine."""
        sent = CIMultiDict(headers or {})
        if by is not None:
            sent["Authorization"] = f"Bearer {self.keys[by]}"
        request = _describe(method, path, by, headers, json if data is None else data)
        self.asked += 1
        options: dict[str, Any] = {} if json is None else {"json": json}
        url = URL(self.url + path, encoded=True)
        for again in (True, False):
            if data is not None:
                options = {"data": io.BytesIO(data)}
            try:
                async with self._session(source).request(
                    method, url, headers=sent, allow_redirects=False, **options
                ) as answer:
                    text = (await answer.read()).decode("utf-8", "replace")
                    return Answer(request, answer.status, CIMultiDict(answer.headers), text)
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
                if not again:  # the first may have met a kept connection that the service has closed meanwhile
                    return Answer(request, 0, {}, repr(error))
            except (aiohttp.ClientError, TimeoutError) as error:  # a stream, where none was to be had, has no end
                return Answer(request, 0, {}, repr(error))
        raise AssertionError("unreachable")

    async def get(self, path: str, by: str | None = None, **options: Any) -> Answer:
        return await self.ask("GET", path, by, **options)

    async def post(self, path: str, by: str | None = None, json: Any = None, **options: Any) -> Answer:
        return await self.ask("POST", path, by, json=json, **options)

    @contextlib.asynccontextmanager
    async def listen(self, path: str, by: str, **headers: str) -> AsyncIterator[Stream]:
        """A stream of events, read as long as this lasts."""
        self.asked += 1
        sent = {"Authorization": f"Bearer {self.keys[by]}", **headers}
        timeout = aiohttp.ClientTimeout(total=None)
        session = self._session("127.0.0.1")
        async with session.get(URL(self.url + path, encoded=True), headers=sent, timeout=timeout) as answer:
            stream = Stream(f"GET {path} as {by}", answer.status)
            reading = asyncio.create_task(stream.read(answer))
            try:
                yield stream
            finally:
                reading.cancel()
                await asyncio.wait({reading})

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()

    def _session(self, source: str) -> aiohttp.ClientSession:
        if source not in self._sessions:
            connector = aiohttp.TCPConnector(local_addr=(source, 0), limit=200)
            timeout = aiohttp.ClientTimeout(total=_PATIENCE)
            self._sessions[source] = aiohttp.ClientSession(
                connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._sessions[source]


@dataclass
class Stream:
    """A stream of events as it is read."""

    request: str
    status: int
    text: str = ""
    ended: bool = False

    async def read(self, answer: aiohttp.ClientResponse) -> None:
        with contextlib.suppress(aiohttp.ClientError):
            async for piece in answer.content.iter_any():
                self.text += piece.decode("utf-8", "replace")
        self.ended = True

    @property
    def ids(self) -> list[str]:
        """The ids of the events and beats."""
        return [line[3:].strip() for line in self.text.splitlines() if line.startswith("id:")]


def _describe(method: str, path: str, by: str | None, headers: Mapping[str, str] | None, body: Any) -> str:
    parts = [method, path, f"by {by}" if by else "by nobody"]
    parts += [repr(dict(headers))] if headers else []
    if body is not None:
        parts.append(body.decode("utf-8", "replace") if isinstance(body, bytes) else json.dumps(body, default=str))
    return " ".join(parts)[:_SHOWN]


async def send_raw(url: str, content: bytes, timeout: float = 15.0) -> bytes:
    """Send these very bytes to a service, and return what it says until it closes, or until the time is up."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    said = bytearray()
    try:
        writer.write(content)
        await writer.drain()
        async with asyncio.timeout(timeout):
            while piece := await reader.read(65536):
                said += piece
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()
    return bytes(said)


def status_of(said: bytes) -> int:
    """The status of the first answer in what a service has said; 0 where it has said nothing."""
    head = said.split(b"\r\n", 1)[0].split(b" ")
    return int(head[1]) if len(head) > 1 and head[1].isdigit() else 0
