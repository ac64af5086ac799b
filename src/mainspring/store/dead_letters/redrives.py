"""Redrives: retrying or discarding many dead letters, in batches that survive a crash.

A redrive is a document. A step of it first *stores its batch*, then *carries it out*, then *counts* it and moves the
cursor; each write of the redrive is a compare-and-set on `rev`. A process that dies in between leaves the batch in the
document, and the process that takes the next step carries it out again.

Keeps true: each dead letter is retried once. The update that moves a job marks it with the redrive's id, and skips
jobs that have the mark, that are no longer failed, or that failed after the redrive began. Jobs are counted by their
marks, not by the results of statements. So any number of processes may take steps at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import bson
from pymongo.errors import DuplicateKeyError

from mainspring.errors import ConfigurationError, RedriveNotFound
from mainspring.model.dead_letters.dead_letters import CANCELLED, DISCARD, DONE, RETRY, RUNNING, Selection
from mainspring.model.jobs.job import FAILED
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import CODEC, Connection, Document
from mainspring.store.dead_letters.dead_letters import DeadLetters, Place, filter_of
from mainspring.store.jobs.dedupe import DedupeKeys
from mainspring.store.jobs.edit import again_stages
from mainspring.store.refusals import code_name, split_refused
from mainspring.store.schema import BY_ID, STARTED, UNDER_WAY

BATCH = 500
_COUNTED = 200_000
_SKIPS_KEPT = 100
_KEY_HELD = "another job holds its dedupe key now"
_GONE = "it is no dead letter any more"

Remove = Callable[[list[Document]], Awaitable[int]]
"""Deletes finished jobs, given their whole documents."""


class Redrives:
    """The store's verbs for redrives."""

    def __init__(self, connection: Connection, keys: DedupeKeys, dead_letters: DeadLetters) -> None:
        self._connection = connection
        self._keys = keys
        self._dead_letters = dead_letters

    async def start(
        self,
        kind: str,
        selection: Selection,
        edit: Document | None,
        actor: str | None,
        reason: str,
        redrive_id: str | None = None,
    ) -> Document:
        """Store a redrive, or find the one that has this id already. It begins at an instant of the server's clock:
        later dead letters are not part of it."""
        redrive_id, now = redrive_id or secrets.token_hex(8), self._connection.clock.expression()
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
        stages = [
            {"$set": {key: {"$literal": value} for key, value in literal.items()}},
            {"$set": {"cutoff": now, "started_at": now, "stepped_at": now}},
        ]
        with suppress(DuplicateKeyError):  # an earlier call has stored it
            await self._connection.redrives.update_one({"_id": redrive_id, "kind": None}, stages, upsert=True)
        document = await self.get(redrive_id)
        if _asked(document) != _asked(bson.decode(bson.encode(literal, codec_options=CODEC), CODEC)):
            raise ConfigurationError(f"The redrive {redrive_id!r} is for something else; give this one another id.")
        return document

    async def get(self, redrive_id: str) -> Document:
        document = await self._connection.redrives.find_one({"_id": redrive_id})
        if document is None:
            raise RedriveNotFound(redrive_id)
        return document

    async def find(self, limit: int) -> list[Document]:
        """The latest redrives, the newest first."""
        return await self._connection.redrives.find_all({}, sort=[("started_at", -1)], hint=STARTED, limit=limit)

    async def under_way(self) -> list[Document]:
        """The redrives that are not finished, the oldest first."""
        return await self._connection.redrives.find_all({"state": RUNNING}, sort=[("started_at", 1)], hint=UNDER_WAY)

    async def cancel(self, redrive_id: str) -> Document:
        """Stop a redrive: it takes no more batches. Jobs that it has retried or discarded stay so."""
        now = self._connection.clock.expression()
        await self._connection.redrives.update_one(
            {"_id": redrive_id, "state": RUNNING}, [{"$set": {"state": CANCELLED, "finished_at": now}}]
        )
        document = await self.get(redrive_id)
        return await self._account(document, {}) if document["state"] == CANCELLED and "batch" in document else document

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete finished redrives that began before an instant."""
        old = {"started_at": {"$lt": before}, "state": {"$in": [DONE, CANCELLED]}}
        return await self._connection.redrives.delete_some(old, hint=STARTED, limit=limit)

    async def step(self, document: Document, remove: Remove) -> Document:
        """Carry out one batch of a running redrive; returns the redrive after it."""
        if "batch" not in document:
            document = await self._take_batch(document)
        if "batch" not in document:
            return document
        carry_out = self._retry if document["kind"] == RETRY else self._discard
        return await self._account(document, await carry_out(document, remove))

    # -- the batch -------------------------------------------------------------------------------------------------

    async def _count(self, selection: Selection) -> int:
        if selection.ids is not None:
            return len(selection.ids)
        return await self._dead_letters.count(filter_of(selection), _COUNTED)

    async def _take_batch(self, document: Document) -> Document:
        """Store the next batch with the redrive, or that there is none; a batch that another process stored meanwhile
        counts.

        A batch that is not full is the last one: it has no next cursor.
        """
        selection = Selection.from_document(document["selection"])
        named = selection.ids is not None
        batch, cursor = await (self._named(document, selection) if named else self._next(document, selection))
        now = self._connection.clock.expression()
        taken: Document = {"batch": {"$literal": batch}, "next": {"$literal": cursor}}
        return await self._change(document, taken if batch else {"state": DONE, "finished_at": now}, state=RUNNING)

    async def _next(self, document: Document, selection: Selection) -> tuple[list[Document], Document | None]:
        cursor = document.get("cursor")
        found = await self._dead_letters.page(
            {**filter_of(selection, document["cutoff"]), "redrive": {"$ne": document["_id"]}},
            BATCH,
            None if cursor is None else Place(cursor["at"], cursor["id"]),
            {"finished_at": 1, "dedupe_key": 1},
        )
        batch = [_entry(one) for one in found]
        return batch, None if len(batch) < BATCH else {"at": found[-1]["finished_at"], "id": found[-1]["_id"]}

    async def _named(self, document: Document, selection: Selection) -> tuple[list[Document], Document | None]:
        """The next jobs of a selection by ids; a job that is no dead letter is a stray."""
        place = (document.get("cursor") or {"place": 0})["place"]
        ids = [document_id(one) for one in (selection.ids or ())[place : place + BATCH]]
        found = {
            one["_id"]: _entry(one)
            for one in await self._connection.jobs.find_all(_meant(document, ids), {"dedupe_key": 1}, hint=BY_ID)
        }
        batch = [found.get(one, {"_id": one, "stray": True}) for one in ids]
        return batch, None if len(batch) < BATCH else {"place": place + len(ids)}

    # -- carrying it out -------------------------------------------------------------------------------------------

    async def _retry(self, document: Document, remove: Remove) -> dict[DocumentId, str]:
        """Retry the jobs of the batch; returns the reasons why some were left alone, as far as they are known here."""
        skipped: dict[DocumentId, str] = {}
        keys = _keys(document["batch"], skipped)
        for key in await self._keys.retake_many(keys) if keys else {}:
            skipped[keys.pop(key)] = _KEY_HELD
        ids = [one["_id"] for one in document["batch"] if one["_id"] not in skipped and "stray" not in one]
        stages = [*_edit_stages(document.get("edit")), *again_stages(self._connection.clock.expression())]
        stages.append({"$set": {"redrive": document["_id"]}})

        async def move(some: Sequence[DocumentId]) -> None:
            await self._move(document, some, stages)

        for job_id, error in await split_refused(ids, move):
            skipped[job_id] = f"MongoDB refuses to change it ({code_name(error)})"
        if keys:
            await self._keys.returned_many(keys)
        return skipped

    async def _move(self, document: Document, ids: Sequence[DocumentId], stages: list[dict[str, Any]]) -> None:
        meant = _meant(document, ids)
        if "edit" in document:
            meant["sealed"] = {"$in": [None, []]}  # an edit of encrypted data would be stored in the clear
        await self._connection.jobs.update_many(*self._connection.mirror.update(meant, stages), hint=BY_ID)

    async def _discard(self, document: Document, remove: Remove) -> dict[DocumentId, str]:
        ids = [one["_id"] for one in document["batch"] if "stray" not in one]
        found = await self._connection.jobs.find_all(_meant(document, ids), hint=BY_ID)
        await remove(found)
        gone = set(ids) - {one["_id"] for one in await self._read_back(ids)}
        keys = {one["key"]: one["_id"] for one in document["batch"] if "key" in one and one["_id"] in gone}
        if keys:
            await self._keys.drop_many(keys)
        return {}

    # -- counting --------------------------------------------------------------------------------------------------

    async def _account(self, document: Document, skipped: Mapping[DocumentId, str]) -> Document:
        """Count the batch by the present state of its jobs, and clear it."""
        ids = [one["_id"] for one in document["batch"]]
        now = {one["_id"]: one for one in await self._read_back(ids)}
        skips = []
        for one in document["batch"]:
            reason = _left(document, one, now.get(one["_id"]), skipped)
            if reason is not None:
                skips.append({"job": str(one["_id"]), "reason": reason})
        counted: Document = {
            "done": {"$add": ["$done", len(ids) - len(skips)]},
            "skipped": {"$add": ["$skipped", len(skips)]},
            "cursor": "$next",
            "batch": "$$REMOVE",
            "next": "$$REMOVE",
        }
        if document["next"] is None:
            counted["state"] = {"$cond": [{"$eq": ["$state", RUNNING]}, DONE, "$state"]}
            counted["finished_at"] = {"$ifNull": ["$finished_at", self._connection.clock.expression()]}
        if skips:
            kept = {"$concatArrays": [{"$ifNull": ["$skips", []]}, {"$literal": skips}]}
            counted["skips"] = {"$slice": [kept, _SKIPS_KEPT]}
        return await self._change(document, counted)

    async def _read_back(self, ids: Sequence[DocumentId]) -> list[Document]:
        return await self._connection.jobs.find_all({"_id": {"$in": list(ids)}}, {"state": 1, "redrive": 1}, hint=BY_ID)

    async def _change(self, document: Document, fields: Document, **more: Any) -> Document:
        """Change the redrive if it is as it was read; returns it as it is afterwards."""
        stepped = {"rev": {"$add": ["$rev", 1]}, "stepped_at": self._connection.clock.expression()}
        await self._connection.redrives.update_one(
            {"_id": document["_id"], "rev": document["rev"], **more}, [{"$set": {**fields, **stepped}}]
        )
        return await self.get(document["_id"])


def _asked(document: Document) -> list[Any]:
    """The fields by which two redrives are the same request."""
    return [document.get(field) for field in ("kind", "selection", "edit")]


def _entry(document: Document) -> Document:
    key = document.get("dedupe_key")
    return {"_id": document["_id"], "key": key} if isinstance(key, str) else {"_id": document["_id"]}


def _meant(document: Document, ids: Sequence[DocumentId]) -> Document:
    """The filter for the jobs among these that the redrive selects and has not retried yet."""
    return {
        "_id": {"$in": list(ids)},
        "state": FAILED,
        "finished_at": {"$lt": document["cutoff"]},
        "redrive": {"$ne": document["_id"]},
    }


def _keys(batch: Sequence[Document], skipped: dict[DocumentId, str]) -> dict[str, DocumentId]:
    """The dedupe keys that the batch has to retake. Of two jobs with the same key at most one can run again."""
    keys: dict[str, DocumentId] = {}
    for one in batch:
        if "key" in one and keys.setdefault(one["key"], one["_id"]) != one["_id"]:
            skipped[one["_id"]] = _KEY_HELD
    return keys


def _edit_stages(edit: Document | None) -> list[dict[str, Any]]:
    """The update that edits the data: fields laid over it, and fields removed. The results of steps are dropped."""
    if not edit:
        return []
    data: Any = {"$mergeObjects": ["$data", {"$literal": edit.get("set", {})}]}
    if edit.get("remove"):
        is_kept = {"$not": {"$in": ["$$this.k", {"$literal": edit["remove"]}]}}
        data = {"$arrayToObject": {"$filter": {"input": {"$objectToArray": data}, "cond": is_kept}}}
    return [{"$set": {"data": data, "steps": "$$REMOVE"}}]


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
