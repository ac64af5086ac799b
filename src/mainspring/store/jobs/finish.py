"""Ending attempts: one write for each way an attempt can end, all fenced, as many as possible in one statement.

Every statement carries the job's id, the token of the claim and the state it expects. Jobs that ended alike end in one
statement. A job that did not match is read again: either an earlier write of this worker was applied and its reply was
lost, or its cancellation was requested unnoticed, or the claim is lost.

An end that the server refuses for good is written in a smaller form (`reduced`) beside its neighbours, which do not
wait for it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import bson
from pymongo import UpdateMany

from mainspring.errors import Unavailable
from mainspring.model.jobs.job import BLOCKED, CANCELLED, COMPLETED, FAILED, FINISHED, PENDING, RUNNING, JobError
from mainspring.model.jobs.outcome import (
    PROCESS_DIED,
    Abandoned,
    Cancelled,
    Committed,
    Completed,
    Continued,
    Failed,
    Lost,
    Outcome,
    Released,
    Retried,
    Snoozed,
    Suspended,
    Unstorable,
)
from mainspring.model.privacy.encrypted_values import EncryptedValue
from mainspring.store.codec import (
    MAX_ATTEMPTS_KEPT,
    MAX_EARLIER_ATTEMPTS,
    MAX_MESSAGE,
    DocumentId,
    cancel_reason,
    cut,
    encode_error,
    fingerprint_of,
)
from mainspring.store.connection import CODEC, Connection, Document
from mainspring.store.foreign.mirror import Mirror
from mainspring.store.refusals import brief, is_about_document, split_refused
from mainspring.store.schema import BY_ID

logger = logging.getLogger("mainspring")

_NEXT_STATE = {
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
_ATTEMPTS = 5
_CHUNK = 500
# About how many bytes are sent at once: a statement must stay under 16 MB, and all that is sent within one deadline
# must get through.
_SHARE = 8 * 1024 * 1024
END_REFUSED = "EndRefused"
"""The type of the error of a job that failed because the server refused to store the end of its attempt."""
# A job that was started in time and given back is no longer bound by start_within.
STARTED_ONCE = {"$ifNull": ["$expires_at", "$$REMOVE"]}
_LET_GO = dict.fromkeys(CLAIM_FIELDS, "$$REMOVE")
_LOOKED_AT = {"state": 1, "token": 1, "cancel": 1, "result": 1, "waits.since": 1, "attempts": {"$slice": -1}}
CHECK_FIRST = 5.0
"""The seconds after which the sweep first looks at a blocked job."""


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


class Finishing:
    """The store's verbs for ending attempts."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def finish(self, finishes: Sequence[Finish], *, final: bool = False) -> list[Outcome]:
        """Write the ends; returns the outcome that each job really has (`Lost` where the claim was lost).

        Raises Unavailable when the outcomes cannot be learned now; repeating the call is always safe. An error that is
        not known to be about a document is raised, too, since it may pass; a `final` call takes it for a refusal.
        """
        became: dict[DocumentId, Outcome] = {}
        for share in _shares(finishes):
            await self._finish_share(share, became, final)
        return [became[finish.id] for finish in finishes]

    async def _finish_share(self, todo: Sequence[Finish], became: dict[DocumentId, Outcome], final: bool) -> None:
        for _ in range(_ATTEMPTS):
            matched = 0

            async def write(some: Sequence[Finish]) -> None:
                nonlocal matched
                matched += await self._write(some)

            refused = await split_refused(todo, write)
            if not final:
                _raise_unknown(refused)
            if not refused and matched == len(todo):
                became |= {finish.id: finish.ending for finish in todo}
                return
            again = [_less_of(finish, brief(error), became) for finish, error in refused]
            known = {finish.id for finish, _ in refused}
            todo = await self._look_again([finish for finish in todo if finish.id not in known], became)
            todo += [finish for finish in again if finish is not None]
            if not todo:
                return
        raise Unavailable(f"{len(todo)} job results could not be confirmed after {_ATTEMPTS} attempts; try again.")

    async def _write(self, finishes: Sequence[Finish]) -> int:
        """Write these ends; returns how many this call wrote."""
        written = await self._connection.jobs.bulk_write(self._statements(finishes))
        return written.matched_count

    async def _look_again(self, finishes: Sequence[Finish], became: dict[DocumentId, Outcome]) -> list[Finish]:
        """Read each job after a statement did not match, note its outcome, and return the ends still to be written."""
        mirror = self._connection.mirror
        now = await self._connection.jobs.find_dict(
            {"_id": {"$in": [finish.id for finish in finishes]}},
            {**mirror.fields, **_LOOKED_AT},
            hint=BY_ID,
        )
        todo: list[Finish] = []
        for finish in finishes:
            document = now.get(finish.id)
            if document is None or (document["token"] != finish.token or document["state"] != RUNNING):
                became[finish.id] = Lost() if document is None else _found(finish, document)
            elif mirror.out_of_step(document):
                became[finish.id] = Lost()  # another program has changed the job
            elif document.get("cancel") is not None and not isinstance(finish.ending, Completed):
                todo.append(replace(finish, ending=Cancelled(cancel_reason(document["cancel"]))))
            else:
                todo.append(finish)
        return todo

    def _statements(self, finishes: Iterable[Finish]) -> list[UpdateMany]:
        groups: dict[Any, list[Finish]] = defaultdict(list)
        for finish in finishes:
            groups[_alike(finish)].append(finish)
        now, mirror = self._connection.clock.expression(), self._connection.mirror
        statements: list[UpdateMany] = []
        loners: dict[tuple[Any, ...], list[Finish]] = defaultdict(list)
        for group in groups.values():
            if len(group) == 1 and _plainly_completed(group[0]):
                loners[group[0].token, group[0].tries, _key_id(group[0].ending)].append(group[0])
            else:
                statements.append(_statement(mirror, group, finish_stage(group[0], now)))
        for chunk in loners.values():
            for start in range(0, len(chunk), _CHUNK):
                statements.append(_chunk_statement(mirror, chunk[start : start + _CHUNK], now))
        return statements


