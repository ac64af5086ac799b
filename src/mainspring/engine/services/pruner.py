"""The pruner: deletes finished jobs that have been kept long enough, slowly, beside all other work.

The worker that has the lock `prune` does it. It walks each share of the jobs (`model/jobs/retention.py`) from the
oldest on, a few hundred at a step, and pauses after each step for a multiple of the time that the step has taken: it
takes a small part of the database's time, however slow that is. It remembers its position, so that it does not read
jobs which another rule keeps each time; now and then it begins at the oldest. `store/jobs/retention.py` deletes them.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.clock import monotonic
from mainspring.engine.callbacks import Callbacks
from mainspring.engine.service import LockHolder, Service
from mainspring.engine.services.archive import Archive
from mainspring.errors import ArchiveError
from mainspring.model.jobs.retention import Retention, Share
from mainspring.store import Store
from mainspring.store.connection import Document
from mainspring.store.jobs.retention import Cut
from mainspring.store.jobs.stored_job import StoredJob

logger = logging.getLogger("mainspring")

_LOCK = "prune"
_EVERY = 60.0
_BATCH, _ARCHIVED = 500, 100
# The most jobs of one millisecond that are read at a step, if other rules keep all jobs that were read first.
_MOST = 32_000
# The pause after a step, as a multiple of its length: the pruner works a fifth of the time, a tenth under load.
_PAUSE, _PAUSE_BUSY, _SHORTEST = 4, 9, 0.02
_LAP = timedelta(minutes=15)
_HOLD = 30.0
_FIRST_BACKOFF, _LONGEST_BACKOFF = 5.0, 300.0
_TELL_EVERY = 3600.0
_TICK = timedelta(milliseconds=1)


@dataclass(slots=True)
class Walk:
    """The position of the pruner in one share."""

    begun: datetime
    since: datetime | None = None
    cut: Cut | None = None
    limit: int = _BATCH


class Pruner(Service):
    """The pruner of one worker. `busy` returns whether that worker has as many jobs as it can run."""

    name = "pruner"

    def __init__(
        self,
        *,
        store: Store,
        retention: Retention,
        archive: Archive,
        events: Callbacks,
        worker: str,
        busy: Callable[[], bool],
        failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(store, failed)
        self._retention = retention
        self._archive = archive
        self._events = events
        self._busy = busy
        self._lock = LockHolder(store, _LOCK, worker, _HOLD)
        self._walks: dict[Share, Walk] = {}
        self._told_at = float("-inf")
        self._announced_at = float("-inf")
        self._all_at = float("-inf")
        self._refused = 0

    async def _begin(self) -> None:
        await self._sleep(random.uniform(0.0, 1.0))

    async def run_once(self) -> float:
        return 0.0 if await self.prune() else _EVERY * random.uniform(0.9, 1.1)

    async def _recover(self, error: Exception) -> float:
        if isinstance(error, ArchiveError):
            return random.uniform(0.9, 1.1) * min(_FIRST_BACKOFF * 2.0 ** (self._refused - 1), _LONGEST_BACKOFF)
        self._store.removal.forget_indexes()
        await super()._recover(error)
        return _FIRST_BACKOFF

    async def _end(self) -> None:
        await self._lock.give_up()

    async def prune(self) -> bool:
        """Do a step in each share; return whether more is left."""
        shares = self._retention.ending
        if not shares or not await self._may_prune():
            return False
        await self._store.removal.make_indexes(shares)
        more = False
        for share in self._due(shares):
            if self._stopping or not await self._may_prune():
                return False
            more |= await self._step(share)
        return more

    def _due(self, shares: list[Share]) -> list[Share]:
        """The shares whose end has not been reached, if there are any; once a minute all shares."""
        unfinished = [share for share in shares if share in self._walks and self._walks[share].cut is not None]
        if unfinished and monotonic() < self._all_at + _EVERY:
            return unfinished
        self._all_at = monotonic()
        return shares

    async def _may_prune(self) -> bool:
        """Whether this worker is to prune now."""
        if await self._archive.is_elsewhere(self._store):
            self._tell_elsewhere()
            return False
        if monotonic() >= self._announced_at + _HOLD / 2:
            await self._archive.announce(self._store)
            self._announced_at = monotonic()
        return await self._lock.is_mine()

    async def _step(self, share: Share) -> bool:
        """Do one step in a share; return whether its end has not been reached."""
        began = monotonic()
        walk = self._walk(share)
        if walk.cut is None:
            walk.cut = await self._store.removal.cut(share, self._retention)
            if walk.cut is None:
                return False
        cut = walk.cut
        documents = await self._store.removal.read(share, walk.since, cut.through, walk.limit)
        chosen = [document for document in documents if self._goes(share, document, cut)]
        going = await self._store.removal.without_members(chosen)
        took = monotonic() - began + await self._remove(going)
        _advance(walk, documents, gone=bool(going))
        pause = took * (_PAUSE_BUSY if self._busy() else _PAUSE)
        await self._sleep(min(max(_SHORTEST, pause), _HOLD))
        return walk.cut is not None

    def _walk(self, share: Share) -> Walk:
        """The current walk of a share, or a new one from the oldest job on if the last such began long ago."""
        now = self._store.clock.now()
        walk = self._walks.get(share)
        if walk is None or (walk.cut is None and now >= walk.begun + _LAP):
            walk = self._walks[share] = Walk(now)
        return walk

    def _goes(self, share: Share, document: Document, cut: Cut) -> bool:
        if cut.spares(document):
            return False
        return self._retention.share_of(document) == share and self._store.removal.may_go(document)

    async def _remove(self, documents: Sequence[Document]) -> float:
        """Archive and delete these jobs; return the seconds that the database spent on it."""
        took = 0.0
        size = _ARCHIVED if self._archive else _BATCH
        for start in range(0, len(documents), size):
            batch = documents[start : start + size]
            began = monotonic()
            if self._archive:
                batch = await self._store.removal.load(batch)
                took += monotonic() - began
                await self._give(batch)
                began = monotonic()
            await self._store.removal.remove(batch)
            took += monotonic() - began
        return took

    async def _give(self, documents: Sequence[Document]) -> None:
        """Hand these jobs to the archive hook, and keep the lock while it works."""
        jobs = [self._store.cipher.decode(document) for document in documents]
        giving = asyncio.ensure_future(self._archive.give(jobs))
        try:
            while not giving.done():
                await asyncio.wait({giving}, timeout=_HOLD / 3)
                if not giving.done():
                    await self._lock.renew()
            giving.result()
            self._refused = 0
        except ArchiveError as error:
            self._refused += 1
            logger.error("%s It is tried again later.", error, exc_info=error.__cause__)
            self._events.emit("archive:fail", error.__cause__, [job.id for job in jobs])
            raise
        finally:
            giving.cancel()

    def _tell_elsewhere(self) -> None:
        if monotonic() >= self._told_at + _TELL_EVERY:
            self._told_at = monotonic()
            logger.info("Finished jobs are left to workers with an archive hook; this one has none")


def _advance(walk: Walk, documents: Sequence[Document], *, gone: bool) -> None:
    """Set where the next step begins. The last step may not have read all jobs that ended in its last millisecond."""
    assert walk.cut is not None
    if len(documents) < walk.limit:
        walk.since, walk.cut, walk.limit = walk.cut.through, None, _BATCH
        return
    last = StoredJob(documents[-1]).finished_at
    if gone or last != walk.since:
        walk.since, walk.limit = last, _BATCH
    elif walk.limit < _MOST:
        walk.limit *= 4
    else:
        walk.since, walk.limit = last + _TICK, _BATCH
