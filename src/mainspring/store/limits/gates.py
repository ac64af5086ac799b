"""The gates of limits: how many slots (of a semaphore) or tokens (of a token bucket) each worker has.

There is one document per gate in use. A worker takes slots from it in advance, as many as it has jobs for, and counts
its jobs against them by itself, so that a job costs nothing as long as the worker has slots left. All workers together
never have more than the limit: taking is one update that computes on the server what is left
(`store/limits/semaphore.py`, `store/limits/token_bucket.py`).

Slots are bound to the lease of the worker that took them, which its heartbeat renews before any claim. When the lease
has run out they are taken back, and the worker, which has cancelled its jobs by then, knows that it has none.

A job that finds no room goes to the wait list of the gate (`store/limits/wait_lists.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from mainspring.clock import EPOCH
from mainspring.errors import Unavailable
from mainspring.model.jobs.job import RUNNING
from mainspring.model.limits.limits import Limit
from mainspring.store.codec import DocumentId
from mainspring.store.collection import DUPLICATE
from mainspring.store.connection import Document
from mainspring.store.limits.semaphore import (
    Want,
    granted,
    granted_to_others,
    keeping,
    open_if_waited_for,
    or_later,
    taking_slots,
)
from mainspring.store.limits.token_bucket import refunding, taking_tokens
from mainspring.store.limits.wait_lists import WaitLists
from mainspring.store.schema import BY_ID, HOLDERS, UNUSED, Expression

_NONE: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True)
class Taken:
    """A worker's share of a gate now. `full`: nothing was left for others. `line`: the gate has a wait list."""

    mine: int
    full: bool
    line: bool
    rev: int
    opens_at: datetime | None = None
    over: bool = False
    """The workers have more slots than the limit allows, since it was lowered."""


