"""Secrets of the service itself, which all its processes on one database share: the first use creates each.

They hide values from the callers of the service, not from a reader of the database.
"""

from __future__ import annotations

import secrets
from contextlib import suppress

from pymongo.errors import DuplicateKeyError

from mainspring.clock import truncate
from mainspring.store.compare_and_set import compare_and_set
from mainspring.store.connection import Connection

_BYTES = 32


class ServiceSecrets:
    """The store's verb for secrets of the service."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, name: str) -> bytes:
        """The secret of this name; the first process to ask makes it."""
        collection = self._connection.service

        async def attempt(_: int) -> bytes | None:
            found = await collection.find_one({"_id": name})
            if found is not None:
                return bytes(found["secret"])
            made = {"_id": name, "secret": secrets.token_bytes(_BYTES)}
            with suppress(DuplicateKeyError):
                await collection.insert_one({**made, "at": truncate(self._connection.clock.now())})
            return None

        return await compare_and_set(attempt, f"service secret {name!r}")
