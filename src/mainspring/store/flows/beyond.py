"""Whether cancelling or retrying a flow would change jobs out of a scope.

A key with a scope changes no job out of it. A flow is cancelled and retried as a whole, since a part of it would wait
for, or run for, nothing. So the service refuses both for a key that does not reach all jobs that would be changed. Jobs
that lead a flow (`mainspring:map`) belong to it, whatever their names.
"""

from __future__ import annotations

from mainspring.model.access.api_keys import Scope
from mainspring.model.jobs.job import RUNNING
from mainspring.model.jobs.reserved_names import FLOW_NAMES
from mainspring.store.connection import Connection, Document
from mainspring.store.flows.retrying import bad_members
from mainspring.store.flows.tree import live_children, live_members
from mainspring.store.reach import reached
from mainspring.store.schema import BEFORE, FLOW, FLOW_ENDED


class FlowsBeyond:
    """The store's looks at the jobs of a flow that are out of a scope."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def cancelled(self, job: Document, scope: Scope) -> bool:
        """Whether the cancellation of a job would cancel a job below it that is out of the scope."""
        if scope.everything or not job.get("spawned"):
            return False
        if not isinstance(job.get("flow"), str):
            return await self._any(live_members(str(job["_id"])), FLOW, scope)
        todo = [str(job["_id"])]
        while todo:
            children = live_children(todo.pop())
            if await self._any(children, BEFORE, scope):
                return True
            parents = {**children, "$or": [{"state": RUNNING}, {"spawned": {"$exists": True}}]}
            todo += [str(one["_id"]) for one in await self._connection.jobs.find_all(parents, {"_id": 1}, hint=BEFORE)]
        return False

    async def retried(self, flow_id: str, scope: Scope) -> bool:
        """Whether the retry of a flow would run a job again that is out of the scope."""
        if scope.everything:
            return False
        bad, caused = bad_members(flow_id)
        return await self._any(bad, FLOW_ENDED, scope) or await self._any(caused, FLOW_ENDED, scope)

    async def _any(self, filter: Document, hint: str, scope: Scope) -> bool:
        foreign = {"$nor": [reached(scope)], "name": {"$nin": list(FLOW_NAMES)}}
        found = await self._connection.jobs.find_all({**filter, **foreign}, {"_id": 1}, hint=hint, limit=1)
        return bool(found)
