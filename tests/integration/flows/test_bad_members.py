"""One bad member of a flow harms only itself: its neighbours run, and the sweep looks at the others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database
from harness.waiters import LONG_AGO, Waiters
from harness.waiting import eventually
from mainspring import Scheduler, Unavailable
from mainspring.store.codec import DocumentId
from mainspring.store.flows.layout import Layouts

BEFORE_THAT = LONG_AGO - timedelta(hours=1)


async def is_in(waiters: Waiters, job_id: str, state: str) -> bool:
    return await waiters.state(job_id) == state


@pytest.mark.parametrize("after", [[{"node": "x"}], [{"node": "x", "job": ["y"]}], 7])
async def test_a_node_whose_predecessors_are_malformed_fails_and_jobs_claimed_with_it_run(
    scheduler: Scheduler, db: Database, after: Any
) -> None:
    @scheduler.job("job", retry=1)
    async def job() -> None: ...

    await scheduler.connect()
    waiters = Waiters(db)
    await waiters.put("bad", "pending", after=after, tries=0)
    others = await scheduler.schedule_bulk([{"name": "job"} for _ in range(5)])
    async with scheduler:
        assert {(await scheduler.wait(one.id, timeout=30)).state for one in others} == {"completed"}
        await eventually(lambda: is_in(waiters, "bad", "failed"), 30)


async def test_a_node_reads_its_own_predecessors_where_those_of_all_cannot_be_read_in_time(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Layouts.results

    async def slow(layouts: Layouts, ids: Sequence[DocumentId]) -> Any:
        if len(ids) > 1:
            raise Unavailable("MongoDB did not answer within 10 s")
        return await results(layouts, ids)

    monkeypatch.setattr(Layouts, "results", slow)

    @scheduler.job("give")
    async def give(n: int) -> int:
        return n

    flow = scheduler.flow("wide")
    for n in range(5):
        first = flow.add("give", {"n": n}, name=f"first-{n}")
        flow.add("give", {"n": first.result}, after=first, name=f"second-{n}")
    async with scheduler:
        ended = await (await flow.start()).wait(30)
    assert ended.state == "completed", ended.error


SEALED = {"ids": ["bad#x"], "sealed": True}


@pytest.mark.parametrize("waits", ["text", [1], 7, {**SEALED, "deleted": 7}, {**SEALED, "signals": 7}])
async def test_a_blocked_job_with_malformed_waits_does_not_stop_the_sweep(
    scheduler: Scheduler, db: Database, waits: Any
) -> None:
    await scheduler.connect()
    store = await inside(scheduler).store()
    waiters = Waiters(db)
    await waiters.put("bad", "blocked", waits=waits, check_at=BEFORE_THAT)
    await waiters.child("child", "completed", await waiters.waiter("good"))
    await waiters.due("good")
    await store.checks.sweep()
    assert await waiters.state("good") == "pending"


@pytest.mark.parametrize("mark", [{"cancel_tree": "yes"}, {"retry_tree": {"at": 7}}])
async def test_a_cancellation_that_cannot_be_carried_on_does_not_stop_the_others(
    scheduler: Scheduler, db: Database, mark: Any
) -> None:
    waiters = Waiters(db)
    root = {"spawned": True, "root": True}
    cancelled = {"at": LONG_AGO, "reason": "wrong day"}
    later = LONG_AGO + timedelta(days=1)
    async with scheduler:
        await waiters.put("child", "pending", before=["root#all"], flow="root", node="all", run_at=later)
        await waiters.put("bad", "cancelled", **mark, **root, check_at=BEFORE_THAT)
        await waiters.put("root", "cancelled", cancel_tree=cancelled, **root, check_at=LONG_AGO)
        await eventually(lambda: is_in(waiters, "child", "cancelled"), 30)
