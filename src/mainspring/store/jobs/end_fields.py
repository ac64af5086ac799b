"""The fields that the end of an attempt writes, as the stages of an update: for `finish`, and for every other write
that ends, returns or restarts a job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mainspring.model.jobs.job import BLOCKED, CANCELLED, COMPLETED, FAILED, FINISHED, PENDING
from mainspring.model.jobs.outcome import (
    PROCESS_DIED,
    Cancelled,
    Committed,
    Completed,
    Continued,
    Failed,
    Outcome,
    Released,
    Retried,
    Snoozed,
    Suspended,
)
from mainspring.model.privacy.encrypted_values import EncryptedValue
from mainspring.store.bounded_values import MAX_MESSAGE, cut, encode_error
from mainspring.store.codec import MAX_ATTEMPTS_KEPT, MAX_EARLIER_ATTEMPTS, DocumentId, fingerprint_of
from mainspring.store.connection import Document
from mainspring.store.flows.looks import first_look
from mainspring.store.schema import Expression

NEXT_STATE = {
    "completed": COMPLETED,
    "failed": FAILED,
    "cancelled": CANCELLED,
    "retried": PENDING,
    "snoozed": PENDING,
    "released": PENDING,
    "suspended": BLOCKED,
    "continued": PENDING,
}
# The fields that only a running job has.
CLAIM_FIELDS = ("claim", "worker", "claimed_at", "lease_until", "cancel", "log", "log_cut", "ahead", "suspect")
SNOOZES_KEPT = 20
# A job that was started in time and given back is no longer bound by start_within.
STARTED_ONCE = {"$ifNull": ["$expires_at", "$$REMOVE"]}
_LET_GO = dict.fromkeys(CLAIM_FIELDS, "$$REMOVE")


@dataclass(slots=True)
class Finish:
    """The end of one attempt, ready to be written."""

    id: DocumentId
    token: int
    tries: int
    worker: str
    started_at: datetime
    ended_at: datetime
    ending: Outcome
    log: tuple[str, ...] = ()
    progress: Document | None = None
    """The last progress, where it has not been stored yet."""
    name: str = ""
    """The job's name, for the fingerprint of its error."""
    log_cut: int = 0
    """The number of log lines before those that were kept."""
    reduced: bool = False
    """Whether the log, the result, the stack and the earlier attempts are left out."""


def finish_stage(finish: Finish, now: Expression) -> list[Document]:
    """The update that ends an attempt with its outcome."""
    ending = finish.ending
    fields = ended_fields(ending)
    if isinstance(ending, Suspended):
        progress = {} if finish.progress is None else {"progress": {"$literal": finish.progress}}
        return [{"$set": fields | _suspended(ending, now) | progress}]
    if isinstance(ending, Continued):
        return [{"$set": fields | _continued(ending, now)}]
    if isinstance(ending, Snoozed | Released):
        return [{"$set": fields | _given_back(ending, now) | _snoozed(finish, now)}]
    if isinstance(ending, Completed | Committed):
        fields |= completed_fields(now, {"$literal": encoded(ending.result)}) | sealed_with(ending)
        if isinstance(ending, Completed) and ending.note:
            fields["result_note"] = {"$literal": ending.note}
    elif isinstance(ending, Retried):
        fields |= {"error": {"$literal": encode_error(ending.error)}, **again_at(now, ending.delay)}
        fields["last_failure_at"] = finish.ended_at
        if ending.error.type == PROCESS_DIED:
            fields["suspect"] = True  # the job has killed its own process: it must not run in a worker's
    else:
        fields["finished_at"] = now
        error = _final_error(ending)
        if error is not None:
            fields["error"] = {"$literal": error}
        if isinstance(ending, Failed):
            fields["fingerprint"] = fingerprint_of(finish.name, error)
        elif isinstance(ending, Cancelled):
            fields |= cancelled_fields(now, ending.reason)
    if finish.progress is not None:
        fields["progress"] = {"$literal": finish.progress}
    entry: Any = {"$literal": attempt_entry(finish)}
    if isinstance(ending, Retried):
        entry = {"$mergeObjects": [entry, {"run_at": "$run_at"}]}  # which the retry moves on
    if finish.reduced:
        return [{"$set": {"progress": "$$REMOVE"} | fields | only_attempt(entry)}]
    return [{"$set": fields | attempt_fields(finish.token, entry)}]


