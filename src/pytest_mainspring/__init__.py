"""The pytest plugin of Mainspring: a real `mongod` per run, a database per test, and schedulers that are bound to it.

pytest imports this module in every run, so that it imports nothing but pytest: the fixtures import Mainspring when a
test asks for one. It is a package of its own, since any module of `mainspring` would import all of it.
"""

from __future__ import annotations

import functools
import inspect
import os
import uuid
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mainspring.clock import ManualClock
    from mainspring.store.scratch.scratch_databases import ScratchDatabases
    from mainspring.testing.binding import Bound

VARIABLE = "MAINSPRING_TEST_URI"
_BOUND: pytest.StashKey[Bound] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("mainspring_test_uri", f"the MongoDB server of the tests; {VARIABLE} comes first", default="")
    parser.addini("mainspring_scheduler", "the program's scheduler, such as shop.jobs:scheduler", default="")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Stop the schedulers of an async test at its end, on its own event loop, whichever plugin runs it."""
    bound, test = item.stash.get(_BOUND, None), getattr(item, "obj", None)
    if bound is None or not inspect.iscoroutinefunction(test):
        return (yield)

    @functools.wraps(test)
    async def stopped(*arguments: Any, **options: Any) -> Any:
        try:
            return await test(*arguments, **options)
        finally:
            await bound.stop()

    item.obj = stopped  # type: ignore[attr-defined]
    try:
        return (yield)
    finally:
        item.obj = test  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def mainspring_server(pytestconfig: pytest.Config) -> Iterator[str]:
    """The URI of the MongoDB server of this test run: your own, or one that is started for the run and shared by its
    processes."""
    given = os.environ.get(VARIABLE) or str(pytestconfig.getini("mainspring_test_uri"))
    if given:
        yield given
        return
    from mainspring.errors import EmbeddedError
    from mainspring.mongod.temporary import TemporaryServer

    run: str = getattr(pytestconfig, "workerinput", {}).get("testrunuid") or uuid.uuid4().hex
    try:
        server = TemporaryServer(run)
    except EmbeddedError as error:
        said = f"The tests have no MongoDB: {error} Or name yours: {VARIABLE}=mongodb://…"
        raise pytest.fail.Exception(said, pytrace=False) from None
    with server:
        yield server.uri


@pytest.fixture(scope="session")
def mainspring_databases(mainspring_server: str) -> Iterator[ScratchDatabases]:
    """The databases of the run."""
    from mainspring.errors import MainspringError
    from mainspring.store.scratch.scratch_databases import ScratchDatabases

    try:
        databases = ScratchDatabases(mainspring_server)
    except MainspringError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    yield databases
    databases.close()


@pytest.fixture
def mainspring_uri(mainspring_databases: ScratchDatabases) -> Iterator[str]:
    """The URI of an empty database that only this test uses."""
    name, uri = mainspring_databases.take()
    yield uri
    mainspring_databases.give_back(name)


@pytest.fixture
def mainspring_clock() -> ManualClock:
    """A clock that stands still at 2030-01-01 until the test moves it. The schedulers of a test with this fixture use
    it."""
    from mainspring.clock import ManualClock

    return ManualClock()


@pytest.fixture
def mainspring_bind(request: pytest.FixtureRequest, mainspring_uri: str) -> Iterator[Any]:
    """Binds schedulers to the test's database: `mainspring_bind(scheduler)`, optionally with settings."""
    from mainspring.testing.binding import Bound

    clock = request.getfixturevalue("mainspring_clock") if "mainspring_clock" in request.fixturenames else None
    bound = request.node.stash[_BOUND] = Bound(mainspring_uri)

    def bind(scheduler: Any, **options: Any) -> Any:
        return bound.bind(scheduler, **{"clock": clock, **options})

    yield bind
    bound.release()


@pytest.fixture
def mainspring_scheduler(pytestconfig: pytest.Config, mainspring_uri: str, mainspring_bind: Any) -> Any:
    """The scheduler that the setting `mainspring_scheduler` names, bound to the test's database. Without the setting, a
    new Scheduler."""
    place = str(pytestconfig.getini("mainspring_scheduler"))
    if place:
        from mainspring.testing.binding import find_scheduler

        return mainspring_bind(find_scheduler(place))
    from mainspring import Scheduler

    return mainspring_bind(Scheduler(mainspring_uri))
