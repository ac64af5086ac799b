"""Keeping claims, noticing cancellations, and giving back what a dead worker held.

`Renewals` is for the heartbeat's thread and uses a blocking client of its own, so that neither a blocked event loop
nor a busy connection pool delays it. `Rescues` runs on the event loop. Both are fenced: a renewal by claim id, a
rescue by the token and the lease it saw expired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from mainspring.model.guarantee import may_have_run
from mainspring.model.job import CANCELLED, FAILED, PENDING, RUNNING, JobError
from mainspring.store.codec import DocumentId, cancel_reason, encode_error, fingerprint_of, undecodable
from mainspring.store.collections import BY_ID, CANCEL, LEASE
from mainspring.store.connection import Connection, Document, deadline
from mainspring.store.finish import HOLDING, STARTED_ONCE, appended_attempt, undecodable_fields

DEFAULT_ATTEMPTS = 3


class Renewals:
    """The heartbeat's verbs. Blocking; one thread uses it."""

    def __init__(self, connection: Connection) -> None:
        self._clock = connection.clock
        self._settings = connection.settings
        self._jobs, self._workers = connection.beat_handles()

    def renew(self, claims: Sequence[str], ids: Sequence[DocumentId]) -> set[DocumentId]:
        """Renew all these jobs with one write; returns the ids whose claim is not ours any more."""
        now = self._clock.expression()
        held = {"_id": {"$in": list(ids)}, "claim": {"$in": list(claims)}, "state": RUNNING}
        with deadline(self._settings.renew_timeout):
            result = self._jobs.update_many(
                held, [{"$set": {"lease_until": {"$add": [now, int(self._settings.lease * 1000)]}}}], hint=BY_ID
            )
            if result.matched_count == len(ids):
                return set()
            kept = {document["_id"] for document in self._jobs.find(held, {"_id": 1}, hint=BY_ID)}
        return set(ids) - kept

    def cancellations(self, worker: str) -> dict[DocumentId, tuple[int, str]]:
        """The running jobs of a worker that somebody asked to cancel: their tokens and the reasons given."""
        with deadline(self._settings.renew_timeout):
            asked = self._jobs.find(
                {"worker": worker, "state": RUNNING, "cancel": {"$exists": True}},
                {"token": 1, "cancel": 1},
                hint=CANCEL,
            )
            return {document["_id"]: (document["token"], cancel_reason(document["cancel"])) for document in asked}

    def beat(self, worker: str, facts: dict[str, Any], *, first: bool = False) -> None:
        """Say that a worker lives, and what it does; renews its hold on the slots that it has of limits.

        Nothing is held before the `first` beat, which may take as long as any operation.
        """
        now = self._clock.expression()
        with deadline(self._settings.operation_timeout if first else self._settings.renew_timeout):
            self._workers.update_one(
                {"_id": worker},
                [
                    {"$set": {key: {"$literal": value} for key, value in facts.items()}},
                    {"$set": {"beat_at": now, "lease_until": {"$add": [now, int(self._settings.lease * 1000)]}}},
                ],
                upsert=True,
            )


@dataclass(slots=True)
class Rescued:
    """A job that was taken from a holder that is gone, and what became of it."""

    document: Document
    state: str


