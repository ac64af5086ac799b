"""Renewing claims, noticing cancellations, and rescuing the jobs of dead workers.

`Renewals` is for the heartbeat's thread and uses a blocking client of its own, so that neither a blocked event loop
nor a busy connection pool delays it. `Rescues` runs on the event loop. Both are fenced: a renewal by claim id, a
rescue by the token and the lease it saw expired.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from mainspring.errors import MainspringError
from mainspring.model.jobs.guarantee import may_have_run
from mainspring.model.jobs.job import CANCELLED, COMPLETED, FAILED, PENDING, RUNNING, JobError
from mainspring.store.bounded_values import encode_error
from mainspring.store.codec import DocumentId, cancel_reason, document_id, fingerprint_of, undecodable
from mainspring.store.collection import deadline
from mainspring.store.connection import Connection, Document
from mainspring.store.foreign.mapped import Mapped
from mainspring.store.jobs.end_fields import (
    CLAIM_FIELDS,
    STARTED_ONCE,
    appended_attempt,
    cancelled_fields,
    undecodable_fields,
)
from mainspring.store.jobs.stacks import asked_in
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.refusals import REFUSED, Refused, brief, is_about_document
from mainspring.store.schema import BY_ID, CANCEL, LEASE, Expression

logger = logging.getLogger("mainspring")

DEFAULT_ATTEMPTS = 3
# The fields of a claim, and the others that its rescue depends on.
_CLAIM = ("state", "token", "lease_until")
_DECIDING = ("cancel", "ahead")
_ATTEMPTS = 5
_ONE_MORE_CUT = {"attempts_cut": {"$add": [{"$ifNull": ["$attempts_cut", 0]}, 1]}}


class Renewals:
    """The heartbeat's verbs. Blocking; one thread uses it."""

    def __init__(self, connection: Connection) -> None:
        self._clock = connection.clock
        self._settings = connection.settings
        self._mirror = connection.mirror
        self._jobs, self._workers = connection.beat_handles()

    def renew(self, claims: Sequence[str], ids: Sequence[DocumentId]) -> set[DocumentId]:
        """Renew all these jobs with one write; returns the ids whose claim is lost.

        A job whose document the server refuses to change counts as lost, and does not cost the others their leases.
        """
        try:
            return self._renew(claims, ids)
        except REFUSED as error:
            if not is_about_document(error):
                raise
            if len(ids) == 1:
                logger.error(
                    "The claim of job %s cannot be renewed: %s", ids[0], brief(error), extra={"job_id": str(ids[0])}
                )
                return set(ids)
        middle = len(ids) // 2
        return self.renew(claims, ids[:middle]) | self.renew(claims, ids[middle:])

    def _renew(self, claims: Sequence[str], ids: Sequence[DocumentId]) -> set[DocumentId]:
        now = self._clock.expression()
        held, renewal = self._mirror.update(
            {"_id": {"$in": list(ids)}, "claim": {"$in": list(claims)}, "state": RUNNING},
            [{"$set": {"lease_until": {"$add": [now, int(self._settings.lease * 1000)]}}}],
            now,
        )
        with deadline(self._settings.renew_timeout):
            result = self._jobs.update_many(held, renewal, hint=BY_ID)
            if result.matched_count == len(ids):
                return set()
            kept = {document["_id"] for document in self._jobs.find(held, {"_id": 1}, hint=BY_ID)}
        return set(ids) - kept

    def started(self, ids: Sequence[DocumentId], claims: Sequence[str]) -> None:
        """Note that these jobs, which were claimed ahead, have been started. A job whose document the server refuses to
        change does not keep the others from being noted."""
        try:
            self._note_started(ids, claims)
        except REFUSED as error:
            if not is_about_document(error):
                raise
            if len(ids) > 1:
                middle = len(ids) // 2
                self.started(ids[:middle], claims)
                self.started(ids[middle:], claims)
                return
            logger.error("The start of job %s cannot be noted: %s", ids[0], brief(error), extra={"job_id": str(ids[0])})

    def _note_started(self, ids: Sequence[DocumentId], claims: Sequence[str]) -> None:
        held = {"_id": {"$in": list(ids)}, "claim": {"$in": list(claims)}, "state": RUNNING}
        with deadline(self._settings.renew_timeout):
            self._jobs.update_many(held, {"$unset": {"ahead": ""}}, hint=BY_ID)

    def completed(self, job_id: DocumentId, token: int) -> bool:
        """Whether a job was completed under this token: only the claim's worker can have done so."""
        with deadline(self._settings.renew_timeout):
            return self._jobs.find_one({"_id": job_id, "token": token, "state": COMPLETED}, {"_id": 1}) is not None

    def cancellations(self, worker: str) -> dict[DocumentId, tuple[int, str]]:
        """The running jobs of a worker whose cancellation was requested: their tokens and the reasons given."""
        with deadline(self._settings.renew_timeout):
            asked = self._jobs.find(
                {"worker": worker, "state": RUNNING, "cancel": {"$exists": True}},
                {"token": 1, "cancel": 1},
                hint=CANCEL,
            )
            return {document["_id"]: (document["token"], cancel_reason(document["cancel"])) for document in asked}

    def drain_asked(self, worker: str) -> bool:
        """Whether an operator has asked this worker to drain."""
        with deadline(self._settings.renew_timeout):
            asked = {"_id": worker, "drain": {"$exists": True}}
            return self._workers.find_one(asked, {"_id": 1}, hint=BY_ID) is not None

    def asked_stacks(self, worker: str) -> list[tuple[DocumentId, int]]:
        """The jobs whose stacks a worker is asked for, with their tokens; the requests are taken off its document."""
        with deadline(self._settings.renew_timeout):
            if self._workers.find_one({"_id": worker, "asks": {"$exists": True}}, {"_id": 1}) is None:
                return []
            before = self._workers.find_one_and_update({"_id": worker}, {"$unset": {"asks": ""}}, {"asks": 1})
        return asked_in(before or {})

    def store_stack(self, job_id: DocumentId, token: int, text: str) -> bool:
        """Store the stack of a running job, fenced; returns whether the claim still held."""
        held = self._mirror.guard({"_id": job_id, "state": RUNNING, "token": token})
        stack = {"at": self._clock.expression(), "token": token, "text": {"$literal": text}}
        with deadline(self._settings.renew_timeout):
            return self._jobs.update_one(held, [{"$set": {"stack": stack}}]).matched_count == 1

    def beat(self, worker: str, facts: Document, *, first: bool = False) -> None:
        """Store that a worker is alive and these facts about it; this renews the lease of its slots of limits.

        A worker has no slots before the `first` beat, which may take as long as any operation. A request to drain that
        is there before it was for another worker with the same id.
        """
        now = self._clock.expression()
        with deadline(self._settings.operation_timeout if first else self._settings.renew_timeout):
            self._workers.update_one(
                {"_id": worker},
                [
                    {"$set": {key: {"$literal": value} for key, value in facts.items()}},
                    {"$set": {"beat_at": now, "lease_until": {"$add": [now, int(self._settings.lease * 1000)]}}},
                    *([{"$unset": "drain"}] if first else []),
                ],
                upsert=True,
            )


