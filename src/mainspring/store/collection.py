"""One collection of MongoDB, and the deadlines of its operations. An outage of any kind leaves an operation as
`Unavailable`, which passes by itself; any other error of the driver is the server's final answer.

The store's verbs reach the database through this class alone; the heartbeat's thread (`store/jobs/leases.py`), change
streams and index builds, which have deadlines of their own, are the exceptions. Several operations share one deadline
inside a `with connection.deadline():` block: the driver never extends an outer deadline. An operation with a `session`
is part of a transaction and raises the driver's own errors, whose labels say what to run again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pymongo
from pymongo import ReturnDocument
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import (
    ConnectionFailure,
    ExecutionTimeout,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WriteConcernError,
)
from pymongo.results import BulkWriteResult, DeleteResult, UpdateResult

from mainspring.errors import ConfigurationError, IndexesBuilding, Unavailable
from mainspring.store.schema import BY_ID, Document

Filter = Mapping[str, Any]
Fields = Mapping[str, Any] | Sequence[str] | None
Update = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Sort = Sequence[tuple[str, int]] | None
Session = AsyncClientSession | None


Deadline = Callable[[Session], AbstractContextManager[None]]
"""Bounds the operations inside its block; with a session, as parts of a transaction."""
_OUTAGE = (
    ConnectionFailure,
    NetworkTimeout,
    NotPrimaryError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    ExecutionTimeout,
    WriteConcernError,
)
# Codes of errors that pass, whatever is written: an unreachable or changing primary, a killed or conflicting operation,
# a full disk, writes that an administrator has blocked.
PASSING = {
    *(6, 7, 24, 50, 89, 91, 112, 117, 133, 134, 175, 189, 202, 239, 246, 262, 371),
    *(9001, 10058, 10107, 11600, 11601, 11602, 13388, 13435, 13436, 14031),
}
DUPLICATE, UNAUTHORIZED = 11000, 13
# A hint that names no index is a bad value; without a hint, a server that refuses table scans has no plan.
NO_SUCH_INDEX = (2, 27, 291)


@contextmanager
def deadline(seconds: float, building: Callable[[], Sequence[str]] = tuple) -> Iterator[None]:
    """Bound every operation inside, turn an outage of whatever kind into `Unavailable`, and lose no cancellation.

    `building` names the indexes that are being built: a query that needs one of them fails as in an outage. 0 seconds
    mean no bound.
    """
    asked = _asked_to_stop()
    try:
        with pymongo.timeout(seconds):
            yield
    except _OUTAGE as error:
        late = f"did not answer within {seconds:g} s or " if seconds else ""
        raise Unavailable(f"MongoDB {late}cannot be reached: {_brief(error)}") from error
    except OperationFailure as error:
        if error.has_error_label("RetryableWriteError") or error.code in PASSING:
            raise Unavailable(f"MongoDB could not carry out the operation now: {error}") from error
        if error.code == UNAUTHORIZED:
            raise ConfigurationError(f"This MongoDB user lacks a right that Mainspring needs: {error}") from error
        if error.code in NO_SUCH_INDEX and (names := building()):
            raise IndexesBuilding(f"MongoDB is still building {', '.join(names)}; try again later.") from error
        raise
    except asyncio.CancelledError as error:
        if _asked_to_stop() > asked:
            raise
        # This task was not cancelled, but the driver's own wait in it was, such as for a connection that is closed.
        raise Unavailable("The connection to MongoDB was closed before the answer came; try again.") from error
    # The driver waits with `asyncio.wait_for`, which in Python 3.11 drops a cancellation that arrives together with the
    # reply. A task that sends operations in a loop would then go on for ever.
    if _asked_to_stop() > asked:
        raise asyncio.CancelledError


def _asked_to_stop() -> int:
    """The number of pending cancellations of this task; the heartbeat's thread has no task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0
    return 0 if task is None else task.cancelling()


_NO_PRIMARY = (
    "The replica set has no primary: it elects one now, has lost its majority, or was never initiated (rs.initiate())."
)


def _brief(error: Exception) -> str:
    """The driver's message without its description of the deployment and its timeouts."""
    text = re.split(r" \(configured timeouts:|, Timeout: ", str(error), maxsplit=1)[0]
    return f"{text}. {_NO_PRIMARY}" if "match selector" in text and "Primary()" in text else text


