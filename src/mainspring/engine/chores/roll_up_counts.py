"""Makes hours of the minutes of the statistics, and deletes what was kept long enough."""

from __future__ import annotations

from datetime import timedelta

from mainspring.engine.chores.chore import Chore


class RollUpCounts(Chore):
    name = "roll_up_counts"
    exclusive = True

    @property
    def every(self) -> float:
        return 300.0

    async def run_once(self) -> bool:
        store, keep = self._around.store, self._around.settings.keep_stats
        more = await store.statistics.roll_up()
        before = None if keep is None else store.clock.now() - timedelta(seconds=keep)
        return await store.statistics.prune(before) or more
