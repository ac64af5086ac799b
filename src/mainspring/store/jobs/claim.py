"""Finding due jobs and claiming them.

The claim is two statements whatever the number of jobs: read candidates by the claim's index, then take them with one
update that compares the `rev` each was read with. When the update took as many jobs as there were candidates, this
worker has claimed each just as it was read, and nothing needs reading back; otherwise the claim's id tells which jobs
it has. The same id settles an ambiguous error (lost reply, failover): see `resolve`.

A job that the server refuses to change, since it would be too large, is found while its neighbours are claimed. It
fails with a note of that, where at least this can be written, and is left out of the next reads for a while.
"""

from __future__ import annotations

import logging
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pymongo import UpdateMany, WriteConcern
from pymongo.errors import PyMongoError

from mainspring.clock import EPOCH
from mainspring.errors import Unavailable
from mainspring.model.jobs.job import FAILED, FIRST_PRIORITY, LAST_PRIORITY, PENDING, RUNNING
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.end_fields import undecodable_fields
from mainspring.store.jobs.stored_job import StoredJob, stored_jobs
from mainspring.store.locks import Locks
from mainspring.store.refusals import REFUSED, Refused, brief, is_about_document, split_refused
from mainspring.store.schema import BY_ID, CLAIM, Expression

logger = logging.getLogger("mainspring")

PRIORITIES = list(range(FIRST_PRIORITY, LAST_PRIORITY + 1))
# The id breaks ties: jobs that are due at the same instant run in the order in which they were made, and a reader can
# go on exactly behind the last one it has read.
ORDER = [("priority", 1), ("run_at", 1), ("_id", 1)]
# With more scans than this, the server would sort in memory instead of merging them.
QUEUES_PER_PEEK = 20
# Fields that running a job does not need. Earlier attempts are read only where a callback listens to events.
UNREAD = {"log": 0, "result": 0, "progress": 0, "stack": 0, "snoozes": 0}
HISTORY = {"attempts": 0, "error": 0, "created_at": 0}
# The fields that decide which workers could run a job.
REQUIREMENTS = {"name": 1, "data_v": 1, "sealed": 1}


CLAIM_REFUSED = "ClaimRefused"
"""The type of the error of a job that failed because the server refused to let it be claimed."""
# The least that makes a job fail whose document has hardly any room left.
_LEAST_FAILED = {"state": FAILED, **dict.fromkeys(("ready", "waiting_for", "line", "attempts", "progress"), "$$REMOVE")}
# Fields that a job on a wait list has, and a claimed job does not.
_OUT_OF_LINE: list[Document] = [{"$unset": ["line", "waiting_for"]}]


@dataclass(slots=True)
class Batch:
    """The outcome of one claim: its id, the jobs that it took, and how many candidates went to other workers."""

    claim: str
    jobs: list[StoredJob] = field(default_factory=list)
    lost: int = 0
    lease: float = 0.0
    history: bool = False
    """Whether the jobs are read with their earlier attempts."""


