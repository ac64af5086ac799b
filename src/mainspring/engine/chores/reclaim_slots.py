"""Takes back the slots of limits that a worker held whose lease has run out, or that has left."""

from __future__ import annotations

import logging

from mainspring.engine.chores.chore import Chore

logger = logging.getLogger("mainspring")


class ReclaimSlots(Chore):
    name = "reclaim_slots"
    exclusive = True

    @property
    def every(self) -> float:
        return min(10.0, self._around.settings.lease / 6)

    async def run_once(self) -> bool:
        store = self._around.store
        if self._around.gatekeeper.idle:
            return False
        for worker in await store.workers.gone(await store.gates.holders()):
            gates = await store.gates.take_back(worker)
            logger.warning("Worker %s is gone; its slots of %d limits are free again", worker, gates)
        return False
