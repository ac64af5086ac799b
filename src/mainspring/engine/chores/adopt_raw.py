"""Gives jobs that another program inserted the fields they lack, so that they can be claimed."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore
from mainspring.store.codec import decode_job

_BATCH = 500


class AdoptRaw(Chore):
    name = "adopt_raw"

    @property
    def every(self) -> float:
        # With a change stream a raw insert is heard of at once, and this is the safety net.
        return 20.0 if self._around.store.watch.possible else self._around.settings.poll_interval

    async def run_once(self) -> bool:
        found, failed = await self._around.store.tending.adopt(_BATCH)
        if found:
            self._around.look()
        for document in failed:
            if self._around.events.wanted("job:fail"):
                job = await self._around.store.jobs.get(document["_id"])
                self._around.events.emit("job:fail", decode_job(job))
        return found >= _BATCH
