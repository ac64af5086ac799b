"""Ends pending jobs that were not started in time, also in queues that no worker serves."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore
from mainspring.engine.claim.triage import announce_expired

_BATCH = 2000


class ExpireLate(Chore):
    name = "expire_late"
    exclusive = True

    @property
    def every(self) -> float:
        return 20 * self._context.settings.poll_interval

    async def run_once(self) -> bool:
        expired = await self._context.store.upkeep.expire(_BATCH)
        await announce_expired(self._context.store, self._context.events, expired)
        if expired:
            self._context.checker.note(await self._context.store.checks.held_back_by(expired))
        return len(expired) >= _BATCH
