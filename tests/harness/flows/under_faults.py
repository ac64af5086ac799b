"""Flows for the program under injected faults (`cluster/disturbed.py`): every verb of flows, in small.

Each handler looks itself whether it was released too early, got a signal twice or slept too short, and returns what is
wrong; `wrong_ends` finds these results. `Recording` and `Replay` check the writes of the database besides.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

from mainspring import ChildrenFailed, Continue, Fail, JobContext, JobNotFound, JobStateError, Retry, Scheduler

NAMES = ["mapping", "napping", "continuing", "hurrying"]
"""The jobs that are scheduled as other jobs are."""
_ROUNDS = 3
_NAP = 0.2
_WRONG = "wrong: "


def register(scheduler: Scheduler, retry: Retry) -> None:
    """The handlers, on one scheduler."""

    @scheduler.job("piece", retry=retry)
    async def piece(ctx: JobContext, key: int, grows: bool = False) -> int:
        if grows:
            await ctx.grow("piece", {"key": key})
        return key

    @scheduler.job("mapping", retry=retry)
    async def mapping(ctx: JobContext, key: int) -> str | None:
        items = [{"key": n, "grows": n == 1} for n in range(3)]
        keyed = [{"key": n} for n in (key, 7, key)]
        one, some = await ctx.gather(
            ctx.call("one", "piece", {"key": key}), ctx.map("some", "piece", items, tolerate=1, priority=1)
        )
        by_key = await ctx.map("keyed", "piece", keyed, key="key", tolerate=0.1)
        found = [one, [child.result async for child in some], [child.result async for child in by_key]]
        return _told(found, [key, [0, 1, 2], [key, 7]])

    @scheduler.job("asking", retry=retry, concurrency=4)
    async def asking(ctx: JobContext, key: int) -> str | None:
        nothing = await ctx.wait_for("never", 0.1)
        first = await ctx.wait_for("go", name="first")
        second, piece = await ctx.gather(ctx.wait_for("go", name="second"), ctx.call("one", "piece", {"key": key}))
        return _told([nothing, first == second, piece], [None, False, key])

    @scheduler.job("napping", retry=retry, sequence="key")
    async def napping(ctx: JobContext, key: int) -> str | None:
        began = await ctx.step("began", time.time)
        await ctx.sleep("nap", _NAP)
        return _told(time.time() - began > _NAP - 0.01, True)

    @scheduler.job("continuing", retry=retry)
    async def continuing(ctx: JobContext, key: int, round: int = 1) -> str | None:
        called = await ctx.call("one", "piece", {"key": key + round})
        if round < _ROUNDS:
            raise Continue(key=key, round=round + 1)
        return _told(called, key + _ROUNDS)

    @scheduler.job("hurrying", retry=retry)
    async def hurrying(ctx: JobContext, key: int) -> str | None:
        items = [{"key": n} for n in range(3)]
        try:
            await ctx.gather(ctx.map("bad", "failing", items, fail_fast=True), ctx.call("late", "piece", {"key": key}))
        except ChildrenFailed:
            return None
        return f"{_WRONG}children that fail were not told"

    @scheduler.job("failing", retry=retry)
    async def failing(ctx: JobContext, key: int) -> None:
        """Fails at first; a flow that it is a node of can be retried."""
        if ctx.token < 3 or ctx.before == {}:
            raise Fail("as it should")

    @scheduler.job("joining", retry=retry)
    async def joining(ctx: JobContext, key: int, before: int) -> str | None:
        states = {name: one.state for name, one in ctx.before.items()}
        return _told([before, states], [key, {"first": "completed", "all": "completed"}])


def _told(found: Any, wanted: Any) -> str | None:
    return None if found == wanted else f"{_WRONG}{found} and not {wanted}"


# -- what clients do ---------------------------------------------------------------------------------------------------


async def ask(scheduler: Scheduler, dice: random.Random) -> str:
    """Schedule a job that waits for two signals, and send some of them before it waits."""
    job = await scheduler.schedule("asking", {"key": dice.randrange(4)})
    for number in range(dice.randrange(3)):
        await scheduler.signal(job.id, "go", number, id=f"early-{number}")
    return job.id


async def start_declared(scheduler: Scheduler, dice: random.Random) -> str:
    """Start a declared flow, a chain or a batch."""
    key = dice.randrange(4)
    match dice.randrange(4):
        case 0:
            return (await scheduler.chain(("piece", {"key": key}), ("piece", {"key": 1}))).id
        case 1:
            items = ({"name": "piece", "data": {"key": n}} for n in range(5))
            return (await scheduler.batch(items, on_done=("piece", {"key": key}))).id
    flow = scheduler.flow("declared")
    first = flow.add("piece", {"key": key}, name="first")
    every = flow.map("piece", [{"key": n} for n in range(3)], name="all", after=first)
    joined = flow.add("joining", {"key": key, "before": first.result}, after=[first, every])
    if dice.random() < 0.5:
        flow.add("failing", {"key": key}, name="failing", after=first)
        flow.add("piece", {"key": key}, name="behind", after=["failing"])
        flow.add("piece", {"key": key}, name="comfort", after=["failing"], when="failure")
    flow.add("piece", {"key": key}, name="last", after=joined, when="done")
    return (await flow.start()).id


async def change(scheduler: Scheduler, dice: random.Random, flow_id: str) -> None:
    """Look at a flow, cancel it, or retry it."""
    verb = dice.choice(["get", "cancel", "retry", "retry"])
    await getattr(scheduler.flows, verb)(flow_id)


async def signal_all(scheduler: Scheduler, db: AsyncDatabase[dict[str, Any]]) -> None:
    """Send two signals to every job that waits for one: those that were to come early, and two others, for a job that
    has taken those and is retried."""
    waiting = {"state": "blocked", "waits.signals": "go"}
    for job in await db.jobs.find(waiting, {"_id": 1}, hint="_id_").to_list(None):
        for number in range(2):
            with suppress(JobNotFound, JobStateError):
                await scheduler.signal(str(job["_id"]), "go", number, id=f"early-{number}")
                await scheduler.signal(str(job["_id"]), "go", secrets.token_hex(4))


# -- what is looked at -------------------------------------------------------------------------------------------------


async def wrong_ends(db: AsyncDatabase[dict[str, Any]]) -> AsyncIterator[str]:
    """The results of handlers that saw something wrong."""
    async for job in db.jobs.find({"result": {"$regex": f"^{_WRONG}"}}, {"name": 1, "result": 1}, hint="_id_"):
        yield f"{job['name']} {job['_id']} saw {job['result']}"
