"""Stored jobs that wait for others, made as they are stored, for tests of checks without a worker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from harness.looking import Database

LONG_AGO = datetime.now(UTC) - timedelta(hours=1)


class Waiters:
    """Puts waiting jobs and their predecessors into a database."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def put(self, job_id: str, state: str, **fields: Any) -> None:
        """Store a job in a state."""
        document: dict[str, Any] = {"_id": job_id, "name": "job", "queue": "default", "data": {}, "priority": 5}
        document |= {"v": 1, "rev": 1, "token": 1, "tries": 1, "created_at": LONG_AGO, "run_at": LONG_AGO}
        document["state"] = state
        if state == "pending":
            document["ready"] = True
        if state in ("failed", "cancelled", "expired", "completed"):
            document["finished_at"] = LONG_AGO
        await self._db.jobs.insert_one(document | fields)

    async def waiter(self, job_id: str = "waiter", total: int = 1, **waits: Any) -> str:
        """Store a blocked job with one wait for `total` jobs; returns the id of the wait."""
        wait = f"{job_id}#all"
        stored = {"ids": [wait], "total": [total], "tolerate": [0], "fail_fast": [False], "sealed": True}
        stored |= {"since": LONG_AGO} | waits
        in_an_hour = datetime.now(UTC) + timedelta(hours=1)
        await self.put(job_id, "blocked", waits=stored, check_at=in_an_hour, root=True, spawned=True)
        return wait

    async def child(self, job_id: str, state: str, wait: str, **fields: Any) -> None:
        """Store a predecessor."""
        await self.put(job_id, state, before=[wait], flow=wait.partition("#")[0], node="all", **fields)

    async def get(self, job_id: str = "waiter") -> dict[str, Any]:
        found = await self._db.jobs.find_one({"_id": job_id})
        assert found is not None
        return found

    async def state(self, job_id: str = "waiter") -> str:
        return str((await self.get(job_id))["state"])

    async def set(self, job_id: str, **fields: Any) -> None:
        """Change a job past the product."""
        await self._db.jobs.update_one({"_id": job_id}, {"$set": fields})

    async def due(self, job_id: str = "waiter") -> None:
        """Let the next sweep look at a job."""
        await self.set(job_id, check_at=LONG_AGO)
