"""Storing new jobs: one, many, in the caller's transaction, and with dedupe keys.

Concurrent calls of one process share a write by group commit: documents that are submitted while an insert is in flight
go out together in the next one. No delay is added.

Keeps true: an insert is reported as done only when a majority has it. After an ambiguous error this process looks for
the documents by their ids, which no other process uses, and sends only the missing ones again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import BulkWriteError
from pymongo.read_concern import ReadConcern

from mainspring.clock import monotonic, truncate
from mainspring.errors import InvalidJob, Unavailable
from mainspring.model.flows.graph import LARGEST_FLOW
from mainspring.model.jobs.draft import Draft, start_by
from mainspring.model.jobs.job import PENDING, Job
from mainspring.model.jobs.reserved_names import FLOW_NAMES, ROOT_NAMES
from mainspring.model.privacy.encrypted_values import AsStored
from mainspring.store.bounded_values import encode_data
from mainspring.store.codec import DocumentId, add_options, fields_of_root, new_job
from mainspring.store.collection import DUPLICATE
from mainspring.store.connection import Connection, Document
from mainspring.store.group_commit import GroupCommit
from mainspring.store.jobs.admission import Admission, Item, OpenAdmission
from mainspring.store.jobs.debounce import Debounces
from mainspring.store.jobs.dedupe import DedupeKeys, Taken, Wanted
from mainspring.store.limits.wait_on_insert import Waiting, WaitOnInsert
from mainspring.store.privacy.cipher import Cipher
from mainspring.store.refusals import brief
from mainspring.store.schema import LAYOUT

logger = logging.getLogger("mainspring")

CHUNK = 1000
_IN_FLIGHT = 3
_ANY_SIZE = 2**24

InsertOutcome = Exception | None
Stored = Job | Exception
"""A stored job, or the error that kept it from being stored."""
Entry = tuple[int, Draft, Document]
"""One item of a bulk: its place, its draft, and the document that it becomes."""


class Inserts:
    """The store's verbs for new jobs."""

    def __init__(self, connection: Connection, keys: DedupeKeys, wait_on_insert: WaitOnInsert, cipher: Cipher) -> None:
        self._connection = connection
        self._keys = keys
        self._wait_on_insert = wait_on_insert
        self._cipher = cipher
        self._debounces = Debounces(connection, keys, cipher, self._insert_new)
        self._plain = GroupCommit(self._insert_documents, CHUNK)
        self._named = GroupCommit(self._insert_named, CHUNK)

    def document(self, draft: Draft, now: datetime | None = None) -> Document:
        """The document that a draft becomes; with `now`, a bulk reads the clock once."""
        if now is None:
            now = truncate(self._connection.clock.now())
        run_at = now if draft.run_at is None else truncate(draft.run_at)
        if draft.delay:
            run_at = truncate(now + timedelta(seconds=draft.delay))
        document: Document = {
            "_id": ObjectId(draft.job_id),
            "v": LAYOUT,
            "name": draft.name,
            "data": encode_data(draft.data, self._largest(draft)),
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
        if draft.has_options:
            add_options(document, draft, run_at)
        self._limit_start(document, run_at)
        if draft.name in ROOT_NAMES:
            document |= fields_of_root(draft)
        if draft.encrypt is not None:
            document["sealed"] = draft.encrypt
            self._cipher.check(document)
        return document

    def _limit_start(self, document: Document, run_at: datetime) -> None:
        """Limit how late the job may start by the setting, where the draft has no limit."""
        within = self._connection.settings.start_within
        if within is not None and "start_within" not in document and "expires_at" not in document:
            document["start_within"] = within
            document["start_by"] = start_by(run_at, None, within)

    def _largest(self, draft: Draft) -> int:
        """The largest data that a draft may have. Stored data was measured before encryption made it larger."""
        if draft.name in FLOW_NAMES:
            return LARGEST_FLOW
        return _ANY_SIZE if isinstance(draft.encrypt, AsStored) else self._connection.settings.max_data

    def changes(self, draft: Draft) -> Document:
        """The fields of a draft that an edit of a stored job may set."""
        document = self.document(draft)
        return {"retry": None, "timeout": None, "tags": None, "expires_at": None, "start_within": None, **document}

    async def insert(self, draft: Draft) -> tuple[Document, bool]:
        """Store one job; returns its document and whether it is new (otherwise it is the job that holds the key)."""
        document = self.document(draft)
        if draft.debounce is not None:
            return await self._debounces.put(draft, document)
        waiting = (
            await self._wait_on_insert.choose([(draft, document)], document["created_at"]) if draft.gates else Waiting()
        )
        if draft.dedupe_key is not None or draft.job_id is not None:
            taken = Taken(document["_id"], True)
            if draft.dedupe_key is not None:
                taken = await self._keys.take(self._wanted(draft, document))
            outcome = await self._named.submit((document, taken))
            await self._wait_on_insert.mark(waiting)
            return outcome
        await self._plain.submit(document)
        await self._wait_on_insert.mark(waiting)
        return document, True

    async def insert_in(self, session: AsyncClientSession, drafts: Sequence[Draft]) -> list[tuple[Document, bool]]:
        """Store jobs in the caller's transaction: they exist if and only if it commits. All are checked first."""
        stored: list[tuple[Document, bool]] = []
        fresh: dict[DocumentId, Document] = {}
        for draft, document in [(draft, self.document(draft)) for draft in drafts]:
            taken = Taken(document["_id"], True)
            if draft.dedupe_key is not None:
                taken = await self._keys.take(self._wanted(draft, document), session)
            document["_id"] = taken.job
            if taken.job in fresh:
                stored.append((fresh[taken.job], False))
            elif taken.fresh:
                fresh[taken.job] = document
                stored.append((document, True))
            else:
                stored.append((await self._existing(taken.job, session) or document, False))
        if fresh:
            await self._connection.jobs.insert_many(
                self._encrypted(list(fresh.values())), ordered=True, session=session
            )
        return stored

    async def _existing(self, job_id: DocumentId, session: AsyncClientSession) -> Document | None:
        return await self._connection.jobs.find_one({"_id": job_id}, session=session)

    async def insert_many(self, drafts: Iterable[Item], passage: Admission | None = None) -> list[Stored]:
        """Store many jobs, with an outcome for each: the job, stored now or before, or its error.

        A chunk of drafts at a time is admitted and turned into documents while the chunks before it are in flight.
        """
        passage = passage or OpenAdmission()
        source = iter(drafts)
        outcomes: list[Stored] = []
        bursts: list[Entry] = []
        flights: set[asyncio.Task[None]] = set()
        try:
            while True:
                if bursts and passage.waits:  # their room must be in use, or free, before other items wait for it
                    await self._put_bursts(bursts, outcomes, passage)
                if not (taken := await passage.chunk(source, CHUNK)):
                    break
                chunk = _set_aside(self._prepare(taken, outcomes, passage), bursts)
                if len(flights) >= _IN_FLIGHT:
                    landed, flights = await asyncio.wait(flights, return_when=asyncio.FIRST_COMPLETED)
                    _raise_first(landed)
                flights.add(asyncio.create_task(self._insert_admitted(chunk, outcomes, passage)))
                await asyncio.sleep(0)
        finally:
            if flights:
                await asyncio.wait(flights)
        _raise_first(flights)
        await self._put_bursts(bursts, outcomes, passage)
        return outcomes

    async def _put_bursts(self, bursts: list[Entry], outcomes: list[Stored], passage: Admission) -> None:
        """Store the debounced items that were set aside, in their order."""
        with passage.storing(draft for _, draft, _ in bursts):
            for index, outcome in await self._debounces.put_many(bursts):
                outcomes[index] = outcome
        bursts.clear()

    async def _insert_admitted(self, chunk: list[Entry], outcomes: list[Stored], passage: Admission) -> None:
        with passage.storing(draft for _, draft, _ in chunk):
            await self._insert_chunk(chunk, outcomes)

    def _prepare(self, drafts: list[Item], outcomes: list[Stored], passage: Admission) -> list[Entry]:
        chunk = []
        now = truncate(self._connection.clock.now())
        for draft in drafts:
            if isinstance(draft, Exception):
                outcomes.append(draft)
                continue
            try:
                document = self.document(draft, now)
            except InvalidJob as error:
                passage.give_back(draft)
                outcomes.append(error)
            else:
                chunk.append((len(outcomes), draft, document))
                outcomes.append(new_job(document, draft.data or {}))
        return chunk

    async def _insert_chunk(self, chunk: list[Entry], outcomes: list[Stored]) -> None:
        """Store a chunk; an item that is not known to be stored has an error as its outcome, never its job."""
        if not chunk:
            return
        try:
            waiting = await self._wait_on_insert.choose(
                [(draft, doc) for _, draft, doc in chunk], chunk[0][2]["created_at"]
            )
        except Exception as error:
            for index, _, _ in chunk:
                outcomes[index] = error
            return
        keyed = [entry for entry in chunk if entry[1].dedupe_key is not None or entry[1].job_id is not None]
        plain = chunk if not keyed else [one for one in chunk if one[1].dedupe_key is None and one[1].job_id is None]
        for entries, insert in ((plain, self._insert_plain), (keyed, self._insert_keyed)):
            try:
                if entries:
                    await insert(entries, outcomes)
            except Exception as error:
                for index, _, _ in entries:
                    outcomes[index] = error
        await self._wait_on_insert.mark(waiting)

    async def _insert_plain(self, entries: list[Entry], outcomes: list[Stored]) -> None:
        refused = await self._insert_documents([document for _, _, document in entries])
        for (index, _, _), error in zip(entries, refused, strict=True):
            if error is not None:
                outcomes[index] = error

    async def _insert_keyed(self, entries: list[Entry], outcomes: list[Stored]) -> None:
        """Store the first item of each key, or of each id that was given; the other items are the same job."""
        first: dict[str | DocumentId, Entry] = {}
        names = [draft.dedupe_key or document["_id"] for _, draft, document in entries]
        for name, entry in zip(names, entries, strict=True):
            first.setdefault(name, entry)
        leaders = list(first.values())
        taken = await self._take([(draft, document) for _, draft, document in leaders])
        stored = await self._insert_taken([document for _, _, document in leaders], taken)
        for (index, draft, _), outcome in zip(leaders, stored, strict=True):
            outcomes[index] = outcome if isinstance(outcome, Exception) else self._as_job(*outcome, draft)
        for name, (index, _, _) in zip(names, entries, strict=True):
            leader = first[name][0]
            if index != leader:
                same = outcomes[leader]
                outcomes[index] = same if isinstance(same, Exception) else replace(same, deduplicated=True)

    async def _take(self, leaders: list[tuple[Draft, Document]]) -> list[Taken]:
        """Take the keys of the jobs that have one; the others have an id of their own."""
        wanted = [self._wanted(draft, document) for draft, document in leaders if draft.dedupe_key is not None]
        taken = iter(await self._keys.take_many(wanted) if wanted else [])
        return [
            Taken(document["_id"], True) if draft.dedupe_key is None else next(taken) for draft, document in leaders
        ]

    async def _insert_named(self, named: list[tuple[Document, Taken]]) -> list[tuple[Document, bool] | Exception]:
        """Insert jobs whose ids or keys other calls may use too, also at this moment."""
        first: dict[DocumentId, tuple[Document, Taken]] = {}
        for document, taken in named:
            if taken.job not in first or (taken.fresh and not first[taken.job][1].fresh):
                first[taken.job] = document, taken
        stored = await self._insert_taken([document for document, _ in first.values()], [t for _, t in first.values()])
        outcomes = dict(zip(first, stored, strict=True))
        return [_for_each(outcomes[taken.job], document is first[taken.job][0]) for document, taken in named]

    async def _insert_taken(
        self, documents: list[Document], taken: list[Taken]
    ) -> list[tuple[Document, bool] | Exception]:
        """Insert the jobs that their keys name; where another process was faster, read its job."""
        fresh = []
        for document, holder in zip(documents, taken, strict=True):
            document["_id"] = holder.job
            if holder.fresh:
                fresh.append(document)
        mine = await self._insert_new(fresh) if fresh else {}
        theirs = [holder.job for holder in taken if holder.job not in mine]
        theirs += await self._take_back(fresh, mine)
        existing: dict[DocumentId, Document] = {}
        if theirs:
            existing = await self._connection.jobs.find_dict({"_id": {"$in": theirs}})
        return [
            (mine[document["_id"]] or (document, True))
            if document["_id"] in mine
            else (existing.get(document["_id"], document), False)
            for document in documents
        ]

    async def _take_back(self, documents: list[Document], mine: dict[DocumentId, InsertOutcome]) -> list[DocumentId]:
        """Delete jobs whose keys went to other jobs while this process was held up: they leave `mine`, and their
        documents get the ids of the jobs that the keys name, which are returned."""
        keyed = {
            document["dedupe_key"]: document
            for document in documents
            if "dedupe_key" in document and mine.get(document["_id"], True) is None
        }
        gone = await self._keys.take_back({key: one["_id"] for key, one in keyed.items()}) if keyed else set()
        late = {key: document for key, document in keyed.items() if document["_id"] in gone}
        held = await self._keys.jobs_of(list(late)) if late else {}
        for key, document in late.items():
            del mine[document["_id"]]
            document["_id"] = held.get(key, document["_id"])
        return list(held.values())

    async def _insert_new(self, documents: list[Document]) -> dict[DocumentId, InsertOutcome]:
        """Insert documents under ids that other calls may use too; returns the ids that this call inserted or that the
        server refused, with the error."""
        mine: dict[DocumentId, InsertOutcome] = {document["_id"]: None for document in documents}
        documents = self._encrypted(documents)
        try:
            await self._connection.jobs.insert_many(documents)
        except BulkWriteError as error:
            for failure in error.details["writeErrors"]:
                job_id = documents[failure["index"]]["_id"]
                if failure["code"] == DUPLICATE:
                    del mine[job_id]
                else:
                    mine[job_id] = _refused(failure)
            if error.details.get("writeConcernErrors"):
                raise Unavailable("MongoDB did not confirm that a majority has the job; schedule it again.") from error
        return mine

    async def insert_under(self, pairs: Sequence[tuple[Draft, Document]]) -> list[DocumentId]:
        """Store jobs under ids that are the same in every process; returns the ids that exist already.

        Raises InvalidJob where the server refuses one.
        """
        waiting = await self._wait_on_insert.choose(pairs, pairs[0][1]["created_at"]) if pairs else Waiting()
        documents = [document for _, document in pairs]
        mine = await self._insert_new(documents) if documents else {}
        await self._wait_on_insert.mark(waiting)
        for error in mine.values():
            if error is not None:
                raise error
        return [document["_id"] for document in documents if document["_id"] not in mine]

    async def insert_made(self, documents: list[Document]) -> list[Document]:
        """Store the jobs of firings, whose ids are the same in every process; returns those that are new."""
        fresh: list[Document] = []
        for place in range(0, len(documents), CHUNK):
            chunk = documents[place : place + CHUNK]
            mine = await self._insert_new(chunk)
            for document in chunk:
                refused = mine.get(document["_id"])
                if refused is not None:
                    logger.error(
                        "The job %s of a schedule cannot be stored: %s",
                        document["_id"],
                        brief(refused),
                        extra={"job_id": str(document["_id"])},
                    )
                elif document["_id"] in mine:
                    fresh.append(document)
        return fresh

    async def _insert_documents(self, documents: list[Document]) -> list[InsertOutcome]:
        """Insert documents with ids of their own; returns an error, or None, for each."""
        documents = self._encrypted(documents)
        outcomes: list[InsertOutcome] = [None] * len(documents)
        todo = list(range(len(documents)))
        until = monotonic() + 2 * self._connection.settings.operation_timeout
        while todo:
            try:
                await self._connection.jobs.insert_many([documents[i] for i in todo])
                return outcomes
            except BulkWriteError as error:
                for failure in error.details["writeErrors"]:
                    if failure["code"] != DUPLICATE:
                        outcomes[todo[failure["index"]]] = _refused(failure)
                if not error.details.get("writeConcernErrors"):
                    return outcomes
                if monotonic() > until:
                    raise Unavailable("MongoDB did not confirm that a majority has the jobs; try again.") from error
            except Unavailable:
                if monotonic() > until:
                    raise
            refused = {i for i in todo if outcomes[i] is not None}
            kept = await self._kept([documents[i]["_id"] for i in todo], until)
            todo = [i for i in todo if i not in refused and documents[i]["_id"] not in kept]
        return outcomes

    async def _kept(self, ids: list[DocumentId], until: float) -> set[DocumentId]:
        """The jobs among these that a majority has."""
        majority = self._connection.jobs.with_options(read_concern=ReadConcern("majority"))
        while True:
            try:
                return set(await majority.find_ids({"_id": {"$in": ids}}))
            except Unavailable:
                if monotonic() > until:
                    raise
                await asyncio.sleep(0.1)

    def _as_job(self, document: Document, fresh: bool, draft: Draft) -> Job:
        if fresh:
            return new_job(document, draft.data or {})
        return self._cipher.decode(document, deduplicated=True)

    def _encrypted(self, documents: list[Document]) -> list[Document]:
        """Documents as they are stored. Their ids are final now: encrypted values are bound to them."""
        return [self._cipher.encrypted(document) if "sealed" in document else document for document in documents]

    def _wanted(self, draft: Draft, document: Document) -> Wanted:
        assert draft.dedupe_key is not None
        return Wanted(draft.dedupe_key, document["_id"], document.get("dedupe_until"))


def _raise_first(landed: Iterable[asyncio.Task[None]]) -> None:
    """Raise the first error of a chunk: otherwise its items would count as stored."""
    for flight in landed:
        flight.result()


def _for_each(outcome: tuple[Document, bool] | Exception, first: bool) -> tuple[Document, bool] | Exception:
    """The outcome for one of several callers that requested the same job at once: it is new for the first."""
    return outcome if first or isinstance(outcome, Exception) else (outcome[0], False)


def _set_aside(chunk: list[Entry], bursts: list[Entry]) -> list[Entry]:
    """A chunk without its debounced items, which are stored last: chunks have no order, and these items need one."""
    debounced = [entry for entry in chunk if entry[1].debounce is not None]
    if not debounced:
        return chunk
    bursts += debounced
    return [entry for entry in chunk if entry[1].debounce is None]


def _refused(failure: Mapping[str, Any]) -> InvalidJob:
    return InvalidJob(f"MongoDB refused the job: {failure.get('errmsg')}")
