"""Reading queues and workers as a whole: seeks in indexes, and counts that end early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from mainspring.model.controls import Paused
from mainspring.model.job import RUNNING
from mainspring.model.overview import QueueStatus, WorkerStatus
from mainspring.store.claim import Claims
from mainspring.store.collections import CLAIM, LEASE, WAITING
from mainspring.store.connection import Connection, Document
from mainspring.store.workers import Workers, versions_of

COUNTED = 1_000
"""How far the jobs of a queue are counted."""
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
        """All queues that anything is known of, with their jobs counted as far as that is cheap."""
        running = await self._running()
        served = [queue for worker in await self._workers.live_documents() for queue in worker.get("queues") or ()]
        names = {*known, *served, *running, *await self._claims.queues(), *await self._waiting_queues()}
        return [await self._status(name, running, pauses.get(name)) for name in sorted(names)[:_QUEUES_SHOWN]]

    async def _status(self, queue: str, running: Mapping[str, int], paused: Paused | None) -> QueueStatus:
        jobs = self._connection.jobs
        with self._connection.deadline():
            ready = await jobs.count_documents({"ready": True, "queue": queue}, hint=CLAIM, limit=COUNTED)
            waiting = await jobs.count_documents({"queue": queue, "held.by": {"$gt": ""}}, hint=WAITING, limit=COUNTED)
        return QueueStatus(queue, ready, waiting, min(running.get(queue, 0), COUNTED), COUNTED, paused)

    async def _running(self) -> Counter[str]:
        """How many jobs of each queue run, among so many."""
        with self._connection.deadline():
            cursor = self._connection.jobs.find(
                {"state": RUNNING}, {"_id": 0, "queue": 1}, hint=LEASE, limit=_RUNNING_READ
            )
            found = await cursor.to_list(_RUNNING_READ)
        return Counter(str(one["queue"]) for one in found if "queue" in one)

    async def _waiting_queues(self) -> list[str]:
        """The queues that have jobs that are held back: one seek in the index for each."""
        names: list[str] = []
        while len(names) < _QUEUES_SHOWN:
            after = {"queue": {"$gt": names[-1] if names else ""}, "held.by": {"$exists": True}}
            with self._connection.deadline():
                found = await self._connection.jobs.find_one(
                    after, {"_id": 0, "queue": 1}, sort=[("queue", 1), ("held.by", 1)], hint=WAITING
                )
            if found is None:
                break
            names.append(found["queue"])
        return names

    async def workers(self) -> list[WorkerStatus]:
        """The workers that have been heard of within the last hour or so, the last one first."""
        live = {document["_id"] for document in await self._workers.live_documents()}
        with self._connection.deadline():
            cursor = self._connection.workers.find({}, sort=[("beat_at", -1)], hint="beat_at", limit=_WORKERS_SHOWN)
            found = await cursor.to_list(_WORKERS_SHOWN)
        return [_worker(document, document["_id"] in live) for document in found]


def _worker(document: Document, live: bool) -> WorkerStatus:
    return WorkerStatus(
        id=str(document["_id"]),
        host=str(document.get("host", "")),
        pid=_whole(document.get("pid")),
        queues=_texts(document.get("queues")),
        handlers=_texts(document.get("handlers")),
        concurrency=_whole(document.get("concurrency")),
        running=_whole(document.get("running")),
        live=live,
        started_at=_instant(document.get("started_at")),
        beat_at=_instant(document.get("beat_at")),
        lease_until=_instant(document.get("lease_until")),
        version=None if document.get("version") is None else str(document["version"]),
        versions=versions_of(document),
    )


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _texts(value: Any) -> tuple[str, ...] | None:
    return None if value is None else tuple(str(one) for one in value)


def _instant(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None
