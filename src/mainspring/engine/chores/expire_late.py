"""Ends pending jobs that were not started in time, also in queues that no worker serves."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore
from mainspring.store.codec import decode_job

_BATCH = 500


class ExpireLate(Chore):
    name = "expire_late"
    exclusive = True

    @property
    def every(self) -> float:
        return 20 * self._around.settings.poll_interval

    async def run_once(self) -> bool:
        expired = await self._around.store.tending.expire(_BATCH)
        for document in expired:
            self._around.events.emit("job:expire", decode_job(document))
        return len(expired) >= _BATCH
