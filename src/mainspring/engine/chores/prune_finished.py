"""Deletes finished jobs, dedupe keys, rows of ledgers and workers that were kept long enough, in small batches."""

from __future__ import annotations

from datetime import timedelta

from mainspring.engine.chores.chore import Chore
from mainspring.store.tending import keep_times

_BATCH = 500
_KEY_AGE = timedelta(hours=1)


class PruneFinished(Chore):
    name = "prune_finished"
    exclusive = True

    @property
    def every(self) -> float:
        return 60.0

    async def run_once(self) -> bool:
        store, settings = self._around.store, self._around.settings
        deleted = await store.tending.prune(keep_times(settings.keep_finished, settings.keep_failed), _BATCH)
        dropped = await store.keys.prune(store.clock.now() - _KEY_AGE, _BATCH)
        rows = await self._prune_ledger()
        await store.gates.prune(_BATCH)
        await store.workers.forget_dead()
        return max(deleted, dropped, rows) >= _BATCH

    async def _prune_ledger(self) -> int:
        store, keep = self._around.store, self._around.settings.keep_ledger
        return 0 if keep is None else await store.ledger.prune(store.clock.now() - timedelta(seconds=keep), _BATCH)
