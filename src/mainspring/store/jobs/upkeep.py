"""The slow, shared work on the jobs collection: adopting raw inserts, holding and releasing jobs that no worker can
run, and expiring jobs that were not started in time.

Each verb does one bounded pass, is safe when several workers call it at once, and returns the jobs that it changed.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import bson
from pymongo import UpdateMany, UpdateOne

from mainspring.model.jobs.job import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    EXPIRED,
    FAILED,
    FINISHED,
    PENDING,
)
from mainspring.store.codec import DocumentId, Undecodable, check_fields, fingerprint_of
from mainspring.store.connection import CODEC, Connection, Document
from mainspring.store.flows.waiters import look_soon
from mainspring.store.foreign.foreign import RAW_JOBS
from mainspring.store.foreign.mirror import Mirror
from mainspring.store.foreign.translation import as_read, mapped_inserts, translated
from mainspring.store.jobs.end_fields import start_by_of, undecodable_fields
from mainspring.store.refusals import REFUSED, Refused, brief, change_jobs, split_refused
from mainspring.store.schema import BUMP, BY_ID, LAYOUT, RAW, START_BY, WAITING_FOR, Expression, mapped_inserts_index

logger = logging.getLogger("mainspring")

# The reasons why a job that no worker can run is held.
NO_HANDLER, TOO_NEW, NO_KEY = "handler", "version", "key"

_BATCH = 1000
_RELEASE = [
    {
        "$set": {
            **BUMP,
            "waiting_for": "$$REMOVE",
            "line": "$$REMOVE",
            "ready": {"$cond": [{"$eq": ["$state", PENDING]}, True, "$$REMOVE"]},
        }
    }
]


@dataclass(frozen=True, slots=True)
class Adoption:
    """A raw insert, the filter that it must still match when it is adopted, and the update that adopts it."""

    document: Document
    as_read: Document
    stages: list[Document]

    @property
    def fails(self) -> bool:
        """Whether it is adopted as failed, since a field is wrong."""
        return any("error" in stage["$set"] for stage in self.stages)


class Upkeep:
    """The store's verbs for chores."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._refused = Refused[DocumentId]()

    async def adopt(self, limit: int = 500) -> tuple[int, list[Document]]:
        """Add the missing fields to raw inserts that are jobs; a job with a wrong field fails, with the reason.

        Documents that are no jobs are left alone. Returns the number of jobs, and those that failed.
        """
        found = await self._connection.jobs.find_all({**RAW_JOBS, **self._refused.filter}, hint=RAW, limit=limit)
        adoptions = [Adoption(document, {"v": None}, self._adoption(document)) for document in found]
        adoptions += [self._mapped_adoption(document) for document in await self._mapped_inserts(limit - len(found))]

        async def adopt(some: Sequence[Adoption]) -> None:
            statements = [UpdateOne({"_id": one.document["_id"], **one.as_read}, one.stages) for one in some]
            await self._connection.jobs.bulk_write(statements)

        for one, error in await split_refused(adoptions, adopt):
            self._pass_over(one.document["_id"], "cannot be adopted", error)
        failed = [one.document for one in adoptions if one.fails and one.document["_id"] not in self._refused]
        return len(adoptions), failed

    async def _mapped_inserts(self, limit: int) -> list[Document]:
        map = self._connection.mirror.map
        if map is None or limit <= 0:
            return []
        unadopted = {**mapped_inserts(map), **self._refused.filter}
        return await self._connection.jobs.find_all(unadopted, hint=mapped_inserts_index(map), limit=limit)

    def _mapped_adoption(self, document: Document) -> Adoption:
        """The adoption of a document in another program's fields, unless that program has changed it meanwhile."""
        mirror = self._connection.mirror
        assert mirror.map is not None
        ours, stage = translated(mirror.map, document)
        stages = mirror.stages([stage, *self._adoption(ours)])
        return Adoption(document, {**as_read(mirror.map, document), "v": None}, stages)

    def _pass_over(self, job_id: DocumentId, lament: str, error: Exception) -> None:
        """Leave out a job that the server refuses to change, for a while, so that it does not hold up the others."""
        logger.error("Job %s %s: %s", job_id, lament, brief(error), extra={"job_id": str(job_id)})
        self._refused.add(job_id, error)

    async def fail_undecodable(self, document: Document, reason: str) -> bool:
        """Fail a pending job that cannot be decoded; it is kept, with the reason."""
        fields = undecodable_fields(document.get("name"), reason, self._connection.clock.expression())
        try:
            result = await self._connection.jobs.update_one(
                *self._connection.mirror.update(
                    {"_id": document["_id"], "ready": True, "v": {"$ne": None}}, [{"$set": fields}]
                )
            )
        except REFUSED as error:
            self._pass_over(document["_id"], f"cannot be decoded ({reason}) nor ended", error)
            return False
        if result.matched_count:
            await look_soon(self._connection, _waits_of([document]))
        return result.matched_count == 1

    async def hold(self, ids: Sequence[DocumentId], by: str, note: str) -> int:
        """Take ready jobs out of the claim's index, and other jobs off their wait lists, and note the reason."""
        held = {"by": by, "note": {"$literal": note}, "since": self._connection.clock.expression()}
        return await self._change(
            ids,
            {"$or": [{"ready": True}, {"line": {"$exists": True}}]},
            [{"$set": {**BUMP, "waiting_for": held, "ready": "$$REMOVE", "line": "$$REMOVE"}}],
            "cannot be held",
        )

    async def release(self, by: str, where: Document | None = None) -> int:
        """Put jobs that were held for this reason back into the claim's index; with `where`, only matching jobs."""
        held = {**(where or {}), "waiting_for.by": by}
        try:
            return (await self._connection.jobs.update_many(held, _RELEASE, hint=WAITING_FOR)).modified_count
        except REFUSED:
            return await self._release_by_ids(held)

    async def release_handled(self, names: Sequence[str] | None) -> int:
        """Release jobs of these names that were held for want of a handler; None: of any name."""
        return await self.release(NO_HANDLER, None if names is None else {"name": {"$in": list(names)}})

    async def release_versions(self, versions: Mapping[int, Sequence[str]]) -> int:
        """Release jobs that were held for want of a newer handler, where their data is no newer than the version that
        their name has here."""
        released = 0
        for version, names in versions.items():
            # An edit may have changed the data since: a job without a version, or with an earlier one, can run too.
            fit = {"name": {"$in": list(names)}, "data_v": {"$not": {"$gt": version}}}
            released += await self.release(TOO_NEW, fit)
        return released

    async def release_unversioned(self, versioned: Sequence[str]) -> int:
        """Release jobs that were held for want of a newer handler, of all names but those that have versions here."""
        return await self.release(TOO_NEW, {"name": {"$nin": list(versioned)}})

    async def release_opened(
        self, key_ids: Sequence[str], names: Sequence[str] | None, queues: Sequence[str] | None
    ) -> int:
        """Release jobs of these names and queues that were held for want of a key, and that need only these keys."""
        fit: Document = {"sealed": {"$not": {"$elemMatch": {"$nin": list(key_ids)}}}}
        if names is not None:
            fit["name"] = {"$in": list(names)}
        if queues is not None:
            fit["queue"] = {"$in": list(queues)}
        return await self.release(NO_KEY, fit)

    async def _release_by_ids(self, held: Document) -> int:
        """Release held jobs by their ids: a job that cannot be changed ends one statement for all jobs behind it."""
        released = 0
        while True:
            wanted = {"$and": [held, self._refused.filter]}
            ids = await self._connection.jobs.find_ids(wanted, hint=WAITING_FOR, limit=_BATCH)
            released += await self.release_these(ids)
            if len(ids) < _BATCH:
                return released

    async def release_these(self, ids: Sequence[DocumentId]) -> int:
        """Put these jobs back into the claim's index, for whatever reason they were held."""
        return await self._change(ids, {"waiting_for": {"$exists": True}}, _RELEASE, "cannot be released")

    async def _change(self, ids: Sequence[DocumentId], where: Document, stages: list[Document], lament: str) -> int:
        """Change the jobs among these that match a filter; returns how many."""
        jobs = self._connection.jobs
        changed, refused = await change_jobs(jobs, ids, lambda some: ({**some, **where}, stages), lament)
        self._refused.add_all(refused)
        return changed

    async def expire(self, limit: int = 500) -> list[DocumentId]:
        """End up to `limit` pending jobs that were not started in time; returns their ids."""
        now = self._connection.clock.expression()
        late = {"state": PENDING, "$expr": {"$lt": ["$start_by", now]}, "start_by": {"$type": "date"}}
        late["rev"] = {"$type": "number"}  # a raw insert is adopted first
        found = await self._connection.jobs.find_all(
            {**late, **self._refused.filter}, {"rev": 1, "before": 1}, hint=START_BY, limit=limit
        )
        return await self.expire_these(found)

    async def expire_these(self, documents: Sequence[Document]) -> list[DocumentId]:
        """End the pending jobs among these that are late and as they were read, many with one statement; returns the
        ids of the expired jobs. Of two that expire jobs at once, each returns what it has ended; where each has ended a
        part of the same jobs, both may return all of them."""
        now = self._connection.clock.expression()
        matched = 0

        async def expire(some: Sequence[Document]) -> None:
            nonlocal matched
            result = await self._connection.jobs.bulk_write(_expiry(self._connection.mirror, some, now))
            matched += result.matched_count

        refused = await split_refused(documents, expire)
        for document, error in refused:
            self._pass_over(document["_id"], "is late and cannot be ended", error)
        await look_soon(self._connection, _waits_of(documents))
        if matched == len(documents):
            return [document["_id"] for document in documents]
        if not matched and not refused:
            return []
        revs = {document["_id"]: document["rev"] for document in documents}
        ended = {"_id": {"$in": list(revs)}, "state": EXPIRED}
        found = await self._connection.jobs.find_all(ended, {"rev": 1}, hint=BY_ID)
        return [document["_id"] for document in found if document["rev"] == revs[document["_id"]] + 1]

    def _adoption(self, document: Document) -> list[Document]:
        now = self._connection.clock.expression()
        state = document.get("state") or PENDING
        defaults: Document = {
            "v": LAYOUT,
            "state": state,
            "rev": 0,
            "token": _whole(document.get("token")),
            "tries": _whole(document.get("tries")),
            "created_at": _or("$created_at", "date", now),
            "run_at": _or("$run_at", "date", now),
            "queue": _or("$queue", "string", DEFAULT_QUEUE),
            "priority": {"$ifNull": ["$priority", DEFAULT_PRIORITY]},
            "data": {"$ifNull": ["$data", {}]},
        }
        try:
            check_fields(document)
            self._check_size(document)
        except Undecodable as error:
            return [{"$set": {**defaults, **undecodable_fields(document.get("name"), str(error), now)}}]
        defaults |= {
            "priority": {"$toInt": defaults["priority"]},
            "ready": True if state == PENDING else "$$REMOVE",
            "data_v": {"$cond": [{"$isNumber": "$data_v"}, {"$toInt": "$data_v"}, "$$REMOVE"]},
            "finished_at": _or("$finished_at", "date", now) if state in FINISHED else "$$REMOVE",
        }
        within = self._connection.settings.start_within
        if within is not None and document.get("start_within") is None and document.get("expires_at") is None:
            defaults["start_within"] = within
        if state == FAILED:
            defaults["fingerprint"] = fingerprint_of(document["name"], document.get("error"))
        return [{"$set": defaults}, {"$set": {"start_by": start_by_of("$run_at")}}]

    def _check_size(self, document: Document) -> None:
        size = len(bson.encode(document.get("data") or {}, codec_options=CODEC))
        limit = self._connection.settings.max_data
        if size > limit:
            raise Undecodable(f"data takes {size:,} bytes, over the limit of {limit:,}.")


