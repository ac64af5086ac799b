"""Storing new jobs: one, many, in the caller's transaction, and with dedupe keys.

Concurrent calls of one process share a write without waiting for company: while one insert is under way the next
documents gather, and go together when it is back.

Keeps true: an insert is reported as done only when a majority has it. After an ambiguous error the documents are
looked for by their ids, which are ours alone, and only what is missing is sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from bson import ObjectId
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import BulkWriteError
from pymongo.read_concern import ReadConcern

from mainspring.clock import monotonic, truncate
from mainspring.errors import InvalidJob, Unavailable
from mainspring.model.draft import Draft, start_by
from mainspring.model.job import PENDING
from mainspring.store.codec import DocumentId, encode_data
from mainspring.store.collections import LAYOUT
from mainspring.store.connection import Connection, Document
from mainspring.store.keys import Keys, Taken, Wanted

_DUPLICATE = 11000
CHUNK = 1000
_IN_FLIGHT = 3

Outcome = Exception | None


class Inserts:
    """The store's verbs for new jobs."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys
        self._waiting: list[tuple[Document, asyncio.Future[None]]] = []
        self._sender: asyncio.Task[None] | None = None

    def document(self, draft: Draft) -> Document:
        """The document that a draft becomes."""
        now = truncate(self._connection.clock.now())
        run_at = now if draft.run_at is None else truncate(draft.run_at)
        if draft.delay:
            run_at = truncate(now + timedelta(seconds=draft.delay))
        document: Document = {
            "_id": ObjectId(),
            "v": LAYOUT,
            "name": draft.name,
            "data": encode_data(draft.data, self._connection.settings.max_data),
            "queue": draft.queue,
            "priority": draft.priority,
            "state": PENDING,
            "ready": True,
            "run_at": run_at,
            "created_at": now,
            "rev": 0,
            "token": 0,
            "tries": 0,
        }
        _add_options(document, draft, run_at)
        return document

    def changes(self, draft: Draft) -> Document:
        """The fields of a draft that an edit of a stored job may set."""
        document = self.document(draft)
        return {"retry": None, "timeout": None, "tags": None, "expires_at": None, "start_within": None, **document}

    async def insert(self, draft: Draft) -> tuple[Document, bool]:
        """Store one job; returns its document and whether it is new (else it is the one that holds the key)."""
        document = self.document(draft)
        if draft.dedupe_key is not None:
            taken = await self._keys.take(self._wanted(draft, document))
            return await self._insert_taken(document, taken)
        await self._together(document)
        return document, True

    async def insert_in(self, session: AsyncClientSession, drafts: Sequence[Draft]) -> list[tuple[Document, bool]]:
        """Store jobs in the caller's transaction: they exist if and only if it commits."""
        stored: list[tuple[Document, bool]] = []
        fresh: list[Document] = []
        for draft in drafts:
            document = self.document(draft)
            taken = Taken(document["_id"], True)
            if draft.dedupe_key is not None:
                taken = await self._keys.take(self._wanted(draft, document), session)
            document["_id"] = taken.job
            if taken.fresh and all(other["_id"] != taken.job for other in fresh):
                fresh.append(document)
                stored.append((document, True))
            else:
                existing = await self._connection.jobs.find_one({"_id": taken.job}, session=session)
                stored.append((existing or _find(fresh, taken.job), False))
        if fresh:
            await self._connection.jobs.insert_many(fresh, session=session)
        return stored

    async def insert_many(self, drafts: Sequence[Draft]) -> list[tuple[Document, bool] | Exception]:
        """Store many jobs, with an outcome for each: what was stored, what existed already, or what went wrong."""
        outcomes: list[tuple[Document, bool] | Exception] = []
        flights: set[asyncio.Task[None]] = set()
        try:
            for start in range(0, len(drafts), CHUNK):
                base = len(outcomes)
                chunk = self._prepare(drafts[start : start + CHUNK], outcomes)
                if len(flights) >= _IN_FLIGHT:
                    _, flights = await asyncio.wait(flights, return_when=asyncio.FIRST_COMPLETED)
                flights.add(asyncio.create_task(self._insert_chunk(chunk, outcomes, base)))
                await asyncio.sleep(0)
        finally:
            if flights:
                await asyncio.wait(flights)
        return outcomes

    def _prepare(
        self, drafts: Sequence[Draft], outcomes: list[tuple[Document, bool] | Exception]
    ) -> list[tuple[int, Draft, Document]]:
        chunk = []
        for draft in drafts:
            try:
                document = self.document(draft)
            except InvalidJob as error:
                outcomes.append(error)
            else:
                chunk.append((len(outcomes), draft, document))
                outcomes.append((document, True))
        return chunk

    async def _insert_chunk(
        self,
        chunk: list[tuple[int, Draft, Document]],
        outcomes: list[tuple[Document, bool] | Exception],
        base: int,
    ) -> None:
        try:
            plain = [(index, document) for index, draft, document in chunk if draft.dedupe_key is None]
            for (index, _), outcome in zip(plain, await self._insert_documents([d for _, d in plain]), strict=True):
                if outcome is not None:
                    outcomes[index] = outcome
            await self._insert_keyed([entry for entry in chunk if entry[1].dedupe_key is not None], outcomes)
        except Exception as error:
            for index, _, _ in chunk:
                outcomes[index] = error

    async def _insert_keyed(
        self, chunk: list[tuple[int, Draft, Document]], outcomes: list[tuple[Document, bool] | Exception]
    ) -> None:
        if not chunk:
            return
        first: dict[str | None, tuple[int, Draft, Document]] = {}
        for entry in chunk:
            first.setdefault(entry[1].dedupe_key, entry)
        leaders = list(first.values())
        taken = await self._keys.take_many([self._wanted(draft, document) for _, draft, document in leaders])
        for (index, draft, document), holder in zip(leaders, taken, strict=True):
            outcomes[index] = await self._insert_taken(document, holder)
            for other, same, _ in chunk:
                if same.dedupe_key == draft.dedupe_key and other != index:
                    outcomes[other] = (outcomes[index][0], False)  # type: ignore[index]

    async def _insert_taken(self, document: Document, taken: Taken) -> tuple[Document, bool]:
        """Insert the job its key stands for, or fetch it when somebody was faster."""
        if taken.fresh:
            document["_id"] = taken.job
            mine = await self._insert_new(document)
            if mine:
                return document, True
        with self._connection.deadline():
            existing = await self._connection.jobs.find_one({"_id": taken.job})
        return existing or document, False

    async def _insert_new(self, document: Document) -> bool:
        try:
            with self._connection.deadline():
                await self._connection.jobs.insert_one(document)
        except BulkWriteError:
            return False
        except Exception as error:
            if getattr(error, "code", None) == _DUPLICATE:
                return False
            raise
        return True

    async def _together(self, document: Document) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((document, future))
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_waiting())
        await future

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                sending, self._waiting = self._waiting[:CHUNK], self._waiting[CHUNK:]
                outcomes: list[Outcome]
                try:
                    outcomes = await self._insert_documents([document for document, _ in sending])
                except Exception as error:
                    outcomes = [error] * len(sending)
                for (_, future), outcome in zip(sending, outcomes, strict=True):
                    if not future.done():
                        future.set_result(None) if outcome is None else future.set_exception(outcome)
        finally:
            self._sender = None

    async def _insert_documents(self, documents: list[Document]) -> list[Outcome]:
        """Insert documents with ids of their own; returns an error, or None, for each."""
        outcomes: list[Outcome] = [None] * len(documents)
        todo = list(range(len(documents)))
        until = monotonic() + 2 * self._connection.settings.operation_timeout
        while todo:
            try:
                with self._connection.deadline():
                    await self._connection.jobs.insert_many([documents[i] for i in todo], ordered=False)
                return outcomes
            except BulkWriteError as error:
                for failure in error.details["writeErrors"]:
                    if failure["code"] != _DUPLICATE:
                        reason = InvalidJob(f"MongoDB refused the job: {failure.get('errmsg')}")
                        outcomes[todo[failure["index"]]] = reason
                if not error.details.get("writeConcernErrors"):
                    return outcomes
            except Unavailable:
                if monotonic() > until:
                    raise
            refused = {i for i in todo if outcomes[i] is not None}
            kept = await self._kept([documents[i]["_id"] for i in todo], until)
            todo = [i for i in todo if i not in refused and documents[i]["_id"] not in kept]
        return outcomes

    async def _kept(self, ids: list[DocumentId], until: float) -> set[DocumentId]:
        """Which of these jobs a majority has."""
        majority = self._connection.jobs.with_options(read_concern=ReadConcern("majority"))
        while True:
            try:
                with self._connection.deadline():
                    cursor = majority.find({"_id": {"$in": ids}}, {"_id": 1})
                    return {document["_id"] for document in await cursor.to_list(len(ids))}
            except Unavailable:
                if monotonic() > until:
                    raise
                await asyncio.sleep(0.1)

    def _wanted(self, draft: Draft, document: Document) -> Wanted:
        assert draft.dedupe_key is not None
        until: datetime | None = None
        if draft.dedupe_window is not None:
            until = truncate(document["created_at"] + timedelta(seconds=draft.dedupe_window))
        return Wanted(draft.dedupe_key, document["_id"], until)


def _add_options(document: Document, draft: Draft, run_at: datetime) -> None:
    """The fields that only some jobs have."""
    for key in ("start_within", "timeout", "retry", "tags", "dedupe_key", "parent_id"):
        value = getattr(draft, key)
        if value is not None:
            document[key] = value
    if draft.expires_at is not None:
        document["expires_at"] = truncate(draft.expires_at)
    limit = start_by(run_at, draft.expires_at, draft.start_within)
    if limit is not None:
        document["start_by"] = truncate(limit)


def _find(documents: list[Document], job_id: DocumentId) -> Document:
    return next(document for document in documents if document["_id"] == job_id)
