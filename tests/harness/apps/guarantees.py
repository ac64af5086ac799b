"""Handlers with guarantees, whose effects are counted: in the database, and in the history."""

from __future__ import annotations

import asyncio
import random

from bson import ObjectId

from harness.apps.recording import record, scheduler
from mainspring import JobContext

__all__ = ["scheduler"]


@scheduler.job("pay", guarantee="exactly_once")
async def pay(ctx: JobContext) -> None:
    """Two effects that would show that it was done twice: a document of its own each time, and a sum."""
    record("run", job=ctx.id)
    await asyncio.sleep(random.uniform(0, 0.2))
    async with ctx.transaction() as tx:
        account = ObjectId(ctx.id)
        await tx.db["paid"].insert_one({"job": account}, session=tx.session)
        await tx.db["sums"].update_one({"_id": account}, {"$inc": {"n": 1}}, upsert=True, session=tx.session)


@scheduler.job("shout", guarantee="at_most_once")
async def shout(ctx: JobContext) -> None:
    """Writes down that it was started, first of all."""
    record("shouted", job=ctx.id)
    await asyncio.sleep(random.choice([0.0, 0.01, 0.2]))
