"""The results that a node of a declared flow starts with: read before its handler is called.

`read_predecessors` reads the jobs that the node waits for or refers to; `fill_data` puts their results into the data.
Jobs that are no nodes cost nothing. The stored data is not changed: another attempt starts from it anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mainspring.clock import monotonic
from mainspring.engine.flows.shared_reads import SharedRead, predecessors_of
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.errors import Unavailable
from mainspring.model.flows.before import Predecessor
from mainspring.model.flows.references import Fill, fill_in
from mainspring.store import Store
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Document

DELETED = "deleted"
_PAUSE = 0.1


class Predecessors:
    """The jobs before a node: those that it waits for, by node, and all that it refers to, by id."""

    def __init__(self, document: Document, found: Mapping[str, Predecessor]) -> None:
        self._found = found
        self._refs = [one for one in document.get("refs") or () if isinstance(one, Mapping)]
        self._after = [one for one in document.get("after") or () if isinstance(one, Mapping)]

    @property
    def by_node(self) -> dict[str, Predecessor]:
        return {str(one["node"]): _of(one, self._found) for one in self._after}

    def fill(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The data with the results that it refers to. Raises MissingResult."""
        if not self._refs:
            return data
        nodes = {str(one["node"]): _of(one, self._found) for one in self._refs}
        fills = [Fill(tuple(one["at"]), str(one["node"]), tuple(one.get("path") or ())) for one in self._refs]
        return fill_in(data, fills, lambda node: (nodes[node].result, nodes[node].state))


async def read_predecessors(claimed: ClaimedJob, store: Store) -> Predecessors | None:
    """Read the jobs before a node; None of a job that is no node. Try again while the server cannot be reached and the
    claim holds: that is no failure of the handler."""
    document = claimed.job.document
    if not (document.get("after") or document.get("refs")):
        return None
    own = predecessors_of(document)
    shared = claimed.predecessors_read or SharedRead(own)
    while True:
        try:
            found = await shared.results(store)
            break
        except Unavailable:
            if claimed.stopping or monotonic() >= claimed.valid_until:
                raise
            shared = SharedRead(own)  # all the results of the group may be more than one operation can read in time
            await asyncio.sleep(_PAUSE)
    return Predecessors(document, {str(key): _predecessor(store, key, found[key]) for key in own if key in found})


def _predecessor(store: Store, job_id: DocumentId, document: Document) -> Predecessor:
    job = store.cipher.decode(document)
    return Predecessor("", str(job_id), job.state, job.result, job.error)


def _of(entry: Mapping[str, Any], found: Mapping[str, Predecessor]) -> Predecessor:
    """The predecessor that an entry names; an entry may have the outcome in itself."""
    node, job_id = str(entry["node"]), str(entry["job"])
    if "state" in entry:
        return Predecessor(node, job_id, str(entry["state"]), entry.get("result"))
    known = found.get(job_id)
    if known is None:
        return Predecessor(node, job_id, DELETED)
    return Predecessor(node, job_id, known.state, known.result, known.error)