def cancelled_fields(now: Expression, reason: str) -> Document:
    """The fields of a running job that ends as cancelled: the job for whose end it was asked to stop, if it was; and
    where it has made children, the mark by which the sweep cancels the jobs below it."""
    spawned = {"$eq": ["$spawned", True]}
    mark = {"at": now, "reason": {"$literal": cut(reason, MAX_MESSAGE)}}
    return {
        "because": {"$ifNull": ["$cancel.because", "$$REMOVE"]},
        "cancel_tree": {"$cond": [spawned, mark, "$$REMOVE"]},
        "check_at": {"$cond": [spawned, now, "$$REMOVE"]},
    }


def ended_fields(ending: Outcome) -> Document:
    """The fields that every ending sets: the next state, and no claim."""
    return {**_LET_GO, "state": NEXT_STATE[ending.outcome], "rev": {"$add": ["$rev", 1]}}


def key_id_of(ending: Outcome) -> str | None:
    """The key that the result of an ending is encrypted with."""
    result = ending.result if isinstance(ending, Completed | Committed) else None
    return result.key_id if isinstance(result, EncryptedValue) else None


def sealed_with(ending: Outcome) -> Document:
    """The field that lists the keys of a job, where its result is encrypted."""
    key_id = key_id_of(ending)
    return {} if key_id is None else {"sealed": with_key(key_id)}


def encoded(result: Any) -> Any:
    """A result as it is stored."""
    return result.to_document() if isinstance(result, EncryptedValue) else result


def with_key(key_id: str) -> Any:
    """The keys that a job is encrypted with, and one more."""
    return {"$setUnion": [{"$ifNull": ["$sealed", []]}, [key_id]]}


def completed_fields(now: Expression, result: Any) -> Document:
    return {"finished_at": now, "result": result, "error": "$$REMOVE"}


def _given_back(ending: Snoozed | Released, now: Expression) -> Document:
    """The fields of a job that goes back to the queue without using an attempt."""
    fields: Document = {"tries": {"$subtract": ["$tries", 1]}, "progress": "$$REMOVE"}
    if isinstance(ending, Snoozed):
        return fields | again_at(now, ending.delay)
    fields |= {"ready": True, "suspect": "$suspect"}  # the job stays a suspect
    return fields | ({"start_by": STARTED_ONCE} if ending.started else {})


def _continued(ending: Continued, now: Expression) -> Document:
    """The fields of a job that begins its next round: the ids of its children and of its waits have the round."""
    stored = {key: "$$REMOVE" if value is None else {"$literal": value} for key, value in ending.fields.items()}
    forgotten = dict.fromkeys(("steps", "waits", "progress", "error"), "$$REMOVE")
    round = {"$add": [{"$ifNull": ["$round", 1]}, 1]}
    due = {"ready": True, "run_at": now, "start_by": STARTED_ONCE}
    return {**forgotten, **stored, **due, "tries": 0, "round": round}


def _suspended(ending: Suspended, now: Expression) -> Document:
    """The fields of a job whose handler waits. A root shows itself by its first wait; members have a `flow`."""
    waits = ending.waits
    until = [] if waits.until is None else [waits.until]
    return {
        "tries": {"$subtract": ["$tries", 1]},
        "waits": {"$literal": waits.to_document()},
        "check_at": {"$min": [first_look(now), *until]} if waits.on or waits.signals or not until else until[0],
        "root": {"$cond": [{"$gt": ["$flow", None]}, "$$REMOVE", True]},
    }


