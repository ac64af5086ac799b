"""Orders: one stored request to do something to many jobs, carried out in batches that go on after a crash half-way.

Redrives of dead letters (`store/dead_letters/redrives.py`) and operations (`store/operations/operations.py`) derive
from `Orders`. An order is a document. A step of it first *stores the batch* that it takes in hand, then *carries it
out*, then *counts* it and moves the cursor; each of its own writes compares `rev`. A process that dies in between
leaves the batch in the document, and the process that takes the next step does it again.

Keeps true: an order acts on each job once, whichever processes take its steps. The update that changes a job marks it
with the order's id and passes over jobs that have the mark; jobs are counted by their marks, not by the reports of
statements.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import bson
from pymongo.errors import DuplicateKeyError

from mainspring.errors import ConfigurationError, MainspringError
from mainspring.store.codec import DocumentId
from mainspring.store.collection import Collection
from mainspring.store.connection import CODEC, Connection, Document
from mainspring.store.flows.waiters import held_back_by, look_soon, note_deleted, predecessors_again
from mainspring.store.jobs.dedupe import DedupeKeys
from mainspring.store.refusals import code_name, split_refused
from mainspring.store.schema import BY_ID

BATCH = 500
KEPT = 100
"""Of how many jobs that were left alone an order keeps the reason."""
_KEY_HELD = "another job holds its dedupe key now"

Remove = Callable[[list[Document]], Awaitable[int]]
"""Deletes finished jobs that were read whole."""
Write = Callable[[Sequence[DocumentId]], Awaitable[None]]
"""Changes the jobs that have these ids; doing so again is harmless."""


@dataclass(frozen=True, slots=True)
class Left:
    """A job of a batch that was left alone, and why; `refused` where the verb itself does not allow it."""

    job_id: str
    reason: str
    refused: bool = False


class Orders:
    """The verbs that all kinds of orders share. A kind says which jobs come next, what is done to them, and how those
    that were left alone are told."""

    noun: ClassVar[str]
    running: ClassVar[str] = "running"
    done: ClassVar[str]
    """The state of an order that has nothing left to do."""
    asked: ClassVar[tuple[str, ...]]
    """The fields by which two orders are the same request."""
    read_back: ClassVar[tuple[str, ...]]
    """The fields of a job that tell what became of it."""

    def __init__(self, connection: Connection, collection: Collection, keys: DedupeKeys) -> None:
        self._connection = connection
        self._collection = collection
        self._keys = keys

    async def get(self, order_id: str) -> Document:
        """The order as it is stored now."""
        document = await self._collection.find_one({"_id": order_id})
        if document is None:
            raise self._missing(order_id)
        return document

    async def step(self, document: Document, remove: Remove) -> Document:
        """Deal with one batch of an order that is under way; returns the order as it is then."""
        if "batch" not in document:
            document = await self.take_batch(document)
        if "batch" not in document:
            return document
        return await self._account(document, await self.carry_out(document, remove))

    # -- what a kind of orders says ----------------------------------------------------------------------------------

    def _missing(self, order_id: str) -> MainspringError:
        """The error for an order that is not there."""
        raise AssertionError("a kind of orders says how one is missing")

    async def _next_batch(self, document: Document) -> tuple[list[Document], Document | None]:
        """The jobs that come next, and the cursor behind them; None where nothing is left behind them."""
        raise AssertionError("a kind of orders says what comes next")

    async def carry_out(self, document: Document, remove: Remove) -> Mapping[DocumentId, str]:
        """Act on the batch in hand; returns why some jobs were refused, as far as that is known here."""
        raise AssertionError("a kind of orders says what it does")

    def _lefts(
        self, document: Document, jobs: Mapping[DocumentId, Document], refused: Mapping[DocumentId, str]
    ) -> list[Left]:
        """The jobs of the batch that were left alone, and why. `jobs` are those of the batch that are still there."""
        raise AssertionError("a kind of orders says what it has left alone")

    def _tally(self, changed: int, lefts: Sequence[Left]) -> Document:
        """The fields of the order that count a batch."""
        raise AssertionError("a kind of orders says how it counts")

    # -- storing -----------------------------------------------------------------------------------------------------

    async def _begin(self, order_id: str, literal: Document, computed: Document) -> Document:
        """Store an order, or find the one that has this id already and asks for the same."""
        stages = [{"$set": {key: {"$literal": value} for key, value in literal.items()}}, {"$set": computed}]
        with suppress(DuplicateKeyError):  # it is there: an earlier call has begun it
            await self._collection.update_one({"_id": order_id, "rev": None}, stages, upsert=True)
        document = await self.get(order_id)
        if self._asked(document) != self._asked(bson.decode(bson.encode(literal, codec_options=CODEC), CODEC)):
            raise ConfigurationError(f"The {self.noun} {order_id!r} is for something else; give this one another id.")
        return document

    def _asked(self, document: Document) -> list[Any]:
        return [document.get(field) for field in self.asked]

    async def _change(self, document: Document, fields: Document, **more: Any) -> Document:
        """Change the order if it is as it was read; returns it as it is then."""
        stepped = {"rev": {"$add": ["$rev", 1]}, "stepped_at": self._connection.clock.expression()}
        await self._collection.update_one(
            {"_id": document["_id"], "rev": document["rev"], **more}, [{"$set": {**fields, **stepped}}]
        )
        return await self.get(document["_id"])

    # -- the batch ---------------------------------------------------------------------------------------------------

    async def take_batch(self, document: Document) -> Document:
        """Store the next batch with the order, or that there is none; what others have stored meanwhile counts. Where
        none of the jobs that were looked at is meant, only the cursor moves on."""
        batch, cursor = await self._next_batch(document)
        if batch:
            taken: Document = {"batch": {"$literal": batch}, "next": {"$literal": cursor}}
        elif cursor is not None:
            taken = {"cursor": {"$literal": cursor}}
        else:
            taken = {"state": self.done, "finished_at": self._connection.clock.expression()}
        return await self._change(document, taken, state=self.running)

    # -- acting on it ------------------------------------------------------------------------------------------------

    async def _act(self, document: Document, write: Write, refused: dict[DocumentId, str]) -> None:
        """Write to the jobs in hand but for those that are refused. Jobs whose change MongoDB refuses join these."""
        ids = [one["_id"] for one in document["batch"] if one["_id"] not in refused and "stray" not in one]
        for job_id, error in await split_refused(ids, write):
            refused[job_id] = f"MongoDB refuses to change it ({code_name(error)})"

    async def _act_again(self, document: Document, write: Write, refused: dict[DocumentId, str]) -> None:
        """The same for jobs that are run again: each takes its dedupe key back first, or is refused."""
        keys = _keys_wanted(document["batch"], refused)
        for key in await self._keys.retake_many(keys) if keys else {}:
            refused[keys.pop(key)] = _KEY_HELD
        await self._act(document, write, refused)
        if keys:
            await self._keys.returned_many(keys)

    # -- the jobs that wait for those in hand --------------------------------------------------------------------------

    async def _waits_again(self, ids: Sequence[DocumentId]) -> None:
        """Tell the jobs that wait for these, which run again."""
        await predecessors_again(self._connection, _waits_in(await held_back_by(self._connection, ids)))

    async def _waits_ended(self, ids: Sequence[DocumentId]) -> None:
        """Tell the jobs that wait for these, which may have ended."""
        await look_soon(self._connection, _waits_in(await held_back_by(self._connection, ids)))

    async def _note_deleted(self, ids: Sequence[DocumentId]) -> set[str]:
        """Tell the jobs that wait for these, which are about to be deleted; returns the waits to be looked at then."""
        held = await held_back_by(self._connection, ids)
        await note_deleted(self._connection, held)
        return _waits_in(held)

    async def _free_keys(self, document: Document) -> None:
        """Free the dedupe keys of the jobs in hand that are gone."""
        ids = [one["_id"] for one in document["batch"] if "stray" not in one]
        gone = set(ids) - {one["_id"] for one in await self._read_back(ids)}
        keys = {one["key"]: one["_id"] for one in document["batch"] if "key" in one and one["_id"] in gone}
        if keys:
            await self._keys.drop_many(keys)

    # -- counting it -------------------------------------------------------------------------------------------------

    async def _account(self, document: Document, refused: Mapping[DocumentId, str]) -> Document:
        """Count the batch in hand by what its jobs have become, and let it go."""
        ids = [one["_id"] for one in document["batch"]]
        lefts = self._lefts(document, {one["_id"]: one for one in await self._read_back(ids)}, refused)
        counted: Document = {"cursor": "$next", "batch": "$$REMOVE", "next": "$$REMOVE"}
        if document["next"] is None:
            counted["state"] = {"$cond": [{"$eq": ["$state", self.running]}, self.done, "$state"]}
            counted["finished_at"] = {"$ifNull": ["$finished_at", self._connection.clock.expression()]}
        return await self._change(document, counted | self._tally(len(ids) - len(lefts), lefts))

    async def _read_back(self, ids: Sequence[DocumentId]) -> list[Document]:
        fields = dict.fromkeys(self.read_back, 1)
        return await self._connection.jobs.find_all({"_id": {"$in": list(ids)}}, fields, hint=BY_ID)


def _waits_in(held: Mapping[DocumentId, Sequence[str]]) -> set[str]:
    return {one for waits in held.values() for one in waits}


def appended(field: str, items: Sequence[Document]) -> Document:
    """The field of an order with more entries, of which the first are kept."""
    if not items:
        return {}
    kept = {"$concatArrays": [{"$ifNull": [f"${field}", []]}, {"$literal": list(items)}]}
    return {field: {"$slice": [kept, KEPT]}}


def entry_of(document: Document) -> Document:
    """A job as the batch of an order has it: its id, and its dedupe key where it has one."""
    key = document.get("dedupe_key")
    return {"_id": document["_id"], "key": key} if isinstance(key, str) else {"_id": document["_id"]}


def named_batch(ids: Sequence[str], cursor: Document | None) -> tuple[list[str], Document | None]:
    """The next of the jobs that an order names by their ids, and the cursor behind them."""
    place = (cursor or {"place": 0})["place"]
    some = list(ids[place : place + BATCH])
    return some, None if len(some) < BATCH else {"place": place + len(some)}


def _keys_wanted(batch: Sequence[Document], refused: dict[DocumentId, str]) -> dict[str, DocumentId]:
    """The dedupe keys that a batch wants back. Of two jobs that had the same key one at most can run again."""
    keys: dict[str, DocumentId] = {}
    for one in batch:
        if "key" in one and keys.setdefault(one["key"], one["_id"]) != one["_id"]:
            refused[one["_id"]] = _KEY_HELD
    return keys
