"""Locks: a document in `jobs.locks` names the process that does work for which one process is enough.

A lock only saves work: everything is safe when several processes do it. Taking it costs one write, since its document
is made once; where it is missing, dropped or rolled back in a failover, it is made again.
"""

from __future__ import annotations

from pymongo.errors import DuplicateKeyError

from mainspring.clock import EPOCH, Clock, monotonic
from mainspring.store.collection import Collection
from mainspring.store.schema import Document, Expression

# For this many seconds after a lock's document was made, a lock that cannot be taken counts as taken, not as missing.
BELIEVED = 5.0


class Locks:
    """The store's verbs for locks."""

    def __init__(self, collection: Collection, clock: Clock) -> None:
        self._collection = collection
        self._clock = clock
        self._made: dict[str, float] = {}

    async def take(self, name: str, owner: str, seconds: float, *, again: bool = True) -> bool:
        """Take a lock for `seconds`; returns whether this owner has it. With `again`, the owner's own lock is
        extended."""
        with self._collection.deadline():
            if name not in self._made:
                await self._make(name)
            taken = await self._take(name, owner, seconds, again)
            if not taken and monotonic() >= self._made[name] + BELIEVED and await self._make(name):
                taken = await self._take(name, owner, seconds, again)
        return taken

    async def give_up(self, name: str, owner: str) -> None:
        """Release a lock before its time, if this owner has it."""
        await self._collection.update_one({"_id": name, "owner": owner}, {"$set": {"until": EPOCH}})

    async def drop(self, name: str, owner: str) -> None:
        """Release a lock and delete its document, if this owner has it: it will not be needed again."""
        await self._collection.delete_one({"_id": name, "owner": owner})
        self._made.pop(name, None)

    async def is_taken(self, name: str) -> bool:
        """Whether a lock is taken now."""
        found = await self._collection.find_one({"_id": name}, {"until": 1})
        return found is not None and found["until"] > self._clock.now()

    async def _take(self, name: str, owner: str, seconds: float, again: bool) -> bool:
        now: Expression = self._clock.expression()
        free: Document = {"$lt": ["$until", now]}
        if again:
            free = {"$or": [{"$eq": ["$owner", owner]}, free]}
        mine = {"owner": owner, "until": {"$add": [now, int(seconds * 1000)]}}
        taken = await self._collection.update_one({"_id": name, "$expr": free}, [{"$set": mine}])
        return taken.matched_count == 1

    async def _make(self, name: str) -> bool:
        """Insert a lock's document, free; False where it exists."""
        self._made[name] = monotonic()
        try:
            await self._collection.insert_one({"_id": name, "owner": None, "until": EPOCH})
        except DuplicateKeyError:
            return False
        return True