def _snoozed(finish: Finish, now: Expression) -> Document:
    """The field that remembers a snooze; the last ones are kept."""
    if not isinstance(finish.ending, Snoozed):
        return {}
    known = {"token": finish.token, "started_at": finish.started_at, "at": finish.ended_at}
    entry = {**known, "reason": {"$literal": cut(finish.ending.reason, MAX_MESSAGE // 10)}}
    entry["run_at"] = "$run_at"
    entry["until"] = {"$add": [now, int(finish.ending.delay * 1000)]}
    before = {"$cond": [{"$isArray": "$snoozes"}, "$snoozes", []]}
    return {"snoozes": {"$slice": [{"$concatArrays": [before, [entry]]}, -SNOOZES_KEPT]}}


def _final_error(ending: Outcome) -> Document | None:
    if isinstance(ending, Failed):
        return encode_error(ending.error)
    if isinstance(ending, Cancelled) and ending.reason:
        return {"type": "Cancelled", "message": ending.reason}
    return None


def as_finished(document: Document, finish: Finish) -> Document:
    """A claimed document after this ending, in the fields that were read: for events, without reading it again."""
    ending = finish.ending
    after: Document = {key: value for key, value in document.items() if key not in CLAIM_FIELDS}
    after["state"] = NEXT_STATE[ending.outcome]
    if isinstance(ending, Suspended):
        after["waits"] = ending.waits.to_document()
    if isinstance(ending, Continued):
        after |= ending.fields
    if isinstance(ending, Snoozed | Released | Suspended | Continued):
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
    if after["state"] in FINISHED:
        after["finished_at"] = finish.ended_at
    if isinstance(ending, Completed | Committed):
        after["result"] = ending.result
        if isinstance(ending.result, EncryptedValue):
            after["sealed"] = [*document.get("sealed", ()), ending.result.key_id]
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


def undecodable_fields(name: Any, reason: str, now: Expression, type: str = "Undecodable") -> Document:
    """The fields of a job that fails because it cannot be decoded, or for a similar reason (`type`)."""
    error = {"type": type, "message": reason}
    return {
        "state": FAILED,
        "ready": "$$REMOVE",
        "waiting_for": "$$REMOVE",
        "line": "$$REMOVE",
        "finished_at": now,
        "error": {"$literal": error},
        "fingerprint": fingerprint_of(name, error),
    }


def again_at(now: Expression, delay: float) -> Document:
    """The fields of a job that becomes due again `delay` seconds from now."""
    run_at = {"$add": [now, int(delay * 1000)]}
    return {"ready": True, "run_at": run_at, "start_by": start_by_of(run_at)}


def start_by_of(run_at: Any) -> Any:
    """The instant after which a job must not be started, as an expression; removed when there is none."""
    within = {"$add": [run_at, {"$multiply": ["$start_within", 1000]}]}
    # $min ignores missing values.
    limit = {"$min": ["$expires_at", {"$cond": [{"$isNumber": "$start_within"}, within, None]}]}
    return {"$ifNull": [limit, "$$REMOVE"]}


def attempt_fields(token: int, entry: Any) -> Document:
    return {"attempts": [entry]} if token == 1 else appended_attempt(entry)


def appended_attempt(entry: Any) -> Document:
    """The fields that add an entry to the attempts, keep the last attempts and count the dropped ones."""
    so_far = {"$ifNull": ["$attempts", []]}
    is_small = {"$lte": [{"$bsonSize": {"attempts": so_far}}, MAX_EARLIER_ATTEMPTS]}
    kept = {"$cond": [is_small, MAX_ATTEMPTS_KEPT - 1, _fitting(so_far)]}
    over = {"$max": [0, {"$subtract": [{"$size": so_far}, kept]}]}
    return {
        "attempts": {"$concatArrays": [{"$slice": [so_far, {"$subtract": [0, kept]}]}, [entry]]},
        "attempts_cut": {"$add": [{"$ifNull": ["$attempts_cut", 0]}, over]},
    }


def _fitting(attempts: Any) -> Document:
    """The number of the last attempts that fit into the bytes for earlier attempts."""
    size = {"$add": ["$$value.size", {"$bsonSize": {"attempt": "$$this"}}]}
    fits = {"$lte": ["$$size", MAX_EARLIER_ATTEMPTS]}
    counted = {"size": "$$size", "count": {"$add": ["$$value.count", {"$cond": [fits, 1, 0]}]}}
    latest_first = {"$reverseArray": {"$slice": [attempts, 1 - MAX_ATTEMPTS_KEPT]}}
    step = {"$let": {"vars": {"size": size}, "in": counted}}
    reduced = {"$reduce": {"input": latest_first, "initialValue": {"size": 0, "count": 0}, "in": step}}
    return {"$let": {"vars": {"fitting": reduced}, "in": "$$fitting.count"}}


def only_attempt(entry: Any) -> Document:
    """The fields that keep an entry, drop the attempts before it and count them."""
    cut_before = {"$ifNull": ["$attempts_cut", 0]}
    return {"attempts": [entry], "attempts_cut": {"$add": [cut_before, {"$size": {"$ifNull": ["$attempts", []]}}]}}


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
