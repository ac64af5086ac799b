"""Retrying a flow: its failed and expired members run again, and those that were cancelled because of them wait again.

Keeps true: a member that waits is put back only after the members that it waits for. Those that failed come first; then
the `rev` of the jobs that wait for them is raised, so that a check misses that has read a failure; then those that were
cancelled because of them, and those because of these, not sealed, so that no check ends them by the state of another
that is still to be put back; then all are sealed; the root comes last. The root has the mark `retry_tree` meanwhile, so
that the sweep carries on what a process that dies has left.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from mainspring.clock import truncate
from mainspring.errors import InvalidJob, JobStateError
from mainspring.model.flows.decide import SKIPPED
from mainspring.model.jobs.job import BLOCKED, CANCELLED, EXPIRED, FAILED
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Connection, Document
from mainspring.store.flows.looks import first_look
from mainspring.store.flows.waiters import predecessors_again
from mainspring.store.jobs.edit import Jobs, again_stages
from mainspring.store.refusals import change_jobs
from mainspring.store.schema import BUMP, BY_ID, FLOW

_BATCH = 1000
_CARRIED_ON = 30.0
"""After how many seconds the sweep carries on a retry, whose process must have died."""
_GONE = dict.fromkeys(("finished_at", "error", "because", "fingerprint", "cancel_tree"), "$$REMOVE")


class FlowRetries:
    """The store's verbs that run the bad ends of a flow again."""

    def __init__(self, connection: Connection, jobs: Jobs) -> None:
        self._connection = connection
        self._jobs = jobs

    async def retry(self, root_id: DocumentId) -> set[str]:
        """Put the members of a flow back that ended badly, and its root if it failed; returns the waits to be checked.
        Members that fail during this stay as they are."""
        until = truncate(self._connection.clock.now())
        look = {"$add": [self._connection.clock.expression(), int(_CARRIED_ON * 1000)]}
        await self._connection.jobs.update_one(
            {"_id": root_id}, [{"$set": {"retry_tree": {"at": until}, "check_at": look}}], hint=BY_ID
        )
        return await self._put_all_back(root_id, until)

    async def carry_on(self, root: Document) -> set[str]:
        """Finish a retry that another process has left half-way; returns the waits to be checked."""
        try:
            return await self._put_all_back(root["_id"], root["retry_tree"]["at"])
        except (InvalidJob, JobStateError):  # the root cannot run again, or does
            await self._forget(root["_id"])
            return set()

    async def _put_all_back(self, root_id: DocumentId, until: datetime) -> set[str]:
        flow_id, again = str(root_id), again_stages(self._connection.clock.expression())
        bad, caused = bad_members(flow_id)
        bad = {**bad, "finished_at": {"$lte": until}}
        nodes = {**caused, "waits.when": {"$exists": True}}
        others = {**caused, "waits.when": {"$exists": False}, "finished_at": {"$lte": until}}
        held = await self._put_back(bad, again)
        while held:
            await predecessors_again(self._connection, held)
            held = await self._put_back(nodes, self._blocked()) | await self._put_back(others, again)
        waits = await self._seal(flow_id)
        root = await self._jobs.get(root_id)
        if root["state"] == FAILED and root["finished_at"] <= until:
            await self._jobs.retry(root_id)
        await self._forget(root_id)
        return waits

    def _blocked(self) -> list[Document]:
        """The update that lets a node wait again. It has no time for a look of the sweep while it is not sealed."""
        fields = {**BUMP, **_GONE, "state": BLOCKED, "tries": 0, "check_at": "$$REMOVE"}
        waits = {"since": self._connection.clock.expression(), "sealed": False, "retried": True, "deleted": "$$REMOVE"}
        return [{"$set": {**fields, **{f"waits.{key}": value for key, value in waits.items()}}}]

    async def _put_back(self, filter: Document, stages: list[Document]) -> set[str]:
        """Change the members that match, in batches; returns the waits that they hold back."""
        held: set[str] = set()
        left: list[DocumentId] = []
        mirror = self._connection.mirror
        while True:
            found = await self._connection.jobs.find_all(
                {**filter, "_id": {"$nin": left}}, {"before": 1}, hint=FLOW, limit=_BATCH
            )
            if not found:
                return held
            _, refused = await change_jobs(
                self._connection.jobs,
                [document["_id"] for document in found],
                lambda some: mirror.update({**some, "state": filter["state"]}, stages),
                "cannot be retried with its flow",
            )
            left += refused
            changed = [document for document in found if document["_id"] not in refused]
            held |= {one for document in changed for one in document.get("before") or ()}

    async def _seal(self, flow_id: str) -> set[str]:
        """Seal the nodes that were put back; those that are being laid out have other predecessors to come."""
        put_back = {"flow": flow_id, "state": BLOCKED, "waits.retried": True}
        found = await self._connection.jobs.find_all(put_back, {"waits.ids": 1}, hint=FLOW)
        if found:
            look = first_look(self._connection.clock.expression())
            sealed = {"waits.sealed": True, "waits.retried": "$$REMOVE", "check_at": look}
            await change_jobs(
                self._connection.jobs,
                [document["_id"] for document in found],
                lambda some: ({**some, "state": BLOCKED, "waits.retried": True}, [{"$set": {**BUMP, **sealed}}]),
                "cannot wait again in its flow",
            )
        return {one for document in found for one in _wait_ids(document)}

    async def _forget(self, root_id: DocumentId) -> None:
        """Remove the mark, and the time of the look that belongs to it."""
        soon = first_look(self._connection.clock.expression())
        look = {"$cond": [{"$eq": ["$state", BLOCKED]}, soon, "$$REMOVE"]}
        await self._connection.jobs.update_one(
            {"_id": root_id, "retry_tree": {"$exists": True}},
            [{"$set": {"retry_tree": "$$REMOVE", "check_at": look}}],
            hint=BY_ID,
        )


def bad_members(flow_id: str) -> tuple[Document, Document]:
    """The filters for the members that a retry runs again: those that ended badly, and those that were cancelled
    because of them; for the index FLOW."""
    caused = {"flow": flow_id, "state": CANCELLED, "because": {"$exists": True}, "error.type": {"$ne": SKIPPED}}
    return {"flow": flow_id, "state": {"$in": [FAILED, EXPIRED]}}, caused


def _wait_ids(document: Document) -> list[str]:
    waits = document.get("waits")
    return [one for one in waits.get("ids") or () if isinstance(one, str)] if isinstance(waits, Mapping) else []
