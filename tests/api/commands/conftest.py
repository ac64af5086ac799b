"""Commands in the process of the test, on the test's database and on a service that serves it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from api.conftest import serving
from harness.commands import OURS
from mainspring import Scheduler
from mainspring.cli.app import run


@dataclass(frozen=True)
class Ran:
    """What a command has ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The lines of a table below its titles, as words."""
        assert self.code == 0, self.err
        return [line.split() for line in self.out.splitlines()[1:]]


Run = Callable[..., Coroutine[Any, Any, Ran]]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs a command with these arguments alone, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in (*OURS, "MAINSPRING_URL", "MAINSPRING_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    async def call(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["mainspring", *arguments])
        capsys.readouterr()
        code = await asyncio.to_thread(run)
        told = capsys.readouterr()
        return Ran(code, told.out, told.err)

    return call


@pytest.fixture(params=["database", "service"])
async def command(
    request: pytest.FixtureRequest, uri: str, make_scheduler: Callable[..., Scheduler], bare: Run
) -> AsyncIterator[Run]:
    """Runs a command on the test's database, by its URI or over a service with a key."""
    if request.param == "database":

        async def on_database(*arguments: str) -> Ran:
            return await bare(*arguments, "--uri", uri)

        yield on_database
        return
    key = (await make_scheduler().api_keys.create("ops", "admin")).text
    async with serving(make_scheduler(), keyless=False) as api:

        async def on_service(*arguments: str) -> Ran:
            return await bare(*arguments, "--url", api.url, "--key", key)

        yield on_service


@pytest.fixture
def on_database(uri: str, bare: Run) -> Run:
    """Runs a command on the test's database, by its URI."""

    async def call(*arguments: str) -> Ran:
        return await bare(*arguments, "--uri", uri)

    return call


async def number(scheduler: Scheduler, state: str | None = None) -> int:
    """How many jobs are stored, in a state or in all."""
    return sum(one.count for one in await scheduler.count() if state in (None, one.state))
