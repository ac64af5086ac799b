"""Questions to the database that tests of whole clusters ask, on a client of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from bson import ObjectId
from pymongo import AsyncMongoClient

from harness.waiting import eventually


class Asking:
    """Looks into one database, past the scheduler."""

    def __init__(self, uri: str) -> None:
        self.client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri, tz_aware=True, appname="asking")
        self.db = self.client.get_default_database()
        self.jobs = self.db["jobs"]

    async def close(self) -> None:
        await self.client.close()

    async def job(self, id: str) -> dict[str, Any]:
        document = await self.jobs.find_one({"_id": ObjectId(id)})
        assert document is not None
        return document

    async def documents(self) -> dict[str, dict[str, Any]]:
        """All jobs, by their ids."""
        return {str(document["_id"]): document async for document in self.jobs.find({}, hint="_id_")}

    async def states(self, ids: Iterable[str] | None = None) -> Counter[str]:
        """How many jobs there are in each state: of these, or of all."""
        chosen = {} if ids is None else {"_id": {"$in": [ObjectId(id) for id in ids]}}
        cursor = self.jobs.find(chosen, {"state": 1}, hint="_id_")
        return Counter([document["state"] async for document in cursor])

    async def live(self) -> int:
        """How many jobs are pending or running. One statement: between two, a job may go from where the second looks
        to where the first has looked."""
        return await self.jobs.count_documents({"state": {"$in": ["pending", "running"]}}, hint="_id_")

    async def drained(self, timeout: float) -> None:
        """Wait until no job is pending or running."""

        async def none_left() -> bool:
            return await self.live() == 0

        try:
            await eventually(none_left, timeout, every=0.1)
        except AssertionError:
            raise AssertionError(
                f"after {timeout} s there are {dict(await self.states())}\n{await self._left()}"
            ) from None

    async def _left(self) -> str:
        """What there is to know of the first live jobs, the limits in their way and the workers."""
        live = self.jobs.find({"state": {"$in": ["running", "pending"]}}, hint="_id_").limit(200)
        jobs = sorted([job async for job in live], key=lambda job: job["state"] != "running")[:6]
        around = [self.db[f"jobs.{name}"].find({}, hint="_id_") for name in ("gates", "workers")]
        rows = [row for cursor in around for row in await cursor.to_list()]
        return "\n".join(str(row) for row in (*jobs, *rows))

    async def fired_out(self, timeout: float) -> None:
        """Wait until no schedule has anything to come."""

        async def none_left() -> bool:
            return not await self.db["jobs.schedules"].count_documents({"fire_at": {"$type": "date"}}, hint="due")

        await eventually(none_left, timeout, every=0.1)
