"""Signals to jobs: stored first, then the job that waits for one is started.

Keeps true: a signal is neither lost nor taken twice. Its `_id` has the id that the sender has given it, so that sending
it again is sending it once. The sender stores it before it looks at the job; a handler that finds none is suspended and
looked at again after that, by its worker or by the sweep. The step that keeps the payload names the signal, in one
fenced write: that is the taking. The mark `taken` only follows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from pymongo.errors import DuplicateKeyError

from mainspring.clock import truncate
from mainspring.errors import InvalidJob, JobStateError
from mainspring.model.jobs.job import BLOCKED, FINISHED
from mainspring.model.jobs.reserved_names import FLOW_NAMES
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.flows.checks import start_stages
from mainspring.store.jobs.edit import Jobs
from mainspring.store.privacy.cipher import Cipher
from mainspring.store.schema import BY_ID, SENT, SIGNALS

_SIGNAL = "signal"
_AGE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Signal:
    """A stored signal."""

    id: str
    name: str
    payload: Any
    at: datetime | None = None


class Signals:
    """The store's verbs for signals."""

    def __init__(self, connection: Connection, jobs: Jobs, cipher: Cipher) -> None:
        self._connection = connection
        self._jobs = jobs
        self._cipher = cipher
        self._pruned: Any = None

    async def send(self, job_id: DocumentId, name: str, signal_id: str, payload: Any) -> bool:
        """Store a signal and start the job if it waits for it; returns whether it was new. Raises JobNotFound,
        JobStateError where the job has ended, and InvalidJob where it is one of Mainspring's own."""
        job = await self._jobs.get(job_id)
        if job.get("state") in FINISHED:
            raise JobStateError(str(job_id), job["state"], "signal()", "live")
        if job.get("name") in FLOW_NAMES:
            raise InvalidJob(
                f"Job {job_id} has no handler of yours that could take a signal: it stands for a flow. Send the signal "
                f"to the job whose handler waits; the id of a node is {job_id}.NODE."
            )
        sealed = payload if not job.get("sealed") else self._sealed(job, name, payload)
        document: Document = {
            "_id": "/".join(quote(one, safe="") for one in (str(job_id), name, signal_id)),
            "job": str(job_id),
            "name": name,
            "payload": sealed,
            "at": truncate(self._connection.clock.now()),
        }
        new = await self._insert(document)
        await self.start(job_id, [name])
        return new

    async def _insert(self, document: Document) -> bool:
        try:
            await self._connection.signals.insert_one(document)
        except DuplicateKeyError:
            return False
        return True

    async def start(self, job_id: DocumentId, names: Sequence[str]) -> bool:
        """Start a job that is blocked and waits for one of these signals."""
        waiting = {"_id": job_id, "state": BLOCKED, "waits.signals": {"$in": list(names)}}
        mirror, now = self._connection.mirror, self._connection.clock.expression()
        moved = await self._connection.jobs.update_one(*mirror.update(waiting, start_stages(now)), hint=BY_ID)
        return bool(moved.matched_count)

    async def next(self, job: Document, name: str, known: Collection[str]) -> Signal | None:
        """The oldest signal of this name that was not taken; `known` are those that kept steps name."""
        found = await self._connection.signals.find_all(
            {"job": str(job["_id"]), "name": name, "taken": {"$ne": True}},
            sort=[("at", 1)],
            hint=SIGNALS,
            limit=len(known) + 1,
        )
        stale = [one["_id"] for one in found if one["_id"] in known]
        if stale:
            await self.take(stale)
        fresh = next((one for one in found if one["_id"] not in known), None)
        if fresh is None:
            return None
        return Signal(fresh["_id"], name, self._opened(job, name, fresh.get("payload")), fresh.get("at"))

    async def take(self, ids: Iterable[str]) -> None:
        """Mark signals that kept steps name."""
        await self._connection.signals.update_many({"_id": {"$in": list(ids)}}, {"$set": {"taken": True}}, hint=BY_ID)

    async def prune(self, limit: int) -> int:
        """Delete signals of jobs that have ended or are gone, so many at most; returns how many were looked at. Each
        call goes on behind the last one."""
        until = truncate(self._connection.clock.now() - _AGE)
        span = {"$lt": until} if self._pruned is None else {"$gt": self._pruned, "$lt": until}
        found = await self._connection.signals.find_all(
            {"at": span}, {"job": 1, "at": 1}, sort=[("at", 1)], hint=SENT, limit=limit
        )
        self._pruned = found[-1]["at"] if len(found) == limit else None
        if not found:
            return 0
        ids = {document_id(one["job"]) for one in found}
        live = await self._connection.jobs.find_ids(
            {"_id": {"$in": list(ids)}, "state": {"$nin": list(FINISHED)}}, hint=BY_ID
        )
        kept = {str(one) for one in live}
        gone = [one["_id"] for one in found if one["job"] not in kept]
        if gone:
            await self._connection.signals.delete_many({"_id": {"$in": gone}}, hint=BY_ID)
        return len(found)

    def _sealed(self, job: Document, name: str, payload: Any) -> Any:
        return self._cipher.encrypt_step(job, f"{_SIGNAL}:{name}", payload).to_document()

    def _opened(self, job: Document, name: str, payload: Any) -> Any:
        return self._cipher.decrypt_step(job, f"{_SIGNAL}:{name}", payload)
