"""Looking into the jobs collection past the scheduler, on servers that forbid collection scans."""

from __future__ import annotations

from typing import Any

from pymongo.asynchronous.database import AsyncDatabase

Database = AsyncDatabase[dict[str, Any]]


async def count_jobs(db: Database, **filter: Any) -> int:
    """How many stored jobs match."""
    return await db.jobs.count_documents(filter, hint="_id_")
