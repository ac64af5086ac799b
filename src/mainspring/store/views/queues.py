"""Reading queues page by page: seeks in indexes, and counts that end early.

However many jobs and queues are stored, a page examines about 2,000 keys at most: the keys that may be counted are
shared among the queues of the page, and queues with a short backlog leave theirs to the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from mainspring.clock import truncate
from mainspring.model.jobs.job import RUNNING
from mainspring.model.limits.controls import Paused
from mainspring.model.views.queues import QueueDetail, QueueStatus, Recent, WaitingAt, serving
from mainspring.model.views.scaling import QueueScale, wanted_workers
from mainspring.model.views.statistics import summed
from mainspring.model.views.windows import MINUTE
from mainspring.model.workers import WorkerStatus
from mainspring.store.connection import Connection, Document
from mainspring.store.fitting import fit
from mainspring.store.jobs.claim import PRIORITIES
from mainspring.store.schema import CLAIM, LEASE, WAITING_BY_QUEUE
from mainspring.store.shapes import JOB
from mainspring.store.side_by_side import side_by_side
from mainspring.store.views.oldest_due import OldestDue
from mainspring.store.views.statistics import Statistics
from mainspring.store.workers import Workers

PAGE = 20
"""The most queues of a page."""
DUE, SCHEDULED, WAITING = "due", "scheduled", "waiting"
_KINDS = (DUE, SCHEDULED, WAITING)
_FIRST_ROUND, _SECOND_ROUND = 200, 800
_COUNTED_ALONE = 300
_COUNTED_FOR_SCALE = 5000
_RUNNING_READ = 200
_SAMPLE = 200
_LATELY = 30 * MINUTE
_HOUR = 60 * MINUTE

Counted = dict[tuple[str, str], int]


class Queues:
    """The store's verbs for queues."""

    def __init__(self, connection: Connection, oldest_due: OldestDue, workers: Workers, statistics: Statistics) -> None:
        self._connection = connection
        self._oldest_due = oldest_due
        self._workers = workers
        self._statistics = statistics

    async def page(
        self, pauses: Mapping[str, Paused], known: Iterable[str], after: str = "", limit: int = PAGE
    ) -> tuple[list[QueueStatus], str | None]:
        """The next queues by name, and the name to go on after; None at the end."""
        live, running = await self._workers.live(), await self._running()
        named = {queue for worker in live for queue in (*(worker.queues or ()), *worker.busy)}
        pending = {*await self._ready(after, limit), *await self._held(after, limit)}
        found = {*known, *pauses, *named, *running, *pending, *await self._statistics.active_queues(_LATELY)}
        names = sorted(name for name in found if name > after)
        shown = names[:limit]
        statuses = await self._statuses(shown, pauses, live, running)
        return statuses, shown[-1] if len(names) > limit else None

    async def some(self, names: Sequence[str], pauses: Mapping[str, Paused]) -> list[QueueStatus]:
        """Those of these queues that exist, at most a page."""
        live, running = await self._workers.live(), await self._running()
        return [one for one in await self._statuses(names[:PAGE], pauses, live, running) if one.exists]

    async def detail(self, queue: str, paused: Paused | None) -> QueueDetail:
        """One queue with what its jobs wait for."""
        live, running = await self._workers.live(), await self._running()
        counts = {(queue, kind): await self._count(queue, kind, _COUNTED_ALONE) for kind in _KINDS}
        recent = await self._statistics.recent(_HOUR, [queue])
        status = await self._status(queue, counts, _COUNTED_ALONE, paused, live, running, recent)
        held, names = await self._waits(queue), await self._names(queue)
        return QueueDetail(status, _grouped(held), len(held), names, sum(names.values()))

    async def scale(
        self, queue: str, paused: Paused | None, drain: float, slots_per_worker: int | None, usual_slots: int
    ) -> QueueScale:
        """The workers that a queue needs. Without `slots_per_worker`, it is the mean of the live workers that serve the
        queue, and `usual_slots` if there is none."""
        live, running = await self._workers.live(), await self._running()
        ready = await self._count(queue, DUE, _COUNTED_FOR_SCALE)
        oldest = await self._oldest_due.ready(queue) if ready else None
        counts = summed((await self._statistics.recent(_HOUR, [queue])).counts.get(queue, {}).values())
        run_time, workers = counts.mean_duration, serving(live, queue)
        mean = round(sum(one.concurrency for one in workers) / len(workers)) if workers else usual_slots
        slots = max(1, mean if slots_per_worker is None else slots_per_worker)
        run_seconds = None if run_time is None else run_time.total_seconds()
        busy = running.get(queue, 0)
        return QueueScale(
            queue,
            ready,
            ready >= _COUNTED_FOR_SCALE,
            timedelta(0) if oldest is None else max(timedelta(0), self._connection.clock.now() - oldest.since),
            busy,
            run_time,
            slots,
            wanted_workers(ready, busy, run_seconds, slots, drain, paused=paused is not None),
        )

    # -- the names -------------------------------------------------------------------------------------------------

    async def _ready(self, after: str, limit: int) -> list[str]:
        """The next queues with ready jobs: one seek for each."""
        names: list[str] = []
        while len(names) <= limit:
            behind = {"ready": True, "queue": {"$gt": names[-1] if names else after}}
            found = await self._connection.jobs.find_one(
                behind, {"_id": 0, "queue": 1}, sort=[("ready", 1), ("queue", 1)], hint=CLAIM
            )
            if found is None:
                break
            names.append(found["queue"])
        return names

    async def _held(self, after: str, limit: int) -> list[str]:
        """The next queues with waiting jobs: one seek for each."""
        return await self._oldest_due.waiting_queues(after, limit=limit + 1)

    # -- the counts ------------------------------------------------------------------------------------------------

    async def _statuses(
        self,
        names: Sequence[str],
        pauses: Mapping[str, Paused],
        live: Sequence[WorkerStatus],
        running: Mapping[str, int],
    ) -> list[QueueStatus]:
        counts, counted = await self._counts(names)
        recent = await self._statistics.recent(_LATELY, names)
        return await side_by_side(
            lambda name: self._status(name, counts, counted, pauses.get(name), live, running, recent), names
        )

    async def _counts(self, names: Sequence[str]) -> tuple[Counted, int]:
        """The pending jobs of these queues by kind, and the number up to which they were counted."""
        wanted = [(name, kind) for name in names for kind in _KINDS]
        first = max(2, _FIRST_ROUND // max(1, len(wanted)))
        counts = await self._count_all(wanted, first)
        long = [one for one in wanted if counts[one] >= first]
        second = _SECOND_ROUND // max(1, len(long))
        if not long or second <= first:
            return counts, first
        return counts | await self._count_all(long, second), second

    async def _count_all(self, wanted: Sequence[tuple[str, str]], most: int) -> Counted:
        found = await side_by_side(lambda one: self._count(*one, most), wanted)
        return dict(zip(wanted, found, strict=True))

    async def _count(self, queue: str, kind: str, most: int) -> int:
        jobs = self._connection.jobs
        if kind == WAITING:
            return await jobs.count(_waiting(queue), hint=WAITING_BY_QUEUE, limit=most)
        now = truncate(self._connection.clock.now())
        when = {"$lte": now} if kind == DUE else {"$gt": now}
        # The bounds of each priority are a range of their own: no key between due and later jobs is examined.
        within = {"ready": True, "queue": queue, "priority": {"$in": PRIORITIES}, "run_at": when}
        return await jobs.count(within, hint=CLAIM, limit=most)

    async def _status(
        self,
        queue: str,
        counts: Counted,
        counted: int,
        paused: Paused | None,
        live: Sequence[WorkerStatus],
        running: Mapping[str, int],
        recent: Recent,
    ) -> QueueStatus:
        due, scheduled = counts[queue, DUE], counts[queue, SCHEDULED]
        workers, activity = serving(live, queue), recent.of(queue)
        ready = await self._oldest_due.ready(queue) if due else None
        waiting = await self._oldest_due.waiting(queue) if counts[queue, WAITING] else None
        return QueueStatus(
            queue,
            min(due + scheduled, counted),
            counts[queue, WAITING],
            running.get(queue, 0),
            counted,
            paused,
            due,
            scheduled,
            min((one.since for one in (ready, waiting) if one is not None), default=None),
            len(workers),
            sum(worker.concurrency for worker in workers),
            any(queue in (worker.queues or ()) for worker in live),
            activity,
            activity.per_second(self._connection.clock.now()),
            None if ready is None else ready.since,
        )

    async def _running(self) -> Counter[str]:
        """The number of running jobs of each queue. Where many run, it is that of the workers' last heartbeats."""
        found = await self._connection.jobs.find_all(
            {"state": RUNNING}, {"_id": 0, "queue": 1}, hint=LEASE, limit=_RUNNING_READ
        )
        if len(found) < _RUNNING_READ:
            return Counter(one["queue"] for one in found if isinstance(one.get("queue"), str))
        reported: Counter[str] = Counter()
        for worker in await self._workers.live():
            reported.update(worker.busy)
        return reported

    # -- what waits ------------------------------------------------------------------------------------------------

    async def _waits(self, queue: str) -> list[Document]:
        """The first waiting jobs of a queue, with what they wait for."""
        found = await self._connection.jobs.find_all(
            _waiting(queue), {"waiting_for": 1, "line": 1}, hint=WAITING_BY_QUEUE, limit=_SAMPLE
        )
        return [fit(one, JOB).document for one in found]

    async def _names(self, queue: str) -> dict[str, int]:
        """The number of jobs by name among those that are due next."""
        now = truncate(self._connection.clock.now())
        due = {"ready": True, "queue": queue, "priority": {"$in": PRIORITIES}, "run_at": {"$lte": now}}
        found = await self._connection.jobs.find_all(due, {"_id": 0, "name": 1}, hint=CLAIM, limit=_SAMPLE)
        return dict(Counter(one["name"] for one in found if isinstance(one.get("name"), str)).most_common())


def _waiting(queue: str) -> Document:
    return {"queue": queue, "waiting_for.by": {"$gt": ""}}


def _grouped(held: Iterable[Document]) -> tuple[WaitingAt, ...]:
    """The waiting jobs by what they wait for, the most frequent first."""
    groups: defaultdict[tuple[str, str | None], list[Document]] = defaultdict(list)
    for document in held:
        waiting = document.get("waiting_for") or {}
        groups[waiting.get("by", ""), document.get("line")].append(waiting)
    found = [
        WaitingAt(by, gate, str(those[0].get("note", "")), len(those), min(_instants(those), default=None))
        for (by, gate), those in groups.items()
    ]
    return tuple(sorted(found, key=lambda one: -one.count))


def _instants(waits: Iterable[Document]) -> list[datetime]:
    return [one["since"] for one in waits if isinstance(one.get("since"), datetime)]
