"""Rolls the statistics up into longer spans, and deletes counts that were kept long enough.

It also notes two things that no attempt tells: for how long the oldest due job of each queue has been due, since the
lateness of started jobs says nothing while none is started, and versions of workers that were not seen before.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring.engine.chores.chore import Chore
from mainspring.model.workers import versions_among


class RollUpStatistics(Chore):
    name = "roll_up_statistics"
    exclusive = True

    @property
    def every(self) -> float:
        return 60.0

    async def run_once(self) -> bool:
        store, keep = self._context.store, self._context.settings.keep_stats
        await self._look()
        more = await store.statistics.roll_up()
        before = None if keep is None else store.clock.now() - timedelta(seconds=keep)
        return await store.statistics.prune(before) or more

    async def _look(self) -> None:
        store = self._context.store
        now = store.clock.now()
        oldest = {due.queue: now - due.since for due in await store.oldest_due.by_queue(held=True) if due.since < now}
        await store.statistics.note_oldest(now, oldest)
        await store.statistics.note_versions(versions_among(await store.workers.live_in_full()), now)