class Rescues:
    """Finding and giving back what nobody renews any more."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def rescue(self, limit: int = 200) -> list[Rescued]:
        """Give back up to `limit` jobs whose leases have run out. A running job without a lease counts as such."""
        now = self._connection.clock.expression()
        grace = int(self._connection.settings.rescue_grace * 1000)
        gone = {"state": RUNNING, "$expr": {"$lte": ["$lease_until", {"$subtract": [now, grace]}]}}
        with self._connection.deadline():
            cursor = self._connection.jobs.find(gone, hint=LEASE, limit=limit)
            found = await cursor.to_list(limit)
        return await self._give_back(found)

    async def rescue_from(self, worker: str) -> list[Rescued]:
        """Give back all that a worker held, for whoever knows that its process is dead."""
        with self._connection.deadline():
            cursor = self._connection.jobs.find({"state": RUNNING, "worker": worker}, hint=LEASE)
            found = await cursor.to_list(None)
        return await self._give_back(found)

    async def _give_back(self, found: list[Document]) -> list[Rescued]:
        rescued = []
        for document in found:
            if document.get("v") is None:
                continue  # a raw insert: adopted first
            problem = undecodable(document)
            now = self._connection.clock.expression()
            stages = rescue_stage(document, now) if problem is None else [{"$set": _given_up(document, problem, now)}]
            with self._connection.deadline():
                taken = await self._connection.jobs.update_one(
                    {
                        "_id": document["_id"],
                        "state": RUNNING,
                        "token": document.get("token"),
                        "lease_until": document.get("lease_until"),
                    },
                    stages,
                )
            if taken.matched_count:
                after = await self._reread(document)
                rescued.append(Rescued(after, after["state"] if problem else _state_after(document)))
        return rescued

    async def _reread(self, document: Document) -> Document:
        with self._connection.deadline():
            return await self._connection.jobs.find_one({"_id": document["_id"]}) or document


def _given_up(document: Document, problem: str, now: Any) -> dict[str, Any]:
    return {**dict.fromkeys(HOLDING, "$$REMOVE"), **undecodable_fields(document.get("name"), problem, now)}


def _state_after(document: Document) -> str:
    if document.get("cancel") is not None:
        return CANCELLED
    if document.get("ahead"):
        return PENDING
    if document.get("once"):
        return FAILED
    return FAILED if document["tries"] >= document.get("max_attempts", DEFAULT_ATTEMPTS) else PENDING


def rescue_stage(document: Document, now: Any) -> list[dict[str, Any]]:
    """The update that takes a job from a holder that is gone: back to the queue, or to its end."""
    state = _state_after(document)
    message = (
        f"The worker {document.get('worker')} died, or could not renew its lease, during attempt {document['tries']}."
    )
    lost = may_have_run(message, document["_id"]) if document.get("once") else JobError("WorkerLost", message)
    error = {"$literal": encode_error(lost)}
    entry: dict[str, Any] = {
        "n": "$tries",
        "token": "$token",
        "outcome": "lost",
        "worker": "$worker",
        "started_at": "$claimed_at",
        "ended_at": now,
        "run_at": "$run_at",
        "error": error,
        "log": "$log",
        "log_cut": "$log_cut",
    }
    fields: dict[str, Any] = {
        **dict.fromkeys(HOLDING, "$$REMOVE"),
        "state": state,
        "rev": {"$add": ["$rev", 1]},
        "error": error,
    }
    if document.get("ahead"):
        # It had not been started, as far as anybody knows: no attempt is used up, but it is run apart the next time.
        fields |= {"tries": {"$subtract": ["$tries", 1]}, "error": "$error"}
    elif document["tries"] > 0:
        fields |= appended_attempt(entry)
    if state == PENDING:
        suspect = "ahead" if document.get("ahead") else document["tries"] > 0
        fields |= {"ready": True, "suspect": suspect}
        if not document.get("ahead"):
            fields |= {"start_by": STARTED_ONCE, "last_failure_at": now}
    else:
        fields |= {"finished_at": now}
    if state == FAILED:
        fields["fingerprint"] = fingerprint_of(document["name"], error["$literal"])
    if state == CANCELLED:
        reason = cancel_reason(document["cancel"])
        fields["error"] = {"$literal": {"type": "Cancelled", "message": reason}} if reason else "$$REMOVE"
    return [{"$set": fields}]


@dataclass(frozen=True, slots=True)
class Note:
    """What is new of a running job: its progress, where it has moved; lines of its log, and how many it has lost."""

    id: DocumentId
    token: int
    progress: Document | None
    lines: list[str]
    log_cut: int = 0


class Notes:
    """What is known of running jobs only while they run, written now and then: progress, log lines, that they run."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def started(self, ids: Sequence[DocumentId], claims: Sequence[str]) -> None:
        """Note of jobs that were claimed ahead that they have been started."""
        with self._connection.deadline():
            await self._connection.jobs.update_many(
                {"_id": {"$in": list(ids)}, "claim": {"$in": list(claims)}, "state": RUNNING},
                {"$unset": {"ahead": ""}},
                hint=BY_ID,
            )

    async def write(self, notes: Sequence[Note], keep: int) -> None:
        """Store the notes of each job, fenced; what is not held any more is passed over."""
        statements = []
        for note in notes:
            update: dict[str, Any] = {}
            if note.progress is not None:
                update["$set"] = {"progress": note.progress}
            if note.lines:
                update["$push"] = {"log": {"$each": note.lines, "$slice": -keep}}
            if note.lines and note.log_cut:
                update.setdefault("$set", {})["log_cut"] = note.log_cut
            if update:
                statements.append(UpdateOne({"_id": note.id, "state": RUNNING, "token": note.token}, update))
        if statements:
            try:
                with self._connection.deadline():
                    await self._connection.jobs.bulk_write(statements, ordered=False)
            except BulkWriteError:
                pass  # the end of the attempt carries all of it anyway
