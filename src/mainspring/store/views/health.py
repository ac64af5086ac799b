"""Signs of progress: the job that has been due for longest, the lease that ends first, the schedule that fires late.

Each is one seek in an index, whatever is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from mainspring.model.jobs.job import RUNNING
from mainspring.store.connection import Connection
from mainspring.store.jobs.claim import Claims
from mainspring.store.schema import DUE, LEASE
from mainspring.store.views.oldest_due import due_since


class Progress:
    """The store's verbs for checks of health."""

    def __init__(self, connection: Connection, claims: Claims) -> None:
        self._connection = connection
        self._claims = claims

    async def first_due(self, without: Iterable[str] = ()) -> tuple[datetime, str] | None:
        """The instant since which the first ready job has been due, or will be, and its queue; without some queues.

        A job that was created for a time in the past is due since it was created.
        """
        left_out = frozenset(without)
        queues = [queue for queue in await self._claims.queues() if queue not in left_out]
        first = await self._claims.first_ready(queues, "created_at")
        return None if first is None else (due_since(first), first["queue"])

    async def first_lease_end(self) -> datetime | None:
        """The end of the lease that ends first; running jobs without a lease are raw inserts of other programs."""
        first = await self._connection.jobs.find_one(
            {"state": RUNNING, "lease_until": {"$type": "date"}},
            {"_id": 0, "lease_until": 1},
            sort=[("state", 1), ("lease_until", 1)],
            hint=LEASE,
        )
        return None if first is None else first["lease_until"]

    async def first_firing(self) -> datetime | None:
        """The earliest instant at which a schedule is due."""
        first = await self._connection.schedules.find_one(
            {"fire_at": {"$type": "date"}}, {"_id": 0, "fire_at": 1}, sort=[("fire_at", 1), ("_id", 1)], hint=DUE
        )
        return None if first is None else first["fire_at"]
