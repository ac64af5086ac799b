"""Slots count while their worker's lease holds: what becomes of limited jobs where it is short, or has run out; and
room that is there is found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.inside import inside
from harness.slots import lapse
from harness.waiting import eventually
from mainspring import JobContext, Limit, Rate, Scheduler
from mainspring.engine.limits.limiter import Limiter
from mainspring.store.codec import document_id
from mainspring.store.limits.semaphore import Want

Make = Callable[..., Scheduler]


def keeper(scheduler: Scheduler) -> Limiter:
    return inside(scheduler).worker.limiter


@pytest.mark.parametrize("limit", [{"sequence": "key"}, {"concurrency": 1}, {"rate": "50/second"}], ids=str)
@pytest.mark.slow
async def test_a_job_with_a_limit_may_take_longer_than_a_short_lease(
    make_scheduler: Make, limit: dict[str, Any]
) -> None:
    scheduler = make_scheduler(lease=3.0)
    tokens: list[int] = []

    @scheduler.job("long", **limit)
    async def long(ctx: JobContext, key: int = 1) -> None:
        tokens.append(ctx.token)
        await asyncio.sleep(7)

    await scheduler.start()
    await asyncio.sleep(4)  # a worker that had nothing to do all that time has a lease, too
    job = await scheduler.schedule("long", {"key": 1})
    assert (await scheduler.wait(job.id, timeout=60)).state == "completed"
    assert tokens == [1]


@pytest.mark.slow
async def test_nothing_limited_is_claimed_while_no_heartbeat_keeps_the_slots(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    done: list[str] = []

    @scheduler.job("limited", concurrency=1)
    async def limited() -> None:
        done.append("limited")

    @scheduler.job("free")
    async def free() -> None:
        done.append("free")

    await scheduler.start()
    limiter = keeper(scheduler)
    extend = limiter.extend
    limiter.extend = lambda asked: None  # type: ignore[method-assign]
    lapse(limiter, extend)
    one = await scheduler.schedule("limited")
    await scheduler.wait((await scheduler.schedule("free")).id, timeout=60)
    await asyncio.sleep(0.5)
    job = await scheduler.get_job(one.id)
    assert (done, job.state, job.token) == (["free"], "pending", 0)
    limiter.extend = extend  # type: ignore[method-assign]
    await eventually(lambda: done == ["free", "limited"], 60)
    ended = await scheduler.wait(one.id, timeout=60)
    assert ended.token == 1


async def test_room_that_came_before_anybody_waited_is_found_by_whoever_looks_later(scheduler: Scheduler) -> None:
    store = await inside(scheduler).store()
    jobs = [document_id((await scheduler.schedule("x")).id) for _ in range(2)]
    rate, limit = Rate("50/second", burst=1), Limit(2)
    await store.gates.take("one", {"r:name:x": Want(rate, 0, 2), "c:name:x": Want(limit, 0, 1)})
    await store.gates.take("two", {"c:name:x": Want(limit, 0, 1)})
    await store.gates.give_back("two", {"c:name:x": 0})
    for gate, job in zip(("r:name:x", "c:name:x"), jobs, strict=True):
        await store.gates.add_to_wait_lists({gate: [job]}, {gate: "wait"}, {})

    async def found() -> bool:
        return {line.name for line in await store.gates.open_wait_lists(10)} == {"r:name:x", "c:name:x"}

    await eventually(found)
