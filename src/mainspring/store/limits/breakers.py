"""Circuit breakers and the attempts that they have counted.

A transition is a compare-and-set on the state that it starts from, computed on the server and by its clock: however
many workers count and look at once, each transition happens once, and the worker that made it learns so by its
`change_id`. Only a transition sets `told`, which wakes the workers that listen; counting does not.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pymongo.errors import DuplicateKeyError

from mainspring.model.limits.breaker import (
    BREAKER_STATES,
    CLOSED,
    HALF_OPEN,
    OPEN,
    Breaker,
    BreakerChange,
    BreakerFailure,
    BreakerStatus,
)
from mainspring.model.limits.controls import BREAKER, Target
from mainspring.store.connection import Connection, Document
from mainspring.store.schema import BY_ID, Expression

_PARTS = 10
_OPEN_FOR = 30.0
# Keys may have any number of values, so a closed breaker of one value is deleted when no attempt was counted for it in
# this many seconds.
_KEPT = 600.0
_CHANGES_KEPT = 10
_CHANGE = {"at": "$since", "state": "$state", "reason": "$reason", "actor": "$actor"}
_STORY = {"$slice": [{"$concatArrays": [{"$ifNull": ["$story", []]}, [_CHANGE]]}, -_CHANGES_KEPT]}
"""The story of a breaker with the transition that was just made."""
_TOLD: Document = {"$set": {"story": _STORY}}
_NO_COUNTS: Document = {"counts": [], "good": 0, "bad": 0}


@dataclass(frozen=True, slots=True)
class Moved:
    """A breaker after a call, and whether this call changed its state."""

    status: BreakerStatus
    moved: bool


class Breakers:
    """The store's verbs for breakers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def count(
        self, target: Target, rule: Breaker, good: int, bad: int, failure: tuple[str, str] | None = None
    ) -> Moved:
        """Add attempts to a breaker's window, and open the breaker if too many attempts in the window failed.

        `failure` is the type of the last error, and the id of its job.
        """
        change_id = secrets.token_hex(6)
        now = self._connection.clock.expression()
        stages = _counting(target, rule, good, bad, now, change_id)
        if failure is not None:
            error, job = ({"$literal": text} for text in failure)
            stages.insert(0, {"$set": {"last_failure": {"at": now, "error": error, "job": job}}})
        return _moved(target, await self._update(control_id(BREAKER, target), {}, stages, upsert=True), change_id)

    async def half_open(self, target: Target) -> Moved:
        """Let probes through a breaker that has been open for long enough."""
        now, change_id = self._connection.clock.expression(), secrets.token_hex(6)
        over = {"state": OPEN, "open_until": {"$type": "date"}, "$expr": {"$lte": ["$open_until", now]}}
        return await self._move(target, over, _into(HALF_OPEN, now, change_id), change_id)

    async def judge(self, target: Target, good: bool) -> Moved:
        """Close the breaker after a good probe, or open it again after a bad one."""
        now, change_id = self._connection.clock.expression(), secrets.token_hex(6)
        if good:
            fields = _into(CLOSED, now, change_id) | _NO_COUNTS | _by("", None)
        else:
            wait = {"$toLong": {"$multiply": [1000, {"$ifNull": ["$open_for", _OPEN_FOR]}]}}
            fields = (
                _into(OPEN, now, change_id) | {"open_until": {"$add": [now, wait]}} | _by("A probe has failed.", None)
            )
        return await self._move(target, {"state": HALF_OPEN}, fields, change_id)

    async def open_breaker(self, target: Target, open_for: float | None, reason: str, actor: str | None) -> Moved:
        """Open a breaker by hand, for a time or until it is closed by hand."""
        now, change_id = self._connection.clock.expression(), secrets.token_hex(6)
        fields = _about(target) | _into(OPEN, now, change_id) | _by(reason, actor)
        fields["open_until"] = "$$REMOVE" if open_for is None else {"$add": [now, int(open_for * 1000)]}
        fields["open_for"] = open_for if open_for is not None else {"$ifNull": ["$open_for", _OPEN_FOR]}
        return await self._move(target, {}, fields, change_id, upsert=True)

    async def close_breaker(self, target: Target, reason: str, actor: str | None) -> Moved:
        """Close a breaker by hand; it begins to count anew. A closed breaker stays as it is."""
        now, change_id = self._connection.clock.expression(), secrets.token_hex(6)
        fields = _into(CLOSED, now, change_id) | _NO_COUNTS | _by(reason, actor)
        moved = await self._move(target, {"state": {"$in": [OPEN, HALF_OPEN]}}, fields, change_id)
        return moved if moved.moved else Moved(await self._status(target), moved=False)

    async def forget(self, limit: int) -> int:
        """Delete closed breakers of single values without attempts for a long time; returns how many."""
        now = self._connection.clock.expression()
        one_of_many = [{"key": {"$exists": True}}, {"queue": {"$exists": True}}]
        closed: Document = {"kind": BREAKER, "state": CLOSED, "$or": one_of_many}
        over = closed | {"$expr": {"$lt": ["$keep_until", now]}}
        return await self._connection.controls.delete_some(over, hint=BY_ID, limit=limit)

    async def _status(self, target: Target) -> BreakerStatus:
        document = await self._connection.controls.find_one({"_id": control_id(BREAKER, target)})
        return _moved(target, document, "").status

    async def _move(
        self, target: Target, filter: Mapping[str, Any], fields: Document, change_id: str, upsert: bool = False
    ) -> Moved:
        return _moved(
            target,
            await self._update(control_id(BREAKER, target), filter, [{"$set": fields}, _TOLD], upsert),
            change_id,
        )

    async def _update(
        self, control: str, filter: Mapping[str, Any], stages: list[Document], upsert: bool = False
    ) -> Document | None:
        """The control after the update; None when nothing matched the filter."""
        while True:
            try:
                return await self._connection.controls.find_one_and_update(
                    {"_id": control, **filter},
                    stages,
                    {"counts": 0},
                    upsert=upsert,
                    after=True,
                )
            except DuplicateKeyError:
                continue  # another process inserted the control at the same time