def _waits_of(documents: Sequence[Document]) -> set[str]:
    """The waits that these jobs, of which any program may have written some, held back."""
    found = (document.get("before") for document in documents)
    return {one for before in found if isinstance(before, list) for one in before if isinstance(one, str)}


def _expiry(mirror: Mirror, documents: Sequence[Document], now: Expression) -> list[UpdateMany]:
    """The statements that end late jobs, one for all jobs with the same `rev`."""
    alike: dict[Any, list[DocumentId]] = defaultdict(list)
    for document in documents:
        alike[document["rev"]].append(document["_id"])
    ended = {"state": EXPIRED, "finished_at": now, **dict.fromkeys(("ready", "waiting_for", "line"), "$$REMOVE")}
    late = {"state": PENDING, "$expr": {"$lt": ["$start_by", now]}}
    return [
        UpdateMany(*mirror.update({"_id": {"$in": ids}, "rev": rev, **late}, [{"$set": {**BUMP, **ended}}]), hint=BY_ID)
        for rev, ids in alike.items()
    ]


def _or(field: str, kind: str, otherwise: Any) -> Document:
    """An expression: a field, or `otherwise` where it is not of this type."""
    return {"$cond": [{"$eq": [{"$type": field}, kind]}, field, otherwise]}


def _whole(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**31 else 0
