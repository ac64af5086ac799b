"""Breakers, and what they have counted.

A breaker's states are moved by computing updates that compare the state they start from, on the server's clock: however
many workers count and look at once, each transition happens once, and whoever made it learns so by its `turn`. Only a
transition sets `told`, which wakes the workers that listen; counting does not.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from mainspring.model.breaker import CLOSED, HALF_OPEN, OPEN, Breaker, BreakerStatus
from mainspring.model.controls import BREAKER, Target
from mainspring.store.collections import BY_ID
from mainspring.store.connection import Connection, Document

_PARTS = 10
_OPEN_FOR = 30.0
# Keys may have any number of values: a closed breaker of one that nobody counts for any more is forgotten after this.
_KEPT = 600.0
_NO_COUNTS: Document = {"counts": [], "good": 0, "bad": 0}


@dataclass(frozen=True, slots=True)
class Moved:
    """A breaker after a verb, and whether that very call has changed its state."""

    status: BreakerStatus
    moved: bool


class Breakers:
    """The store's verbs for breakers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def count(self, target: Target, rule: Breaker, good: int, bad: int) -> Moved:
        """Add attempts to a breaker's window, and open it if there were too many bad ones in it."""
        turn = secrets.token_hex(6)
        stages = _counting(target, rule, good, bad, self._connection.clock.expression(), turn)
        return _moved(target, await self._update(control_id(BREAKER, target), {}, stages, upsert=True), turn)

    async def half_open(self, target: Target) -> Moved:
        """Let probes through a breaker that has been open for long enough."""
        now, turn = self._connection.clock.expression(), secrets.token_hex(6)
        over = {"state": OPEN, "open_until": {"$type": "date"}, "$expr": {"$lte": ["$open_until", now]}}
        return await self._move(target, over, _into(HALF_OPEN, now, turn), turn)

    async def judge(self, target: Target, good: bool) -> Moved:
        """A probe has ended: close the breaker, or open it again."""
        now, turn = self._connection.clock.expression(), secrets.token_hex(6)
        if good:
            fields = _into(CLOSED, now, turn) | _NO_COUNTS | _by("", None)
        else:
            wait = {"$toLong": {"$multiply": [1000, {"$ifNull": ["$open_for", _OPEN_FOR]}]}}
            fields = _into(OPEN, now, turn) | {"open_until": {"$add": [now, wait]}} | _by("A probe has failed.", None)
        return await self._move(target, {"state": HALF_OPEN}, fields, turn)

    async def open_breaker(self, target: Target, open_for: float | None, reason: str, actor: str | None) -> Moved:
        """Open a breaker by hand, for a time or until it is closed by hand."""
        now, turn = self._connection.clock.expression(), secrets.token_hex(6)
        fields = _about(target) | _into(OPEN, now, turn) | _by(reason, actor)
        fields["open_until"] = "$$REMOVE" if open_for is None else {"$add": [now, int(open_for * 1000)]}
        fields["open_for"] = open_for if open_for is not None else {"$ifNull": ["$open_for", _OPEN_FOR]}
        return await self._move(target, {}, fields, turn, upsert=True)

    async def close_breaker(self, target: Target, reason: str, actor: str | None) -> Moved:
        """Close a breaker by hand; it begins to count anew. One that is closed already stays as it is."""
        now, turn = self._connection.clock.expression(), secrets.token_hex(6)
        fields = _into(CLOSED, now, turn) | _NO_COUNTS | _by(reason, actor)
        moved = await self._move(target, {"state": {"$in": [OPEN, HALF_OPEN]}}, fields, turn)
        return moved if moved.moved else Moved(await self._status(target), moved=False)

    async def forget(self, limit: int) -> int:
        """Delete closed breakers of single values that nothing was counted for in a long time; returns how many."""
        now = self._connection.clock.expression()
        closed: Document = {"kind": BREAKER, "state": CLOSED, "key": {"$exists": True}}
        over = closed | {"$expr": {"$lt": ["$keep_until", now]}}
        with self._connection.deadline():
            cursor = self._connection.controls.find(over, {"_id": 1}, hint=BY_ID, limit=limit)
            ids = [document["_id"] for document in await cursor.to_list(limit)]
            if not ids:
                return 0
            return (await self._connection.controls.delete_many({"_id": {"$in": ids}, **over})).deleted_count

    async def _status(self, target: Target) -> BreakerStatus:
        with self._connection.deadline():
            document = await self._connection.controls.find_one({"_id": control_id(BREAKER, target)})
        return _moved(target, document, "").status

    async def _move(
        self, target: Target, filter: Mapping[str, Any], fields: Document, turn: str, upsert: bool = False
    ) -> Moved:
        return _moved(target, await self._update(control_id(BREAKER, target), filter, [{"$set": fields}], upsert), turn)

    async def _update(
        self, control: str, filter: Mapping[str, Any], stages: list[Document], upsert: bool = False
    ) -> Document | None:
        """The control after the update; None when nothing matched the filter."""
        while True:
            try:
                with self._connection.deadline():
                    return await self._connection.controls.find_one_and_update(
                        {"_id": control, **filter},
                        stages,
                        {"counts": 0},
                        upsert=upsert,
                        return_document=ReturnDocument.AFTER,
                    )
            except DuplicateKeyError:
                continue  # two made the same one at once: now it is there


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
    )


def _moved(target: Target, document: Document | None, turn: str) -> Moved:
    if document is None:
        whose = {"key": target.key, "value": target.value}
        return Moved(BreakerStatus(target.scope, target.target, CLOSED, **whose), moved=False)
    return Moved(decode_breaker(document), moved=document.get("turn") == turn)


def _about(target: Target) -> Document:
    about: Document = {"kind": BREAKER, "scope": target.scope, "target": {"$literal": target.target}}
    if target.key is not None:
        about |= {"key": {"$literal": target.key}, "value": {"$literal": target.value}}
    return about


def _into(state: str, now: Any, turn: str) -> Document:
    """What a move into a state sets."""
    return {"state": state, "since": now, "at": now, "told": now, "turn": turn}


def _by(reason: str, actor: str | None) -> Document:
    return {"reason": {"$literal": reason}, "actor": "$$REMOVE" if actor is None else {"$literal": actor}}


def _counting(target: Target, rule: Breaker, good: int, bad: int, now: Any, turn: str) -> list[Document]:
    """Add to the counts, and open the breaker if they are bad.

    What ends while it is not closed was started before it opened, and says nothing new.
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
    moved = _into(OPEN, now, turn) | {"reason": {"$concat": spoken}, "actor": "$$REMOVE"}
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
        {"$unset": "opens"},
    ]


def _kept(rule: Breaker) -> int:
    """For how many milliseconds what was counted is kept, although nothing comes any more."""
    return int(max(rule.window, _KEPT) * 1000)


def _counts(step: int, good: int, bad: int, now: Any) -> Document:
    """The counts of the window, kept in parts of a tenth of it, with these added to the part that is now."""
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
