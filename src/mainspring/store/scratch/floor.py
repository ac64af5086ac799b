"""The raw floor for `mainspring bench`: the same server without Mainspring, in a database that is dropped again."""

from __future__ import annotations

from bson import ObjectId

from mainspring.clock import monotonic
from mainspring.store.connection import DURABLE, Connection, Document

_COLLECTION = "floor"


class Floor:
    """The store's verbs for measuring the server itself."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._raw = connection.db[_COLLECTION].with_options(write_concern=DURABLE)

    async def insert(self, count: int, batch: int) -> float:
        """Insert documents of the size of a small job, in batches; returns the seconds."""
        began = monotonic()
        for start in range(0, count, batch):
            documents = [self._document(place) for place in range(start, min(start + batch, count))]
            if len(documents) == 1:
                await self._raw.insert_one(documents[0])
            else:
                await self._raw.insert_many(documents, ordered=False)
        return monotonic() - began

    async def drop_database(self, name: str) -> None:
        """Drop the database of the measurement. The name must be its own, so that no other is dropped by mistake."""
        if name != self._connection.db.name:
            raise ValueError(f"The connection is to {self._connection.db.name!r}, not to {name!r}.")
        await self._connection.client.drop_database(name)

    def _document(self, place: int) -> Document:
        now = self._connection.clock.now()
        return {
            "_id": ObjectId(),
            "v": 1,
            "name": "bench",
            "data": {"n": place},
            "queue": "default",
            "priority": 5,
            "state": "pending",
            "run_at": now,
            "created_at": now,
            "rev": 0,
            "token": 0,
            "tries": 0,
        }
