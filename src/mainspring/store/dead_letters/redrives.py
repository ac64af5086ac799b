"""Redrives: retrying or discarding many dead letters.

A redrive is an order (`store/operations/orders.py`): a document, carried out in batches that continue after a crash.

Keeps true: each dead letter is retried once. The update that moves a job marks it with the redrive's id, and passes
over those that have the mark, that are not failed any more, or that failed after the redrive began. So any number of
processes may take steps at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from mainspring.errors import MainspringError, RedriveNotFound
from mainspring.model.dead_letters.dead_letters import CANCELLED, DISCARD, DONE, RETRY, RUNNING, Selection
from mainspring.model.jobs.job import FAILED
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.dead_letters.dead_letters import DeadLetters, Place, filter_of
from mainspring.store.flows.waiters import look_soon
from mainspring.store.jobs.dedupe import DedupeKeys
from mainspring.store.jobs.edit import again_stages, next_round
from mainspring.store.operations.orders import BATCH, Left, Orders, Remove, appended, entry_of, named_batch
from mainspring.store.schema import BY_ID, STARTED, UNDER_WAY

_COUNTED = 200_000
_GONE = "it is no dead letter any more"


class Redrives(Orders):
    """The store's verbs for redrives."""

    noun = "redrive"
    done = DONE
    asked = ("kind", "selection", "edit")
    read_back = ("state", "redrive")

    def __init__(self, connection: Connection, keys: DedupeKeys, dead_letters: DeadLetters) -> None:
        super().__init__(connection, connection.redrives, keys)
        self._dead_letters = dead_letters

    def _missing(self, order_id: str) -> MainspringError:
        return RedriveNotFound(order_id)

    async def start(
        self,
        kind: str,
        selection: Selection,
        edit: Document | None,
        actor: str | None,
        reason: str,
        redrive_id: str | None = None,
    ) -> Document:
        """Store a redrive, or find the one that has this id already. Its instant is the server's: dead letters that
        are made from then on are not meant."""
        now = self._connection.clock.expression()
        literal: Document = {
            "kind": kind,
            "state": RUNNING,
            "selection": selection.to_document(),
            "matched": await self._count(selection),
            "done": 0,
            "skipped": 0,
            "rev": 0,
        }
        literal |= {key: value for key, value in (("edit", edit), ("actor", actor), ("reason", reason)) if value}
        computed = {"cutoff": now, "started_at": now, "stepped_at": now}
        return await self._begin(redrive_id or secrets.token_hex(8), literal, computed)

    async def find(self, limit: int) -> list[Document]:
        """The latest redrives, the newest first."""
        return await self._collection.find_all({}, sort=[("started_at", -1)], hint=STARTED, limit=limit)

    async def under_way(self) -> list[Document]:
        """The redrives with something left to do, the oldest first."""
        return await self._collection.find_all({"state": RUNNING}, sort=[("started_at", 1)], hint=UNDER_WAY)

    async def cancel(self, redrive_id: str) -> Document:
        """Stop a redrive: it takes no more batches. Jobs that it has retried or discarded stay so."""
        now = self._connection.clock.expression()
        await self._collection.update_one(
            {"_id": redrive_id, "state": RUNNING}, [{"$set": {"state": CANCELLED, "finished_at": now}}]
        )
        document = await self.get(redrive_id)
        return await self._account(document, {}) if document["state"] == CANCELLED and "batch" in document else document

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete finished redrives that began before an instant."""
        old = {"started_at": {"$lt": before}, "state": {"$in": [DONE, CANCELLED]}}
        return await self._collection.delete_some(old, hint=STARTED, limit=limit)

    # -- the batch -------------------------------------------------------------------------------------------------

    async def _count(self, selection: Selection) -> int:
        if selection.ids is not None:
            return len(selection.ids)
        return await self._dead_letters.count(filter_of(selection), _COUNTED)

    async def _next_batch(self, document: Document) -> tuple[list[Document], Document | None]:
        """Behind a batch that is not full there is nothing: it has no next cursor."""
        selection = Selection.from_document(document["selection"])
        named = selection.ids is not None
        return await (self._named(document, selection) if named else self._next(document, selection))

    async def _next(self, document: Document, selection: Selection) -> tuple[list[Document], Document | None]:
        cursor = document.get("cursor")
        found = await self._dead_letters.page(
            {**filter_of(selection, document["cutoff"]), "redrive": {"$ne": document["_id"]}},
            BATCH,
            None if cursor is None else Place(cursor["at"], cursor["id"]),
            {"finished_at": 1, "dedupe_key": 1},
        )
        batch = [entry_of(one) for one in found]
        return batch, None if len(batch) < BATCH else {"at": found[-1]["finished_at"], "id": found[-1]["_id"]}

    async def _named(self, document: Document, selection: Selection) -> tuple[list[Document], Document | None]:
        """The next of those that are named by their ids; one that is no dead letter is a stray."""
        named, cursor = named_batch(selection.ids or (), document.get("cursor"))
        ids = [document_id(one) for one in named]
        found = {
            one["_id"]: entry_of(one)
            for one in await self._connection.jobs.find_all(_meant(document, ids), {"dedupe_key": 1}, hint=BY_ID)
        }
        return [found.get(one, {"_id": one, "stray": True}) for one in ids], cursor

    # -- carrying it out -------------------------------------------------------------------------------------------

    async def carry_out(self, document: Document, remove: Remove) -> dict[DocumentId, str]:
        return await (self._retry if document["kind"] == RETRY else self._discard)(document, remove)

    async def _retry(self, document: Document, remove: Remove) -> dict[DocumentId, str]:
        """Run the batch again; returns why some were left alone, as far as that is known here."""
        stages = [*_edit_stages(document.get("edit")), *again_stages(self._connection.clock.expression())]
        stages.append({"$set": {"redrive": document["_id"]}})

        async def move(some: Sequence[DocumentId]) -> None:
            await self._move(document, some, stages)

        skipped: dict[DocumentId, str] = {}
        await self._act_again(document, move, skipped)
        return skipped

    async def _move(self, document: Document, ids: Sequence[DocumentId], stages: list[Document]) -> None:
        meant = _meant(document, ids)
        if "edit" in document:
            meant["sealed"] = {"$in": [None, []]}  # an edit of encrypted data would be stored in the clear
        await self._connection.jobs.update_many(*self._connection.mirror.update(meant, stages), hint=BY_ID)
        await self._waits_again(ids)

    async def _discard(self, document: Document, remove: Remove) -> dict[DocumentId, str]:
        ids = [one["_id"] for one in document["batch"] if "stray" not in one]
        found = await self._connection.jobs.find_all(_meant(document, ids), hint=BY_ID)
        held = await self._note_deleted(ids)
        await remove(found)
        await look_soon(self._connection, held)
        await self._free_keys(document)
        return {}

    # -- counting --------------------------------------------------------------------------------------------------

    def _lefts(
        self, document: Document, jobs: Mapping[DocumentId, Document], refused: Mapping[DocumentId, str]
    ) -> list[Left]:
        reasons = [(one["_id"], _left(document, one, jobs.get(one["_id"]), refused)) for one in document["batch"]]
        return [Left(str(job_id), reason) for job_id, reason in reasons if reason is not None]

    def _tally(self, changed: int, lefts: Sequence[Left]) -> Document:
        counted: Document = {"done": {"$add": ["$done", changed]}, "skipped": {"$add": ["$skipped", len(lefts)]}}
        return counted | appended("skips", [{"job": one.job_id, "reason": one.reason} for one in lefts])


def _meant(document: Document, ids: Sequence[DocumentId]) -> Document:
    """The filter for the jobs among these that the redrive selects and has not retried yet."""
    return {
        "_id": {"$in": list(ids)},
        "state": FAILED,
        "finished_at": {"$lt": document["cutoff"]},
        "redrive": {"$ne": document["_id"]},
    }


def _edit_stages(edit: Document | None) -> list[Document]:
    """The update that edits the data: fields laid over it, and fields removed. The results of steps are dropped."""
    if not edit:
        return []
    data: Any = {"$mergeObjects": ["$data", {"$literal": edit.get("set", {})}]}
    if edit.get("remove"):
        is_kept = {"$not": {"$in": ["$$this.k", {"$literal": edit["remove"]}]}}
        data = {"$arrayToObject": {"$filter": {"input": {"$objectToArray": data}, "cond": is_kept}}}
    return [{"$set": {"data": data, "steps": "$$REMOVE", **next_round()}}]


def _left(document: Document, entry: Document, job: Document | None, skipped: Mapping[DocumentId, str]) -> str | None:
    """The reason why a job of the batch was left alone; None when it was retried or discarded."""
    if "stray" in entry:
        return _GONE
    if document["kind"] == DISCARD:
        return None if job is None else _GONE
    if job is not None and job.get("redrive") == document["_id"]:
        return None
    if job is None or job.get("state") != FAILED:
        return _GONE
    return skipped.get(entry["_id"]) or ("its data is encrypted" if "edit" in document else _GONE)


def is_running(redrive: Document) -> bool:
    """Whether a redrive is not finished."""
    return bool(redrive["state"] == RUNNING)


def retries(redrive: Document) -> bool:
    """Whether a redrive retries dead letters instead of discarding them."""
    return bool(redrive["kind"] == RETRY)
