"""Gives jobs back whose worker died or lost its lease. It counts as an attempt; the last one makes a dead letter."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.engine.callbacks import Callbacks
from mainspring.engine.chores.chore import Chore
from mainspring.engine.job_log import log_rescues
from mainspring.model.jobs.job import CANCELLED, FAILED
from mainspring.store.jobs.leases import Rescued

_BATCH = 200


class RescueLost(Chore):
    name = "rescue_lost"
    exclusive = True
    prompt = True
    at_start = True

    @property
    def every(self) -> float:
        return min(10.0, self._context.settings.lease / 6)

    async def run_once(self) -> bool:
        # The heartbeat of this worker is about to renew or fence its own claims whose lease has run out, as after an
        # operator has moved a clock.
        held = {claimed.id for claimed in self._context.claimed_jobs.all() if not claimed.lost}
        rescued = await self._context.store.rescues.rescue(_BATCH, held)
        announce_rescues(self._context.events, rescued)
        for one in rescued:
            self._context.counting.rescued(one)
            self._context.checker.note(one.job.before)
        if rescued:
            self._context.poll_all()
        return len(rescued) >= _BATCH


def announce_rescues(events: Callbacks, rescued: Sequence[Rescued]) -> None:
    """Log rescues and emit their events, and the events of jobs that ended by their rescue."""
    jobs = [one.job.decode() for one in rescued]
    log_rescues(rescued, jobs)
    for one, job in zip(rescued, jobs, strict=True):
        events.emit("job:rescue", job)
        if one.state == FAILED:
            events.emit("job:fail", job)
        elif one.state == CANCELLED:
            events.emit("job:cancel", job)
