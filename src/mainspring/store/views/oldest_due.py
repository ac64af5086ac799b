"""The job of each queue that has been due for longest: a ready one, or one that waits.

A job at a limit, in a sequence or behind the keys before it has left the claim's index. With that index alone, a queue
whose jobs all wait at a limit would look idle. However many jobs and queues are stored, the reads of
`by_queue` examine about 800 keys at most: the overview and the chore that notes the ages call it. Alert rules walk all
queues with `since`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.clock import EPOCH, truncate
from mainspring.model.limits.controls import BROKEN, PAUSED
from mainspring.model.views.problems import Due
from mainspring.store.connection import Connection, Document
from mainspring.store.jobs.claim import PRIORITIES, QUEUES_PER_PEEK, Claims
from mainspring.store.jobs.upkeep import NO_HANDLER, NO_KEY, TOO_NEW
from mainspring.store.limits.wait_lists import BY_LIMIT
from mainspring.store.schedules.codec import OVERLAP
from mainspring.store.schema import CLAIM, WAITING_BY_QUEUE

_QUEUES_LOOKED_AT = 100
_QUEUES_LOOKED_INTO = 30
_WAITING_QUEUES = 40
# Jobs behind these gates are passed over; as many of the oldest waiting jobs of a queue are read to find another one.
_CLOSED = (f"{PAUSED}:", f"{BROKEN}:")
_READ_AT_GATES = 10
_REASONS = [BY_LIMIT, NO_HANDLER, TOO_NEW, NO_KEY, OVERLAP]
# Other programs may have stored anything: an array matches by one of its elements.
_ONE_TEXT = {"$not": {"$type": "array"}}
_FIELDS = {"run_at": 1, "created_at": 1, "name": 1, "line": 1}


class OldestDue:
    """The store's verbs for the age of what waits."""

    def __init__(self, connection: Connection, claims: Claims) -> None:
        self._connection = connection
        self._claims = claims

    async def by_queue(self, queues: Sequence[str] | None = None, *, held: bool = False) -> list[Due]:
        """The job of each queue that has been due for longest, the longest first.

        Jobs behind a pause or a breaker, and those for which a handler, a version or a key is missing, count only with
        `held`: each has a problem of its own. The first hundred queues with ready
        jobs are looked at, and the first forty with waiting jobs. Of the ready jobs of each queue, the one that is
        claimed next is read, and of the thirty queues whose next job has waited longest also the oldest of every
        priority.
        """
        names = sorted(await self._claims.queues() if queues is None else queues)[:_QUEUES_LOOKED_AT]
        heads = await self._claims.heads(names)
        ready = [await self.ready(queue) for _, queue in heads[:_QUEUES_LOOKED_INTO]]
        found = [one for one in ready if one is not None] + [
            Due(queue, at, None) for at, queue in heads[_QUEUES_LOOKED_INTO:]
        ]
        oldest = {one.queue: one for one in found}
        for queue in await self.waiting_queues(limit=_WAITING_QUEUES) if queues is None else names[:_WAITING_QUEUES]:
            waiting = await (self.waiting(queue) if held else self._at_a_gate(queue))
            if (older := _older(oldest.get(queue), waiting)) is not None:
                oldest[queue] = older
        return sorted(oldest.values(), key=lambda one: one.since)

    async def since(self, instant: datetime, queues: Sequence[str] | None = None) -> list[Due]:
        """The job of each queue that has been due for longest, if that is since this instant or before; the longest
        first. Jobs behind a pause or a breaker, and those without a handler, do not count.

        All queues are walked, a page at a time: one command finds that no ready job of a page is due for so long, and
        otherwise each queue of the page is read.
        """
        names = sorted(await self._claims.queues() if queues is None else queues)
        oldest: dict[str, Due | None] = {}
        for start in range(0, len(names), QUEUES_PER_PEEK):
            page = names[start : start + QUEUES_PER_PEEK]
            first = await self._claims.next_run_at(page)
            if first is not None and first[0] <= instant:
                oldest |= {queue: await self.ready(queue) for queue in page}
        for queue in await self._all_waiting_queues() if queues is None else names:
            oldest[queue] = _older(oldest.get(queue), await self._at_a_gate(queue))
        found = (one for one in oldest.values() if one is not None and one.since <= instant)
        return sorted(found, key=lambda one: one.since)

    async def _all_waiting_queues(self) -> list[str]:
        names: list[str] = []
        while page := await self.waiting_queues(names[-1] if names else "", limit=_WAITING_QUEUES):
            names += page
        return names

    async def waiting_queues(self, after: str = "", *, limit: int) -> list[str]:
        """The next queues with waiting jobs: one seek for each."""
        names: list[str] = []
        while len(names) < limit:
            found = await self._connection.jobs.find_one(
                {"waiting_for.by": {"$exists": True}, "queue": {"$gt": names[-1] if names else after, **_ONE_TEXT}},
                {"_id": 0, "queue": 1},
                sort=[("queue", 1), ("waiting_for.by", 1)],
                hint=WAITING_BY_QUEUE,
            )
            if found is None:
                break
            names.append(found["queue"])
        return names

    async def ready(self, queue: str) -> Due | None:
        """The oldest ready job of a queue."""
        first = await self._connection.jobs.find_one(
            {"ready": True, "queue": queue, "priority": {"$in": PRIORITIES}, **self._past()},
            _FIELDS,
            sort=[("run_at", 1)],
            hint=CLAIM,
        )
        return None if first is None else _due(queue, first)

    async def waiting(self, queue: str) -> Due | None:
        """The oldest waiting job of a queue, whatever it waits for: the server merges the reasons by their times."""
        first = await self._connection.jobs.find_one(
            {"queue": queue, "waiting_for.by": {"$in": _REASONS}, **self._past()},
            _FIELDS,
            sort=[("run_at", 1)],
            hint=WAITING_BY_QUEUE,
        )
        return None if first is None else _due(queue, first)

    async def _at_a_gate(self, queue: str) -> Due | None:
        """The oldest job of a queue on a wait list that is not that of a pause or a breaker."""
        found = await self._connection.jobs.find_all(
            {"queue": queue, "waiting_for.by": BY_LIMIT, **self._past()},
            _FIELDS,
            sort=[("run_at", 1)],
            hint=WAITING_BY_QUEUE,
            limit=_READ_AT_GATES,
        )
        due = (_due(queue, one) for one in found)
        return next((one for one in due if not (one.gate or "").startswith(_CLOSED)), None)

    def _past(self) -> Document:
        return {"run_at": {"$lte": truncate(self._connection.clock.now())}}


def due_since(job: Document) -> datetime:
    """The instant since which a job has been due; one that was created for a time in the past, since then."""
    instants = [job[name] for name in ("run_at", "created_at") if isinstance(job.get(name), datetime)]
    return max(instants, default=EPOCH)


def _due(queue: str, job: Document) -> Due:
    name, gate = job.get("name"), job.get("line")
    return Due(
        queue,
        due_since(job),
        name if isinstance(name, str) else None,
        str(job["_id"]),
        gate if isinstance(gate, str) else None,
    )


def _older(one: Due | None, other: Due | None) -> Due | None:
    return min((due for due in (one, other) if due is not None), key=lambda due: due.since, default=None)
