"""Retrying a flow: its failed and expired members run again, and those that were cancelled because of them wait again.

Keeps true: a member that waits is put back only after the members that it waits for. Those that failed are put back
first; then those that were cancelled because of them, not sealed, so that no check ends them by the state of another
that is still to be put back; then all are sealed. A check that has read a failure before this misses, since `rev` is
raised. After a crash half-way the sweep seals what was put back; another retry puts the rest back.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mainspring.clock import truncate
from mainspring.model.flows.decide import SKIPPED
from mainspring.model.flows.ids import waiter_of
from mainspring.model.jobs.job import BLOCKED, CANCELLED, EXPIRED, FAILED
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.edit import again_stages
from mainspring.store.jobs.finish import CHECK_FIRST
from mainspring.store.schema import BUMP, BY_ID, FLOW

_BATCH = 1000
_SEALED_BY_SWEEP = 60.0
_GONE = dict.fromkeys(("finished_at", "error", "because", "fingerprint"), "$$REMOVE")


class FlowRetries:
    """The store's verb that runs the bad ends of a flow again."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def retry(self, flow_id: str) -> set[str]:
        """Put the members of a flow back that ended badly; returns the waits to be checked. Members that end during
        this stay as they are."""
        until = truncate(self._connection.clock.now())
        bad = {"flow": flow_id, "state": {"$in": [FAILED, EXPIRED]}, "finished_at": {"$lte": until}}
        held = await self._put_back(bad, again_stages(self._connection.clock.expression()))
        waits = await self._unblock(flow_id, until)
        await self._raise_rev({document_id(waiter_of(one)) for one in held})
        return waits

    async def _unblock(self, flow_id: str, until: datetime) -> set[str]:
        """Put the members back that were cancelled because of others."""
        now = self._connection.clock.expression()
        caused = {
            "flow": flow_id,
            "state": CANCELLED,
            "because": {"$exists": True},
            "finished_at": {"$lte": until},
            "error.type": {"$ne": SKIPPED},
        }
        look = {"$add": [now, int(_SEALED_BY_SWEEP * 1000)]}
        fields = {**BUMP, **_GONE, "state": BLOCKED, "tries": 0, "check_at": look, "waits.since": now}
        stages = [{"$set": {**fields, "waits.sealed": False, "waits.deleted": "$$REMOVE"}}]
        await self._put_back({**caused, "waits.when": {"$exists": True}}, stages)
        await self._put_back({**caused, "waits.when": {"$exists": False}}, again_stages(now))
        return await self._seal(flow_id)

    async def _put_back(self, filter: dict[str, Any], stages: list[dict[str, Any]]) -> set[str]:
        """Change the members that match, in batches; returns the waits that they hold back."""
        held: set[str] = set()
        mirror = self._connection.mirror
        while True:
            found = await self._connection.jobs.find_all(filter, {"before": 1}, hint=FLOW, limit=_BATCH)
            if not found:
                return held
            ids = {"_id": {"$in": [document["_id"] for document in found]}, "state": filter["state"]}
            await self._connection.jobs.update_many(*mirror.update(ids, stages), hint=BY_ID)
            held |= {one for document in found for one in document.get("before") or ()}

    async def _seal(self, flow_id: str) -> set[str]:
        open_nodes = {"flow": flow_id, "state": BLOCKED, "waits.sealed": False, "waits.when": {"$exists": True}}
        found = await self._connection.jobs.find_all(open_nodes, {"waits.ids": 1}, hint=FLOW)
        if found:
            look = {"$add": [self._connection.clock.expression(), int(CHECK_FIRST * 1000)]}
            await self._connection.jobs.update_many(
                {"_id": {"$in": [document["_id"] for document in found]}, "state": BLOCKED},
                [{"$set": {**BUMP, "waits.sealed": True, "check_at": look}}],
                hint=BY_ID,
            )
        return {one for document in found for one in _wait_ids(document)}

    async def _raise_rev(self, waiters: set[DocumentId]) -> None:
        """Let a check miss that has read the failure of a job which runs again now."""
        if waiters:
            await self._connection.jobs.update_many(
                {"_id": {"$in": list(waiters)}, "state": BLOCKED}, [{"$set": BUMP}], hint=BY_ID
            )


def _wait_ids(document: Document) -> list[str]:
    waits = document.get("waits")
    return [one for one in waits.get("ids") or () if isinstance(one, str)] if isinstance(waits, Mapping) else []
