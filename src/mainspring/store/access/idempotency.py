"""Storing answers by the idempotency key of a request (Idempotency-Key), so that no request is carried out twice.

The record is stored before the request is carried out, with the id of the resource that it creates. A request that is
repeated after a crash creates the same resource under the same id, which exists already; once the answer is stored, a
repeated request is answered with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from bson import ObjectId
from pymongo.errors import BulkWriteError, DuplicateKeyError

from mainspring.clock import truncate
from mainspring.errors import Unavailable
from mainspring.model.access.idempotency import Reply
from mainspring.store.collection import DUPLICATE
from mainspring.store.compare_and_set import compare_and_set
from mainspring.store.connection import Connection, Document
from mainspring.store.schema import BY_ID


class IdempotencyRecords:
    """The store's verbs for answers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def open(self, key: str, print: str) -> Reply:
        """The record under a key; a missing record is created for this request."""
        now = truncate(self._connection.clock.now())
        fresh: Document = {"_id": key, "print": print, "seed": str(ObjectId()), "at": now}

        async def attempt(_: int) -> Reply | None:
            found = await self._connection.replies.find_one({"_id": key})
            if found is not None:
                return _decode(found)
            with suppress(DuplicateKeyError):
                await self._connection.replies.insert_one(fresh)
                return replace(_decode(fresh), fresh=True)
            return None

        return await compare_and_set(attempt, "the idempotency record of this request")

    async def keep(self, key: str, status: int, body: str) -> None:
        """Store the answer; the first one counts."""
        await self._connection.replies.update_one(
            {"_id": key, "status": None}, {"$set": {"status": status, "body": body}}
        )

    async def find(self, keys: Sequence[str]) -> dict[str, Reply]:
        """The records of these keys, by key; keys without a record are left out."""
        found = await self._connection.replies.find_all({"_id": {"$in": list(keys)}}, hint=BY_ID)
        return {document["_id"]: _decode(document) for document in found}

    async def keep_many(self, replies: Mapping[str, Reply]) -> None:
        """Store many answers at once, each under its key; the first one of a key counts."""
        now = truncate(self._connection.clock.now())
        documents = [_encode(key, reply) | {"at": now} for key, reply in replies.items()]
        try:
            await self._connection.replies.insert_many(documents)
        except BulkWriteError as error:
            if any(failure["code"] != DUPLICATE for failure in error.details["writeErrors"]):
                raise
            if error.details.get("writeConcernErrors"):
                raise Unavailable("MongoDB did not confirm that a majority has the answers; try again.") from error

    async def forget(self, key: str) -> None:
        """Delete the record of a refused request, which created nothing: the client may correct it and use its key
        again."""
        await self._connection.replies.delete_one({"_id": key, "status": None})


def _encode(key: str, reply: Reply) -> Document:
    document = {"_id": key, "print": reply.print, "seed": reply.seed, "status": reply.status, "body": reply.body}
    return {name: value for name, value in document.items() if value is not None}


def _decode(document: Document) -> Reply:
    return Reply(document["print"], document["seed"], document.get("status"), document.get("body"))
