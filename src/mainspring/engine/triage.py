"""Sorting out the candidates that this worker cannot run, so that they neither block the queue nor get lost.

What is late expires, what cannot be decoded fails and says why, what nobody has a handler for is held until somebody
has. What another live worker has a handler for is left to it; for a while this worker then asks for its own names only.
"""

from __future__ import annotations

import logging
from collections import defaultdict

from mainspring.clock import monotonic
from mainspring.engine.events import Events
from mainspring.engine.peers import Peers
from mainspring.handlers import Handlers
from mainspring.store import Store
from mainspring.store.codec import DocumentId, decode_job, undecodable
from mainspring.store.connection import Document
from mainspring.store.tending import NO_HANDLER, overdue

logger = logging.getLogger("mainspring")

_MIXED_FOR = 30.0
_MANY = 1000


class Triage:
    """Sorts candidates for one worker."""

    def __init__(self, store: Store, handlers: Handlers, peers: Peers, events: Events) -> None:
        self._store = store
        self._handlers = handlers
        self._peers = peers
        self._events = events
        self._mixed_until: dict[str, float] = {}

    def names_to_ask_for(self, queue: str) -> list[str] | None:
        """The names to ask for in a queue that also holds jobs for other workers; None to ask for all."""
        return self._handlers.names if self._mixed_until.get(queue, 0.0) > monotonic() else None

    async def sort(self, queue: str, candidates: list[Document]) -> tuple[list[Document], bool]:
        """Those candidates that can be run here, and whether others that stood in their way do so no longer."""
        now = self._store.clock.now()
        runnable: list[Document] = []
        late: list[Document] = []
        unknown: set[str] = set()
        cleared = False
        for document in candidates:
            problem = undecodable(document)
            if problem is not None:
                cleared |= await self._store.tending.fail_undecodable(document, problem)
            elif overdue(document, now):
                late.append(document)
            elif self._handlers.get(document["name"]) is None:
                unknown.add(document["name"])
            else:
                runnable.append(document)
        if late:
            cleared |= await self._expire(late)
        if unknown:
            cleared |= await self._set_aside(queue, unknown)
        return runnable, cleared

    async def _expire(self, late: list[Document]) -> bool:
        expired = await self._store.tending.expire_these(late)
        for document in expired:
            if self._events.wanted("job:expire"):
                self._events.emit("job:expire", decode_job(document))
        return bool(expired)

    async def _set_aside(self, queue: str, unknown: set[str]) -> bool:
        """Hold jobs that no live worker can run; leave the others to the workers that can."""
        await self._peers.refresh()
        nobodys = [name for name in sorted(unknown) if not self._peers.somebody_serves(queue, name)]
        cleared = False
        if len(nobodys) < len(unknown):
            cleared = self.names_to_ask_for(queue) is None
            self._mixed_until[queue] = monotonic() + _MIXED_FOR
        if nobodys:
            cleared |= await self._hold(queue, nobodys)
            logger.warning("Nobody has a handler for %s; these jobs wait", ", ".join(map(repr, nobodys)))
            # A worker that came meanwhile has registered itself before it looked for held jobs, so either it has
            # released these or it is seen now.
            await self._peers.refresh()
            late = [name for name in nobodys if self._peers.somebody_serves(queue, name)]
            if late:
                await self._store.tending.release(NO_HANDLER, late)
        return cleared

    async def _hold(self, queue: str, names: list[str]) -> bool:
        """Hold the due jobs of these names, many at a time: a long line of them must not starve those behind it."""
        ids: dict[str, list[DocumentId]] = defaultdict(list)
        for job_id, name in await self._store.claims.due_ids(queue, names, _MANY):
            ids[name].append(job_id)
        held = 0
        for name, those in ids.items():
            note = f"No live worker that serves the queue {queue!r} has a handler for {name!r}."
            held += await self._store.tending.hold(those, NO_HANDLER, note)
        return held > 0