def _shares(finishes: Sequence[Finish]) -> Iterator[list[Finish]]:
    """These ends in their order, in portions that are each sent at once."""
    share: list[Finish] = []
    size = 0
    for finish in finishes:
        weight = _weight(finish)
        if share and size + weight > _SHARE:
            yield share
            share, size = [], 0
        share.append(finish)
        size += weight
    if share:
        yield share


def _weight(finish: Finish) -> int:
    """The approximate bytes of the parts of an end that may be large: the log, in characters, and the result."""
    return sum(map(len, finish.log)) + _weight_of(encoded(getattr(finish.ending, "result", None)))


def _weight_of(result: Any) -> int:
    if result is None or isinstance(result, int | float):
        return 0
    return len(result) if isinstance(result, str) else len(bson.encode({"r": result}, codec_options=CODEC))


def _raise_unknown(refused: Sequence[tuple[Finish, Exception]]) -> None:
    """Raise an error that may be the server's and pass: it must not cost a result."""
    for _, error in refused:
        if not is_about_document(error):
            raise error


def _less_of(finish: Finish, reason: str, became: dict[DocumentId, Outcome]) -> Finish | None:
    """The next smaller form of an end that the server has refused: first the reduced end, then a failure with the
    reason; then None, and the outcome is `Unstorable`."""
    ending = finish.ending
    if isinstance(ending, Failed) and ending.error.type == END_REFUSED:
        became[finish.id] = Unstorable(reason)
        return None
    less = None if finish.reduced else _reduced(ending, reason)
    if less is None:
        told = f"MongoDB refused to store that the job is {ending.outcome}: {reason}"
        less = Failed(JobError(END_REFUSED, told), None)
    logger.warning(
        "MongoDB refuses the end of job %s; a smaller form of it is written: %s",
        finish.id,
        reason,
        extra={"job_id": str(finish.id), "job_name": finish.name, "attempt": finish.tries, "worker": finish.worker},
    )
    log_cut = finish.log_cut + len(finish.log)
    return replace(finish, ending=less, log=(), log_cut=log_cut, progress=None, reduced=True)


