"""Finding due jobs and claiming them.

The claim is two statements whatever the number of jobs: read candidates by the claim's index, then take them with one
update that compares the `rev` each was read with. When as many were taken as were asked for, every candidate is ours
just as it was read, and nothing needs reading back; otherwise the claim's id tells which are ours. The same id settles
what an ambiguous error (lost reply, failover) left open: see `resolve`.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pymongo import UpdateMany, WriteConcern
from pymongo.errors import DuplicateKeyError, PyMongoError

from mainspring.clock import EPOCH
from mainspring.errors import Unavailable
from mainspring.model.job import FIRST_PRIORITY, LAST_PRIORITY, RUNNING
from mainspring.store.codec import DocumentId
from mainspring.store.collections import BY_ID, CLAIM
from mainspring.store.connection import Connection, Document

PRIORITIES = list(range(FIRST_PRIORITY, LAST_PRIORITY + 1))
# The id breaks ties: jobs that are due at the same instant run in the order in which they were made, and a reader can
# go on exactly behind the last one it has read.
ORDER = [("priority", 1), ("run_at", 1), ("_id", 1)]
# More scans than this and the server would sort in memory instead of merging them.
QUEUES_PER_PEEK = 20
# What running a job does not need. What an earlier attempt has left is read only when somebody wants to hear of jobs.
UNREAD = {"log": 0, "result": 0, "progress": 0}
HISTORY = {"attempts": 0, "error": 0, "created_at": 0}
# What decides which workers could run a job.
WHO_COULD = {"name": 1, "data_v": 1, "sealed": 1}


# What a job in line has, and a claimed one has not.
_OUT_OF_LINE: list[dict[str, Any]] = [{"$unset": ["line", "held"]}]


@dataclass(slots=True)
class Batch:
    """What one claim got: its id, the documents that are ours, and how many others were faster."""

    claim: str
    documents: list[Document] = field(default_factory=list)
    lost: int = 0
    lease: float = 0.0


class ClaimUnclear(Exception):
    """The claim's outcome could not be learned yet; `batch` is what to ask for again."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(f"the outcome of claim {batch.claim} is not known yet")
        self.batch = batch


