"""The gates of limits: who has how many slots or tokens, and who waits in line.

There is one document per gate in use. A worker takes slots from it in advance, as many as it has jobs for, and counts
its jobs against them by itself, so that a job costs nothing as long as the worker has slots left. What all workers
have taken together never exceeds the limit: taking is one update that computes on the server what is left.

Slots are bound to the lease of the worker that took them, which its heartbeat renews before any claim. When the lease
has run out they are taken back, and the worker, which has cancelled its jobs by then, knows that it has none.

A job that finds no room is put in line (`store/lines.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from mainspring.model.limits import Limit, Rate
from mainspring.store.collections import BY_ID, HOLDERS, UNUSED
from mainspring.store.connection import DUPLICATE, Document
from mainspring.store.lines import Lines

_KEPT_MS = 3_600_000


@dataclass(slots=True)
class Want:
    """What a worker wants of a gate: how much it has, how much it needs at once, and how much it could use soon."""

    rule: Limit | Rate
    mine: int
    now: int
    ahead: int = 0


@dataclass(slots=True)
class Taken:
    """What a worker has of a gate now. `full`: nothing was left for others. `line`: jobs wait for it."""

    mine: int
    full: bool
    line: bool
    rev: int
    opens_at: datetime | None = None
    over: bool = False
    """More than the limit allows is out, since it was lowered."""


class Gates(Lines):
    """The store's verbs for limits, and for the lines at them."""

    async def take(self, worker: str, wants: Mapping[str, Want]) -> dict[str, Taken]:
        """Take what is left of these gates, as far as it is wanted."""
        now = self._connection.clock.expression()
        statements = [UpdateOne({"_id": name}, _taking(worker, want, now), upsert=True) for name, want in wants.items()]
        with self._connection.deadline():
            for _ in range(3):
                try:
                    await self._connection.gates.bulk_write(statements, ordered=False)
                    break
                except BulkWriteError as error:  # two made the same gate at once
                    failed = error.details["writeErrors"]
                    if any(failure["code"] != DUPLICATE for failure in failed):
                        raise
                    statements = [statements[failure["index"]] for failure in failed]
        return await self.look(worker, list(wants))

    async def look(self, worker: str, names: Sequence[str]) -> dict[str, Taken]:
        """How these gates stand."""
        with self._connection.deadline():
            cursor = self._connection.gates.find({"_id": {"$in": list(names)}}, hint=BY_ID)
            found = {document["_id"]: document for document in await cursor.to_list(len(names))}
        return {name: _decode(found.get(name, {}), worker) for name in names}

    async def give_back(self, worker: str, amounts: Mapping[str, int]) -> None:
        """Keep only this much of each gate. Where jobs wait in line, others may look at once."""
        now = self._connection.clock.expression()
        statements: list[UpdateOne] = []
        for name, keep in amounts.items():
            opened = {"$cond": ["$line", now, "$$REMOVE"]}
            kept = _with_mine(worker, keep)
            statements.append(UpdateOne({"_id": name}, [{"$set": {"grants": kept, "open_at": opened}}]))
        with self._connection.deadline():
            await self._connection.gates.bulk_write(statements, ordered=False)
            empty = [name for name, keep in amounts.items() if keep == 0]
            await self._connection.gates.delete_many(
                {"_id": {"$in": empty}, "grants": [], "line": None, "tokens": None}, hint=BY_ID
            )

    async def refund(self, amounts: Mapping[str, int]) -> None:
        """Give starts back that were paid for and not used."""
        statements = [UpdateOne({"_id": name}, {"$inc": {"tokens": amount}}) for name, amount in amounts.items()]
        with self._connection.deadline():
            await self._connection.gates.bulk_write(statements, ordered=False)

    # -- holders ---------------------------------------------------------------------------------------------------

    async def holders(self) -> list[str]:
        """The workers that have slots somewhere."""
        with self._connection.deadline():
            return [
                name for name in await self._connection.gates.distinct("grants.w", {"grants.w": {"$gt": ""}}) if name
            ]

    async def prune(self, limit: int) -> int:
        """Delete gates that nobody has used for long: what they would say is what a new one says."""
        now = self._connection.clock.expression()
        unused = {"$expr": {"$lt": ["$keep_until", now]}, "keep_until": {"$type": "date"}, "line": None}
        with self._connection.deadline():
            nobodys = {"$or": [{"grants": []}, {"tokens": {"$exists": True}}]}
            cursor = self._connection.gates.find({**unused, **nobodys}, {"_id": 1}, hint=UNUSED, limit=limit)
            ids = [document["_id"] for document in await cursor.to_list(limit)]
            if not ids:
                return 0
            outcome = await self._connection.gates.delete_many({"_id": {"$in": ids}, **unused}, hint=BY_ID)
            return outcome.deleted_count

    async def take_back(self, worker: str) -> int:
        """Free all slots of a worker that is gone."""
        now = self._connection.clock.expression()
        with self._connection.deadline():
            outcome = await self._connection.gates.update_many(
                {"grants.w": worker},
                [{"$set": {"grants": _with_mine(worker, 0), "open_at": {"$cond": ["$line", now, "$$REMOVE"]}}}],
                hint=HOLDERS,
            )
        return outcome.modified_count


