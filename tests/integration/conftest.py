"""Fixtures for tests of the whole library on one real server, kept cheap: there are hundreds of them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from harness.servers import Servers
from mainspring import Scheduler
from mainspring.clock import ManualClock

Database = AsyncDatabase[dict[str, Any]]


@pytest.fixture(scope="session")
async def side_client(servers: Servers) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    """A client beside the schedulers', to look into the database and to write to it as another program would."""
    async with AsyncMongoClient[dict[str, Any]](servers.uri("admin"), tz_aware=True) as client:
        yield client


@pytest.fixture(scope="session")
async def dropping() -> AsyncIterator[set[asyncio.Future[Any]]]:
    """Databases on their way out; a drop takes a tenth of a second, in which the next tests can run."""
    under_way: set[asyncio.Future[Any]] = set()
    yield under_way
    await asyncio.gather(*under_way)


@pytest.fixture
async def uri(
    servers: Servers, side_client: AsyncMongoClient[dict[str, Any]], dropping: set[asyncio.Future[Any]]
) -> AsyncIterator[str]:
    """The URI of a database of the test's own."""
    name = f"t_{secrets.token_hex(4)}"
    yield servers.uri(name)
    task = asyncio.ensure_future(side_client.drop_database(name))
    dropping.add(task)
    task.add_done_callback(dropping.discard)


@pytest.fixture
def db(side_client: AsyncMongoClient[dict[str, Any]], uri: str) -> Database:
    """The test's database, seen from beside the schedulers."""
    return side_client[uri.rpartition("/")[2].partition("?")[0]]


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until it is moved."""
    return ManualClock()


@pytest.fixture
async def timed(make_scheduler: Callable[..., Scheduler], clock: ManualClock) -> Scheduler:
    """A scheduler on that clock, connected and not started."""
    return await make_scheduler(clock=clock).connect()
