"""The jobs that have to do with one job: its last success, its children, the runs of its schedule, its key's holder.

Every read goes along an index and looks at a bounded number of jobs; an answer says whether that was all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from mainspring.clock import EPOCH
from mainspring.model.access.api_keys import Scope
from mainspring.model.jobs.job import COMPLETED
from mainspring.store.connection import Connection, Document
from mainspring.store.reach import reached
from mainspring.store.schema import BY_ID, FINISHED_INDEX, SCHEDULE

LOOKED_AT = 1_000
"""The jobs that one search looks at."""
_FIRST_LOOK = 100
_BELOW = 200
"""The jobs of a flow that are looked at for the children of one of them."""
_SHOWN = 20
_RUNS_SHOWN = 10
# The clocks of the processes that make ids may differ by this.
_SKEW = timedelta(minutes=1)
_BRIEF = ("name", "queue", "state", "run_at", "created_at", "finished_at", "scheduled_for", "parent_id")


@dataclass(frozen=True, slots=True)
class Earlier:
    """The last completed job of a name before another one. If it is not `complete`, older ones were not looked at."""

    document: Document | None
    complete: bool


@dataclass(frozen=True, slots=True)
class RelatedJobs:
    """The jobs around a job. Lists that are not complete are cut."""

    children: list[Document] = field(default_factory=list)
    children_complete: bool = True
    runs: list[Document] = field(default_factory=list)
    """Other jobs of its schedule, the latest first."""
    holder: Document | None = None
    """The job that has its dedupe key now, if it is another one."""


class Related:
    """The store's verbs for related jobs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def last_completed(self, job: Document, scope: Scope) -> Earlier:
        """The job of the same name that completed last before this one."""
        schedule = job.get("schedule_id")
        if isinstance(schedule, str) and job.get("scheduled_for") is not None:
            fixed: Document = {"schedule_id": schedule, "scheduled_for": {"$lt": job["scheduled_for"]}}
            return await self._first(job, scope, fixed, [("schedule_id", -1), ("scheduled_for", -1)], SCHEDULE)
        until: Document = {} if job.get("finished_at") is None else {"finished_at": {"$lte": job["finished_at"]}}
        fixed = {"state": COMPLETED, **until}
        return await self._first(job, scope, fixed, [("state", -1), ("finished_at", -1)], FINISHED_INDEX)

    async def _first(
        self, job: Document, scope: Scope, fixed: Document, order: list[tuple[str, int]], index: str
    ) -> Earlier:
        """The first job of the same name among the entries of an index: first a few of them, then more."""
        fields = ("name", "queue", "state")
        for skip, limit in ((0, _FIRST_LOOK), (_FIRST_LOOK, LOOKED_AT - _FIRST_LOOK)):
            found = await self._connection.jobs.find_all(fixed, fields, sort=order, hint=index, skip=skip, limit=limit)
            for one in found:
                same = one.get("name") == job.get("name") and one.get("state") == COMPLETED
                if same and one["_id"] != job["_id"] and scope.allows(str(one.get("queue")), str(one.get("name"))):
                    return Earlier(await self._whole(one["_id"]), True)
            if len(found) < limit:
                return Earlier(None, True)
        return Earlier(None, False)

    async def _whole(self, job_id: Any) -> Document | None:
        return await self._connection.jobs.find_one({"_id": job_id}, hint=BY_ID)

    async def of(self, job: Document, scope: Scope) -> RelatedJobs:
        """The jobs around a job that are within the scope."""
        with self._connection.deadline():
            children, complete = await self._children(job, scope)
            return RelatedJobs(children, complete, await self._runs(job, scope), await self._holder(job, scope))

    async def _children(self, job: Document, scope: Scope) -> tuple[list[Document], bool]:
        """The jobs that the job waits or waited for, and then those that its handler has scheduled otherwise."""
        waited, all_waited = await self._waited_for(job, scope)
        scheduled, all_scheduled = await self._scheduled_by(job, scope)
        mine = [*waited, *scheduled]
        return mine[:_SHOWN], all_waited and all_scheduled and len(mine) <= _SHOWN

    async def _waited_for(self, job: Document, scope: Scope) -> tuple[list[Document], bool]:
        """The children in a flow: their ids begin with that of the job and a dot."""
        bounds = {"$gte": f"{job['_id']}.", "$lt": f"{job['_id']}/"}
        found = await self._connection.jobs.find_all(
            {"_id": bounds}, _BRIEF, sort=[("_id", 1)], hint=BY_ID, limit=_BELOW
        )
        mine = [one for one in found if one.get("parent_id") == str(job["_id"]) and _within(scope, one)]
        return mine, len(found) < _BELOW

    async def _scheduled_by(self, job: Document, scope: Scope) -> tuple[list[Document], bool]:
        """The jobs that the handler has scheduled: among those whose ids were made while it ran."""
        attempts = job.get("attempts")
        begun = (
            [one.get("started_at") for one in attempts if isinstance(one, dict)] if isinstance(attempts, list) else []
        )
        times = [one for one in (*begun, job.get("claimed_at")) if isinstance(one, datetime)]
        if not times:
            return [], True
        bounds: Document = {"$gte": _id_at(min(times) - _SKEW)}
        if isinstance(job.get("finished_at"), datetime):
            bounds["$lte"] = _id_at(job["finished_at"] + _SKEW)
        found = await self._connection.jobs.find_all(
            {"_id": bounds}, _BRIEF, sort=[("_id", 1)], hint=BY_ID, limit=LOOKED_AT
        )
        mine = [one for one in found if one.get("parent_id") == str(job["_id"]) and _within(scope, one)]
        return mine, len(found) < LOOKED_AT

    async def _runs(self, job: Document, scope: Scope) -> list[Document]:
        schedule = job.get("schedule_id")
        if not isinstance(schedule, str):
            return []
        order = [("schedule_id", -1), ("scheduled_for", -1)]
        found = await self._connection.jobs.find_all(
            {"schedule_id": schedule}, _BRIEF, sort=order, hint=SCHEDULE, limit=_FIRST_LOOK
        )
        return [one for one in found if one["_id"] != job["_id"] and _within(scope, one)][:_RUNS_SHOWN]

    async def _holder(self, job: Document, scope: Scope) -> Document | None:
        key = job.get("dedupe_key")
        if not isinstance(key, str):
            return None
        held = await self._connection.keys.find_one({"_id": key}, ("job",), hint=BY_ID)
        if held is None or held.get("job") in (None, job["_id"]):
            return None
        return await self._connection.jobs.find_one({"_id": held["job"], **reached(scope)}, _BRIEF, hint=BY_ID)


def _within(scope: Scope, document: Document) -> bool:
    return scope.allows(str(document.get("queue")), str(document.get("name")))


def _id_at(instant: Any) -> ObjectId:
    return ObjectId.from_datetime(max(instant, EPOCH))