class ClaimUnclear(Exception):
    """The claim's outcome could not be learned yet; the caller resolves `batch` again."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(f"the outcome of claim {batch.claim} is not known yet")
        self.batch = batch


class Claims:
    """The store's verbs around claiming."""

    def __init__(self, connection: Connection, refused: Refused[DocumentId]) -> None:
        self._connection = connection
        # A lock may be lost in a failover: it is not worth waiting for a majority.
        light = connection.locks.with_options(write_concern=WriteConcern(1, j=False))
        self._head_locks = Locks(light, connection.clock)
        self._refused = refused

    async def queues(self) -> list[str]:
        """The queues that have ready jobs, due or not. One seek in the index per queue."""
        names = await self._connection.jobs.distinct("queue", {"ready": True})
        return [name for name in names if isinstance(name, str)]

    async def next_run_at(self, queues: Sequence[str]) -> tuple[datetime, str] | None:
        """The earliest `run_at` of a ready job in these queues, and its queue; one seek per queue and priority."""
        first = await self.first_ready(queues)
        return None if first is None else (_when(first), first["queue"])

    async def first_ready(self, queues: Sequence[str], *fields: str) -> Document | None:
        """The ready job of these queues with the earliest `run_at`: its `run_at`, its queue and these fields."""
        earliest: Document | None = None
        for start in range(0, len(queues), QUEUES_PER_PEEK):
            chunk = list(queues[start : start + QUEUES_PER_PEEK])
            first = await self._connection.jobs.find_one(
                {"ready": True, "queue": {"$in": chunk}, "priority": {"$in": PRIORITIES}},
                {"_id": 0, **dict.fromkeys(("run_at", "queue", *fields), 1)},
                sort=[("run_at", 1)],
                hint=CLAIM,
            )
            if first is not None and (earliest is None or _when(first) < _when(earliest)):
                earliest = first
        return earliest

    async def heads(self, queues: Sequence[str]) -> list[tuple[datetime, str]]:
        """The first due job of each queue that has one, as (run_at, queue), longest waiting first."""
        found = []
        for queue in queues:
            first = await self._connection.jobs.find_one(
                self._due(queue), {"_id": 0, "run_at": 1}, sort=ORDER, hint=CLAIM
            )
            if first is not None:
                found.append((_when(first), queue))
        return sorted(found)

    async def candidates(
        self, queue: str, limit: int, *, where: Document | None = None, history: bool = False
    ) -> list[StoredJob]:
        """Up to `limit` due jobs of a queue in their order; with `where`, only matching jobs; with `history`, each with
        its earlier attempts."""
        return await self._read(self._due(queue) | (where or {}), limit, history)

    async def due(self, queue: str, where: Document, limit: int) -> list[StoredJob]:
        """Up to `limit` due jobs of a queue, with the fields that decide which workers could run them."""
        found = await self._connection.jobs.find_all(
            self._due(queue) | where, REQUIREMENTS, sort=ORDER, hint=CLAIM, limit=limit
        )
        return stored_jobs(found)

    async def due_among(self, ids: Collection[str], *, or_held: str | None = None) -> list[StoredJob]:
        """Those of these jobs that may be claimed now, or are held for this reason."""
        now = self._connection.clock.expression()
        wanted = {"ready": True} if or_held is None else {"$or": [{"ready": True}, {"waiting_for.by": or_held}]}
        found = await self._connection.jobs.find_all(
            {"_id": {"$in": [document_id(one) for one in ids]}, **wanted, "$expr": {"$lte": ["$run_at", now]}},
            fields_of(history=True),
            hint=BY_ID,
        )
        return stored_jobs(found)

    async def candidates_after(
        self, queue: str, read: Sequence[StoredJob], limit: int, *, history: bool = False
    ) -> list[StoredJob]:
        """The next due jobs of the priority that was read last, for reading ahead while the jobs read are claimed.

        Some of them may be returned again; more urgent jobs are left to the next read from the front.
        """
        first, last = read[0], read[-1]
        filter = self._due(queue) | {"priority": last.priority}
        if first.run_at == last.run_at and first.priority == last.priority:
            filter |= {"run_at": last.run_at, "_id": {"$gt": last.id}}
        else:
            filter |= {"run_at": {"$gte": last.run_at}}
        return await self._read(filter, limit, history)

    async def _read(self, filter: Document, limit: int, history: bool) -> list[StoredJob]:
        found = await self._connection.jobs.find_all(filter, fields_of(history), sort=ORDER, hint=CLAIM, limit=limit)
        return stored_jobs(found)

    async def claim(
        self,
        candidates: Sequence[StoredJob],
        worker: str,
        lease: float,
        attempts: Callable[[StoredJob], int],
        free: int | None = None,
        once: Callable[[StoredJob], bool] | None = None,
        id: str | None = None,
        history: bool = False,
    ) -> Batch:
        """Take the candidates that are as they were read, each of them once.

        `attempts` tells how often a job may be tried, `once` whether it may be started once only, and only the first
        `free` jobs can be started at once; the claim notes all this for a rescue of these jobs. A caller that may be
        cancelled passes the claim's `id`, with which it can `resolve` an outcome that it did not receive.
        """
        batch = Batch(id or new_claim_id(), each_once(candidates), lease=lease, history=history)
        if not batch.jobs:
            return batch
        taken = 0

        async def take(some: Sequence[tuple[int, StoredJob]]) -> None:
            nonlocal taken
            statements = self._statements(batch.claim, some, worker, lease, attempts, free, once)
            taken += (await self._connection.jobs.bulk_write(statements)).modified_count

        try:
            refused = await split_refused(list(enumerate(batch.jobs)), take)
            for (_, job), error in refused:
                await self._set_aside(job.document, error)
        except (Unavailable, PyMongoError):
            return await self.resolve(batch)
        if refused:
            return await self.resolve(batch)
        if taken < len(batch.jobs):
            return await self._read_back(batch)
        for place, job in enumerate(batch.jobs):
            _as_claimed(job.document, batch.claim, worker, ahead=free is not None and place >= free)
        return batch

    async def resolve(self, batch: Batch) -> Batch:
        """Renew a batch's jobs and read which of them the claim took, after an error that left it open.

        Reading alone is not enough: the primary's state may be rolled back, and the same token given to another
        worker. A majority that has the renewal has the claim.
        """
        until = {"$add": [self._connection.clock.expression(), int(batch.lease * 1000)]}
        try:
            renewal = self._connection.mirror.update(
                _ours(batch), [{"$set": {"lease_until": until}}], self._connection.clock.expression()
            )
            await self._connection.jobs.update_many(*renewal, hint=BY_ID)
        except (Unavailable, PyMongoError) as error:
            raise ClaimUnclear(batch) from error
        return await self._read_back(batch)

    async def _read_back(self, batch: Batch) -> Batch:
        ids = [job.id for job in batch.jobs]
        try:
            found = await self._connection.jobs.find_all(_ours(batch), fields_of(batch.history), hint=BY_ID)
        except (Unavailable, PyMongoError) as error:
            raise ClaimUnclear(batch) from error
        ours = {job.id: job for job in stored_jobs(found)}
        lost = len(ids) - len(ours)
        return Batch(batch.claim, [ours[job_id] for job_id in ids if job_id in ours], lost)

    async def set_aside(self, job_id: DocumentId, error: Exception) -> None:
        """Leave out a job that cannot be put on a wait list, as one that cannot be claimed."""
        document = await self._connection.jobs.find_one({"_id": job_id}, {"name": 1, "rev": 1}, hint=BY_ID)
        if document is not None:
            await self._set_aside(document, error)

    async def _set_aside(self, document: Document, error: Exception) -> None:
        """Leave out a job whose claim the server refuses for a while, and fail it if the document is the cause."""
        self._refused.add(document["_id"], error)
        logger.error(
            "Job %s cannot be claimed: MongoDB refuses to change it: %s",
            document["_id"],
            brief(error),
            extra={"job_id": str(document["_id"])},
        )
        if not is_about_document(error):
            return
        now = self._connection.clock.expression()
        reason = f"MongoDB refuses its claim: {brief(error)}"
        fields = undecodable_fields(document.get("name"), reason, now, CLAIM_REFUSED)
        read = {"_id": document["_id"], "rev": document["rev"], "state": PENDING}
        for stage in (fields, {**_LEAST_FAILED, "finished_at": now}):
            try:
                failing = self._connection.mirror.update(read, [{"$set": stage}])
                await self._connection.jobs.update_one(*failing, hint=BY_ID)
                return
            except REFUSED:
                continue

    async def lock_head(self, queue: str, worker: str, seconds: float) -> bool:
        """Lock the head of a busy queue for one worker, for `seconds` at most; returns whether it has the lock.

        The lock only saves work: a worker that claims without it loses races, and nothing else.
        """
        return await self._head_locks.take(_head(queue), worker, seconds, again=False)

    async def unlock_head(self, queue: str, worker: str) -> None:
        await self._head_locks.give_up(_head(queue), worker)

    async def begin(self, job_id: DocumentId, token: int) -> bool:
        """Note that a job claimed ahead is about to start; False when the claim is lost or cancellation requested."""
        begun = await self._connection.jobs.update_one(
            self._connection.mirror.guard({"_id": job_id, "state": RUNNING, "token": token, "cancel": None}),
            {"$unset": {"ahead": ""}},
            hint=BY_ID,
        )
        return begun.matched_count == 1

    async def renew_one(self, job_id: DocumentId, token: int, lease: float) -> bool:
        """Renew the claim on a job that has been started now; False when the claim is lost."""
        now = self._connection.clock.expression()
        renewed = {"lease_until": {"$add": [now, int(lease * 1000)]}, "ahead": "$$REMOVE"}
        renewal = self._connection.mirror.update(
            {"_id": job_id, "state": RUNNING, "token": token}, [{"$set": renewed}], now
        )
        written = await self._connection.jobs.update_one(*renewal, hint=BY_ID)
        return written.matched_count == 1

    def _due(self, queue: str) -> Document:
        now = self._connection.clock.expression()
        due = {"ready": True, "queue": queue, "$expr": {"$lte": ["$run_at", now]}}
        refused = self._refused.filter
        return due | {"$and": [refused]} if refused else due  # in $and, since a caller may add a filter on _id

    def _statements(
        self,
        claim: str,
        candidates: Sequence[tuple[int, StoredJob]],
        worker: str,
        lease: float,
        attempts: Callable[[StoredJob], int],
        free: int | None,
        once: Callable[[StoredJob], bool] | None,
    ) -> list[UpdateMany]:
        alike: dict[tuple[int, int, bool, bool, bool], list[DocumentId]] = defaultdict(list)
        for place, job in candidates:
            ahead = free is not None and place >= free
            single = once is not None and once(job)
            alike[job.document["rev"], attempts(job), ahead, job.line is not None, single].append(job.id)
        now = self._connection.clock.expression()
        return [
            UpdateMany(
                *self._connection.mirror.update(
                    {"_id": {"$in": ids}, **({"line": {"$exists": True}} if lined else {"ready": True}), "rev": rev},
                    taking_stage(now, claim, worker, lease, limit, ahead, single) + (_OUT_OF_LINE if lined else []),
                    now,
                ),
                hint=BY_ID,
            )
            for (rev, limit, ahead, lined, single), ids in alike.items()
        ]


