"""A real mongod once per run (a one-node replica set under notablescan), and a database per test."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from harness.servers import Servers
from mainspring import Scheduler


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The run's replica set."""
    servers = Servers(1)
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="session")
def standalone() -> Iterator[Servers]:
    """A server that is no replica set: no transactions, no change streams."""
    servers = Servers(0)
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@pytest.fixture
async def uri(servers: Servers) -> AsyncIterator[str]:
    """The URI of a database of the test's own."""
    name = f"t_{secrets.token_hex(4)}"
    uri = servers.uri(name)
    yield uri
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        await client.drop_database(name)


@pytest.fixture
async def make_scheduler(uri: str) -> AsyncIterator[Callable[..., Scheduler]]:
    """Makes schedulers on the test's database and stops them at its end."""
    made: list[Scheduler] = []

    def make(at: str | None = None, **options: Any) -> Scheduler:
        scheduler = Scheduler(at or uri, **{"poll_interval": 0.2, **options})
        made.append(scheduler)
        return scheduler

    yield make
    for scheduler in made:
        await scheduler.stop(graceful=False)


@pytest.fixture
def scheduler(make_scheduler: Callable[..., Scheduler]) -> Scheduler:
    """A scheduler on the test's database, not started."""
    return make_scheduler()
