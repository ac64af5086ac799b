"""Signs of progress: the job that has been due for longest, the lease that ends first, the schedule that fires late.

Each is one seek in an index, whatever is stored; those of queues are some seeks for each queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from mainspring.clock import EPOCH, truncate
from mainspring.model.jobs.job import RUNNING
from mainspring.model.views.problems import Due
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.claim import PRIORITIES, QUEUES_PER_PEEK, Claims
from mainspring.store.schema import CLAIM, DUE, LEASE

_QUEUES_LOOKED_AT = 100
_QUEUES_LOOKED_INTO = 30


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
        return None if first is None else (_due_since(first), first["queue"])

    async def oldest_due(self, queues: Sequence[str] | None = None) -> list[Due]:
        """The job of each queue that has been due for longest, the longest first.

        The first hundred queues are looked at. Of each, the job that is claimed next is read, and of the thirty whose
        next job has waited longest also the oldest of every priority: about 400 keys at most.
        """
        names = sorted(await self._claims.queues() if queues is None else queues)[:_QUEUES_LOOKED_AT]
        heads = await self._claims.heads(names)
        found = [await self._oldest_of(queue) for _, queue in heads[:_QUEUES_LOOKED_INTO]]
        due = [one for one in found if one is not None] + [
            Due(queue, at, None) for at, queue in heads[_QUEUES_LOOKED_INTO:]
        ]
        return sorted(due, key=lambda one: one.since)

    async def due_since(self, instant: datetime, queues: Sequence[str] | None = None) -> list[Due]:
        """The job of each queue that has been due for longest, if that is since this instant or before; the longest
        first. All queues are walked, a page at a time: one command finds that no job of a page is due for so long,
        and otherwise each queue of the page is read."""
        names = sorted(await self._claims.queues() if queues is None else queues)
        found: list[Due] = []
        for start in range(0, len(names), QUEUES_PER_PEEK):
            page = names[start : start + QUEUES_PER_PEEK]
            first = await self._claims.next_run_at(page)
            if first is not None and first[0] <= instant:
                oldest = [await self._oldest_of(queue) for queue in page]
                found += [one for one in oldest if one is not None and one.since <= instant]
        return sorted(found, key=lambda one: one.since)

    async def _oldest_of(self, queue: str) -> Due | None:
        now = truncate(self._connection.clock.now())
        first = await self._connection.jobs.find_one(
            {"ready": True, "queue": queue, "priority": {"$in": PRIORITIES}, "run_at": {"$lte": now}},
            {"run_at": 1, "created_at": 1, "name": 1},
            sort=[("run_at", 1)],
            hint=CLAIM,
        )
        if first is None:
            return None
        name = first.get("name")
        return Due(queue, _due_since(first), name if isinstance(name, str) else None, str(first["_id"]))

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


def _due_since(job: Document) -> datetime:
    """The instant since which a job has been due; one that was created for a time in the past, since then."""
    instants = [job[name] for name in ("run_at", "created_at") if isinstance(job.get(name), datetime)]
    return max(instants, default=EPOCH)
