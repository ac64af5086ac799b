"""Ending attempts: one write for each way an attempt can end, all fenced, as many as possible in one statement.

Every statement carries the job's id, the token of the claim and the state it expects. Jobs that ended alike end in one
statement. What did not match is looked at once more: it was either written by an earlier try of ours whose reply was
lost, or turned into a cancellation that nobody had noticed, or the claim is lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pymongo import UpdateMany
from pymongo.errors import BulkWriteError

from mainspring.errors import Unavailable
from mainspring.model.ending import (
    PROCESS_DIED,
    Abandoned,
    Cancelled,
    Committed,
    Completed,
    Ending,
    Failed,
    Lost,
    Released,
    Retried,
    Snoozed,
)
from mainspring.model.job import CANCELLED, COMPLETED, FAILED, PENDING, RUNNING
from mainspring.model.sealing import Sealed
from mainspring.store.codec import (
    FEW_ATTEMPTS_KEPT,
    MAX_ATTEMPTS_KEPT,
    MAX_ATTEMPTS_SIZE,
    DocumentId,
    cancel_reason,
    encode_error,
    fingerprint_of,
)
from mainspring.store.collections import BY_ID
from mainspring.store.connection import Connection, Document

_NEXT_STATE = {
    "completed": COMPLETED,
    "failed": FAILED,
    "cancelled": CANCELLED,
    "retried": PENDING,
    "snoozed": PENDING,
    "released": PENDING,
}
# What only a running job has.
HOLDING = ("claim", "worker", "claimed_at", "lease_until", "cancel", "log", "log_cut", "ahead", "suspect")
_ROUNDS = 5
_COMPANY = 500
# A job that was started in time, and comes back undone, is not held to start_within any more.
STARTED_ONCE = {"$ifNull": ["$expires_at", "$$REMOVE"]}
_LET_GO = dict.fromkeys(HOLDING, "$$REMOVE")


@dataclass(slots=True)
class Finish:
    """One attempt's end, as it is to be written."""

    id: DocumentId
    token: int
    tries: int
    worker: str
    started_at: datetime
    ended_at: datetime
    ending: Ending
    log: tuple[str, ...] = ()
    progress: Document | None = None
    """The last progress, where it has not been stored yet."""
    name: str = ""
    """The job's name, for the print of its error."""
    log_cut: int = 0
    """How many lines of the log came before those that were kept."""