class Gates(WaitLists):
    """The store's verbs for limits, and for their wait lists."""

    async def take(self, worker: str, wants: Mapping[str, Want]) -> dict[str, Taken]:
        """Take slots and tokens of these gates, as many as are wanted and left.

        Slots that the database counts for this worker beyond the number that the worker passes go back first. So none
        leaks when the worker asks again after an error that left the outcome open.
        """
        now = self._connection.clock.expression()
        statements = [UpdateOne({"_id": name}, _taking(worker, want, now), upsert=True) for name, want in wants.items()]
        with self._connection.deadline():
            for _ in range(3):
                statements = await self._write(statements)
                if not statements:
                    break
        return await self.look(worker, list(wants))

    async def _write(self, statements: list[UpdateOne]) -> list[UpdateOne]:
        """Write statements; returns those to try again, since another worker inserted the same gate at once."""
        try:
            await self._connection.gates.bulk_write(statements)
        except BulkWriteError as error:
            not_kept = error.details.get("writeConcernErrors")
            if not_kept:
                raise Unavailable(f"MongoDB did not confirm the taken slots: {not_kept[0].get('errmsg')}") from error
            failed = error.details["writeErrors"]
            if any(failure["code"] != DUPLICATE for failure in failed):
                raise
            return [statements[failure["index"]] for failure in failed]
        return []

    async def look(self, worker: str, names: Sequence[str]) -> dict[str, Taken]:
        """Return the state of these gates, with the share of a worker."""
        found = await self._connection.gates.find_dict({"_id": {"$in": list(names)}}, hint=BY_ID)
        return {name: _decode(found.get(name, {}), worker) for name in names}

    async def give_back(self, worker: str, keep: Mapping[str, int], spent: Mapping[str, int] = _NONE) -> None:
        """Keep only these numbers of slots, and refund the tokens of rates beyond the starts that were made. Gates with
        a wait list are opened, so that other workers look at once. Repeating the call changes nothing."""
        now = self._connection.clock.expression()
        statements = [UpdateOne({"_id": name}, keeping(worker, number, now)) for name, number in keep.items()]
        statements += [UpdateOne({"_id": name}, refunding(worker, number, now)) for name, number in spent.items()]
        empty = [name for name, number in keep.items() if number == 0]
        with self._connection.deadline():
            await self._connection.gates.bulk_write(statements)
            if empty:
                await self._connection.gates.delete_many(
                    {"_id": {"$in": empty}, "grants": [], "line": None, "tokens": None}, hint=BY_ID
                )

    # -- workers that have slots -----------------------------------------------------------------------------------

    async def holders(self) -> list[str]:
        """The workers that have slots of any gate."""
        return [name for name in await self._connection.gates.distinct("grants.w", {"grants.w": {"$gt": ""}}) if name]

    async def prune(self, limit: int) -> int:
        """Delete gates that no worker has used for long: a new document would be equivalent."""
        now = self._connection.clock.expression()
        unused = {"$expr": {"$lt": ["$keep_until", now]}, "keep_until": {"$type": "date"}, "line": None}
        free = {"$or": [{"grants": []}, {"tokens": {"$exists": True}}]}
        return await self._connection.gates.delete_some({**unused, **free}, hint=UNUSED, limit=limit)

    async def take_back(self, worker: str) -> int:
        """Free all slots of a worker that has left, or those of its lease that has run out: a worker that comes back
        keeps the slots that it takes under its next lease."""
        now, grace = self._connection.clock.expression(), int(self._connection.settings.rescue_grace * 1000)
        until = {"$ifNull": ["$lease_until", EPOCH]}
        with self._connection.deadline():
            known = await self._connection.workers.find_one(
                {"_id": worker}, {"until": until, "lives": {"$gt": [until, {"$subtract": [now, grace]}]}}
            )
            if known is not None and known["lives"]:
                return 0
            left = granted_to_others(worker) if known is None else granted(or_later(worker, known["until"]))
            outcome = await self._connection.gates.update_many(
                {"grants.w": worker},
                [{"$set": {"grants": left, "open_at": open_if_waited_for(now)}}],
                hint=HOLDERS,
            )
        return outcome.modified_count

    # -- audit -----------------------------------------------------------------------------------------------------

    async def slots_of(self, worker: str) -> dict[str, int]:
        """The number of slots that the database counts for a worker, by gate; tokens of rates are no slots."""
        found = await self._connection.gates.find_all({"grants.w": worker, "tokens": None}, {"grants": 1}, hint=HOLDERS)
        return {document["_id"]: _of(document.get("grants", ()), worker) for document in found}

    async def correct(self, worker: str, name: str, seen: int, number: int) -> bool:
        """Set the number of slots that the database counts for a worker: a compare-and-set on the number seen."""
        mine = {"$elemMatch": {"w": worker, "n": seen}} if seen else {"$not": {"$elemMatch": {"w": worker}}}
        now = self._connection.clock.expression()
        outcome = await self._connection.gates.update_one(
            {"_id": name, "grants": mine}, keeping(worker, number, now), hint=BY_ID
        )
        return outcome.modified_count == 1

    async def running_here(self, worker: str, ids: Sequence[DocumentId]) -> set[DocumentId]:
        """The jobs among these that the worker has claimed."""
        claimed = {"_id": {"$in": list(ids)}, "state": RUNNING, "worker": worker}
        return set(await self._connection.jobs.find_ids(claimed, hint=BY_ID))


def _taking(worker: str, want: Want, now: Expression) -> list[Document]:
    return (
        taking_slots(worker, want, want.rule, now)
        if isinstance(want.rule, Limit)
        else taking_tokens(worker, want, want.rule, now)
    )


def _decode(document: Mapping[str, Any], worker: str) -> Taken:
    grants = document.get("grants", ())
    return Taken(
        _of(grants, worker),
        full=bool(document.get("full")),
        line=bool(document.get("line")),
        rev=document.get("rev", 0),
        opens_at=document.get("opens"),
        over="limit" in document and sum(int(grant["n"]) for grant in grants) > document["limit"],
    )


def _of(grants: Iterable[Mapping[str, Any]], worker: str) -> int:
    """The sum of a worker's grants."""
    return sum(int(grant["n"]) for grant in grants if grant["w"] == worker)
