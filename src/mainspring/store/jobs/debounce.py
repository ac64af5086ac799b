"""Debounced jobs: while a job waits under its key, each further call changes it and postpones it.

A call looks at the key and changes the job that it names, if that job is pending and has used no attempt. Otherwise
the job has been started, or has ended, or was never inserted: then the call takes the key over for a job of its own, or
helps to insert the missing job, by the rules of `store/jobs/dedupe.py`.

Keeps true: a call that returns has either changed a job that had not been started, whose next run therefore begins
after it with its data, or has stored a new one. The change raises `rev`, so that a claim that read the job before does
not take it with its old data. Nothing is compared but the state, so that no call of a burst has to try again because of
another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bson import ObjectId
from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from mainspring.errors import Unavailable
from mainspring.model.jobs.draft import Debounce, Draft
from mainspring.model.jobs.job import PENDING, Job
from mainspring.store.codec import DocumentId, new_job
from mainspring.store.compare_and_set import compare_and_set
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.dedupe import DedupeKeys, Wanted
from mainspring.store.jobs.edit import edit_stages
from mainspring.store.privacy.cipher import Cipher
from mainspring.store.schema import BY_ID, Expression

_ATTEMPTS = 30
# A call waits for a job that is being retried by hand, but not for ever: the retrying process may have died.
_PATIENCE, _PAUSE = 10, 0.05
_TOGETHER, _AT_ONCE = 1000, 20

Insert = Callable[[list[Document]], Awaitable[dict[DocumentId, Exception | None]]]
"""Stores documents; returns the ids that are new, each with its error, if any."""
Calls = Mapping[str, tuple[Draft, Document]]
"""The requested job under each key."""


class Debounces:
    """The store's verb for debounced jobs."""

    def __init__(self, connection: Connection, keys: DedupeKeys, cipher: Cipher, insert: Insert) -> None:
        self._connection = connection
        self._keys = keys
        self._cipher = cipher
        self._insert = insert

    async def put(self, draft: Draft, document: Document) -> tuple[Document, bool]:
        """Change the job that waits under the key, or store this one; returns it and whether it is new."""
        assert draft.dedupe_key is not None and draft.debounce is not None
        key, debounce = draft.dedupe_key, draft.debounce

        async def attempt(number: int) -> tuple[Document, bool] | None:
            holder = await self._keys.holder(key)
            if holder is not None and await self._change(holder["job"], debounce, document):
                return await self._read(holder["job"], document), False
            job_id = await self._own_id(key, holder, patient=number < _PATIENCE)
            return (document, True) if job_id is not None and await self._store(document, job_id) else None

        return await compare_and_set(attempt, f"dedupe key {key!r}", _ATTEMPTS)

    async def put_many(self, entries: Sequence[tuple[int, Draft, Document]]) -> list[tuple[int, Job | Exception]]:
        """Put items of a bulk, each with its place: the last item of each key counts, and all of a key are one job."""
        calls: Calls = {str(draft.dedupe_key): (draft, document) for _, draft, document in entries}
        found: dict[str, Job | Exception] = {}
        for some in _chunks(list(calls), _TOGETHER):
            found |= await self._put_together({key: calls[key] for key in some})
        outcomes = []
        for index, draft, _ in entries:
            outcome = found[str(draft.dedupe_key)]
            outcomes.append((index, outcome))
            if isinstance(outcome, Job):
                found[str(draft.dedupe_key)] = replace(outcome, deduplicated=True)
        return outcomes

    async def _put_together(self, calls: Calls) -> dict[str, Job | Exception]:
        found: dict[str, Job | Exception] = {}
        try:
            found |= await self._change_together(calls)
            found |= await self._store_together({key: call for key, call in calls.items() if key not in found})
        except (Unavailable, BulkWriteError):
            pass  # repeating what was done is harmless: each key is handled on its own now
        for some in _chunks([key for key in calls if key not in found], _AT_ONCE):
            found |= zip(some, await asyncio.gather(*(self._outcome(*calls[key]) for key in some)), strict=True)
        return found

    async def _change_together(self, calls: Calls) -> dict[str, Job]:
        """Change the jobs that wait under these keys with a few statements; returns the changed jobs."""
        held = await self._keys.jobs_of(list(calls))
        if not held:
            return {}
        now, mark = self._connection.clock.expression(), ObjectId()
        statements = []
        for key, job_id in held.items():
            draft, document = calls[key]
            assert draft.debounce is not None
            document = self._as_stored(document, job_id)
            statements.append(UpdateOne(_waits(job_id), _stages(draft.debounce, document, now, mark), hint=BY_ID))
        with self._connection.deadline():
            await self._connection.jobs.bulk_write(statements)
            changed = await self._connection.jobs.find_dict(
                {"_id": {"$in": list(held.values())}, "burst.mark": mark}, hint=BY_ID
            )
        decode = self._cipher.decode
        return {key: decode(changed[id], deduplicated=True) for key, id in held.items() if id in changed}

    async def _store_together(self, calls: Calls) -> dict[str, Job | Exception]:
        """Store the jobs whose keys are free with a few statements; returns the jobs, or the errors of refused ones."""
        wanted = [Wanted(key, ObjectId(), None) for key in calls]
        free = await self._keys.take_free(wanted) if wanted else set()
        mine = {want.job: calls[want.key] for want in wanted if want.key in free}
        for job_id, (_, document) in mine.items():
            document["_id"] = job_id
        stored = await self._insert([document for _, document in mine.values()]) if mine else {}
        new = {str(mine[job_id][0].dedupe_key): job_id for job_id, refused in stored.items() if refused is None}
        gone = await self._keys.take_back(new) if new else set()  # each of these is handled on its own
        return {
            str(mine[job_id][0].dedupe_key): refused or new_job(mine[job_id][1], mine[job_id][0].data or {})
            for job_id, refused in stored.items()
            if job_id not in gone
        }

    async def _outcome(self, draft: Draft, document: Document) -> Job | Exception:
        try:
            stored, fresh = await self.put(draft, document)
        except Exception as error:
            return error
        return new_job(stored, draft.data or {}) if fresh else self._cipher.decode(stored, deduplicated=True)

    async def _change(self, job_id: DocumentId, debounce: Debounce, document: Document) -> bool:
        """Change the job to this document, if it has not been started; returns whether it was changed."""
        stages = _stages(debounce, self._as_stored(document, job_id), self._connection.clock.expression())
        changed = await self._connection.jobs.update_one(_waits(job_id), stages, hint=BY_ID)
        return changed.matched_count == 1

    def _as_stored(self, document: Document, job_id: DocumentId) -> Document:
        """A document as it is stored under another id: encrypted values are bound to the id."""
        return self._cipher.encrypted({**document, "_id": job_id}) if "sealed" in document else document

    async def _own_id(self, key: str, holder: Document | None, *, patient: bool) -> DocumentId | None:
        """The id under which this call may store its own job; None when the call must read the key again."""
        if holder is not None:
            job = await self._connection.jobs.find_one({"_id": holder["job"]}, {"state": 1, "tries": 1}, hint=BY_ID)
            under_way = self._keys.in_flight(holder)
            if job is None and under_way:
                return holder["job"]  # type: ignore[no-any-return]
            if job is not None and job.get("state") == PENDING and job.get("tries") == 0:
                return None
            if holder.get("returning") and under_way and patient:
                await asyncio.sleep(_PAUSE)
                return None
        own = ObjectId()
        return own if await self._keys.pass_on(Wanted(key, own, None), holder) else None

    async def _store(self, document: Document, job_id: DocumentId) -> bool:
        document["_id"] = job_id
        stored = await self._insert([document])
        refused = stored.get(job_id)
        if refused is not None:
            raise refused
        if job_id not in stored:
            return False
        return not await self._keys.take_back({document["dedupe_key"]: job_id})

    async def _read(self, job_id: DocumentId, document: Document) -> Document:
        """The job as it is now; a job that was deleted meanwhile, as it was requested."""
        return await self._connection.jobs.find_one({"_id": job_id}) or {**document, "_id": job_id}


def _waits(job_id: DocumentId) -> Document:
    """The filter for a job that has not been started, or was given back without using an attempt."""
    return {"_id": job_id, "state": PENDING, "tries": 0}


def _stages(debounce: Debounce, document: Document, now: Expression, mark: ObjectId | None = None) -> list[Document]:
    """The update that makes a waiting job the requested one, and postpones it; `mark` identifies the call.

    A burst begins anew when the job was claimed since: the earlier wait does not count.
    """
    fields = {key: document.get(key) for key in ("name", "data", "data_v", "sealed", "seq", *debounce.given)}
    began = {"$cond": [{"$eq": ["$burst.token", "$token"]}, {"$ifNull": ["$burst.at", now]}, now]}
    run_at: Any = {"$add": [now, _milliseconds(debounce.delay)]}
    if debounce.most is not None:
        run_at = {"$min": [run_at, {"$add": [began, _milliseconds(debounce.most)]}]}
    burst: Document = {"at": began, "token": "$token"}
    return edit_stages(fields, {"run_at": run_at, "burst": burst if mark is None else {**burst, "mark": mark}})


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _chunks(keys: list[str], size: int) -> Iterator[list[str]]:
    return (keys[start : start + size] for start in range(0, len(keys), size))
