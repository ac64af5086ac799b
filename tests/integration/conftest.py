"""Fixtures for tests of the whole library on one real server, kept cheap: there are hundreds of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from harness.listening import Listener
from mainspring import Scheduler
from mainspring.clock import ManualClock

Database = AsyncDatabase[dict[str, Any]]


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


@pytest.fixture
def listener() -> Listener:
    """Keeps the commands of the client that it is given to."""
    return Listener()


@pytest.fixture
async def heard(uri: str, listener: Listener) -> AsyncIterator[Scheduler]:
    """A scheduler on a client whose commands are kept."""
    async with AsyncMongoClient[dict[str, Any]](uri, event_listeners=[listener]) as client:
        scheduler = Scheduler(client=client)
        await scheduler.connect()
        listener.clear()
        yield scheduler
        await scheduler.stop()