def _reduced(ending: Outcome, reason: str) -> Outcome | None:
    """An ending without its large parts, and with a note of that; None where it has no large part."""
    note = f"MongoDB refused the whole of it ({reason}); the log, the result and earlier attempts were not kept."
    if isinstance(ending, Completed):
        return replace(ending, result=None, note=note)
    if isinstance(ending, Failed | Retried):
        message = cut(ending.error.message, MAX_MESSAGE // 2)
        return replace(ending, error=JobError(ending.error.type, f"{message} ({note})"))
    if isinstance(ending, Cancelled):
        return replace(ending, reason=f"{cut(ending.reason, MAX_MESSAGE // 2)} ({note})")
    return None


def _statement(mirror: Mirror, group: list[Finish], stages: list[dict[str, Any]]) -> UpdateMany:
    first = group[0]
    filter: dict[str, Any] = {
        "_id": {"$in": [finish.id for finish in group]} if len(group) > 1 else first.id,
        "state": RUNNING,
        "token": first.token,
    }
    if isinstance(first.ending, Retried | Snoozed | Released | Abandoned | Suspended | Continued):
        filter["cancel"] = None
    return UpdateMany(*mirror.update(filter, stages), hint=BY_ID)


def _chunk_statement(mirror: Mirror, chunk: list[Finish], now: Any) -> UpdateMany:
    """One statement for completions that differ in their results and times: the server looks each up by its id.

    A statement for each would cost the server three times as much.
    """
    if len(chunk) == 1:
        return _statement(mirror, chunk, finish_stage(chunk[0], now))
    ids = {"$literal": [finish.id for finish in chunk]}
    own = {
        "$literal": [
            {"result": encoded(finish.ending.result), "started_at": finish.started_at, "ended_at": finish.ended_at}
            for finish in chunk
            if isinstance(finish.ending, Completed)
        ]
    }
    look_up = {"$set": {"own": {"$arrayElemAt": [own, {"$indexOfArray": [ids, "$_id"]}]}}}
    entry = attempt_entry(chunk[0]) | {"started_at": "$own.started_at", "ended_at": "$own.ended_at"}
    fields = _completed(now, "$own.result") | _sealed_with(chunk[0].ending)
    fields |= _attempt_fields(chunk[0].token, entry)
    return _statement(mirror, chunk, [look_up, {"$set": _ended(chunk[0].ending) | fields}, {"$unset": "own"}])


def finish_stage(finish: Finish, now: Any) -> list[dict[str, Any]]:
    """The update that ends an attempt with its outcome."""
    ending = finish.ending
    fields = _ended(ending)
    if isinstance(ending, Suspended):
        progress = {} if finish.progress is None else {"progress": {"$literal": finish.progress}}
        return [{"$set": fields | _suspended(ending, now) | progress}]
    if isinstance(ending, Continued):
        return [{"$set": fields | _continued(ending, now)}]
    if isinstance(ending, Snoozed | Released):
        return [{"$set": fields | _given_back(ending, now) | _snoozed(finish, now)}]
    if isinstance(ending, Completed | Committed):
        fields |= _completed(now, {"$literal": encoded(ending.result)}) | _sealed_with(ending)
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
    return [{"$set": fields | _attempt_fields(finish.token, entry)}]


def cancelled_fields(now: Any, reason: str) -> dict[str, Any]:
    """The fields of a running job that ends as cancelled: the job for whose end it was asked to stop, if it was; and
    where it has made children, the mark by which the sweep cancels the jobs below it."""
    spawned = {"$eq": ["$spawned", True]}
    mark = {"at": now, "reason": {"$literal": cut(reason, MAX_MESSAGE)}}
    return {
        "because": {"$ifNull": ["$cancel.because", "$$REMOVE"]},
        "cancel_tree": {"$cond": [spawned, mark, "$$REMOVE"]},
        "check_at": {"$cond": [spawned, now, "$$REMOVE"]},
    }


def _ended(ending: Outcome) -> dict[str, Any]:
    """The fields that every ending sets: the next state, and no claim."""
    return {**_LET_GO, "state": _NEXT_STATE[ending.outcome], "rev": {"$add": ["$rev", 1]}}


def _key_id(ending: Outcome) -> str | None:
    """The key that the result of an ending is encrypted with."""
    result = ending.result if isinstance(ending, Completed | Committed) else None
    return result.key_id if isinstance(result, EncryptedValue) else None


def _sealed_with(ending: Outcome) -> dict[str, Any]:
    """The field that lists the keys of a job, where its result is encrypted."""
    key_id = _key_id(ending)
    return {} if key_id is None else {"sealed": with_key(key_id)}


def encoded(result: Any) -> Any:
    """A result as it is stored."""
    return result.to_document() if isinstance(result, EncryptedValue) else result


def with_key(key_id: str) -> Any:
    """The keys that a job is encrypted with, and one more."""
    return {"$setUnion": [{"$ifNull": ["$sealed", []]}, [key_id]]}


def _completed(now: Any, result: Any) -> dict[str, Any]:
    return {"finished_at": now, "result": result, "error": "$$REMOVE"}


def _given_back(ending: Snoozed | Released, now: Any) -> dict[str, Any]:
    """The fields of a job that goes back to the queue without using an attempt."""
    fields: dict[str, Any] = {"tries": {"$subtract": ["$tries", 1]}, "progress": "$$REMOVE"}
    if isinstance(ending, Snoozed):
        return fields | again_at(now, ending.delay)
    fields |= {"ready": True, "suspect": "$suspect"}  # the job stays a suspect
    return fields | ({"start_by": STARTED_ONCE} if ending.started else {})


def _continued(ending: Continued, now: Any) -> dict[str, Any]:
    """The fields of a job that begins its next round: the ids of its children and of its waits have the round."""
    stored = {key: "$$REMOVE" if value is None else {"$literal": value} for key, value in ending.fields.items()}
    forgotten = dict.fromkeys(("steps", "waits", "progress", "error"), "$$REMOVE")
    round = {"$add": [{"$ifNull": ["$round", 1]}, 1]}
    due = {"ready": True, "run_at": now, "start_by": STARTED_ONCE}
    return {**forgotten, **stored, **due, "tries": 0, "round": round}


def _suspended(ending: Suspended, now: Any) -> dict[str, Any]:
    """The fields of a job whose handler waits. A root shows itself by its first wait; members have a `flow`."""
    waits = ending.waits
    look = {"$add": [now, int(CHECK_FIRST * 1000)]}
    until = [] if waits.until is None else [waits.until]
    return {
        "tries": {"$subtract": ["$tries", 1]},
        "waits": {"$literal": waits.to_document()},
        "check_at": {"$min": [look, *until]} if waits.on or waits.signals or not until else until[0],
        "root": {"$cond": [{"$gt": ["$flow", None]}, "$$REMOVE", True]},
    }


def _snoozed(finish: Finish, now: Any) -> dict[str, Any]:
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
    after["state"] = _NEXT_STATE[ending.outcome]
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


def undecodable_fields(name: Any, reason: str, now: Any, type: str = "Undecodable") -> dict[str, Any]:
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


def again_at(now: Any, delay: float) -> dict[str, Any]:
    """The fields of a job that becomes due again `delay` seconds from now."""
    run_at = {"$add": [now, int(delay * 1000)]}
    return {"ready": True, "run_at": run_at, "start_by": start_by_of(run_at)}


def start_by_of(run_at: Any) -> Any:
    """The instant after which a job must not be started, as an expression; removed when there is none."""
    within = {"$add": [run_at, {"$multiply": ["$start_within", 1000]}]}
    # $min ignores missing values.
    limit = {"$min": ["$expires_at", {"$cond": [{"$isNumber": "$start_within"}, within, None]}]}
    return {"$ifNull": [limit, "$$REMOVE"]}


def _attempt_fields(token: int, entry: Any) -> dict[str, Any]:
    return {"attempts": [entry]} if token == 1 else appended_attempt(entry)


def appended_attempt(entry: Any) -> dict[str, Any]:
    """The fields that add an entry to the attempts, keep the last attempts and count the dropped ones."""
    so_far = {"$ifNull": ["$attempts", []]}
    is_small = {"$lte": [{"$bsonSize": {"attempts": so_far}}, MAX_EARLIER_ATTEMPTS]}
    kept = {"$cond": [is_small, MAX_ATTEMPTS_KEPT - 1, _fitting(so_far)]}
    over = {"$max": [0, {"$subtract": [{"$size": so_far}, kept]}]}
    return {
        "attempts": {"$concatArrays": [{"$slice": [so_far, {"$subtract": [0, kept]}]}, [entry]]},
        "attempts_cut": {"$add": [{"$ifNull": ["$attempts_cut", 0]}, over]},
    }


def _fitting(attempts: Any) -> dict[str, Any]:
    """The number of the last attempts that fit into the bytes for earlier attempts."""
    size = {"$add": ["$$value.size", {"$bsonSize": {"attempt": "$$this"}}]}
    fits = {"$lte": ["$$size", MAX_EARLIER_ATTEMPTS]}
    counted = {"size": "$$size", "count": {"$add": ["$$value.count", {"$cond": [fits, 1, 0]}]}}
    latest_first = {"$reverseArray": {"$slice": [attempts, 1 - MAX_ATTEMPTS_KEPT]}}
    step = {"$let": {"vars": {"size": size}, "in": counted}}
    reduced = {"$reduce": {"input": latest_first, "initialValue": {"size": 0, "count": 0}, "in": step}}
    return {"$let": {"vars": {"fitting": reduced}, "in": "$$fitting.count"}}


def only_attempt(entry: Any) -> dict[str, Any]:
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


def _alike(finish: Finish) -> Any:
    """A key that is equal for attempts whose ends one statement can write with the same values."""
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


def _comparable(ending: Outcome) -> tuple[type, Any] | None:
    result = ending.result if isinstance(ending, Completed) else None
    return (type(result), result) if result is None or isinstance(result, bool | int | str) else None


def _found(finish: Finish, document: Document) -> Outcome:
    """The outcome of this attempt according to the document of a job that is no longer claimed by it."""
    if _applied(finish, document):
        return finish.ending
    if document["token"] == finish.token and document["state"] == COMPLETED:
        # Only this claim can have completed it: in its handler's own transaction, whose commit was not answered.
        return Committed(document.get("result"))
    return Lost()


def _applied(finish: Finish, document: Document) -> bool:
    """Whether this ending was applied to the document."""
    if isinstance(finish.ending, Suspended):  # the wait may be over already
        since = (document.get("waits") or {}).get("since")
        return bool(document["token"] == finish.token and since == finish.ending.waits.since)
    if document["token"] != finish.token or document["state"] != _NEXT_STATE[finish.ending.outcome]:
        return False
    # A rescue may have led to the same state, and leaves an attempt of its own.
    last = (document.get("attempts") or [{}])[-1]
    ended = last.get("outcome") if last.get("token") == finish.token else None
    leaves_none = isinstance(finish.ending, Snoozed | Released | Continued)
    return bool(ended == (None if leaves_none else finish.ending.outcome))