def fields_of(history: bool) -> dict[str, int]:
    """The projection of candidates; it includes earlier attempts only where a callback listens to events."""
    return UNREAD if history else UNREAD | HISTORY


def new_claim_id() -> str:
    """The id of a new claim."""
    return secrets.token_hex(8)


def each_once(jobs: Iterable[StoredJob]) -> list[StoredJob]:
    """These jobs, each in its first place. A read returns a job twice that moves within the index meanwhile, or from
    one wait list to another; claimed twice, the job would be run once and given back once."""
    return list({job.id: job for job in jobs}.values())


def _ours(batch: Batch) -> Document:
    ids = [job.id for job in batch.jobs]
    return {"_id": {"$in": ids}, "claim": batch.claim, "state": RUNNING}


def _when(document: Document) -> datetime:
    """The instant when a job is due. A job whose `run_at` is no date is due at once, so that triage can end it."""
    run_at = document.get("run_at")
    return run_at if isinstance(run_at, datetime) else EPOCH


def taking_stage(
    now: Expression, claim: str, worker: str, lease: float, attempts: int, ahead: bool = False, once: bool = False
) -> list[Document]:
    """The update that claims ready jobs for the length of a lease."""
    return [
        {
            "$set": {
                "state": RUNNING,
                "ready": "$$REMOVE",
                "claim": claim,
                "worker": worker,
                "claimed_at": now,
                "lease_until": {"$add": [now, int(lease * 1000)]},
                "token": {"$add": ["$token", 1]},
                "tries": {"$add": ["$tries", 1]},
                "rev": {"$add": ["$rev", 1]},
                "max_attempts": attempts,
                "ahead": True if ahead else "$$REMOVE",
                "once": True if once else "$$REMOVE",
            }
        }
    ]


def _as_claimed(document: Document, claim: str, worker: str, ahead: bool) -> None:
    """Apply the changes of the claim to a candidate as it was read."""
    document["state"] = RUNNING
    document["claim"] = claim
    document["worker"] = worker
    document["token"] += 1
    document["tries"] += 1
    document["rev"] += 1
    document["ahead"] = ahead
    document.pop("line", None)
    document.pop("waiting_for", None)


def _head(queue: str) -> str:
    return f"head:{queue}"
