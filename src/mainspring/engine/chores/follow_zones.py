"""Computes next firings anew when the rules of a time zone have changed since they were computed."""

from __future__ import annotations

import logging

from mainspring.engine.chores.chore import Chore
from mainspring.engine.timekeeper import announce_fired

logger = logging.getLogger("mainspring")


class FollowZones(Chore):
    name = "follow_zones"

    @property
    def every(self) -> float:
        # Zone data comes with an installation, which restarts workers: what counts is that each looks when it starts.
        return 3600.0

    async def run_once(self) -> bool:
        moved, fired = await self._around.store.schedules.follow_zones()
        announce_fired(self._around.events, fired)
        if moved:
            logger.info("The rules of time zones have changed; %d schedules were computed anew", len(moved))
        return False
