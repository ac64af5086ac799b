"""Databases for tests, used one after another: to make all indexes takes a third of a second, to empty them a fiftieth.

A database comes back after its test, is emptied and rests. It is handed out again only if it is exactly what a newly
connected scheduler makes of a new one: the same collections with the same options and indexes, and nothing in them.
Any other is dropped. The one that has rested longest is first, so that a late write of an earlier test harms none.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from typing import Any

from pymongo import AsyncMongoClient

from harness.servers import Servers
from mainspring import Scheduler

# How many tests go by, at least, before a database is used again.
_RESTING = 5


class Databases:
    """The databases of one server."""

    def __init__(self, servers: Servers, client: AsyncMongoClient[dict[str, Any]], *, resting: int = _RESTING) -> None:
        self._servers = servers
        self._client = client
        self._resting = resting
        self._rested: deque[str] = deque()
        self._under_way: set[asyncio.Future[None]] = set()
        self._new: dict[str, Any] = {}

    async def take(self, *, fresh: bool = False) -> str:
        """The name of a database; of a fresh one, nothing is there yet, not even the database."""
        while not fresh and len(self._rested) > self._resting:
            name = self._rested.popleft()
            if await self._look(name) == await self._as_new():
                return name
            self._drop(name)
        return f"t_{secrets.token_hex(4)}"

    async def give_back(self, name: str) -> None:
        """Its test is over."""
        await self._empty(name)
        if await self._look(name) == await self._as_new():
            self._rested.append(name)
        else:
            self._drop(name)

    async def close(self) -> None:
        await asyncio.gather(*self._under_way)

    async def _empty(self, name: str) -> None:
        database, new = self._client[name], await self._as_new()
        for collection, (_, _, content) in (await self._look(name)).items():
            if collection not in new:
                await database[collection].drop()
            elif content != new[collection][2]:
                await database[collection].delete_many({}, hint="_id_")

    def _drop(self, name: str) -> None:
        """It takes a tenth of a second, in which the next tests can run."""
        task = asyncio.ensure_future(self._client.drop_database(name))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _as_new(self) -> dict[str, Any]:
        """What a scheduler makes of a database when it connects to it for the first time."""
        if not self._new:
            name = f"t_{secrets.token_hex(4)}"
            await (scheduler := Scheduler(self._servers.uri(name), operation_timeout=120)).connect()
            await scheduler.stop()
            self._new = await self._look(name)
            self._drop(name)
        return self._new

    async def _look(self, name: str) -> dict[str, Any]:
        """The collections with their options, their indexes, and a hash of what is in them."""
        stages: list[dict[str, Any]] = [{"$listCatalog": {}}, {"$match": {"db": name}}]
        catalog = await (await self._client.admin.aggregate(stages)).to_list()
        hashes = (await self._client[name].command("dbHash"))["collections"]
        return {
            entry["name"]: (_options(entry), [index["spec"] for index in _indexes(entry)], hashes.get(entry["name"]))
            for entry in catalog
        }


def _options(entry: dict[str, Any]) -> dict[str, Any]:
    options = {name: value for name, value in entry.get("md", {}).get("options", {}).items() if name != "uuid"}
    return options | {"type": entry["type"]}


def _indexes(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted(entry.get("md", {}).get("indexes", []), key=lambda index: str(index["spec"]["name"]))
