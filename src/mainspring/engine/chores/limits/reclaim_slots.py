"""Takes back the slots of limits of workers that have left or whose lease has run out."""

from __future__ import annotations

import logging

from mainspring.engine.chores.chore import Chore

logger = logging.getLogger("mainspring")


class ReclaimSlots(Chore):
    name = "reclaim_slots"
    exclusive = True

    _held = True
    """Whether any worker had slots at the last pass."""

    @property
    def every(self) -> float:
        lease = self._context.settings.lease
        return min(10.0, lease / 6) if self._held else min(20.0, lease / 3)

    async def run_once(self) -> bool:
        store = self._context.store
        holders = await store.gates.holders()
        self._held = bool(holders)
        for worker in await store.workers.gone(holders):
            gates = await store.gates.take_back(worker)
            logger.warning("Worker %s is gone; its slots of %d limits are free again", worker, gates)
        return False