@dataclass(slots=True)
class Rescued:
    """A job that was taken from a dead worker, and its next state."""

    document: Document
    state: str

    @property
    def job(self) -> StoredJob:
        return StoredJob(self.document)

    @property
    def used_attempt(self) -> bool:
        """Whether the claim had been started, so that the loss counts as an attempt."""
        last = (self.document.get("attempts") or [{}])[-1]
        return bool(last.get("outcome") == "lost" and last.get("token") == self.document.get("token"))

    @property
    def name(self) -> str:
        return self._text("name")

    @property
    def queue(self) -> str:
        return self._text("queue")

    @property
    def max_attempts(self) -> int | None:
        """The number of attempts that its last worker allowed."""
        return self.document.get("max_attempts")

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of its error, if it has become a dead letter."""
        return self._text("fingerprint") or None

    def _text(self, field: str) -> str:
        """A field that another program may have stored, as text."""
        value = self.document.get(field)
        return value if isinstance(value, str) else ""


class Rescues:
    """The store's verbs for rescuing jobs whose leases have run out."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._mapped = Mapped(connection)
        self._refused = Refused[DocumentId]()

    async def rescue(self, limit: int = 200, held: Container[DocumentId] = ()) -> list[Rescued]:
        """Give back up to `limit` jobs whose leases have run out. A running job without a lease counts as one of them.

        Raw inserts are left to be adopted first, and the jobs in `held` to the caller's own heartbeat.
        """
        now = self._connection.clock.expression()
        grace = int(self._connection.settings.rescue_grace * 1000)
        gone = {"state": RUNNING, "v": {"$ne": None}, "$expr": {"$lte": ["$lease_until", {"$subtract": [now, grace]}]}}
        found = await self._connection.jobs.find_all({**gone, **self._refused.filter}, hint=LEASE, limit=limit)
        return await self.give_back([document for document in found if document["_id"] not in held])

    async def rescue_from(self, worker: str) -> list[Rescued]:
        """Give back all jobs of a worker whose process is known to be dead."""
        found = await self._connection.jobs.find_all(
            {"state": RUNNING, "worker": worker, "v": {"$ne": None}}, hint=LEASE
        )
        return await self.give_back(found)

    async def rescue_these(self, ids: Collection[str]) -> list[Rescued]:
        """Give back those of these jobs whose leases have run out."""
        now = self._connection.clock.expression()
        over = {"state": RUNNING, "v": {"$ne": None}, "$expr": {"$lte": ["$lease_until", now]}}
        named = {"_id": {"$in": [document_id(one) for one in ids]}}
        return await self.give_back(await self._connection.jobs.find_all({**named, **over}, hint=BY_ID))

    async def give_back(self, found: list[Document]) -> list[Rescued]:
        rescued = []
        for document in found:
            try:
                one = await self._give_back_one(document)
            except MainspringError:
                raise
            except Exception as error:  # a job that cannot be rescued must not hold up the others
                self._refused.add(document["_id"], error)
                logger.error(
                    "Job %s has lost its worker and cannot be given back: %s",
                    document["_id"],
                    brief(error),
                    extra=StoredJob(document).log_fields(None),
                )
            else:
                rescued += [] if one is None else [one]
        return rescued

    async def _give_back_one(self, document: Document) -> Rescued | None:
        """Give back one job of a dead worker; None when its claim, or the lease, has changed since it was read.

        The document as read decides the job's next state. A cancellation, or the note that the job was started, may be
        written meanwhile: then the job is read and decided again. A job that another program has changed is brought
        into step instead.
        """
        if await self._mapped.follow_these([document]):
            return None
        for _ in range(_ATTEMPTS):
            after = await self._take_from_holder(document)
            if after is not None:
                return Rescued(after, after["state"])
            again = await self._connection.jobs.find_one(_just_as_read(document, *_CLAIM))
            if again is None:
                return None
            document = again
        return None

    async def _take_from_holder(self, document: Document) -> Document | None:
        now = self._connection.clock.expression()
        problem = undecodable(document)
        if problem is not None:
            return await self._update(document, [{"$set": _given_up(document, problem, now)}])
        try:
            return await self._update(document, rescue_stage(document, now))
        except REFUSED:  # the entry of this attempt may make the document too large
            return await self._update(document, rescue_stage(document, now, with_entry=False))

    async def _update(self, document: Document, stages: list[Document]) -> Document | None:
        """Change a job if it is as it was read; returns the document after the change."""
        return await self._connection.jobs.find_one_and_update(
            *self._connection.mirror.update(_just_as_read(document, *_CLAIM, *_DECIDING), stages),
            after=True,
        )


