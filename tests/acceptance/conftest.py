"""Commands for the tests: started in the folder of the test's applications, ended when the test is over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from harness import wheel
from harness.commands import MAINSPRING, Command
from harness.looking import Database
from harness.waiting import eventually
from mainspring import Scheduler

APPS = Path(__file__).parent / "apps"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> wheel.Installed | None:
    """The wheel that the commands run from; None where they run from the checkout."""
    return wheel.installed(tmp_path_factory) if wheel.wanted() else None


@pytest.fixture(autouse=True)
def from_wheel(installed: wheel.Installed | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every process that a test starts import the product from the wheel."""
    if installed is not None:
        monkeypatch.setenv("PYTHONPATH", str(installed.folder))


@pytest.fixture
def db(side_client: AsyncMongoClient[dict[str, Any]], uri: str) -> Database:
    """The test's database, as another program sees it."""
    return side_client[uri.rpartition("/")[2].partition("?")[0]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Starts `mainspring` with these arguments, by default in the folder of the applications."""
    started: list[Command] = []

    def start(*arguments: str, cwd: Path = APPS, command: tuple[str, ...] = MAINSPRING, **environment: str) -> Command:
        log = tmp_path / f"output-{len(started)}"
        environment = {"XDG_CONFIG_HOME": str(tmp_path / "config"), **environment}
        started.append(Command((*command, *map(str, arguments)), cwd=cwd, log=log, **environment))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def start_worker(start: Callable[..., Command], uri: str) -> Callable[..., Any]:
    """Starts `mainspring worker` on the test's database and waits until its processes are up."""

    async def start_worker(*arguments: str, target: str = "steady:scheduler", processes: int = 1) -> Command:
        command = start("worker", target, "--processes", str(processes), *arguments, MAINSPRING_URI=uri)
        await eventually(lambda: command.output.count(" is up (pid ") >= processes or command.process.poll())
        assert command.process.poll() is None, command.output
        return command

    return start_worker


@pytest.fixture
async def client(uri: str) -> AsyncIterator[Scheduler]:
    """A scheduler that schedules and looks, and runs nothing."""
    scheduler = Scheduler(uri)
    yield scheduler
    await scheduler.stop()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """A user who starts a command for the first time has a database that is not there yet."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.fresh_database)
