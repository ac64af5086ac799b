"""The statements of a semaphore: slots of a gate that workers take and give back, computed on the server.

A gate's `grants` have the number of slots of each worker; the sum is never above the limit. `store/limits/gates.py`
sends these statements, `store/limits/token_bucket.py` has those of rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mainspring.model.limits.limits import Limit, Rate
from mainspring.store.connection import Document
from mainspring.store.schema import Expression

KEPT_MS = 3_600_000


@dataclass(slots=True)
class Want:
    """A worker's demand on a gate: how much it has, how much it needs at once, and how much it could use soon. Of a
    rate it has all starts that it was granted, including those that were made."""

    rule: Limit | Rate
    mine: int
    now: int
    ahead: int = 0


def taking_slots(worker: str, want: Want, rule: Limit, now: Expression) -> list[Document]:
    """Take slots of the semaphore as far as it has any; slots that are only needed soon, from its first half alone."""
    left = {"$max": [0, {"$subtract": [rule.limit, {"$add": ["$others", want.mine]}]}]}
    at_once = {"$min": [want.now, left]}
    spare = {"$subtract": [rule.limit // 2, {"$add": ["$others", want.mine, at_once]}]}
    given = {"$add": [want.mine, at_once, {"$max": [0, {"$min": [want.ahead, spare]}]}]}
    return [
        {"$set": {"others": {"$sum": {"$map": {"input": granted_to_others(worker), "in": "$$this.n"}}}}},
        {"$set": {"given": given}},
        {
            "$set": {
                "grants": with_mine(worker, "$given", now),
                "full": {"$gte": [{"$add": ["$others", "$given"]}, rule.limit]},
                "limit": rule.limit,
                "rev": {"$ifNull": ["$rev", 0]},
                "keep_until": {"$add": [now, KEPT_MS]},
            }
        },
        {"$set": {"open_at": {"$cond": [{"$and": ["$line", {"$not": "$full"}]}, now, "$$REMOVE"]}}},
        {"$unset": ["others", "given"]},
    ]


def keeping(worker: str, number: int, now: Expression) -> list[Document]:
    """Keep this number of slots."""
    return [{"$set": {"grants": with_mine(worker, number, now), "open_at": open_if_waited_for(now)}}]


def granted(cond: Document) -> Document:
    """The grants that meet a condition."""
    return {"$filter": {"input": {"$ifNull": ["$grants", []]}, "cond": cond}}


def granted_to_others(worker: str) -> Document:
    """The grants of the other workers."""
    return granted({"$ne": ["$$this.w", worker]})


def or_later(worker: str, until: datetime) -> Document:
    """The condition for grants of other workers, or made after an instant."""
    return {"$or": [{"$ne": ["$$this.w", worker]}, {"$gt": ["$$this.at", until]}]}


def number_of(worker: str) -> Document:
    """The number of slots or tokens that are granted to a worker."""
    return {"$sum": {"$map": {"input": granted({"$eq": ["$$this.w", worker]}), "in": "$$this.n"}}}


def with_mine(worker: str, mine: Any, now: Expression) -> Document:
    """The grants, with this worker's replaced; a grant of 0 is left out."""
    own = [{"w": worker, "n": mine, "at": now}]
    return {"$concatArrays": [granted_to_others(worker), {"$cond": [{"$gt": [mine, 0]}, own, []]}]}


def open_if_waited_for(now: Expression) -> Document:
    """The time from which on workers look at the gate: at once, if it has a wait list."""
    return {"$cond": ["$line", now, "$$REMOVE"]}
