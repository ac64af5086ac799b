"""A real HTTP server on loopback in the test's own event loop, and a client that speaks to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from mainspring import Scheduler
from mainspring.api.server import Server
from mainspring.api.settings import ServiceSettings

Make = Callable[..., Scheduler]


@dataclass
class Reply:
    """What a request was answered with."""

    status: int
    headers: dict[str, str]
    text: str
    body: Any

    @property
    def data(self) -> Any:
        assert 200 <= self.status < 300, (self.status, self.text)
        return self.body["data"]


class Api:
    """Speaks JSON to one running service."""

    def __init__(self, url: str, session: aiohttp.ClientSession, scheduler: Scheduler) -> None:
        self.url = url
        self.session = session
        self.scheduler = scheduler
        self.headers: dict[str, str] = {}

    async def call(self, method: str, path: str, **options: Any) -> Reply:
        headers = {**self.headers, **options.pop("headers", {})}
        async with self.session.request(method, self.url + path, headers=headers, **options) as answer:
            text = await answer.text()
            body = await answer.json(content_type=None) if answer.content_type.endswith(("/json", "+json")) else None
            return Reply(answer.status, {name.lower(): value for name, value in answer.headers.items()}, text, body)

    async def get(self, path: str, **options: Any) -> Reply:
        return await self.call("GET", path, **options)

    async def post(self, path: str, json: Any = None, **options: Any) -> Reply:
        return await self.call("POST", path, json=json, **options)

    async def put(self, path: str, json: Any = None, **options: Any) -> Reply:
        return await self.call("PUT", path, json=json, **options)

    async def delete(self, path: str, **options: Any) -> Reply:
        return await self.call("DELETE", path, **options)

    def with_key(self, text: str) -> Api:
        """The same service, asked with an API key."""
        other = Api(self.url, self.session, self.scheduler)
        other.headers = {"Authorization": f"Bearer {text}"}
        return other


@contextlib.asynccontextmanager
async def serving(scheduler: Scheduler, **settings: Any) -> AsyncIterator[Api]:
    """A service of a scheduler, on a free port; the scheduler's worker runs only if the test starts it."""
    keyless = settings.pop("keyless", True)
    server = Server(scheduler, ServiceSettings(**{"port": 0, **settings}), keyless=keyless)
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Api(server.url, session, scheduler)
    finally:
        await server.stop()


class _Impatient:
    """asyncio as uvicorn sees it: a server that is to stop looks every 10 ms whether it may, instead of every 100."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


@pytest.fixture(scope="session", autouse=True)
def quick_stops() -> Iterator[None]:
    """A thousand services are started and stopped here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uvicorn.server.asyncio", _Impatient())
        yield


@pytest.fixture
async def api(make_scheduler: Make) -> AsyncIterator[Api]:
    async with serving(make_scheduler()) as one:
        yield one
