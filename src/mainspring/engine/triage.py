"""Sorting out the candidates that this worker cannot run, so that they neither block the queue nor get lost.

What is late expires, what cannot be decoded fails and says why, what no live worker can run (`engine/lacks.py`) is held
until one can. What another live worker can run is left to it; for a while this worker then asks only for the rest.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping

from mainspring.clock import monotonic
from mainspring.engine.events import Events
from mainspring.engine.lacks import Lack, NoHandler, NoKey, TooNew, any_of, none_of
from mainspring.engine.peers import Peers
from mainspring.engine.secrecy import Secrecy
from mainspring.handlers import Handlers
from mainspring.model.versions import FIRST_VERSION
from mainspring.store import Store
from mainspring.store.codec import DocumentId, decode_job, undecodable
from mainspring.store.connection import Document
from mainspring.store.tending import overdue

logger = logging.getLogger("mainspring")

_MIXED_FOR = 30.0
_MANY = 1000


class Triage:
    """Sorts candidates for one worker."""

    def __init__(self, store: Store, handlers: Handlers, peers: Peers, events: Events, secrecy: Secrecy) -> None:
        self._store = store
        self._secrecy = secrecy
        self._handlers = handlers
        self._peers = peers
        self._events = events
        self._others: dict[str, dict[Lack, float]] = {}
        """What this worker lacks for jobs that it leaves to others, by queue, and until when it asks for none."""

    def to_ask_for(self, queue: str) -> Document | None:
        """What narrows a look into a queue that also holds jobs for other workers; None to ask for all."""
        lacks = self._left(queue)
        return none_of(lacks, self._handlers.names) if lacks else None

    def _left(self, queue: str) -> list[Lack]:
        now = monotonic()
        return [lack for lack, until in self._others.get(queue, {}).items() if until > now]

    async def sort(self, queue: str, candidates: list[Document]) -> tuple[list[Document], bool]:
        """Those candidates that can be run here, and whether others that stood in their way do so no longer."""
        now = self._store.clock.now()
        runnable: list[Document] = []
        late: list[Document] = []
        lacking: dict[Lack, list[Document]] = defaultdict(list)
        cleared = False
        for document in candidates:
            problem = undecodable(document)
            if problem is not None:
                cleared |= await self._store.tending.fail_undecodable(document, problem)
            elif overdue(document, now):
                late.append(document)
            elif (lack := self._lack(document)) is not None:
                lacking[lack].append(document)
            else:
                runnable.append(document)
        if late:
            cleared |= await self._expire(late)
        if lacking:
            cleared |= await self._set_aside(queue, lacking)
        return runnable, cleared

    def _lack(self, document: Document) -> Lack | None:
        """What this worker lacks for running a job, if anything."""
        name: str = document["name"]
        if self._handlers.get(name) is None:
            return NoHandler(name)
        version: int = document.get("data_v", FIRST_VERSION)
        if version > FIRST_VERSION and not self._handlers.takes(name, version):
            return TooNew(name, version)
        missing = self._secrecy.missing_keys(document, self._handlers.get(name))
        return None if missing is None else NoKey(name, missing)

    async def _expire(self, late: list[Document]) -> bool:
        expired = await self._store.tending.expire_these(late)
        for document in expired:
            if self._events.wanted("job:expire"):
                self._events.emit("job:expire", decode_job(document))
        return bool(expired)

    async def _set_aside(self, queue: str, lacking: Mapping[Lack, list[Document]]) -> bool:
        """Hold jobs that no live worker can run; leave the others to the workers that can."""
        await self._peers.refresh()
        nobodys = [lack for lack in lacking if not self._peers.somebody_has_not(queue, lack)]
        cleared = self._leave_to_others(queue, [lack for lack in lacking if lack not in nobodys])
        if nobodys:
            lined = [one for lack in nobodys for one in lacking[lack] if "line" in one]
            cleared |= await self._hold(queue, nobodys, lined)
            logger.warning("Nobody has %s; these jobs wait", ", ".join(sorted(lack.what for lack in nobodys)))
            # A worker that came meanwhile has registered itself before it looked for held jobs, so either it has
            # released these or it is seen now.
            await self._peers.refresh()
            for lack in nobodys:
                if self._peers.somebody_has_not(queue, lack):
                    await self._store.tending.release(lack.by, lack.where)
        return cleared

    def _leave_to_others(self, queue: str, lacks: Iterable[Lack]) -> bool:
        """Ask for none of these for a while; whether that is new, so that a look at the rest is worth it."""
        left = self._left(queue)
        until = monotonic() + _MIXED_FOR
        self._others[queue] = {lack: self._others[queue][lack] for lack in left} | dict.fromkeys(lacks, until)
        return any(lack not in left for lack in self._others[queue])

    async def _hold(self, queue: str, lacks: list[Lack], lined: list[Document]) -> bool:
        """Hold the due jobs that lack these, many at a time: a long line of them must not starve those behind it."""
        ids: dict[Lack, list[DocumentId]] = defaultdict(list)
        for document in [*await self._store.claims.due(queue, any_of(lacks), _MANY), *lined]:
            lack = self._lack(document)
            if lack is not None:
                ids[lack].append(document["_id"])
        held = 0
        for lack, those in ids.items():
            held += await self._store.tending.hold(those, lack.by, lack.note(queue))
        return held > 0
