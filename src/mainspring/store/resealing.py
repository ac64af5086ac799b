"""Sealing stored values anew with the key that seals now, so that an old key can be retired.

Works in small batches along an index that holds encrypted jobs only. Each document is changed only if it is as it was
read, and its `rev` rises, so that a claim that read it before does not take it with what it was. A running job is left
alone: its holder writes to it without asking.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from pymongo import UpdateOne

from mainspring.model.job import RUNNING
from mainspring.model.sealing import Place, Sealed, kids_in, opened
from mainspring.store.codec import DocumentId
from mainspring.store.collections import BY_ID, SEALED
from mainspring.store.connection import Connection, Document
from mainspring.store.sealing import DATA, RESULT, STEPS, KeyMissing, Sealer, Unopenable

logger = logging.getLogger("mainspring")

_BATCH = 200
_PARTS: dict[str, Any] = {"data": 1, "result": 1, "steps": 1, "name": 1, "schedule_id": 1, "sealed": 1, "rev": 1}


class Resealing:
    """The store's verbs for changing keys."""

    def __init__(self, connection: Connection, sealer: Sealer) -> None:
        self._connection = connection
        self._sealer = sealer

    async def in_use(self) -> dict[str, int]:
        """How many jobs and schedules are sealed with each key."""
        jobs, found = self._connection.jobs, {}
        for kid in await self._kids():
            with self._connection.deadline():
                found[kid] = await jobs.count_documents({"sealed": kid}, hint=SEALED)
        async for schedule in self._sealed_schedules():
            for kid in schedule["job"]["sealed"]:
                found[kid] = found.get(kid, 0) + 1
        return found

    async def reseal_jobs(self) -> int:
        """Seal jobs anew that are sealed with another key than the one that seals now."""
        current, _ = self._sealer.ring.current
        done = 0
        for kid in await self._kids():
            if kid != current and self._sealer.ring.get(kid) is not None:
                done += await self._reseal_all(kid)
        return done

    async def _kids(self) -> list[str]:
        with self._connection.deadline():
            return sorted(await self._connection.jobs.distinct("sealed", {"sealed": {"$gt": ""}}))

    async def _reseal_all(self, kid: str) -> int:
        done, after = 0, None
        while found := await self._page(kid, after):
            done += await self._reseal(found)
            after = found[-1]["_id"]
            await asyncio.sleep(0)
        return done

    async def _page(self, kid: str, after: DocumentId | None) -> list[Document]:
        wanted: Document = {"sealed": kid, "state": {"$ne": RUNNING}}
        if after is not None:
            wanted["_id"] = {"$gt": after}
        with self._connection.deadline():
            cursor = self._connection.jobs.find(wanted, _PARTS, sort=[("_id", 1)], hint=SEALED, limit=_BATCH)
            return await cursor.to_list(_BATCH)

    async def _reseal(self, documents: list[Document]) -> int:
        statements = []
        for document in documents:
            fields = self._anew(document)
            if fields is not None:
                unchanged = {"_id": document["_id"], "rev": document["rev"], "state": {"$ne": RUNNING}}
                statements.append(UpdateOne(unchanged, {"$set": fields, "$inc": {"rev": 1}}, hint=BY_ID))
        if not statements:
            return 0
        with self._connection.deadline():
            return (await self._connection.jobs.bulk_write(statements, ordered=False)).modified_count

    def _anew(self, document: Document) -> Document | None:
        """The sealed parts of a job, sealed with the key that seals now; None where they do not open here."""
        fields: Document = {}
        try:
            for part in ("data", "result"):
                if part in document:
                    start = (DATA,) if part == "data" else (RESULT,)
                    fields[part] = self._sealed_anew(document, document[part], start)
            if document.get("steps"):
                fields["steps"] = [self._step_anew(document, entry) for entry in document["steps"]]
        except (KeyMissing, Unopenable) as error:
            logger.warning("Job %s is not sealed anew: %s", document["_id"], error)
            return None
        return {**fields, "sealed": sorted(kids_in(fields))}

    def _sealed_anew(self, document: Document, value: Any, start: Place) -> Any:
        def anew(place: Place, sealed: Sealed) -> Document:
            where = (*start, *place)
            plain = self._sealer.open(document, where, sealed)
            # What was bound to a schedule may stay so: the job has its schedule's id as long as it lives.
            bound = {key: one for key, one in document.items() if key != "_id"} if sealed.of else document
            return self._sealer.seal(bound, where, plain).to_document()

        return opened(value, anew)

    def _step_anew(self, document: Document, entry: Document) -> Document:
        place = (STEPS, str(entry.get("name", "")))
        return {**entry, "result": self._sealed_anew(document, entry.get("result"), place)}

    # -- schedules -------------------------------------------------------------------------------------------------

    async def reseal_schedules(self) -> int:
        """Seal the data of schedules anew that is sealed with another key than the one that seals now."""
        current, _ = self._sealer.ring.current
        done = 0
        async for schedule in self._sealed_schedules():
            if set(schedule["job"]["sealed"]) != {current}:
                done += await self._reseal_schedule(schedule)
        return done

    async def _reseal_schedule(self, schedule: Document) -> bool:
        job = {**schedule["job"], "schedule_id": schedule["_id"]}
        try:
            data = self._sealed_anew(job, job["data"], (DATA,))
        except (KeyMissing, Unopenable) as error:
            logger.warning("Schedule %s is not sealed anew: %s", schedule["_id"], error)
            return False
        fields = {"job.data": data, "job.sealed": sorted(kids_in(data))}
        with self._connection.deadline():
            changed = await self._connection.schedules.update_one(
                {"_id": schedule["_id"], "rev": schedule["rev"]}, {"$set": fields, "$inc": {"rev": 1}}
            )
        return changed.matched_count == 1

    async def _sealed_schedules(self) -> Any:
        after = ""
        while True:
            with self._connection.deadline():
                cursor = self._connection.schedules.find(
                    {"_id": {"$gt": after}}, {"job": 1, "rev": 1}, sort=[("_id", 1)], hint=BY_ID, limit=_BATCH
                )
                found = await cursor.to_list(_BATCH)
            for schedule in found:
                if schedule["job"].get("sealed"):
                    yield schedule
            if len(found) < _BATCH:
                return
            after = found[-1]["_id"]
