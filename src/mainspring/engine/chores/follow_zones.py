"""Computes next firings anew when the rules of a time zone have changed since they were computed."""

from __future__ import annotations

import logging

from mainspring.engine.chores.chore import Chore

logger = logging.getLogger("mainspring")


class FollowZones(Chore):
    name = "follow_zones"
    exclusive = True

    @property
    def every(self) -> float:
        # Zone data changes with an installation, which restarts workers: the first pass after a start matters most.
        return 3600.0

    async def run_once(self) -> bool:
        moved = await self._around.store.schedules.follow_zones()
        if moved:
            logger.info("The rules of time zones have changed; %d schedules were computed anew", len(moved))
        return False
