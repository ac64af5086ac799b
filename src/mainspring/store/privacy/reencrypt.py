"""Encrypting stored values again with the current key, so that an old key can be retired.

Works in small batches along an index that holds encrypted jobs only. Each document is changed only if it is as it was
read, and its `rev` rises, so that a claim that read it before does not take it with its old values. A running job is
left alone: its worker writes to it without comparing `rev`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from pymongo import UpdateOne

from mainspring.model.jobs.job import RUNNING
from mainspring.model.privacy.encrypted_values import EncryptedValue, Place, key_ids_in, opened
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.privacy.cipher import DATA, RESULT, STEPS, Cipher, KeyMissing, Undecryptable
from mainspring.store.refusals import REFUSED, brief, split_refused
from mainspring.store.schema import BY_ID, SEALED

logger = logging.getLogger("mainspring")

_BATCH = 200
_PARTS: Document = {"data": 1, "result": 1, "steps": 1, "name": 1, "schedule_id": 1, "sealed": 1, "rev": 1}


_BUMP = {"$inc": {"rev": 1}}


class Reencryption:
    """The store's verbs for changing keys."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    async def in_use(self) -> dict[str, int]:
        """The number of jobs and schedules that are encrypted with each key."""
        jobs, found = self._connection.jobs, {}
        for key_id in await self._key_ids():
            found[key_id] = await jobs.count({"sealed": key_id}, hint=SEALED)
        async for schedule in self._encrypted_schedules():
            for key_id in schedule["job"]["sealed"]:
                found[key_id] = found.get(key_id, 0) + 1
        return found

    async def reencrypt_jobs(self) -> int:
        """Re-encrypt the jobs that are encrypted with another key than the current one."""
        current, _ = self._cipher.ring.current
        done = 0
        for key_id in await self._key_ids():
            if key_id != current and self._cipher.ring.get(key_id) is not None:
                done += await self._reencrypt_all(key_id)
        return done

    async def _key_ids(self) -> list[str]:
        return sorted(await self._connection.jobs.distinct("sealed", {"sealed": {"$gt": ""}}))

    async def _reencrypt_all(self, key_id: str) -> int:
        done, after = 0, None
        while found := await self._page(key_id, after):
            done += await self._reencrypt(found)
            after = found[-1]["_id"]
            await asyncio.sleep(0)
        return done

    async def _page(self, key_id: str, after: DocumentId | None) -> list[Document]:
        wanted: Document = {"sealed": key_id, "state": {"$ne": RUNNING}}
        if after is not None:
            wanted["_id"] = {"$gt": after}
        return await self._connection.jobs.find_all(wanted, _PARTS, sort=[("_id", 1)], hint=SEALED, limit=_BATCH)

    async def _reencrypt(self, documents: list[Document]) -> int:
        anew = [(document, fields) for document in documents if (fields := self._encrypted_parts(document)) is not None]
        done = 0

        async def write(some: Sequence[tuple[Document, Document]]) -> None:
            nonlocal done
            statements = [UpdateOne(_unchanged(one), {"$set": fields, **_BUMP}, hint=BY_ID) for one, fields in some]
            done += (await self._connection.jobs.bulk_write(statements)).modified_count

        for (document, _), error in await split_refused(anew, write):
            logger.error(
                "Job %s is not encrypted again: %s",
                document["_id"],
                brief(error),
                extra={"job_id": str(document["_id"])},
            )
        return done

    def _encrypted_parts(self, document: Document) -> Document | None:
        """The encrypted parts of a job, encrypted with the current key; None where this process cannot decrypt them."""
        fields: Document = {}
        try:
            for part in ("data", "result"):
                if part in document:
                    start = (DATA,) if part == "data" else (RESULT,)
                    fields[part] = self._encrypted_again(document, document[part], start)
            if document.get("steps"):
                fields["steps"] = [self._step_again(document, entry) for entry in document["steps"]]
        except (KeyMissing, Undecryptable) as error:
            logger.warning(
                "Job %s is not encrypted again: %s", document["_id"], error, extra={"job_id": str(document["_id"])}
            )
            return None
        return {**fields, "sealed": sorted(key_ids_in(fields))}

    def _encrypted_again(self, document: Document, value: Any, start: Place) -> Any:
        def anew(place: Place, sealed: EncryptedValue) -> Document:
            where = (*start, *place)
            plain = self._cipher.decrypt(document, where, sealed)
            # A value that was bound to a schedule may stay so: the job never loses its schedule's id.
            bound = {key: one for key, one in document.items() if key != "_id"} if sealed.of else document
            return self._cipher.encrypt(bound, where, plain).to_document()

        return opened(value, anew)

    def _step_again(self, document: Document, entry: Document) -> Document:
        place = (STEPS, str(entry.get("name", "")))
        return {**entry, "result": self._encrypted_again(document, entry.get("result"), place)}

    # -- schedules -------------------------------------------------------------------------------------------------

    async def reencrypt_schedules(self) -> int:
        """Re-encrypt the data of schedules that is encrypted with another key than the current one."""
        current, _ = self._cipher.ring.current
        done = 0
        async for schedule in self._encrypted_schedules():
            if set(schedule["job"]["sealed"]) != {current}:
                done += await self._reencrypt_schedule(schedule)
        return done

    async def _reencrypt_schedule(self, schedule: Document) -> bool:
        job = {**schedule["job"], "schedule_id": schedule["_id"]}
        try:
            data = self._encrypted_again(job, job["data"], (DATA,))
        except (KeyMissing, Undecryptable) as error:
            logger.warning("Schedule %s is not encrypted again: %s", schedule["_id"], error)
            return False
        fields = {"job.data": data, "job.sealed": sorted(key_ids_in(data))}
        try:
            changed = await self._connection.schedules.update_one(
                {"_id": schedule["_id"], "rev": schedule["rev"]}, {"$set": fields, "$inc": {"rev": 1}}
            )
        except REFUSED as error:
            logger.error("Schedule %s is not encrypted again: %s", schedule["_id"], brief(error))
            return False
        return changed.matched_count == 1

    async def _encrypted_schedules(self) -> Any:
        after = ""
        while True:
            found = await self._connection.schedules.find_all(
                {"_id": {"$gt": after}}, {"job": 1, "rev": 1}, sort=[("_id", 1)], hint=BY_ID, limit=_BATCH
            )
            for schedule in found:
                if schedule["job"].get("sealed"):
                    yield schedule
            if len(found) < _BATCH:
                return
            after = found[-1]["_id"]


def _unchanged(document: Document) -> Document:
    """The filter for a job that is as it was read, and that no worker has claimed."""
    return {"_id": document["_id"], "rev": document["rev"], "state": {"$ne": RUNNING}}
