"""Deletes dedupe keys, rows of ledgers, unused gates and breakers, dead workers, and signals of ended
jobs that were kept long enough.

It works in small batches. The pruner (`engine/services/pruner.py`) deletes finished jobs.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring.engine.chores.chore import Chore

_BATCH = 500
_KEY_AGE = timedelta(hours=1)


class PruneRecords(Chore):
    name = "prune_records"
    exclusive = True

    @property
    def every(self) -> float:
        return 60.0

    async def run_once(self) -> bool:
        store = self._context.store
        dropped = await store.dedupe_keys.prune(store.clock.now() - _KEY_AGE, _BATCH)
        rows = await self._prune_ledger()
        await store.gates.prune(_BATCH)
        await store.controls.forget(_BATCH)
        await store.workers.forget_dead()
        await store.failure_counts.prune(_BATCH)
        signals = await store.signals.prune(_BATCH)
        return max(dropped, rows, signals) >= _BATCH

    async def _prune_ledger(self) -> int:
        store, keep = self._context.store, self._context.settings.keep_ledger
        return 0 if keep is None else await store.ledger.prune(store.clock.now() - timedelta(seconds=keep), _BATCH)
