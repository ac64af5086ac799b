"""Finding the jobs whose attempts failed last, whatever their state is now.

Jobs whose last attempt failed are in the index of dead letters. A job that was given another attempt has the time of
its last failure in a field, and an index has only such jobs: a job that never fails is in neither. Both are read from
their newest end, and no further than a search reads, so that a scope with few jobs costs little, too.
"""

from __future__ import annotations

from datetime import datetime

from mainspring.clock import EPOCH
from mainspring.model.access.api_keys import Scope
from mainspring.model.jobs.job import FAILED
from mainspring.store.connection import Document
from mainspring.store.reach import reached
from mainspring.store.schema import DEAD, FAILURES
from mainspring.store.views import search as searches
from mainspring.store.views.search import Searching
from mainspring.store.views.walks import Walk


class RecentFailures:
    """The store's verb for the latest failures."""

    def __init__(self, searching: Searching) -> None:
        self._searching = searching

    async def latest(self, limit: int, scope: Scope) -> list[Document]:
        """The jobs whose attempts failed last, each once, the latest failure first."""
        found: dict[str, Document] = {}
        for walk in _walks(scope):
            read = await self._searching.read_exact(walk, (), limit, None, searches.SCANNED // 2)
            found |= {str(document["_id"]): document for document in read.documents}
        return sorted(found.values(), key=_failed_at, reverse=True)[:limit]


def _walks(scope: Scope) -> tuple[Walk, Walk]:
    since: Document = {"last_failure_at": {"$gte": EPOCH}}
    wanted = reached(scope)
    return (
        Walk(FAILURES, {}, ("last_failure_at", "_id"), within=since, wanted=wanted),
        Walk(DEAD, {"state": FAILED}, ("finished_at", "_id", "fingerprint"), wanted=wanted),
    )


def _failed_at(document: Document) -> datetime:
    at = document.get("finished_at" if document["state"] == FAILED else "last_failure_at")
    return at if isinstance(at, datetime) else EPOCH  # another program may have inserted the job
