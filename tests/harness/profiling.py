"""What statements examine in the database, by its own profiler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from harness.looking import Database


class Spent:
    """What was examined in the database while it was looked at."""

    keys = 0
    longest = 0
    """The most keys of one statement."""
    statement = ""
    """The statement with the most keys, with its plan."""
    documents = 0
    scans = 0

    def add(self, statement: Mapping[str, Any]) -> None:
        """Add a statement of the profiler."""
        self.keys += statement.get("keysExamined", 0)
        if statement.get("keysExamined", 0) > self.longest:
            self.longest = statement["keysExamined"]
            self.statement = f"{statement.get('planSummary')}: {statement.get('command')}"
        self.documents += statement.get("docsExamined", 0)
        self.scans += "COLLSCAN" in statement.get("planSummary", "")


def statements_of(database: str) -> dict[str, Any]:
    """The filter of the profiler's statements that are not about the profiler."""
    return {"ns": {"$ne": f"{database}.system.profile"}}


@asynccontextmanager
async def profiled(db: Database) -> AsyncIterator[Spent]:
    """Sums what the profiler tells of all statements inside."""
    spent = Spent()
    await db.command("profile", 2)
    try:
        yield spent
    finally:
        await db.command("profile", 0)
        async for one in db["system.profile"].find(statements_of(db.name)):
            spent.add(one)
        await db.drop_collection("system.profile")