def control_id(kind: str, target: Target) -> str:
    """The id of the control of this kind for a target."""
    return f"{kind}:{target.path}"


def decode_breaker(document: Mapping[str, Any]) -> BreakerStatus:
    rule, state = document.get("rule"), document["state"]
    return BreakerStatus(
        document["scope"],
        document["target"],
        state,
        document.get("since"),
        document.get("open_until") if state == OPEN else None,
        int(document.get("good", 0)),
        int(document.get("bad", 0)),
        document.get("reason", ""),
        document.get("actor"),
        None if rule is None else Breaker.from_document(rule),
        document.get("key"),
        document.get("value"),
        document.get("queue"),
        tuple(change for one in reversed(document.get("story") or ()) if (change := _change(one)) is not None),
        _failure(document.get("last_failure")),
    )


def _change(stored: Mapping[str, Any]) -> BreakerChange | None:
    at, state = stored.get("at"), stored.get("state")
    if at is None or state not in BREAKER_STATES:
        return None
    return BreakerChange(at, state, stored.get("reason", ""), stored.get("actor"))


def _failure(stored: Mapping[str, Any] | None) -> BreakerFailure | None:
    if stored is None or not {"at", "error", "job"} <= stored.keys():
        return None
    return BreakerFailure(stored["at"], stored["error"], stored["job"])


def _moved(target: Target, document: Document | None, change_id: str) -> Moved:
    if document is None:
        whose = {"key": target.key, "value": target.value, "queue": target.queue}
        return Moved(BreakerStatus(target.scope, target.target, CLOSED, **whose), moved=False)
    return Moved(decode_breaker(document), moved=document.get("change_id") == change_id)


