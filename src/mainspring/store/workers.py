"""Who is alive, and who does a chore that one worker is enough for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pymongo.errors import DuplicateKeyError

from mainspring.clock import EPOCH, truncate
from mainspring.model.versions import takes
from mainspring.store.connection import Connection

BEAT_EVERY = 8.0
_DEAD_AFTER = 3 * BEAT_EVERY
_FORGOTTEN_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Peer:
    """A live worker process, as its last beat described it. `handlers` None: it takes jobs of any name."""

    id: str
    queues: frozenset[str] | None
    handlers: frozenset[str] | None
    concurrency: int
    running: int
    versions: Mapping[str, int] = field(default_factory=dict)
    """The versions of its handlers, where it tells them: the others are of the first."""

    def serves(self, queue: str, name: str) -> bool:
        return (self.queues is None or queue in self.queues) and (self.handlers is None or name in self.handlers)

    keys: frozenset[str] = frozenset()
    """The ids of the keys that it has for encrypted jobs."""

    def opens(self, kids: Sequence[str]) -> bool:
        """Whether it has these keys; where none is named, whether it has any."""
        return self.keys.issuperset(kids) if kids else bool(self.keys)

    def takes(self, name: str, version: int) -> bool:
        """Whether its handler for a name is new enough for data of this version."""
        return takes(self.versions, name, version, any_name=self.handlers is None)


class Workers:
    """The store's verbs for the workers' registry and the chores' locks."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._made: set[str] = set()

    async def live(self) -> list[Peer]:
        """The workers whose last beat is recent, in the order of their ids."""
        return sorted((_peer(document) for document in await self.live_documents()), key=lambda peer: peer.id)

    async def live_documents(self) -> list[dict[str, Any]]:
        """What the workers whose last beat is recent have told of themselves."""
        since = truncate(self._connection.clock.now() - timedelta(seconds=_DEAD_AFTER))
        with self._connection.deadline():
            cursor = self._connection.workers.find({"beat_at": {"$gt": since}}, hint="beat_at")
            return await cursor.to_list(1000)

    async def gone(self, workers: Sequence[str]) -> list[str]:
        """Those of these workers whose lease has run out, or that have left."""
        if not workers:
            return []
        grace = int(self._connection.settings.rescue_grace * 1000)
        since = {"$subtract": [self._connection.clock.expression(), grace]}
        with self._connection.deadline():
            cursor = self._connection.workers.find(
                {"_id": {"$in": list(workers)}, "$expr": {"$gt": ["$lease_until", since]}}, {"_id": 1}, hint="_id_"
            )
            alive = {document["_id"] for document in await cursor.to_list(len(workers))}
        return [worker for worker in workers if worker not in alive]

    async def leave(self, worker: str) -> None:
        """Take a worker out of the registry."""
        with self._connection.deadline():
            await self._connection.workers.delete_one({"_id": worker})

    async def forget_dead(self) -> int:
        """Drop workers that have not been heard of for long."""
        before = truncate(self._connection.clock.now() - _FORGOTTEN_AFTER)
        with self._connection.deadline():
            cursor = self._connection.workers.find({"beat_at": {"$lt": before}}, {"_id": 1}, hint="beat_at", limit=100)
            ids = [document["_id"] for document in await cursor.to_list(100)]
            for worker in ids:
                await self._connection.workers.delete_one({"_id": worker, "beat_at": {"$lt": before}})
        return len(ids)

    async def lock(self, chore: str, owner: str, seconds: float) -> bool:
        """Whether this owner may do a chore now; it is its own for `seconds`, and nobody else's until then."""
        now: Any = self._connection.clock.expression()
        free = {"$or": [{"$eq": ["$owner", owner]}, {"$lt": ["$until", now]}]}
        mine = {"owner": owner, "until": {"$add": [now, int(seconds * 1000)]}}
        with self._connection.deadline():
            if chore not in self._made:
                await self._make(chore)
            taken = await self._connection.locks.update_one({"_id": chore, "$expr": free}, [{"$set": mine}])
        return taken.matched_count == 1

    async def unlock(self, chore: str, owner: str) -> None:
        """Give a lock back before its time, if it is this owner's."""
        with self._connection.deadline():
            await self._connection.locks.update_one({"_id": chore, "owner": owner}, {"$set": {"until": EPOCH}})

    async def locked(self, chore: str) -> bool:
        """Whether somebody has this lock now."""
        with self._connection.deadline():
            found = await self._connection.locks.find_one({"_id": chore}, {"until": 1})
        return found is not None and found["until"] > self._connection.clock.now()

    async def _make(self, chore: str) -> None:
        """The lock's document, free; once per process, so that taking it costs one write."""
        try:
            await self._connection.locks.insert_one({"_id": chore, "owner": None, "until": EPOCH})
        except DuplicateKeyError:
            pass
        self._made.add(chore)


def versions_of(document: Mapping[str, Any]) -> dict[str, int]:
    """The versions that a worker tells of its handlers."""
    told = document.get("versions")
    return {entry["name"]: entry["version"] for entry in told} if isinstance(told, list) else {}


def keys_of(document: Mapping[str, Any]) -> frozenset[str]:
    """The ids of the keys that a worker tells of."""
    told = document.get("keys")
    return frozenset(str(kid) for kid in told) if isinstance(told, list) else frozenset()


def _peer(document: dict[str, Any]) -> Peer:
    queues, handlers = document.get("queues"), document.get("handlers")
    return Peer(
        id=str(document["_id"]),
        queues=None if queues is None else frozenset(queues),
        handlers=None if handlers is None else frozenset(handlers),
        concurrency=document.get("concurrency", 0),
        running=document.get("running", 0),
        versions=versions_of(document),
        keys=keys_of(document),
    )
