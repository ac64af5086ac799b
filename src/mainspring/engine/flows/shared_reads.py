"""Reads the jobs before the nodes of one claim: one statement for many nodes.

A worker claims hundreds of nodes at once where many flows run; a statement for each of them would cost more than all
the rest of a short job. The read is made when the first node of a group starts. The predecessors of all nodes of the
group have ended by then, since all of them are claimed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from mainspring.store import Store
from mainspring.store.codec import DocumentId, document_id
from mainspring.store.connection import Document
from mainspring.store.jobs.stored_job import StoredJob

_TOGETHER = 200
"""The most predecessors that are read together, unless one node has more: their results are held at once."""


class SharedRead:
    """The predecessors of a group of nodes, read once."""

    def __init__(self, ids: Iterable[DocumentId] = ()) -> None:
        self.ids = set(ids)
        self._found: Mapping[DocumentId, Document] | None = None
        self._reading = asyncio.Lock()

    async def results(self, store: Store) -> Mapping[DocumentId, Document]:
        """The ends and results of these jobs, as far as they exist. After an error, or a cancellation of the first
        reader, the next one reads."""
        async with self._reading:
            if self._found is None:
                self._found = await store.layouts.results(list(self.ids)) if self.ids else {}
        return self._found


class Grouping:
    """Puts the nodes of one claim into groups, in the order in which they will start."""

    def __init__(self) -> None:
        self._last = SharedRead()

    def share(self, job: StoredJob) -> SharedRead | None:
        """The read that a node shares with those before it; None of a job that is no node, and of one in which another
        program has stored something else: that one fails by its own read, and must not stop the others here."""
        if not job.is_node:
            return None
        try:
            ids = predecessors_of(job.document)
        except Exception:
            return None
        if self._last.ids and len(self._last.ids | ids) > _TOGETHER:
            self._last = SharedRead()
        self._last.ids |= ids
        return self._last


def predecessors_of(document: Document) -> set[DocumentId]:
    """The jobs that a node waits for or refers to, and whose ends it does not have in itself."""
    entries = [*(document.get("after") or ()), *(document.get("refs") or ())]
    return {document_id(one["job"]) for one in entries if isinstance(one, Mapping) and "state" not in one}
