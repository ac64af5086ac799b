"""Fixtures for tests of the whole library on one real server, kept cheap: there are hundreds of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

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