class Collection:
    """A collection whose operations have a deadline each."""

    def __init__(self, raw: AsyncCollection[Document], deadline: Deadline) -> None:
        self.raw = raw
        self.name, self.full_name = raw.name, raw.full_name
        self._deadline = deadline

    def with_options(self, **options: Any) -> Collection:
        """The same collection with another read or write concern."""
        return Collection(self.raw.with_options(**options), self._deadline)

    def deadline(self, session: Session = None) -> AbstractContextManager[None]:
        """One deadline for several operations."""
        return self._deadline(session)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def find_one(
        self,
        filter: Filter,
        fields: Fields = None,
        *,
        sort: Sort = None,
        hint: str | None = None,
        skip: int = 0,
        session: Session = None,
    ) -> Document | None:
        with self._deadline(session):
            return await self.raw.find_one(filter, fields, sort=sort, hint=hint, skip=skip, session=session)

    async def find_all(
        self,
        filter: Filter,
        fields: Fields = None,
        *,
        sort: Sort = None,
        hint: str | None = None,
        limit: int = 0,
        skip: int = 0,
        min: Document | None = None,
        max: Document | None = None,
        snapshot: Session = None,
    ) -> list[Document]:
        """All matching documents; with a limit, the first ones, in one round trip where they fit into a message.

        `snapshot` is a session outside of a transaction (`Connection.snapshot`), whose reads all see the same moment.
        """
        with self._deadline(None):
            cursor = self.raw.find(
                filter,
                fields,
                sort=sort,
                hint=hint,
                limit=limit,
                batch_size=limit,
                skip=skip,
                min=min,
                max=max,
                session=snapshot,
            )
            return await cursor.to_list()

    async def find_ids(
        self, filter: Filter, *, sort: Sort = None, hint: str | None = None, limit: int = 0
    ) -> list[Any]:
        """The ids of the matching documents."""
        found = await self.find_all(filter, {"_id": 1}, sort=sort, hint=hint, limit=limit)
        return [document["_id"] for document in found]

    async def find_dict(self, filter: Filter, fields: Fields = None, *, hint: str | None = None) -> dict[Any, Document]:
        """The matching documents by their ids."""
        return {document["_id"]: document for document in await self.find_all(filter, fields, hint=hint)}

    async def find_batches(
        self,
        filter: Filter,
        size: int,
        fields: Fields = None,
        *,
        sort: Sort = None,
        hint: str | None = None,
        limit: int = 0,
    ) -> AsyncGenerator[list[Document]]:
        """All matching documents in batches, each of which has a deadline of its own."""
        async with self.raw.find(filter, fields, sort=sort, hint=hint, limit=limit, batch_size=size) as cursor:
            while True:
                with self._deadline(None):
                    batch = await cursor.to_list(size)
                if not batch:
                    return
                yield batch

    async def aggregate(self, stages: Sequence[Filter], *, hint: str) -> list[Document]:
        with self._deadline(None):
            return await (await self.raw.aggregate(stages, hint=hint)).to_list()

    async def distinct(self, field: str, filter: Filter) -> list[Any]:
        with self._deadline(None):
            return await self.raw.distinct(field, filter)

    async def count(self, filter: Filter, *, hint: str, limit: int | None = None) -> int:
        """The number of documents that match, counted up to the limit."""
        bound: Document = {} if limit is None else {"limit": limit}
        with self._deadline(None):
            return await self.raw.count_documents(filter, hint=hint, **bound)

    # -- writing ---------------------------------------------------------------------------------------------------

    async def insert_one(self, document: Document, *, session: Session = None) -> None:
        with self._deadline(session):
            await self.raw.insert_one(document, session=session)

    async def insert_many(
        self, documents: Sequence[Document], *, ordered: bool = False, session: Session = None
    ) -> None:
        with self._deadline(session):
            await self.raw.insert_many(documents, ordered=ordered, session=session)

    async def update_one(
        self,
        filter: Filter,
        update: Update,
        *,
        upsert: bool = False,
        hint: str | None = None,
        session: Session = None,
    ) -> UpdateResult:
        with self._deadline(session):
            return await self.raw.update_one(filter, update, upsert=upsert, hint=hint, session=session)

    async def update_many(self, filter: Filter, update: Update, *, hint: str) -> UpdateResult:
        with self._deadline(None):
            return await self.raw.update_many(filter, update, hint=hint)

    async def replace_one(
        self, filter: Filter, document: Document, *, upsert: bool = False, session: Session = None
    ) -> UpdateResult:
        with self._deadline(session):
            return await self.raw.replace_one(filter, document, upsert=upsert, session=session)

    async def delete_one(self, filter: Filter) -> DeleteResult:
        with self._deadline(None):
            return await self.raw.delete_one(filter)

    async def delete_many(self, filter: Filter, *, hint: str | None = None) -> DeleteResult:
        with self._deadline(None):
            return await self.raw.delete_many(filter, hint=hint)

    async def delete_some(self, filter: Filter, *, hint: str, limit: int) -> int:
        """Delete up to `limit` matching documents, found along an index; returns how many."""
        with self._deadline(None):
            ids = await self.find_ids(filter, hint=hint, limit=limit)
            if not ids:
                return 0
            return (await self.delete_many({**filter, "_id": {"$in": ids}}, hint=BY_ID)).deleted_count

    async def find_one_and_update(
        self,
        filter: Filter,
        update: Update,
        fields: Fields = None,
        *,
        upsert: bool = False,
        after: bool = False,
        hint: str | None = None,
    ) -> Document | None:
        """Change one document; returns it as it was before, or `after` the change."""
        with self._deadline(None):
            return await self.raw.find_one_and_update(
                filter,
                update,
                fields,
                upsert=upsert,
                return_document=ReturnDocument.AFTER if after else ReturnDocument.BEFORE,
                hint=hint,
            )

    async def find_one_and_delete(self, filter: Filter) -> Document | None:
        with self._deadline(None):
            return await self.raw.find_one_and_delete(filter)

    async def bulk_write(self, statements: Sequence[Any]) -> BulkWriteResult:
        """Carry out many statements in any order. A statement that fails does not stop the others."""
        with self._deadline(None):
            return await self.raw.bulk_write(statements, ordered=False)
