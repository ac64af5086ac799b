"""What statements examine in the database, by its own profiler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from harness.looking import Database


class Spent:
    """What was examined in the database while it was looked at."""

    keys = 0
    documents = 0
    scans = 0


@asynccontextmanager
async def profiled(db: Database) -> AsyncIterator[Spent]:
    """Sums what the profiler tells of all statements inside."""
    spent = Spent()
    await db.command("profile", 2)
    try:
        yield spent
    finally:
        await db.command("profile", 0)
        async for one in db["system.profile"].find({"ns": {"$ne": f"{db.name}.system.profile"}}):
            spent.keys += one.get("keysExamined", 0)
            spent.documents += one.get("docsExamined", 0)
            spent.scans += "COLLSCAN" in one.get("planSummary", "")
        await db.drop_collection("system.profile")
