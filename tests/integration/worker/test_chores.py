"""Chores: a slow one delays no other that jobs or other workers wait for, and none ends another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.inside import inside
from harness.waiting import eventually
from mainspring import AuditEntry, Scheduler
from mainspring.client.service_backend import ServiceBackend
from mainspring.engine.chores.upkeep import log_audit_head
from mainspring.errors import Unavailable
from mainspring.store.indexes import Indexes

Make = Callable[..., Scheduler]
PROMPT = {"flush_progress", "return_unstarted", "return_unused_slots", "rescue_lost"}


def counted(name: str, done: Counter[str], run: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[bool]]:
    async def run_once() -> bool:
        done[name] += 1
        return await run()

    return run_once


async def test_a_slow_chore_does_not_delay_those_that_others_wait_for(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(lease=2.0)
    await scheduler.start()
    stuck, go_on, done = asyncio.Event(), asyncio.Event(), Counter[str]()

    async def slow() -> bool:
        stuck.set()
        await go_on.wait()
        return False

    for chore in inside(scheduler).worker.chores:
        run: Any = counted(chore.name, done, chore.run_once) if chore.name in PROMPT else slow
        monkeypatch.setattr(chore, "run_once", run)
    await eventually(stuck.is_set)
    done.clear()
    await eventually(lambda: all(done[name] >= 2 for name in PROMPT))
    go_on.set()


async def test_a_rescue_that_takes_long_does_not_delay_the_return_of_slots(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler(lease=2.0)
    await scheduler.start()
    chores = {chore.name: chore for chore in inside(scheduler).worker.chores}
    stuck, go_on, done = asyncio.Event(), asyncio.Event(), Counter[str]()

    async def slow(*arguments: Any) -> list[Any]:
        stuck.set()
        await go_on.wait()
        return []

    monkeypatch.setattr(inside(scheduler).open_store.rescues, "rescue", slow)
    monkeypatch.setattr(
        chores["return_unused_slots"], "run_once", counted("share", done, chores["return_unused_slots"].run_once)
    )
    await eventually(stuck.is_set)
    done.clear()
    await eventually(lambda: done["share"] >= 2)
    go_on.set()


async def test_a_chore_is_done_again_when_the_recovery_from_its_error_fails_too(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler(lease=2.0)
    await scheduler.start()
    chores = {chore.name: chore for chore in inside(scheduler).worker.chores}
    errors, done = [Unavailable("no index can be created now")], Counter[str]()

    async def mend(*arguments: Any) -> None:
        if errors:
            raise errors.pop()

    async def fail() -> bool:
        raise RuntimeError("no")

    monkeypatch.setattr(Indexes, "mend", mend)
    monkeypatch.setattr(chores["rescue_lost"], "run_once", counted("rescue", done, fail))
    await eventually(lambda: not errors)
    await eventually(lambda: done["rescue"] >= 3, 60)
    assert "it starts again" not in caplog.text


async def test_a_chore_that_raises_does_not_keep_the_others_from_being_done(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = make_scheduler()
    await scheduler.start()
    chores = {chore.name: chore for chore in inside(scheduler).worker.chores}
    done = Counter[str]()

    async def bad() -> bool:
        done["bad"] += 1
        raise TypeError("no")

    monkeypatch.setattr(chores["refresh_cluster_view"], "run_once", bad)
    monkeypatch.setattr(
        chores["flush_statistics"], "run_once", counted("good", done, chores["flush_statistics"].run_once)
    )
    await eventually(lambda: done["bad"] >= 1)
    done["good"] = 0
    await eventually(lambda: done["good"] >= 2)


async def test_the_end_of_the_audit_log_is_told_in_the_log_every_hour(
    make_scheduler: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_scheduler()
    await scheduler.start()
    assert "log_audit_head" in [chore.name for chore in inside(scheduler).worker.chores]
    await scheduler.stop()
    [row] = await ServiceBackend(scheduler).note_change(AuditEntry("ada", "job.cancel", "job1"))
    around: Any = SimpleNamespace(store=await inside(scheduler).store())
    chore, now = log_audit_head.LogAuditHead(around), [0.0]
    monkeypatch.setattr(log_audit_head, "monotonic", lambda: now[0])
    with caplog.at_level("INFO", "mainspring.audit"):
        for _ in range(13):
            await chore.run_once()
            now[0] += 600.0
    assert caplog.messages.count(f"The audit log ends at 1:{row.hash}") == 3
