"""Storing which sessions were closed before their end, for all processes of the service. The collection is
`jobs.sessions`; a TTL index deletes each entry when its session would have ended anyway.
"""

from __future__ import annotations

from datetime import datetime

from mainspring.clock import truncate
from mainspring.store.connection import Connection
from mainspring.store.group_commit import GroupCommit
from mainspring.store.schema import BY_ID

_CHUNK = 1000


class ClosedSessions:
    """The store's verbs for closed sessions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reading = GroupCommit(self._read, _CHUNK)

    async def add(self, session: str, until: datetime) -> None:
        """Close a session, by its id, that would have ended at `until`."""
        await self._connection.sessions.update_one({"_id": session}, {"$set": {"until": truncate(until)}}, upsert=True)

    async def has(self, session: str) -> bool:
        """Whether a session was closed. One read answers all callers that ask at once."""
        return await self._reading.submit(session)

    async def _read(self, sessions: list[str]) -> list[bool]:
        wanted = {"_id": {"$in": list(set(sessions))}}
        found = await self._connection.sessions.find_all(wanted, {"_id": 1}, hint=BY_ID)
        closed = {document["_id"] for document in found}
        return [session in closed for session in sessions]