def _others(worker: str) -> Document:
    """What the other workers have."""
    return {"$filter": {"input": {"$ifNull": ["$grants", []]}, "cond": {"$ne": ["$$this.w", worker]}}}


def _with_mine(worker: str, mine: Any) -> Document:
    """The grants with this worker's set anew; none is left out."""
    own = [{"w": worker, "n": mine}]
    return {"$concatArrays": [_others(worker), {"$cond": [{"$gt": [mine, 0]}, own, []]}]}


def _taking(worker: str, want: Want, now: Any) -> list[Document]:
    return (
        _taking_slots(worker, want, want.rule, now)
        if isinstance(want.rule, Limit)
        else _taking_tokens(worker, want, want.rule, now)
    )


def _taking_slots(worker: str, want: Want, rule: Limit, now: Any) -> list[Document]:
    """Take slots as far as there are any; what is only needed soon, only from the first half of them."""
    left = {"$max": [0, {"$subtract": [rule.limit, {"$add": ["$others", want.mine]}]}]}
    at_once = {"$min": [want.now, left]}
    spare = {"$subtract": [rule.limit // 2, {"$add": ["$others", want.mine, at_once]}]}
    given = {"$add": [want.mine, at_once, {"$max": [0, {"$min": [want.ahead, spare]}]}]}
    return [
        {"$set": {"others": {"$sum": {"$map": {"input": _others(worker), "in": "$$this.n"}}}}},
        {"$set": {"given": given}},
        {
            "$set": {
                "grants": _with_mine(worker, "$given"),
                "full": {"$gte": [{"$add": ["$others", "$given"]}, rule.limit]},
                "limit": rule.limit,
                "rev": {"$ifNull": ["$rev", 0]},
                "keep_until": {"$add": [now, _KEPT_MS]},
            }
        },
        {"$set": {"open_at": {"$cond": [{"$and": ["$line", {"$not": "$full"}]}, now, "$$REMOVE"]}}},
        {"$unset": ["others", "given"]},
    ]


def _taking_tokens(worker: str, want: Want, rule: Rate, now: Any) -> list[Document]:
    """Earn what the time since the last look has brought, and spend of it what is wanted."""
    earned = {"$multiply": [{"$subtract": [now, {"$ifNull": ["$at", now]}]}, rule.a_second / 1000]}
    saved = {"$min": [rule.burst, {"$add": [{"$ifNull": ["$tokens", rule.burst]}, {"$max": [0, earned]}]}]}
    given = {"$max": [0, {"$min": [want.now, {"$floor": "$tokens"}]}]}
    lacking = {"$subtract": [{"$min": [want.now, 1]}, {"$subtract": ["$tokens", "$given"]}]}
    wait = {"$ceil": {"$multiply": [1000 / rule.a_second, {"$max": [0, lacking]}]}}
    short = {"$lt": ["$given", want.now]}
    return [
        {"$set": {"tokens": saved, "at": now}},
        {"$set": {"given": given}},
        {"$set": {"opens": {"$cond": [short, {"$add": [now, wait]}, "$$REMOVE"]}}},
        {
            "$set": {
                "tokens": {"$subtract": ["$tokens", "$given"]},
                "grants": _with_mine(worker, {"$add": [want.mine, "$given"]}),
                "full": short,
                "rev": {"$ifNull": ["$rev", 0]},
                "keep_until": {"$add": [now, int(1000 * rule.per * max(1.0, rule.burst / rule.count)) + _KEPT_MS]},
                "open_at": {"$cond": ["$line", {"$ifNull": ["$opens", now]}, "$$REMOVE"]},
            }
        },
        {"$unset": "given"},
    ]


def _decode(document: Mapping[str, Any], worker: str) -> Taken:
    grants = document.get("grants", ())
    mine = sum(int(grant["n"]) for grant in grants if grant["w"] == worker)
    return Taken(
        mine,
        full=bool(document.get("full")),
        line=bool(document.get("line")),
        rev=document.get("rev", 0),
        opens_at=document.get("opens"),
        over="limit" in document and sum(int(grant["n"]) for grant in grants) > document["limit"],
    )
