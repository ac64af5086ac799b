"""Suggestions for a filter: names, queues, tags and types of errors, from what ran and was made lately.

Nothing lists them all at a bounded cost. So the latest counts of attempts are read, the handlers of the live workers,
the latest jobs and the latest dead letters: what is missing was rare lately.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mainspring.model.access.api_keys import Scope
from mainspring.model.views.search import Suggestions
from mainspring.store.connection import Connection, Document
from mainspring.store.schema import BEAT_AT, BY_ID, COUNTED, DEAD

_COUNTS_READ, _JOBS_READ, _LETTERS_READ, _WORKERS_READ = 600, 400, 200, 100
_MOST = 500
_OF_JOBS = {"_id": 0, "name": 1, "queue": 1, "tags": 1}


class Suggesting:
    """The store's verb for suggestions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def suggest(self, scope: Scope) -> Suggestions:
        """What a filter may name, within a scope."""
        jobs = await self._latest(BY_ID, [("_id", -1)], {}, _OF_JOBS, _JOBS_READ)
        failed = await self._latest(
            DEAD,
            [("state", -1), ("finished_at", -1), ("_id", -1)],
            {"state": "failed"},
            _OF_JOBS | {"error.type": 1},
            _LETTERS_READ,
        )
        jobs = [one for one in [*jobs, *failed] if _allows(scope, one)]
        counted = [one for one in await self._counted() if _allows(scope, one)]
        workers = await self._workers() if scope.everything else []
        handlers = [name for worker in workers for name in _listed(worker.get("handlers"))]
        served = [queue for worker in workers for queue in _listed(worker.get("queues"))]
        return Suggestions(
            _sorted([*(one.get("name") for one in [*jobs, *counted]), *handlers]),
            _sorted([*(one.get("queue") for one in [*jobs, *counted]), *served]),
            _sorted(tag for one in jobs for tag in _listed(one.get("tags"))),
            _sorted(error.get("type") for one in jobs if isinstance(error := one.get("error"), dict)),
        )

    async def _latest(
        self, index: str, sort: list[tuple[str, int]], fixed: Document, fields: Document, limit: int
    ) -> list[Document]:
        return await self._connection.jobs.find_all(fixed, fields, sort=sort, hint=index, limit=limit)

    async def _counted(self) -> list[Document]:
        """The queue and the name of the latest counts of attempts."""
        found: list[Document] = []
        for per in ("minute", "hour"):
            found += await self._connection.stats.find_all(
                {"_id.per": per},
                {"_id": 1},
                sort=[("_id.per", -1), ("_id.at", -1)],
                hint=COUNTED,
                limit=_COUNTS_READ // 2,
            )
        return [one["_id"] for one in found]

    async def _workers(self) -> list[Document]:
        return await self._connection.workers.find_all(
            {}, {"_id": 0, "handlers": 1, "queues": 1}, sort=[("beat_at", -1)], hint=BEAT_AT, limit=_WORKERS_READ
        )


def _allows(scope: Scope, one: Document) -> bool:
    queue, name = one.get("queue"), one.get("name")
    return isinstance(queue, str) and isinstance(name, str) and scope.allows(queue, name)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _sorted(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(sorted({one for one in values if isinstance(one, str) and one})[:_MOST])
