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
from dataclasses import replace
from typing import Any

import bson
from pymongo import UpdateMany

from mainspring.errors import Unavailable
from mainspring.model.jobs.job import COMPLETED, RUNNING, JobError
from mainspring.model.jobs.outcome import (
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
from mainspring.store.bounded_values import MAX_MESSAGE, cut
from mainspring.store.codec import DocumentId, cancel_reason
from mainspring.store.connection import CODEC, Connection, Document
from mainspring.store.foreign.mirror import Mirror
from mainspring.store.jobs.end_fields import (
    NEXT_STATE,
    Finish,
    attempt_entry,
    attempt_fields,
    completed_fields,
    encoded,
    ended_fields,
    finish_stage,
    key_id_of,
    sealed_with,
)
from mainspring.store.refusals import brief, is_about_document, split_refused
from mainspring.store.schema import BY_ID, Expression

logger = logging.getLogger("mainspring")

_ATTEMPTS = 5
_CHUNK = 500
# About how many bytes are sent at once: a statement must stay under 16 MB, and all that is sent within one deadline
# must get through.
_SHARE = 8 * 1024 * 1024
END_REFUSED = "EndRefused"
"""The type of the error of a job that failed because the server refused to store the end of its attempt."""
_LOOKED_AT = {"state": 1, "token": 1, "cancel": 1, "result": 1, "waits.since": 1, "attempts": {"$slice": -1}}


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
                loners[group[0].token, group[0].tries, key_id_of(group[0].ending)].append(group[0])
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


def _statement(mirror: Mirror, group: list[Finish], stages: list[Document]) -> UpdateMany:
    first = group[0]
    filter: Document = {
        "_id": {"$in": [finish.id for finish in group]} if len(group) > 1 else first.id,
        "state": RUNNING,
        "token": first.token,
    }
    if isinstance(first.ending, Retried | Snoozed | Released | Abandoned | Suspended | Continued):
        filter["cancel"] = None
    return UpdateMany(*mirror.update(filter, stages), hint=BY_ID)


def _chunk_statement(mirror: Mirror, chunk: list[Finish], now: Expression) -> UpdateMany:
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
    fields = completed_fields(now, "$own.result") | sealed_with(chunk[0].ending)
    fields |= attempt_fields(chunk[0].token, entry)
    return _statement(mirror, chunk, [look_up, {"$set": ended_fields(chunk[0].ending) | fields}, {"$unset": "own"}])


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
    if document["token"] != finish.token or document["state"] != NEXT_STATE[finish.ending.outcome]:
        return False
    # A rescue may have led to the same state, and leaves an attempt of its own.
    last = (document.get("attempts") or [{}])[-1]
    ended = last.get("outcome") if last.get("token") == finish.token else None
    leaves_none = isinstance(finish.ending, Snoozed | Released | Continued)
    return bool(ended == (None if leaves_none else finish.ending.outcome))