def _just_as_read(document: Document, *fields: str) -> Document:
    """The filter for a document in which these fields are as they were read."""
    return {"_id": document["_id"], **{field: {"$eq": document.get(field)} for field in fields}}


def _given_up(document: Document, problem: str, now: Expression) -> Document:
    return {**dict.fromkeys(CLAIM_FIELDS, "$$REMOVE"), **undecodable_fields(document.get("name"), problem, now)}


def _state_after(document: Document) -> str:
    if document.get("cancel") is not None:
        return CANCELLED
    if document.get("ahead"):
        return PENDING
    if document.get("once"):
        return FAILED
    return FAILED if document["tries"] >= document.get("max_attempts", DEFAULT_ATTEMPTS) else PENDING


def rescue_stage(document: Document, now: Expression, *, with_entry: bool = True) -> list[Document]:
    """The update that takes a job from a dead worker: back to the queue, or to its end.

    Without the entry of the attempt, which has its log, the job only counts one more attempt that was cut.
    """
    state = _state_after(document)
    message = (
        f"The worker {document.get('worker')} died, or could not renew its lease, during attempt {document['tries']}."
    )
    lost = may_have_run(message, document["_id"]) if document.get("once") else JobError("WorkerLost", message)
    error = {"$literal": encode_error(lost)}
    entry: Document = {
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
    fields: Document = {
        **dict.fromkeys(CLAIM_FIELDS, "$$REMOVE"),
        "state": state,
        "rev": {"$add": ["$rev", 1]},
        "error": error,
    }
    if document.get("ahead"):
        # The job is not known to have been started: no attempt is used, but it runs in a child process the next time.
        fields |= {"tries": {"$subtract": ["$tries", 1]}, "error": "$error"}
    elif document["tries"] > 0:
        fields |= appended_attempt(entry) if with_entry else _ONE_MORE_CUT
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
        fields |= cancelled_fields(now, reason)
        fields["error"] = {"$literal": {"type": "Cancelled", "message": reason}} if reason else "$$REMOVE"
    return [{"$set": fields}]


@dataclass(frozen=True, slots=True)
class ProgressUpdate:
    """An update of a running job: its progress, where it has changed; new lines of its log, and how many were cut."""

    id: DocumentId
    token: int
    progress: Document | None
    lines: list[str]
    log_cut: int = 0


class ProgressUpdates:
    """The store's verb for progress and log lines of running jobs, which are flushed periodically."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def write(self, notes: Sequence[ProgressUpdate], keep: int) -> None:
        """Store the update of each job, fenced; a job whose claim is lost is skipped."""
        statements = []
        for note in notes:
            update: Document = {}
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
                await self._connection.jobs.bulk_write(statements)
            except BulkWriteError:
                pass  # the end of the attempt stores the progress and the whole log again
