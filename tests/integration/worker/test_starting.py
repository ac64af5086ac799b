"""Starting while MongoDB is not quite there: `run()` tries again until it is told to stop, `start()` says so."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from mainspring import Scheduler, sync
from mainspring.errors import Unavailable
from mainspring.store.jobs.leases import Renewals

Make = Callable[..., Scheduler]


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Twice, a worker cannot register; what is told of that."""
    told: list[str] = []
    beat = Renewals.beat

    def fails_twice(self: Renewals, *args: Any, **kwargs: Any) -> None:
        if len(told) < 2:
            told.append("an election")
            raise Unavailable("an election")
        beat(self, *args, **kwargs)

    monkeypatch.setattr(Renewals, "beat", fails_twice)
    monkeypatch.setattr("mainspring.client.lifecycle._FIRST_PAUSE", 0.01)
    return told


def stop_when_up(scheduler: Any) -> list[str]:
    """Stop the program with SIGTERM when its worker is up; returns what happens."""
    happened: list[str] = []
    scheduler.on_start(lambda: happened.append("hook"))
    scheduler.on_stop(lambda: happened.append("stopped"))

    @scheduler.on("worker:start")  # type: ignore[untyped-decorator, unused-ignore]
    def up(worker: str) -> None:
        happened.append("up")
        os.kill(os.getpid(), signal.SIGTERM)

    return happened


async def test_run_survives_errors_that_pass_while_it_starts(make_scheduler: Make, failures: list[str]) -> None:
    scheduler = make_scheduler()
    happened = stop_when_up(scheduler)
    async with asyncio.timeout(60):
        await scheduler.run()
    assert (happened, len(failures)) == (["hook", "up", "stopped"], 2)


def test_the_blocking_run_survives_errors_that_pass_while_it_starts(uri: str, failures: list[str]) -> None:
    scheduler = sync.Scheduler(uri)
    happened = stop_when_up(scheduler)
    scheduler.run()
    assert (happened, len(failures)) == (["hook", "up", "stopped"], 2)


async def test_run_ends_when_it_is_told_to_while_it_cannot_start(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: Any, **kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise Unavailable("an outage")

    monkeypatch.setattr(Renewals, "beat", never)
    async with asyncio.timeout(60):
        await make_scheduler().run()


async def test_start_says_that_mongodb_is_not_available(make_scheduler: Make, failures: list[str]) -> None:
    with pytest.raises(Unavailable):
        await make_scheduler().start()
    assert len(failures) == 1
