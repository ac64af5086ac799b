"""Retries of a flow by several processes: each ends, and none undoes, repeats or forgets another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.waiters import LONG_AGO, Waiters
from mainspring import FieldMap, Scheduler
from mainspring.store import Store
from mainspring.store.jobs.edit import Jobs

MINUTE = timedelta(minutes=1)
ROOT = {"root": True, "spawned": True}
BELOW = {"before": ["root#all"], "flow": "root", "node": "all"}


@pytest.fixture
async def store(scheduler: Scheduler) -> Store:
    await scheduler.connect()
    return await inside(scheduler).store()


@pytest.fixture
def waiters(store: Store, db: Database) -> Waiters:
    return Waiters(db)


async def test_the_end_of_a_retry_leaves_the_mark_of_a_later_one(store: Store, waiters: Waiters) -> None:
    await waiters.put("root", "failed", **ROOT, retry_tree={"at": LONG_AGO + 2 * MINUTE}, check_at=LONG_AGO)
    await store.flow_retries.carry_on({"_id": "root", "retry_tree": {"at": LONG_AGO + MINUTE}})
    root = await waiters.get("root")
    assert (root["state"], *(key in root for key in ("retry_tree", "check_at"))) == ("pending", True, True)


async def test_a_retry_whose_process_has_died_is_carried_on_after_a_retry_of_the_root_alone(
    store: Store, waiters: Waiters
) -> None:
    await waiters.put("root", "failed", **ROOT, retry_tree={"at": LONG_AGO + MINUTE}, check_at=LONG_AGO)
    await store.jobs.retry("root")
    checked, _ = await store.checks.sweep()
    assert [one["_id"] for one in checked.marked] == ["root"]
    await store.flow_retries.carry_on(checked.marked[0])
    root = await waiters.get("root")
    assert (root["state"], *(key in root for key in ("retry_tree", "check_at"))) == ("pending", False, False)


async def test_a_retry_that_was_held_up_does_not_run_a_root_again_that_has_failed_since(
    store: Store, waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    await waiters.put("root", "failed", **ROOT)
    get, reads = Jobs.get, 0

    async def held_up(jobs: Jobs, *args: Any) -> Any:
        nonlocal reads
        found = await get(jobs, *args)
        reads += 1
        if reads == 1:  # another process has carried the retry on meanwhile
            await waiters.set("root", finished_at=store.clock.now() + MINUTE, rev=9)
        return found

    monkeypatch.setattr(Jobs, "get", held_up)
    await store.flow_retries.carry_on({"_id": "root", "retry_tree": {"at": store.clock.now()}})
    assert await waiters.state("root") == "failed"


async def test_a_retry_by_a_process_whose_clock_is_behind_has_all_that_had_failed(
    store: Store, waiters: Waiters
) -> None:
    ended = store.clock.now() + timedelta(seconds=2)
    await waiters.put("root", "failed", **ROOT, finished_at=ended)
    await waiters.put("child", "failed", **BELOW, finished_at=ended)
    await store.flow_retries.retry("root")
    assert (await waiters.state("child"), await waiters.state("root")) == ("pending", "pending")


async def test_a_retry_passes_over_a_member_that_another_program_has_changed(
    make_scheduler: Callable[..., Scheduler], db: Database
) -> None:
    store = await inside(await make_scheduler(field_map=FieldMap()).connect()).store()
    waiters = Waiters(db)
    await waiters.put("root", "failed", **ROOT)
    await waiters.put("child", "failed", **BELOW, mapped={"state": "failed"}, status="other")
    await asyncio.wait_for(store.flow_retries.retry("root"), 20)
    assert await waiters.state("child") == "failed"
