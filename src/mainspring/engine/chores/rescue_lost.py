"""Gives jobs back whose worker died or lost its lease. It counts as an attempt; the last one makes a dead letter."""

from __future__ import annotations

import logging

from mainspring.engine.chores.chore import Chore
from mainspring.engine.events import Events
from mainspring.model.job import CANCELLED, FAILED
from mainspring.store.codec import decode_job
from mainspring.store.leases import Rescued

logger = logging.getLogger("mainspring")

_BATCH = 200


class RescueLost(Chore):
    name = "rescue_lost"
    exclusive = True

    @property
    def every(self) -> float:
        return min(10.0, self._around.settings.lease / 6)

    async def run_once(self) -> bool:
        rescued = await self._around.store.rescues.rescue(_BATCH)
        for one in rescued:
            announce_rescue(self._around.events, one)
            self._around.counting.rescued(one)
        if rescued:
            self._around.look()
        return len(rescued) >= _BATCH


def announce_rescue(events: Events, rescued: Rescued) -> None:
    """Tell of a rescue, and of the end where it was one."""
    job = decode_job(rescued.document)
    logger.warning("Job %s was taken from a worker that is gone; it is %s now", job.id, rescued.state)
    events.emit("job:rescue", job)
    if rescued.state == FAILED:
        events.emit("job:fail", job)
    elif rescued.state == CANCELLED:
        events.emit("job:cancel", job)
