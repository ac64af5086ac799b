"""Updates jobs that were adopted through a field map after the other program has changed their documents."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore

_BATCH = 500


class SyncMappedJobs(Chore):
    name = "sync_mapped_jobs"
    exclusive = True

    @property
    def every(self) -> float:
        return min(5.0, self._context.settings.lease / 6)

    async def run_once(self) -> bool:
        found = await self._context.store.mapped.follow(_BATCH)
        if found:
            self._context.poll_all()
        return found >= _BATCH
