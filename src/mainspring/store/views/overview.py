"""Reading queues and workers as a whole: seeks in indexes, and counts that end early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from mainspring.model.jobs.job import RUNNING
from mainspring.model.limits.controls import Paused
from mainspring.model.views.overview import QueueStatus
from mainspring.model.workers import WorkerStatus
from mainspring.store.connection import Connection
from mainspring.store.jobs.claim import Claims
from mainspring.store.schema import CLAIM, LEASE, WAITING_BY_QUEUE
from mainspring.store.workers import WITHOUT_DESCRIPTIONS, Workers, read_worker

COUNTED = 1_000
"""The number up to which the jobs of a queue are counted."""
_QUEUES_SHOWN = 500
_RUNNING_READ = 20_000
_WORKERS_SHOWN = 1_000


class Overview:
    """The store's verbs for an overview."""

    def __init__(self, connection: Connection, claims: Claims, workers: Workers) -> None:
        self._connection = connection
        self._claims = claims
        self._workers = workers

    async def queues(self, pauses: Mapping[str, Paused], known: Iterable[str]) -> list[QueueStatus]:
        """All known queues, with their jobs counted as far as that is cheap."""
        running = await self._running()
        served = [queue for worker in await self._workers.live() for queue in worker.queues or ()]
        names = {*known, *served, *running, *await self._claims.queues(), *await self._waiting_queues()}
        return [await self._status(name, running, pauses.get(name)) for name in sorted(names)[:_QUEUES_SHOWN]]

    async def _status(self, queue: str, running: Mapping[str, int], paused: Paused | None) -> QueueStatus:
        jobs = self._connection.jobs
        with self._connection.deadline():
            ready = await jobs.count({"ready": True, "queue": queue}, hint=CLAIM, limit=COUNTED)
            waiting = await jobs.count(
                {"queue": queue, "waiting_for.by": {"$gt": ""}}, hint=WAITING_BY_QUEUE, limit=COUNTED
            )
        return QueueStatus(queue, ready, waiting, min(running.get(queue, 0), COUNTED), COUNTED, paused)

    async def _running(self) -> Counter[str]:
        """The number of running jobs of each queue, among a bounded number of running jobs."""
        found = await self._connection.jobs.find_all(
            {"state": RUNNING}, {"_id": 0, "queue": 1}, hint=LEASE, limit=_RUNNING_READ
        )
        return Counter(str(one["queue"]) for one in found if "queue" in one)

    async def _waiting_queues(self) -> list[str]:
        """The queues with waiting jobs: one seek in the index for each."""
        names: list[str] = []
        while len(names) < _QUEUES_SHOWN:
            after = {"queue": {"$gt": names[-1] if names else ""}, "waiting_for.by": {"$exists": True}}
            found = await self._connection.jobs.find_one(
                after, {"_id": 0, "queue": 1}, sort=[("queue", 1), ("waiting_for.by", 1)], hint=WAITING_BY_QUEUE
            )
            if found is None:
                break
            names.append(found["queue"])
        return names

    async def workers(self) -> list[WorkerStatus]:
        """The workers whose last heartbeat was within the last hour or so, the latest first."""
        live = {worker.id for worker in await self._workers.live()}
        found = await self._connection.workers.find_all(
            {}, WITHOUT_DESCRIPTIONS, sort=[("beat_at", -1)], hint="beat_at", limit=_WORKERS_SHOWN
        )
        return [read_worker(document, live=str(document["_id"]) in live) for document in found]
