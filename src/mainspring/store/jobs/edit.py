"""Reading jobs, and changing them by hand: get, list, edit, cancel, retry, run now, delete.

Every change carries the job's exact `_id` and the states it is allowed from, and raises `rev`, so that a claim that
read the job before does not take it without the change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mainspring.errors import InvalidJob, JobNotFound, JobStateError
from mainspring.model.access.api_keys import EVERYTHING, Scope
from mainspring.model.access.idempotency import REQUESTS_KEPT
from mainspring.model.access.namespaces import dedupe_key_shown
from mainspring.model.jobs.job import (
    CANCELLED,
    COMPLETED,
    FAILED,
    FINISHED,
    NOT_STARTED,
    PENDING,
    RETRIABLE,
    RUNNING,
)
from mainspring.model.jobs.reserved_names import FLOW_NAMES
from mainspring.store.bounded_values import MAX_MESSAGE, cut
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.flows.waiters import look_soon, note_deleted, predecessors_again
from mainspring.store.jobs.aging import ASKED, NOT_AGED
from mainspring.store.jobs.dedupe import DedupeKeys
from mainspring.store.jobs.end_fields import CLAIM_FIELDS, again_at, cancelled_fields, start_by_of
from mainspring.store.jobs.upkeep import NO_KEY, TOO_NEW
from mainspring.store.reach import reached
from mainspring.store.schema import BUMP, BY_ID, CLAIM, WAITING_BY_QUEUE, Expression

_IN_LINE = {"$gt": ["$line", None]}
# A job that is changed passes the gates of its limits anew.
_OUT_OF_LINE = {
    "ready": {"$cond": [_IN_LINE, True, "$ready"]},
    "waiting_for": {"$cond": [_IN_LINE, "$$REMOVE", "$waiting_for"]},
    "line": "$$REMOVE",
}
# So does a job whose data is changed; and other workers than before may be able to run it.
_ON_DATA = {"$or": [_IN_LINE, {"$in": ["$waiting_for.by", [TOO_NEW, NO_KEY]]}]}
_ANEW = {
    "ready": {"$cond": [_ON_DATA, True, "$ready"]},
    "waiting_for": {"$cond": [_ON_DATA, "$$REMOVE", "$waiting_for"]},
    "line": "$$REMOVE",
}
# The fields of the last round's outcome, or of that round only.
_ENDED = (
    *("finished_at", "result", "result_note", "error", "fingerprint", "expires_at", "progress", "suspect", "burst"),
    *("because", "cancel_tree"),
)
# The retry of a flow that is under way goes on, also where its root alone is run again: the sweep looks at its mark.
_LOOK_LEFT = {"$cond": [{"$gt": ["$retry_tree", None]}, "$check_at", "$$REMOVE"]}
_FRESH = {**dict.fromkeys((*_ENDED, *CLAIM_FIELDS), "$$REMOVE"), "check_at": _LOOK_LEFT}
_OF_USER = {"$not": {"$in": ["$name", list(FLOW_NAMES)]}}
# A failed job continues after its last step; a completed job repeats all steps, and makes its children anew, in a new
# round. The root of a declared flow or a batch judges its jobs again.
_REPEATED = {"$and": [{"$eq": ["$state", COMPLETED]}, _OF_USER]}
_STEPS_LEFT = {"$cond": [_REPEATED, "$$REMOVE", "$steps"]}
# A retried job is no dead letter any more: the time of its failure is kept.
_LAST_FAILURE = {"$cond": [{"$eq": ["$state", FAILED]}, "$finished_at", "$last_failure_at"]}
# The attempt that ended the round was due at the present run_at; an attempt that was retried has its own.
_ENDED_IT = {
    "$and": [
        {"$eq": ["$$one.token", "$token"]},
        {"$in": ["$$one.outcome", ["completed", "failed", "cancelled"]]},
    ]
}
_DUE = {"$cond": [_ENDED_IT, {"$mergeObjects": [{"run_at": "$run_at"}, "$$one"]}, "$$one"]}
_ATTEMPTS = {
    "$cond": [{"$isArray": "$attempts"}, {"$map": {"input": "$attempts", "as": "one", "in": _DUE}}, "$attempts"]
}
CHILDREN_OF_DATA = (
    "Job {} has made children of its data, and waits for them; cancel it and schedule another job with the new data."
)


class Jobs:
    """The store's verbs for looking at jobs and changing them by hand."""

    def __init__(
        self, connection: Connection, keys: DedupeKeys, follow: Callable[[DocumentId], Awaitable[bool]]
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._follow = follow

    async def get(self, job_id: DocumentId, scope: Scope = EVERYTHING) -> Document:
        """The job. A job out of the scope does not exist for the caller."""
        document = await self._connection.jobs.find_one({"_id": job_id, **reached(scope)}, hint=BY_ID)
        if document is None:
            raise JobNotFound(str(job_id))
        return document

    async def finished_among(self, ids: Sequence[DocumentId]) -> list[Document]:
        """The jobs among these that have ended."""
        return await self._connection.jobs.find_all(
            {"_id": {"$in": list(ids)}, "state": {"$in": list(FINISHED)}}, hint=BY_ID
        )

    async def existing_among(self, ids: Sequence[DocumentId], scope: Scope = EVERYTHING) -> set[DocumentId]:
        """The jobs among these that exist, within a scope."""
        return set(await self._connection.jobs.find_ids({"_id": {"$in": list(ids)}, **reached(scope)}, hint=BY_ID))

    async def get_many(self, ids: Sequence[DocumentId]) -> dict[DocumentId, Document]:
        """The jobs among these that exist, by id."""
        return await self._connection.jobs.find_dict({"_id": {"$in": list(ids)}}, hint=BY_ID)

    async def count_pending(self, queue: str, most: int) -> int:
        """The number of pending jobs of a queue, due or not, ready or waiting; counted up to `most`, in indexes alone.

        A raw insert counts once it has been adopted.
        """
        with self._connection.deadline():
            ready = await self._connection.jobs.count({"ready": True, "queue": queue}, hint=CLAIM, limit=most)
            if ready >= most:
                return ready
            held = await self._connection.jobs.count(
                {"queue": queue, "waiting_for.by": {"$gt": ""}}, hint=WAITING_BY_QUEUE, limit=most - ready
            )
        return ready + held

    async def cancel(self, job_id: DocumentId, reason: str) -> tuple[Document, bool]:
        """Cancel a waiting job, or request that the worker of a running job stops it.

        Returns the document and whether this call has ended the job. An ended job stays as it is. It is one statement:
        between two, a job could move from the state that the second matches to the one that the first has missed.
        """
        before = await self._move(
            {"_id": job_id, "state": {"$in": [*NOT_STARTED, RUNNING]}},
            cancel_stages(self._connection.clock.expression(), reason),
        )
        return await self.get(job_id), before is not None and before["state"] != RUNNING

    async def edit(self, job_id: DocumentId, fields: Document) -> Document:
        """Change fields of a waiting job; the limit for its start follows its times."""
        unchanged = {"spawned": None} if "data" in fields else {}
        changed = await self._update(job_id, NOT_STARTED, edit_stages(fields), **unchanged)
        if not changed and unchanged and (await self.get(job_id)).get("state") in NOT_STARTED:
            raise InvalidJob(CHILDREN_OF_DATA.format(job_id))
        return await self._changed(job_id, changed, "update()", "pending")

    async def run_now(self, job_id: DocumentId) -> Document:
        """Make a pending job due at once."""
        changed = await self._update(job_id, (PENDING,), run_now_stages(self._connection.clock.expression()))
        return await self._changed(job_id, changed, "run_now()", "pending")

    async def retry(self, job_id: DocumentId, request: str | None = None, ended_by: datetime | None = None) -> Document:
        """Run an ended job again, as a new round of attempts; its history and its token stay. A job on which this
        request was carried out before is left as it is, and so is one that has ended after `ended_by`."""
        document = await self.get(job_id)
        if request in document.get("requests", ()):
            return document
        key = document.get("dedupe_key") if document.get("state") in RETRIABLE else None
        if key is not None:
            await self._retake_key(key, job_id)
        stages = again_stages(self._connection.clock.expression())
        new: Document = {} if ended_by is None else {"finished_at": {"$lte": ended_by}}
        if request is not None:
            stages.append(remember_stage(request))
            new["requests"] = {"$ne": request}
        changed = await self._update(job_id, RETRIABLE, stages, **new)
        if document.get("before"):
            await predecessors_again(self._connection, document["before"])
        if key is not None:
            await self._keys.returned(key, job_id)
        if not changed and request in (document := await self.get(job_id)).get("requests", ()):
            return document
        return await self._changed(job_id, changed, "retry()", "failed, cancelled and completed")

    async def delete(self, job_id: DocumentId) -> list[str]:
        """Delete a job that does not run, and its dedupe key: otherwise a new job would take over its id and tokens.
        Returns the waits that it held back: for them it has failed."""
        document = await self.get(job_id)
        key = document.get("dedupe_key")
        if document.get("before") and document.get("state") != RUNNING:
            await note_deleted(self._connection, {job_id: document["before"]})
        deleted = await self._connection.jobs.delete_one({"_id": job_id, "state": {"$ne": RUNNING}})
        if not deleted.deleted_count:
            document = await self.get(job_id)
            raise JobStateError(str(job_id), document["state"], "delete()", "waiting and ended", "Cancel it first.")
        if isinstance(key, str):
            await self._keys.drop(key, job_id)
        if document.get("before"):
            await look_soon(self._connection, document["before"])
        return list(document.get("before") or ())

    async def _retake_key(self, key: str, job_id: DocumentId) -> None:
        holder = await self._keys.retake(key, job_id)
        if holder != job_id:
            shown = dedupe_key_shown(key)
            raise InvalidJob(f"Job {job_id} cannot run again: job {holder} holds its dedupe key {shown!r} now.")

    async def _update(self, job_id: DocumentId, states: Sequence[str], stages: list[Document], **more: Any) -> bool:
        edited = edited_stage(self._connection.clock.expression())
        return await self._move({"_id": job_id, "state": {"$in": list(states)}, **more}, [*stages, edited]) is not None

    async def _move(self, filter: Document, stages: list[Document]) -> Document | None:
        """Change a job; returns the state that it was in, or None where it does not match. A job that another program
        has changed is brought into step first."""
        change = self._connection.mirror.update(filter, stages)
        before = await self._connection.jobs.find_one_and_update(*change, {"state": 1}, hint=BY_ID)
        if before is None and await self._follow(filter["_id"]):
            before = await self._connection.jobs.find_one_and_update(*change, {"state": 1}, hint=BY_ID)
        return before

    async def _changed(self, job_id: DocumentId, changed: bool, verb: str, allowed: str) -> Document:
        document = await self.get(job_id)
        if not changed:
            raise JobStateError(str(job_id), document["state"], verb, allowed)
        return document


def cancel_stages(now: Expression, reason: str, because: str | None = None) -> list[Document]:
    """The update that cancels a waiting job, or asks the holder of a running one to stop; `because` is the job whose
    end is the cause."""
    reason = cut(reason, MAX_MESSAGE)
    ended: Document = {
        **BUMP,
        "state": CANCELLED,
        "finished_at": now,
        "ready": "$$REMOVE",
        "waiting_for": "$$REMOVE",
        "line": "$$REMOVE",
        **cancelled_fields(now, reason),
    }
    if because is not None:
        ended["because"] = {"$literal": because}
    if reason:
        ended["error"] = {"$literal": {"type": "Cancelled", "message": reason}}
    runs = {"$eq": ["$state", RUNNING]}
    request: Document = {"at": now, "reason": {"$literal": reason}}
    if because is not None:
        request["because"] = {"$literal": because}
    fields = {key: {"$cond": [runs, f"${key}", value]} for key, value in ended.items()}
    return [{"$set": {**fields, "cancel": {"$cond": [runs, {"$ifNull": ["$cancel", request]}, "$cancel"]}}}]


def run_now_stages(now: Expression) -> list[Document]:
    """The update that makes a pending job due at once."""
    return [{"$set": {**BUMP, "run_at": now, "start_by": start_by_of(now), **_OUT_OF_LINE}}]


def edited_stage(now: Expression) -> Document:
    """The part of an update by which a job tells when it was last changed by hand."""
    return {"$set": {"edited_at": now}}


def remember_stage(request: str) -> Document:
    """The part of an update by which a job remembers the request, or the operation, that has changed it."""
    requests = {"$concatArrays": [{"$ifNull": ["$requests", []]}, [{"$literal": request}]]}
    return {"$set": {"requests": {"$slice": [requests, -REQUESTS_KEPT]}}}


def next_round(if_true: Any = True) -> Document:
    """The fields of a job that makes its children anew, where it has made some: in a new round, under other ids."""
    anew = {"$and": [if_true, _OF_USER, {"$eq": ["$spawned", True]}]}
    number = {"$add": [{"$ifNull": ["$round", 1]}, 1]}
    return {"waits": {"$cond": [anew, "$$REMOVE", "$waits"]}, "round": {"$cond": [anew, number, "$round"]}}


def again_stages(now: Expression) -> list[Document]:
    """The update that runs an ended job again, as a new round of attempts; its history and its token stay."""
    again = {**BUMP, **_FRESH, **NOT_AGED, "state": PENDING, "tries": 0, "priority": ASKED, "steps": _STEPS_LEFT}
    history = {"attempts": _ATTEMPTS, "last_failure_at": _LAST_FAILURE}
    return [{"$set": {**again, **history, **next_round(_REPEATED)}}, {"$set": again_at(now, 0)}]


def edit_stages(fields: Mapping[str, Any], computed: Mapping[str, Any] | None = None) -> list[Document]:
    """The update that changes fields of a waiting job; None removes a field, and `computed` fields are expressions."""
    literal: Document = {key: "$$REMOVE" if value is None else {"$literal": value} for key, value in fields.items()}
    freed = _OUT_OF_LINE
    if "data" in fields:
        literal["steps"] = "$$REMOVE"  # their results are of other data
        freed = _ANEW
    if "priority" in fields:
        literal |= NOT_AGED
    again = {"start_by": start_by_of("$run_at"), **freed}
    return [{"$set": {**literal, **(computed or {}), **BUMP}}, {"$set": again}]
