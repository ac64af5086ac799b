"""Computes next firings anew when the rules of a time zone have changed since they were computed.

One worker at a time does it, a few schedules at a pass. The chore has a lock of its own: the first worker that starts
with the new rules must be able to take it. The other workers check again until no schedule is left.
"""

from __future__ import annotations

import logging

from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.engine.services.timekeeper import announce_fired

logger = logging.getLogger("mainspring")

_LOCK, _HOLD = "zones", 30.0
_LOOK_AGAIN = 5.0


class RefreshTimezones(Chore):
    name = "refresh_timezones"
    at_start = True

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._elsewhere = False
        """Whether another worker has the lock."""

    @property
    def every(self) -> float:
        # Zone data comes with an installation, which restarts workers: the check at the start is the one that matters.
        return _LOOK_AGAIN if self._elsewhere else 3600.0

    async def run_once(self) -> bool:
        store, worker = self._context.store, self._context.worker
        stale = bool(await store.schedules.stale_zones())
        self._elsewhere = stale and not await store.workers.lock(_LOCK, worker, _HOLD)
        if not stale or self._elsewhere:
            return False
        moved, fired = await store.schedules.refresh_timezones()
        announce_fired(self._context.events, fired)
        if moved:
            logger.info("The rules of time zones have changed; %d schedules were computed anew", len(moved))
        else:
            await store.workers.unlock(_LOCK, worker)
        return bool(moved)
