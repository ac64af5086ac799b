"""The event `job:cancel` of jobs that a check has ended: once for each, whatever the database does meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.waiters import Waiters
from mainspring import Job, Scheduler, Unavailable
from mainspring.engine.callbacks import Callbacks
from mainspring.engine.flows import checker as module
from mainspring.engine.flows.checker import Checker
from mainspring.store import Store
from mainspring.store.flows.checks import Checked, Checks
from mainspring.store.jobs.edit import Jobs


@pytest.fixture
async def store(scheduler: Scheduler) -> Store:
    return await inside(scheduler).store()


@pytest.fixture
def waiters(db: Database, store: Store) -> Waiters:
    return Waiters(db)


@pytest.fixture
def heard() -> list[str]:
    """The jobs whose event was emitted."""
    return []


@pytest.fixture
def checker(store: Store, heard: list[str]) -> Checker:
    def hear(job: Job) -> None:
        heard.append(job.id)

    def reported(error: Exception) -> None:
        raise error

    callbacks = Callbacks()
    callbacks.on("job:cancel", hear)
    return Checker(store, callbacks, lambda: None, lambda queues: None, reported)


def fail_at(patch: pytest.MonkeyPatch, *calls: int) -> None:
    """Let these reads of ended jobs fail."""
    real: Callable[..., Any] = Jobs.get_many
    made = []

    async def read(*arguments: Any) -> Any:
        made.append(1)
        if len(made) in calls:
            raise Unavailable("the reply is lost")
        return await real(*arguments)

    patch.setattr(Jobs, "get_many", read)


async def test_the_events_of_ended_jobs_are_emitted_although_their_read_fails(
    checker: Checker, waiters: Waiters, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BATCH", 2)
    for n in range(5):
        await waiters.put(f"j{n}", "cancelled")
    fail_at(monkeypatch, 1, 3)
    checker.settle(Checked(ended=[f"j{n}" for n in range(5)]))
    for told in (0, 2):
        with pytest.raises(Unavailable):
            await checker.run_once()
        assert len(heard) == told and not checker.idle
    await checker.run_once()
    await checker.run_once()
    assert sorted(heard) == [f"j{n}" for n in range(5)] and checker.idle


async def test_a_job_that_was_put_back_before_the_check_wrote_is_not_announced(
    checker: Checker, waiters: Waiters, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = await waiters.waiter(when="success")
    await waiters.child("c", "failed", wait)
    real = Checks._write

    async def late(*arguments: Any) -> None:
        if await waiters.state("c") != "pending":
            await waiters.set("c", state="pending", ready=True)
            await waiters.set("waiter", rev=2)
        await real(*arguments)

    monkeypatch.setattr(Checks, "_write", late)
    checker.note([wait])
    for _ in range(3):
        await checker.run_once()
    assert (await waiters.state(), heard) == ("blocked", [])


async def test_a_worker_that_stops_announces_the_jobs_that_its_last_checks_have_ended(
    checker: Checker, waiters: Waiters, heard: list[str]
) -> None:
    wait = await waiters.waiter(when="success")
    await waiters.child("c", "failed", wait)
    checker.note([wait])
    await checker.check_rest()
    assert (await waiters.state(), heard) == ("cancelled", ["waiter"])
