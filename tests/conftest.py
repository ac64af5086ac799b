"""A real mongod once per run (a one-node replica set under notablescan), and a database to each test."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings
from pymongo import AsyncMongoClient

from harness.databases import Databases
from harness.fuzzing import FULL
from harness.ordering import in_shares, is_of_the_system
from harness.servers import Servers
from mainspring import Scheduler

# The same examples in every run, so that a change is judged by what it changes; MAINSPRING_FUZZ=full tries others.
settings.register_profile("steady", derandomize=not FULL, print_blob=True, deadline=None)
settings.load_profile("steady")


def pytest_itemcollected(item: pytest.Item) -> None:
    """`make test` runs the tests without the mark `system`, `make test-system` those with it."""
    long = is_of_the_system(item) or item.get_closest_marker("slow") is not None
    if long and item.get_closest_marker("core") is None:
        item.add_marker("system")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    processes: int = getattr(config, "workerinput", {}).get("workercount", 1)
    if processes > 1:
        items[:] = in_shares(items, processes)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """All tests and modules stay until the end: the garbage collector need not look at them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The run's replica set."""
    with Servers(1) as servers:
        yield servers


@pytest.fixture(scope="session")
def standalone() -> Iterator[Servers]:
    """A server that is no replica set: no transactions, no change streams."""
    with Servers(0) as servers:
        yield servers


@pytest.fixture(scope="session")
async def side_client(servers: Servers) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    """A client beside the schedulers', to look into the database and to write to it as another program would."""
    async with AsyncMongoClient[dict[str, Any]](servers.uri("admin"), tz_aware=True) as client:
        yield client


@pytest.fixture(scope="session")
async def databases(servers: Servers, side_client: AsyncMongoClient[dict[str, Any]]) -> AsyncIterator[Databases]:
    """The run's databases."""
    databases = Databases(servers, side_client)
    yield databases
    await databases.close()


@pytest.fixture
async def uri(servers: Servers, databases: Databases, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """The URI of a database of the test's own: one that is as new, or fresh if the test is marked so."""
    name = await databases.take(fresh=request.node.get_closest_marker("fresh_database") is not None)
    yield servers.uri(name)
    await databases.give_back(name)


@pytest.fixture
async def make_scheduler(uri: str) -> AsyncIterator[Callable[..., Scheduler]]:
    """Makes schedulers on the test's database and stops them at its end."""
    made: list[Scheduler] = []

    def make(at: str | None = None, **options: Any) -> Scheduler:
        # A busy machine may take longer than the usual ten seconds to answer.
        scheduler = Scheduler(at or uri, **{"poll_interval": 0.2, "operation_timeout": 15, **options})
        made.append(scheduler)
        return scheduler

    yield make
    for scheduler in made:
        await scheduler.stop(graceful=False)


@pytest.fixture
def scheduler(make_scheduler: Callable[..., Scheduler]) -> Scheduler:
    """A scheduler on the test's database, not started."""
    return make_scheduler()
