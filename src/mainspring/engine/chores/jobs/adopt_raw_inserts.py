"""Gives jobs that another program inserted the fields they lack, so that they can be claimed."""

from __future__ import annotations

from mainspring.clock import monotonic
from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.store.codec import decode_job
from mainspring.store.jobs.stored_job import stored_jobs

_BATCH = 500
# Documents of other programs may make a pass slow. Passes then follow so much later that they take 2 % of the time.
_PACE = 50


class AdoptRawInserts(Chore):
    name = "adopt_raw_inserts"
    at_start = True

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._took = 0.0

    @property
    def every(self) -> float:
        # With a change stream the worker learns of a raw insert at once, and this chore is the safety net.
        usual = 20.0 if self._context.store.hints.possible else self._context.settings.poll_interval
        return max(usual, _PACE * self._took)

    async def run_once(self) -> bool:
        began = monotonic()
        found, failed = await self._context.store.upkeep.adopt(_BATCH)
        self._took = 0.0 if found else monotonic() - began
        if found:
            self._context.poll_all()
        if self._context.events.wanted("job:fail"):
            for job in stored_jobs(failed):
                self._context.events.emit("job:fail", decode_job(await self._context.store.jobs.get(job.id)))
        return found >= _BATCH
