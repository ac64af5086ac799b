"""Storing answers by the key that a request came with (Idempotency-Key), so that none is carried out twice.

The record is there before anything is done, with the id that what is made will have. Whoever comes again after a crash
makes the same thing under the same id, which is there already; after the answer was stored, he is given that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bson import ObjectId
from pymongo.errors import BulkWriteError, DuplicateKeyError

from mainspring.clock import truncate
from mainspring.errors import Unavailable
from mainspring.model.replies import Reply
from mainspring.store.collections import BY_ID
from mainspring.store.connection import DUPLICATE, Connection, Document

_ROUNDS = 5


class Replies:
    """The store's verbs for answers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def open(self, key: str, print: str) -> Reply:
        """What is known under a key; a record for this request is made if there is none."""
        now = truncate(self._connection.clock.now())
        fresh: Document = {"_id": key, "print": print, "seed": str(ObjectId()), "at": now}
        for _ in range(_ROUNDS):
            with self._connection.deadline():
                found = await self._connection.replies.find_one({"_id": key})
                if found is not None:
                    return _decode(found)
                try:
                    await self._connection.replies.insert_one(fresh)
                    return replace(_decode(fresh), fresh=True)
                except DuplicateKeyError:
                    continue
        raise Unavailable("The record of this request comes and goes; try once more.")

    async def keep(self, key: str, status: int, body: str) -> None:
        """Store the answer; the first one counts."""
        with self._connection.deadline():
            await self._connection.replies.update_one(
                {"_id": key, "status": None}, {"$set": {"status": status, "body": body}}
            )

    async def find(self, keys: Sequence[str]) -> dict[str, Reply]:
        """What is known under those of some keys that are known."""
        with self._connection.deadline():
            found = await self._connection.replies.find({"_id": {"$in": list(keys)}}, hint=BY_ID).to_list(len(keys))
        return {document["_id"]: _decode(document) for document in found}

    async def keep_many(self, replies: Mapping[str, Reply]) -> None:
        """Store many answers at once, each under its key; the first one of a key counts."""
        now = truncate(self._connection.clock.now())
        documents = [_encode(key, reply) | {"at": now} for key, reply in replies.items()]
        try:
            with self._connection.deadline():
                await self._connection.replies.insert_many(documents, ordered=False)
        except BulkWriteError as error:
            if any(failure["code"] != DUPLICATE for failure in error.details["writeErrors"]):
                raise
            if error.details.get("writeConcernErrors"):
                raise Unavailable("MongoDB did not confirm that a majority has the answers; try again.") from error

    async def forget(self, key: str) -> None:
        """The request was refused, and nothing made: it may be put right and come again under the same key."""
        with self._connection.deadline():
            await self._connection.replies.delete_one({"_id": key, "status": None})


def _encode(key: str, reply: Reply) -> Document:
    document = {"_id": key, "print": reply.print, "seed": reply.seed, "status": reply.status, "body": reply.body}
    return {name: value for name, value in document.items() if value is not None}


def _decode(document: Document) -> Reply:
    return Reply(document["print"], document["seed"], document.get("status"), document.get("body"))
