"""Deduplication that a sharded collection allows: a key is the `_id` of a document of its own.

Taking a key and inserting its job are two writes, so that a crash may leave a key whose job was never inserted. No
clean-up is needed: the key names the job's id, and a process that finds that job missing inserts *its own* job under
that very id. Exactly one such insert succeeds, so that a key never stands for two jobs, however many processes race.
A key whose job is missing for long is abandoned and may be taken over; a process that was held up and inserts its job
all the same finds, right after the insert, that the key names another job, and deletes its own.

An ended job that runs again takes its key back first, marked as returning, so that it counts as live before it is; each
return begins a new round, so that a process that judged the key by the round before does not take it over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bson import ObjectId
from pymongo import DeleteOne, ReplaceOne, UpdateOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.errors import BulkWriteError, DuplicateKeyError

from mainspring.clock import truncate
from mainspring.errors import Unavailable
from mainspring.model.jobs.job import FINISHED, PENDING
from mainspring.store.codec import DocumentId
from mainspring.store.collection import DUPLICATE
from mainspring.store.compare_and_set import compare_and_set
from mainspring.store.connection import Connection, Document
from mainspring.store.schema import BY_ID

# An insert takes its operation's deadline at most; a key whose job is still missing after this is abandoned.
_IN_FLIGHT = timedelta(seconds=60)


@dataclass(slots=True)
class Wanted:
    """A key that a new job is to hold: until `until`, or while the job is live."""

    key: str
    job: DocumentId
    until: datetime | None


@dataclass(slots=True)
class Taken:
    """The job that holds the key now. `fresh`: a job with this id may be inserted; else it exists already."""

    job: DocumentId
    fresh: bool


class DedupeKeys:
    """The store's verbs for dedupe keys."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def take_many(self, wanted: Sequence[Wanted]) -> list[Taken]:
        """Take each key or learn which job holds it. A key that is free, or held, costs a share of a few statements."""
        try:
            free = await self.take_free(wanted)
        except Unavailable:
            return [await self.take(want) for want in wanted]
        held = [want.key for want in wanted if want.key not in free]
        verdicts = await self._judge_many(held) if held else {}
        return [
            Taken(want.job, True) if want.key in free else verdicts.get(want.key) or await self.take(want)
            for want in wanted
        ]

    async def take(self, want: Wanted, session: AsyncClientSession | None = None) -> Taken:
        """Take one key or learn which job holds it. In a transaction a conflict is left to its caller's retry."""
        return await compare_and_set(lambda _: self._try_to_take(want, session), f"dedupe key {want.key!r}")

    async def _try_to_take(self, want: Wanted, session: AsyncClientSession | None) -> Taken | None:
        with self._connection.deadline(session):
            holder = await self._connection.keys.find_one({"_id": want.key}, session=session)
            if holder is None:
                return Taken(want.job, True) if await self._insert(want, session) else None
            if holder["job"] == want.job:
                return Taken(want.job, True)
            verdict = await self._judge(holder, session)
            if verdict is not None:
                return verdict
            return Taken(want.job, True) if await self._replace(holder, want, session) else None

    async def retake(self, key: str, job: DocumentId) -> DocumentId:
        """Take the key of an ended job that is about to run again, or learn which job holds it."""
        mine = {**self._document(Wanted(key, job, None)), "round": ObjectId(), "returning": True}

        async def attempt(_: int) -> DocumentId | None:
            with self._connection.deadline():
                holder = await self._connection.keys.find_one({"_id": key})
                if holder is not None and holder["job"] != job:
                    verdict = await self._judge(holder, None)
                    if verdict is not None:
                        return verdict.job
                return job if await self._put(mine, holder) else None

        return await compare_and_set(attempt, f"dedupe key {key!r}")

    async def retake_many(self, wanted: Mapping[str, DocumentId]) -> dict[str, DocumentId]:
        """Retake many keys; returns the jobs that hold the keys that could not be taken."""
        held: dict[str, DocumentId] = {}
        todo = dict(wanted)

        async def attempt(_: int) -> dict[str, DocumentId] | None:
            held.update(await self._retake_round(todo))
            for key in held:
                todo.pop(key, None)
            return None if todo else held

        return await compare_and_set(attempt, f"{len(wanted)} dedupe keys") if wanted else held

    async def _retake_round(self, todo: dict[str, DocumentId]) -> dict[str, DocumentId]:
        """Try each key once: keys that were taken leave `todo`. Returns the jobs that hold the keys in force."""
        mine = {key: ObjectId() for key in todo}
        found = await self._connection.keys.find_all({"_id": {"$in": list(todo)}})
        holders = {holder["_id"]: holder for holder in found}
        others = [key for key, holder in holders.items() if holder["job"] != todo[key]]
        verdicts = await self._judge_many(others) if others else {}
        held = {key: verdict.job for key, verdict in verdicts.items() if verdict is not None}
        statements = [
            self._return_statement({**self._document(Wanted(key, job, None)), "round": mine[key]}, holders.get(key))
            for key, job in todo.items()
            if key not in held
        ]
        for key in await self._write_returns(statements, mine):
            del todo[key]
        return held

    def _return_statement(self, document: Document, holder: Document | None) -> UpdateOne | ReplaceOne[Document]:
        document["returning"] = True
        if holder is None:
            key = document.pop("_id")
            return UpdateOne({"_id": key}, {"$setOnInsert": document}, upsert=True)
        if holder["job"] == document["job"] and "until" in holder:
            document["until"] = holder["until"]
        return ReplaceOne(_just_so(holder), document)

    async def _write_returns(
        self, statements: Sequence[UpdateOne | ReplaceOne[Document]], mine: Mapping[str, ObjectId]
    ) -> list[str]:
        """Write the statements, and return the keys that were taken, read back by their rounds."""
        if not statements:
            return []
        with self._connection.deadline():
            try:
                await self._connection.keys.bulk_write(statements)
            except BulkWriteError as error:
                if any(failure["code"] != DUPLICATE for failure in error.details["writeErrors"]):
                    raise
            return [
                one["_id"]
                for one in await self._connection.keys.find_all({"_id": {"$in": list(mine)}}, {"round": 1})
                if one.get("round") == mine[one["_id"]]
            ]

    async def returned_many(self, jobs: Mapping[str, DocumentId]) -> None:
        """Note that these jobs, by their keys, are live again, or will not be."""
        await self._connection.keys.bulk_write(
            [UpdateOne({"_id": key, "job": job}, {"$unset": {"returning": ""}}) for key, job in jobs.items()]
        )

    async def drop_many(self, jobs: Mapping[str, DocumentId]) -> None:
        """Free the keys of jobs that were deleted."""
        await self._connection.keys.bulk_write([DeleteOne({"_id": key, "job": job}) for key, job in jobs.items()])

    async def holder(self, key: str) -> Document | None:
        """The stored document of a key."""
        return await self._connection.keys.find_one({"_id": key})

    async def jobs_of(self, keys: Sequence[str]) -> dict[str, DocumentId]:
        """The jobs that these keys name, in force or not; free keys are left out."""
        return {
            holder["_id"]: holder["job"]
            for holder in await self._connection.keys.find_all({"_id": {"$in": list(keys)}}, {"job": 1})
        }

    async def take_back(self, inserted: Mapping[str, DocumentId]) -> set[DocumentId]:
        """Delete the jobs, just inserted for these keys, whose key names another job by now, unless they have been
        claimed; returns their ids."""
        held = await self.jobs_of(list(inserted))
        astray = [job for key, job in inserted.items() if held.get(key, job) != job]
        if not astray:
            return set()
        with self._connection.deadline():
            unclaimed = {"_id": {"$in": astray}, "state": PENDING, "token": 0}
            await self._connection.jobs.delete_many(unclaimed, hint=BY_ID)
            return set(astray) - set(await self._connection.jobs.find_ids({"_id": {"$in": astray}}, hint=BY_ID))

    async def take_free(self, wanted: Sequence[Wanted]) -> set[str]:
        """Take the keys among these that no job holds, in force or not; returns them."""
        there: set[str] = set()
        try:
            await self._connection.keys.insert_many([self._document(want) for want in wanted])
        except BulkWriteError as error:
            failures = error.details["writeErrors"]
            if any(failure["code"] != DUPLICATE for failure in failures):
                raise
            there = {wanted[failure["index"]].key for failure in failures}
        return {want.key for want in wanted} - there

    async def pass_on(self, want: Wanted, holder: Document | None) -> bool:
        """Take a key, free or held, whatever its job does: a compare-and-set on `holder`; False if that has changed."""
        return await self._put(self._document(want), holder)

    def in_flight(self, holder: Document) -> bool:
        """Whether a key was taken so recently that its job may yet be inserted, or returned."""
        return _in_flight(holder, self._now())

    async def state_held(self, key: str) -> str | None:
        """The state of the job that a key in force names; None when there is no such job."""
        holder = await self.holder(key)
        if holder is None:
            return None
        job = await self._connection.jobs.find_one({"_id": holder["job"]}, {"state": 1}, hint=BY_ID)
        return None if job is None or _verdict(holder, job, self._now()) is None else job.get("state")

    async def returned(self, key: str, job: DocumentId) -> None:
        """Note that the job that retook its key is live again, or will not be: from now on its state decides."""
        await self._connection.keys.update_one({"_id": key, "job": job}, {"$unset": {"returning": ""}})

    async def _put(self, document: Document, holder: Document | None) -> bool:
        """Write a key's document: a compare-and-set on `holder`, the document that was read."""
        if holder is None:
            try:
                await self._connection.keys.insert_one(dict(document))
            except DuplicateKeyError:
                return False
            return True
        if holder["job"] == document["job"] and "until" in holder:
            document = {**document, "until": holder["until"]}
        replaced = await self._connection.keys.replace_one(_just_so(holder), document)
        return replaced.matched_count == 1

    async def drop(self, key: str, job: DocumentId) -> None:
        """Free a key whose job was deleted."""
        await self._connection.keys.delete_one({"_id": key, "job": job})

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete keys taken before an instant that are no longer in force; returns how many."""
        with self._connection.deadline():
            dropped = 0
            for holder in await self._connection.keys.find_all(
                {"at": {"$lt": truncate(before)}}, sort=[("at", 1)], limit=limit
            ):
                if "job" not in holder:
                    continue  # written by another program: it names no job
                if await self._judge(holder, None) is None:
                    result = await self._connection.keys.delete_one(_just_so(holder))
                    dropped += result.deleted_count
                else:
                    # The key is in force: it is judged again later, behind the others.
                    await self._connection.keys.update_one(_just_so(holder), {"$set": {"at": self._now()}})
        return dropped

    async def _insert(self, want: Wanted, session: AsyncClientSession | None) -> bool:
        try:
            await self._connection.keys.insert_one(self._document(want), session=session)
        except DuplicateKeyError:
            if session is not None:
                raise
            return False
        return True

    async def _judge(self, holder: Document, session: AsyncClientSession | None) -> Taken | None:
        """The job that the key belongs to; None when the key is no longer in force and may be taken over."""
        job = await self._connection.jobs.find_one({"_id": holder["job"]}, {"state": 1}, session=session)
        return _verdict(holder, job, self._now())

    async def _judge_many(self, keys: Sequence[str]) -> dict[str, Taken | None]:
        """Judge many keys at once."""
        with self._connection.deadline():
            holders = await self._connection.keys.find_all({"_id": {"$in": list(keys)}})
            ids = [holder["job"] for holder in holders]
            found = await self._connection.jobs.find_all({"_id": {"$in": ids}}, {"state": 1}, hint=BY_ID)
        jobs = {job["_id"]: job for job in found}
        now = self._now()
        return {holder["_id"]: _verdict(holder, jobs.get(holder["job"]), now) for holder in holders}

    async def _replace(self, holder: Document, want: Wanted, session: AsyncClientSession | None) -> bool:
        replaced = await self._connection.keys.replace_one(_just_so(holder), self._document(want), session=session)
        return replaced.matched_count == 1

    def _document(self, want: Wanted) -> Document:
        document: Document = {"_id": want.key, "job": want.job, "at": self._now()}
        if want.until is not None:
            document["until"] = want.until
        return document

    def _now(self) -> datetime:
        return truncate(self._connection.clock.now())


def _just_so(holder: Document) -> Document:
    """The filter for the key as it was judged: for the same job, in the same round."""
    return {"_id": holder["_id"], "job": holder["job"], "round": holder.get("round")}


def _in_flight(holder: Document, now: datetime) -> bool:
    at: datetime = holder["at"]
    return at > now - _IN_FLIGHT


def _verdict(holder: Document, job: Document | None, now: datetime) -> Taken | None:
    in_flight = _in_flight(holder, now)
    if job is None:
        return Taken(holder["job"], True) if in_flight else None
    if holder.get("returning") and in_flight:
        return Taken(holder["job"], False)
    until: datetime | None = holder.get("until")
    in_force = until > now if until is not None else job.get("state") not in FINISHED
    return Taken(holder["job"], False) if in_force else None