class Claims:
    """The store's verbs around claiming."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.read_history = False
        """Whether candidates are read with their earlier attempts."""
        # A turn may be lost with a primary: it is not worth waiting for a majority.
        self._light_locks = connection.locks.with_options(write_concern=WriteConcern(1, j=False))
        self._turns: set[str] = set()

    @property
    def fields(self) -> dict[str, int]:
        """What is read of candidates."""
        return UNREAD if self.read_history else UNREAD | HISTORY

    async def queues(self) -> list[str]:
        """The queues that have ready jobs, due or not. One seek in the index per queue."""
        with self._connection.deadline():
            names = await self._connection.jobs.distinct("queue", {"ready": True})
        return [name for name in names if isinstance(name, str)]

    async def next_run_at(self, queues: Sequence[str]) -> tuple[datetime, str] | None:
        """The earliest `run_at` of a ready job in these queues, and its queue; one seek per queue and priority."""
        first = await self.first_ready(queues)
        return None if first is None else (_when(first), first["queue"])

    async def first_ready(self, queues: Sequence[str], *fields: str) -> Document | None:
        """The ready job of these queues with the earliest `run_at`: that, its queue, and what else is asked for."""
        earliest: Document | None = None
        for start in range(0, len(queues), QUEUES_PER_PEEK):
            chunk = list(queues[start : start + QUEUES_PER_PEEK])
            with self._connection.deadline():
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
            with self._connection.deadline():
                first = await self._connection.jobs.find_one(
                    self._due(queue), {"_id": 0, "run_at": 1}, sort=ORDER, hint=CLAIM
                )
            if first is not None:
                found.append((_when(first), queue))
        return sorted(found)

    async def candidates(self, queue: str, limit: int, *, where: Document | None = None) -> list[Document]:
        """Up to `limit` due jobs of a queue in their order; with `where`, only those of them."""
        return await self._read(self._due(queue) | (where or {}), limit)

    async def due(self, queue: str, where: Document, limit: int) -> list[Document]:
        """Up to `limit` due jobs of a queue, as far as telling who could run them needs it."""
        with self._connection.deadline():
            cursor = self._connection.jobs.find(
                self._due(queue) | where, WHO_COULD, sort=ORDER, hint=CLAIM, limit=limit
            )
            return await cursor.to_list(limit)

    async def candidates_after(self, queue: str, read: Sequence[Document], limit: int) -> list[Document]:
        """The next due jobs of the priority that was read last, for reading on while those read are being claimed.

        Some of them may come again; what is more urgent than they were is left to the next look from the front.
        """
        first, last = read[0], read[-1]
        filter = self._due(queue) | {"priority": last["priority"]}
        if first["run_at"] == last["run_at"] and first["priority"] == last["priority"]:
            filter |= {"run_at": last["run_at"], "_id": {"$gt": last["_id"]}}
        else:
            filter |= {"run_at": {"$gte": last["run_at"]}}
        return await self._read(filter, limit)

    async def _read(self, filter: dict[str, Any], limit: int) -> list[Document]:
        with self._connection.deadline():
            cursor = self._connection.jobs.find(
                filter, self.fields, sort=ORDER, hint=CLAIM, limit=limit, batch_size=limit
            )
            return await cursor.to_list(limit)

    async def claim(
        self,
        candidates: Sequence[Document],
        worker: str,
        lease: float,
        attempts: Callable[[Document], int],
        free: int | None = None,
        once: Callable[[Document], bool] | None = None,
    ) -> Batch:
        """Take the candidates that nobody else has taken or changed since they were read.

        `attempts` tells how often a job may be tried, `once` whether it may be started once only, and just the first
        `free` of them can be started at once; the claim notes all this, for whoever has to rescue these jobs.
        """
        batch = Batch(secrets.token_hex(8), list(candidates), lease=lease)
        if not candidates:
            return batch
        try:
            with self._connection.deadline():
                taken = await self._connection.jobs.bulk_write(
                    self._statements(batch, worker, lease, attempts, free, once), ordered=False
                )
        except (Unavailable, PyMongoError):
            return await self.resolve(batch)
        if taken.modified_count < len(candidates):
            return await self._read_back(batch)
        for place, document in enumerate(batch.documents):
            _as_claimed(document, batch.claim, worker, ahead=free is not None and place >= free)
        return batch

    async def resolve(self, batch: Batch) -> Batch:
        """Learn which of a batch's documents are ours after an error that left it open; they are renewed, too.

        Reading alone would not do: what the primary shows may be rolled back, and its token be given to another
        worker. A majority that has the renewal has the claim.
        """
        until = {"$add": [self._connection.clock.expression(), int(batch.lease * 1000)]}
        try:
            with self._connection.deadline():
                await self._connection.jobs.update_many(_ours(batch), [{"$set": {"lease_until": until}}], hint=BY_ID)
        except (Unavailable, PyMongoError) as error:
            raise ClaimUnclear(batch) from error
        return await self._read_back(batch)

    async def _read_back(self, batch: Batch) -> Batch:
        ids = [document["_id"] for document in batch.documents]
        try:
            with self._connection.deadline():
                cursor = self._connection.jobs.find(_ours(batch), self.fields, hint=BY_ID)
                ours = {document["_id"]: document for document in await cursor.to_list(len(ids))}
        except (Unavailable, PyMongoError) as error:
            raise ClaimUnclear(batch) from error
        lost = len(ids) - len(ours)
        return Batch(batch.claim, [ours[job_id] for job_id in ids if job_id in ours], lost)

    async def take_turn(self, queue: str, worker: str, seconds: float) -> bool:
        """Whether it is this worker's turn at the head of a queue; nobody else's then, for `seconds` at most.

        It only saves work: whoever claims without a turn loses races, and nothing else.
        """
        turn, now = _turn(queue), self._connection.clock.expression()
        with self._connection.deadline():
            if queue not in self._turns:
                try:
                    await self._light_locks.insert_one({"_id": turn, "owner": None, "until": EPOCH})
                except DuplicateKeyError:
                    pass
                self._turns.add(queue)
            mine = {"owner": worker, "until": {"$add": [now, int(seconds * 1000)]}}
            free = {"_id": turn, "$expr": {"$lt": ["$until", now]}}
            taken = await self._light_locks.update_one(free, [{"$set": mine}])
        return taken.matched_count == 1

    async def end_turn(self, queue: str, worker: str) -> None:
        with self._connection.deadline():
            await self._light_locks.update_one({"_id": _turn(queue), "owner": worker}, {"$set": {"until": EPOCH}})

    async def begin(self, job_id: DocumentId, token: int) -> bool:
        """Note of a job that was claimed ahead that it is about to be started; False when it is not ours to start."""
        with self._connection.deadline():
            begun = await self._connection.jobs.update_one(
                {"_id": job_id, "state": RUNNING, "token": token, "cancel": None}, {"$unset": {"ahead": ""}}, hint=BY_ID
            )
        return begun.matched_count == 1

    async def renew_one(self, job_id: DocumentId, token: int, lease: float) -> bool:
        """Renew one claim now; False when it is not ours any more."""
        until = {"$add": [self._connection.clock.expression(), int(lease * 1000)]}
        with self._connection.deadline():
            renewed = await self._connection.jobs.update_one(
                {"_id": job_id, "state": RUNNING, "token": token}, [{"$set": {"lease_until": until}}], hint=BY_ID
            )
        return renewed.matched_count == 1

    def _due(self, queue: str) -> dict[str, Any]:
        now = self._connection.clock.expression()
        return {"ready": True, "queue": queue, "$expr": {"$lte": ["$run_at", now]}}

    def _statements(
        self,
        batch: Batch,
        worker: str,
        lease: float,
        attempts: Callable[[Document], int],
        free: int | None,
        once: Callable[[Document], bool] | None,
    ) -> list[UpdateMany]:
        alike: dict[tuple[int, int, bool, bool, bool], list[DocumentId]] = defaultdict(list)
        for place, document in enumerate(batch.documents):
            ahead = free is not None and place >= free
            single = once is not None and once(document)
            alike[document["rev"], attempts(document), ahead, "line" in document, single].append(document["_id"])
        now = self._connection.clock.expression()
        return [
            UpdateMany(
                {"_id": {"$in": ids}, **({"line": {"$exists": True}} if lined else {"ready": True}), "rev": rev},
                taking_stage(now, batch.claim, worker, lease, limit, ahead, single) + (_OUT_OF_LINE if lined else []),
                hint=BY_ID,
            )
            for (rev, limit, ahead, lined, single), ids in alike.items()
        ]


def _ours(batch: Batch) -> dict[str, Any]:
    ids = [document["_id"] for document in batch.documents]
    return {"_id": {"$in": ids}, "claim": batch.claim, "state": RUNNING}


def _when(document: Document) -> datetime:
    """When a job is due. One that does not say so in a date is to be looked at now, so that it can be sorted out."""
    run_at = document.get("run_at")
    return run_at if isinstance(run_at, datetime) else EPOCH


def taking_stage(
    now: Any, claim: str, worker: str, lease: float, attempts: int, ahead: bool = False, once: bool = False
) -> list[dict[str, Any]]:
    """The update that makes ready jobs ours for the length of a lease."""
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
    """Bring a candidate up to what the claim made of it."""
    document["state"] = RUNNING
    document["claim"] = claim
    document["worker"] = worker
    document["token"] += 1
    document["tries"] += 1
    document["rev"] += 1
    document["ahead"] = ahead
    document.pop("line", None)
    document.pop("held", None)


def _turn(queue: str) -> str:
    return f"turn:{queue}"