def _about(target: Target) -> Document:
    about: Document = {"kind": BREAKER, "scope": target.scope, "target": {"$literal": target.target}}
    if target.queue is not None:
        about["queue"] = {"$literal": target.queue}
    if target.key is not None:
        about |= {"key": {"$literal": target.key}, "value": {"$literal": target.value}}
    return about


def _into(state: str, now: Expression, change_id: str) -> Document:
    """The fields that a transition into a state sets."""
    return {"state": state, "since": now, "at": now, "told": now, "change_id": change_id}


def _by(reason: str, actor: str | None) -> Document:
    return {"reason": {"$literal": reason}, "actor": "$$REMOVE" if actor is None else {"$literal": actor}}


def _counting(target: Target, rule: Breaker, good: int, bad: int, now: Expression, change_id: str) -> list[Document]:
    """Add to the counts, and open the breaker if too many attempts failed.

    An attempt that ends while the breaker is not closed was started before it opened, and does not count.
    """
    step = int(rule.window * 1000 / _PARTS)
    total = {"$add": ["$good", "$bad"]}
    too_many = {"$gte": ["$bad", {"$multiply": [rule.errors, total]}]}
    opens = {"$and": [{"$eq": ["$state", CLOSED]}, {"$gte": [total, rule.minimum]}, too_many]}
    spoken = [
        {"$toString": "$bad"},
        " of the ",
        {"$toString": total},
        f" attempts of the last {rule.window:g} s failed.",
    ]
    moved = _into(OPEN, now, change_id) | {"reason": {"$concat": spoken}, "actor": "$$REMOVE"}
    moved["open_until"] = {"$add": [now, int(rule.open_for * 1000)]}
    return [
        {
            "$set": {
                **_about(target),
                "state": {"$ifNull": ["$state", CLOSED]},
                "rule": {"$literal": rule.to_document()},
            }
        },
        {"$set": {"counts": {"$cond": [{"$eq": ["$state", CLOSED]}, _counts(step, good, bad, now), "$counts"]}}},
        {"$set": {"step": step, "open_for": rule.open_for, "keep_until": {"$add": [now, _kept(rule)]}}},
        {"$set": {"good": {"$sum": "$counts.good"}, "bad": {"$sum": "$counts.bad"}}},
        {"$set": {"opens": opens}},
        {"$set": {key: {"$cond": ["$opens", value, f"${key}"]} for key, value in moved.items()}},
        {"$set": {"story": {"$cond": ["$opens", _STORY, "$story"]}}},
        {"$unset": "opens"},
    ]


def _kept(rule: Breaker) -> int:
    """The milliseconds for which counts are kept after the last attempt."""
    return int(max(rule.window, _KEPT) * 1000)


def _counts(step: int, good: int, bad: int, now: Expression) -> Document:
    """The counts of the window, kept in parts of a tenth of it, with these attempts added to the current part."""
    part = {"$toLong": {"$floor": {"$divide": [{"$toLong": now}, step]}}}
    known = {"$cond": [{"$eq": ["$step", step]}, {"$ifNull": ["$counts", []]}, []]}
    before = {"$filter": {"input": "$$known", "cond": {"$eq": ["$$this.part", "$$part"]}}}
    recent = {"$and": [{"$gt": ["$$this.part", {"$subtract": ["$$part", _PARTS]}]}, {"$lt": ["$$this.part", "$$part"]}]}
    latest = {
        "part": "$$part",
        "good": {"$add": [good, {"$sum": "$$before.good"}]},
        "bad": {"$add": [bad, {"$sum": "$$before.bad"}]},
    }
    counted = {"$concatArrays": [{"$filter": {"input": "$$known", "cond": recent}}, [latest]]}
    return {
        "$let": {
            "vars": {"known": known, "part": part},
            "in": {"$let": {"vars": {"before": before}, "in": counted}},
        }
    }
