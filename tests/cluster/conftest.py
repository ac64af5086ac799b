"""Worker processes of a test's own, and what the tests of this folder ask the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.asking import Asking
from harness.changes import Changes
from harness.processes import Fleet
from harness.proxy import Proxy
from harness.servers import Servers


@pytest.fixture
def fleet(uri: str, tmp_path: Path) -> Iterator[Fleet]:
    """Worker processes on the test's database, all stopped at its end."""
    fleet = Fleet(uri, tmp_path)
    try:
        yield fleet
    finally:
        fleet.stop()
    assert fleet.complaints() == []


@pytest.fixture
def proxy(servers: Servers) -> Iterator[Proxy]:
    """A way to the server that can be cut. Ask for it before what uses it, so that it is closed after that."""
    proxy = Proxy(servers.nodes[0].port)
    proxy.start()
    yield proxy
    proxy.stop()


@pytest.fixture(scope="session")
def shared_nodes() -> Iterator[Servers]:
    with Servers(3, name="three") as servers:
        yield servers


@pytest.fixture
def three_nodes(shared_nodes: Servers) -> Servers:
    """A replica set of three nodes, for tests that do harm to servers; they override `uri`.

    It is mended before each test, and rests while other tests run.
    """
    shared_nodes.mend()
    return shared_nodes


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Function, nextitem: pytest.Function | None) -> Generator[None, None, None]:
    """Idle nodes take their share of the cores too: halt them when the next test does not need them."""
    nodes = item.funcargs.get("three_nodes")
    yield
    if isinstance(nodes, Servers) and (nextitem is None or "three_nodes" not in nextitem.fixturenames):
        nodes.halt()


@pytest.fixture
async def ask(uri: str) -> AsyncIterator[Asking]:
    """Looks into the test's database, past the scheduler."""
    asking = Asking(uri)
    yield asking
    await asking.close()


@pytest.fixture
def changes(uri: str) -> Iterator[Changes]:
    """The database's own account of all that happens to jobs in this test."""
    changes = Changes(uri)
    yield changes
    changes.close()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)
            # Processes that were killed may have something under way.
            item.add_marker(pytest.mark.fresh_database)