class Finishing:
    """The store's verbs for ending attempts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def finish(self, finishes: Sequence[Finish]) -> list[Ending]:
        """Write the ends; returns what each really became (`Lost` where the claim was not ours any more).

        Raises Unavailable when that cannot be learned now; calling again with the same is always safe.
        """
        became: dict[DocumentId, Ending] = {}
        todo = list(finishes)
        for _ in range(_ROUNDS):
            if await self._write(todo):
                became |= {finish.id: finish.ending for finish in todo}
                todo = []
            else:
                todo = await self._look_again(todo, became)
            if not todo:
                return [became[finish.id] for finish in finishes]
        raise Unavailable("The ends of some jobs do not stay written; trying again.")

    async def _write(self, finishes: Sequence[Finish]) -> bool:
        """Whether every end was written by this very call."""
        try:
            with self._connection.deadline():
                written = await self._connection.jobs.bulk_write(self._statements(finishes), ordered=False)
        except BulkWriteError as error:
            if error.details.get("writeConcernErrors"):
                # What the primary shows now may be rolled back; writing it again asks the majority once more.
                reason = error.details["writeConcernErrors"][0].get(
                    "errmsg"
                )  # the error itself quotes what was written
                raise Unavailable(f"MongoDB could not keep the ends of {len(finishes)} jobs yet: {reason}") from error
            return False
        return written.matched_count == len(finishes)

    async def _look_again(self, finishes: Sequence[Finish], became: dict[DocumentId, Ending]) -> list[Finish]:
        """Some statement did not match: learn what each job has become; returns what is still to be written."""
        with self._connection.deadline():
            cursor = self._connection.jobs.find(
                {"_id": {"$in": [finish.id for finish in finishes]}},
                {"state": 1, "token": 1, "cancel": 1, "result": 1, "attempts": {"$slice": -1}},
                hint=BY_ID,
            )
            now = {document["_id"]: document for document in await cursor.to_list(len(finishes))}
        todo: list[Finish] = []
        for finish in finishes:
            document = now.get(finish.id)
            if document is None or (document["token"] != finish.token or document["state"] != RUNNING):
                became[finish.id] = Lost() if document is None else _found(finish, document)
            elif document.get("cancel") is not None and not isinstance(finish.ending, Completed):
                todo.append(replace(finish, ending=Cancelled(cancel_reason(document["cancel"]))))
            else:
                todo.append(finish)
        return todo

    def _statements(self, finishes: Iterable[Finish]) -> list[UpdateMany]:
        groups: dict[Any, list[Finish]] = defaultdict(list)
        for finish in finishes:
            groups[_alike(finish)].append(finish)
        now = self._connection.clock.expression()
        statements: list[UpdateMany] = []
        loners: dict[tuple[Any, ...], list[Finish]] = defaultdict(list)
        for group in groups.values():
            if len(group) == 1 and _plainly_completed(group[0]):
                loners[group[0].token, group[0].tries, _kid(group[0].ending)].append(group[0])
            else:
                statements.append(_statement(group, finish_stage(group[0], now)))
        for company in loners.values():
            for start in range(0, len(company), _COMPANY):
                statements.append(_company_statement(company[start : start + _COMPANY], now))
        return statements


def _statement(group: list[Finish], stages: list[dict[str, Any]]) -> UpdateMany:
    first = group[0]
    filter: dict[str, Any] = {
        "_id": {"$in": [finish.id for finish in group]} if len(group) > 1 else first.id,
        "state": RUNNING,
        "token": first.token,
    }
    if isinstance(first.ending, Retried | Snoozed | Released | Abandoned):
        filter["cancel"] = None
    return UpdateMany(filter, stages, hint=BY_ID)


def _company_statement(company: list[Finish], now: Any) -> UpdateMany:
    """One statement for completions that differ in their results and times: each looks its own up by its id.

    A statement for each would cost the server three times as much.
    """
    if len(company) == 1:
        return _statement(company, finish_stage(company[0], now))
    ids = {"$literal": [finish.id for finish in company]}
    own = {
        "$literal": [
            {"result": encoded(finish.ending.result), "started_at": finish.started_at, "ended_at": finish.ended_at}
            for finish in company
            if isinstance(finish.ending, Completed)
        ]
    }
    look_up = {"$set": {"own": {"$arrayElemAt": [own, {"$indexOfArray": [ids, "$_id"]}]}}}
    entry = attempt_entry(company[0]) | {"started_at": "$own.started_at", "ended_at": "$own.ended_at"}
    fields = _completed(now, "$own.result") | _sealed_with(company[0].ending)
    fields |= _attempt_fields(company[0].token, entry)
    return _statement(company, [look_up, {"$set": _ended(company[0].ending) | fields}, {"$unset": "own"}])


def finish_stage(finish: Finish, now: Any) -> list[dict[str, Any]]:
    """The update that ends an attempt in the way its ending says."""
    ending = finish.ending
    fields = _ended(ending)
    if isinstance(ending, Snoozed | Released):
        return [{"$set": fields | _given_back(ending, now)}]
    if isinstance(ending, Completed | Committed):
        fields |= _completed(now, {"$literal": encoded(ending.result)}) | _sealed_with(ending)
        if isinstance(ending, Completed) and ending.note:
            fields["result_note"] = {"$literal": ending.note}
    elif isinstance(ending, Retried):
        fields |= {"error": {"$literal": encode_error(ending.error)}, **again_at(now, ending.delay)}
        fields["last_failure_at"] = finish.ended_at
        if ending.error.type == PROCESS_DIED:
            fields["suspect"] = True  # it has killed a process of its own: it must not be let into a worker again
    else:
        fields["finished_at"] = now
        error = _final_error(ending)
        if error is not None:
            fields["error"] = {"$literal": error}
        if isinstance(ending, Failed):
            fields["fingerprint"] = fingerprint_of(finish.name, error)
    if finish.progress is not None:
        fields["progress"] = {"$literal": finish.progress}
    entry: Any = {"$literal": attempt_entry(finish)}
    if isinstance(ending, Retried):
        entry = {"$mergeObjects": [entry, {"run_at": "$run_at"}]}  # which the retry moves on
    return [{"$set": fields | _attempt_fields(finish.token, entry)}]


def _ended(ending: Ending) -> dict[str, Any]:
    """What every ending sets: the next state, and that nobody holds the job."""
    return {**_LET_GO, "state": _NEXT_STATE[ending.outcome], "rev": {"$add": ["$rev", 1]}}


def _kid(ending: Ending) -> str | None:
    """The key that the result of an ending is sealed with."""
    result = ending.result if isinstance(ending, Completed | Committed) else None
    return result.kid if isinstance(result, Sealed) else None


def _sealed_with(ending: Ending) -> dict[str, Any]:
    """The field that tells which keys a job is sealed with, where its result is sealed with one."""
    kid = _kid(ending)
    return {} if kid is None else {"sealed": with_key(kid)}


def encoded(result: Any) -> Any:
    """A result as it is stored."""
    return result.to_document() if isinstance(result, Sealed) else result


def with_key(kid: str) -> Any:
    """The keys that a job is sealed with, and one more."""
    return {"$setUnion": [{"$ifNull": ["$sealed", []]}, [kid]]}


def _completed(now: Any, result: Any) -> dict[str, Any]:
    return {"finished_at": now, "result": result, "error": "$$REMOVE"}


def _given_back(ending: Snoozed | Released, now: Any) -> dict[str, Any]:
    """A job that goes back to the queue without having used an attempt."""
    fields: dict[str, Any] = {"tries": {"$subtract": ["$tries", 1]}, "progress": "$$REMOVE"}
    if isinstance(ending, Snoozed):
        return fields | again_at(now, ending.delay)
    fields |= {"ready": True, "suspect": "$suspect"}  # it has not been cleared of suspicion
    return fields | ({"start_by": STARTED_ONCE} if ending.started else {})


def _final_error(ending: Ending) -> Document | None:
    if isinstance(ending, Failed):
        return encode_error(ending.error)
    if isinstance(ending, Cancelled) and ending.reason:
        return {"type": "Cancelled", "message": ending.reason}
    return None


def as_finished(document: Document, finish: Finish) -> Document:
    """What a claimed document has become by this ending, as far as it was read; for telling others without asking."""
    ending = finish.ending
    after: Document = {key: value for key, value in document.items() if key not in HOLDING}
    after["state"] = _NEXT_STATE[ending.outcome]
    if isinstance(ending, Snoozed | Released):
        after["tries"] = finish.tries - 1
    else:
        entry = attempt_entry(finish) | ({"run_at": document.get("run_at")} if isinstance(ending, Retried) else {})
        attempts = [*document.get("attempts", ()), entry]
        after["attempts"] = attempts[-MAX_ATTEMPTS_KEPT:]
        after["attempts_cut"] = document.get("attempts_cut", 0) + len(attempts) - len(after["attempts"])
    if isinstance(ending, Snoozed | Retried):
        after["run_at"] = finish.ended_at + timedelta(seconds=ending.delay)
    if finish.progress is not None and not isinstance(ending, Snoozed | Released):
        after["progress"] = finish.progress
    if after["state"] != PENDING:
        after["finished_at"] = finish.ended_at
    if isinstance(ending, Completed | Committed):
        after["result"] = ending.result
        if isinstance(ending.result, Sealed):
            after["sealed"] = [*document.get("sealed", ()), ending.result.kid]
        after.pop("error", None)
        if isinstance(ending, Completed) and ending.note:
            after["result_note"] = ending.note
    elif isinstance(ending, Retried):
        after["error"] = encode_error(ending.error)
    elif _final_error(ending) is not None:
        after["error"] = _final_error(ending)
    if isinstance(ending, Failed):
        after["fingerprint"] = fingerprint_of(finish.name, after["error"])
    return after


def undecodable_fields(name: Any, reason: str, now: Any) -> dict[str, Any]:
    """The fields of a job that ends because it cannot be decoded."""
    error = {"type": "Undecodable", "message": reason}
    return {
        "state": FAILED,
        "ready": "$$REMOVE",
        "held": "$$REMOVE",
        "line": "$$REMOVE",
        "finished_at": now,
        "error": {"$literal": error},
        "fingerprint": fingerprint_of(name, error),
    }


def again_at(now: Any, delay: float) -> dict[str, Any]:
    """The fields of a job that becomes due again `delay` seconds from now."""
    run_at = {"$add": [now, int(delay * 1000)]}
    return {"ready": True, "run_at": run_at, "start_by": start_by_of(run_at)}


def start_by_of(run_at: Any) -> Any:
    """The instant after which a job must not be started any more, as an expression; removed when there is none."""
    within = {"$add": [run_at, {"$multiply": ["$start_within", 1000]}]}
    # $min passes over what is missing.
    limit = {"$min": ["$expires_at", {"$cond": [{"$isNumber": "$start_within"}, within, None]}]}
    return {"$ifNull": [limit, "$$REMOVE"]}


def _attempt_fields(token: int, entry: Any) -> dict[str, Any]:
    return {"attempts": [entry]} if token == 1 else appended_attempt(entry)


def appended_attempt(entry: Any) -> dict[str, Any]:
    """The fields that add an entry to the attempts, keeping the last ones and counting what was dropped."""
    so_far = {"$ifNull": ["$attempts", []]}
    is_small = {"$lte": [{"$bsonSize": {"attempts": so_far}}, MAX_ATTEMPTS_SIZE]}
    most = {"$cond": [is_small, MAX_ATTEMPTS_KEPT, FEW_ATTEMPTS_KEPT]}
    over = {"$max": [0, {"$subtract": [{"$size": so_far}, {"$subtract": [most, 1]}]}]}
    return {
        "attempts": {"$slice": [{"$concatArrays": [so_far, [entry]]}, {"$subtract": [0, most]}]},
        "attempts_cut": {"$add": [{"$ifNull": ["$attempts_cut", 0]}, over]},
    }


def attempt_entry(finish: Finish) -> Document:
    entry: Document = {
        "n": finish.tries,
        "token": finish.token,
        "outcome": finish.ending.outcome,
        "worker": finish.worker,
        "started_at": finish.started_at,
        "ended_at": finish.ended_at,
    }
    if isinstance(finish.ending, Failed | Retried):
        entry["error"] = encode_error(finish.ending.error)
    if finish.log:
        entry["log"] = list(finish.log)
    if finish.log_cut:
        entry["log_cut"] = finish.log_cut
    return entry


def _alike(finish: Finish) -> Any:
    """Equal for attempts whose ends can be written by one statement with the same values."""
    ending = finish.ending
    if _plainly_completed(finish) and (finish_result := _comparable(ending)) is not None:
        marker: Any = (finish_result, finish.started_at, finish.ended_at)
    elif isinstance(ending, Released):
        marker = ending
    else:
        marker = finish.id
    return finish.token, finish.tries, marker


def _plainly_completed(finish: Finish) -> bool:
    """Whether there is nothing to write but the result and the times."""
    return isinstance(finish.ending, Completed) and not (finish.ending.note or finish.log or finish.progress)


def _comparable(ending: Ending) -> tuple[type, Any] | None:
    result = ending.result if isinstance(ending, Completed) else None
    return (type(result), result) if result is None or isinstance(result, bool | int | str) else None


def _found(finish: Finish, document: Document) -> Ending:
    """What a document that is not held any more says of this attempt."""
    if _applied(finish, document):
        return finish.ending
    if document["token"] == finish.token and document["state"] == COMPLETED:
        # Only its holder can have completed it: in its handler's own transaction, whose commit nobody saw.
        return Committed(document.get("result"))
    return Lost()


def _applied(finish: Finish, document: Document) -> bool:
    """Whether the document is what this very ending makes of it."""
    if document["token"] != finish.token or document["state"] != _NEXT_STATE[finish.ending.outcome]:
        return False
    # A rescue may have led to the same state, and leaves an attempt of its own.
    last = (document.get("attempts") or [{}])[-1]
    ended = last.get("outcome") if last.get("token") == finish.token else None
    return bool(ended == (None if isinstance(finish.ending, Snoozed | Released) else finish.ending.outcome))
