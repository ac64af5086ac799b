"""Rolls the minutes of the statistics up into hours, and deletes counts that were kept long enough."""

from __future__ import annotations

from datetime import timedelta

from mainspring.engine.chores.chore import Chore


class RollUpStatistics(Chore):
    name = "roll_up_statistics"
    exclusive = True

    @property
    def every(self) -> float:
        return 300.0

    async def run_once(self) -> bool:
        store, keep = self._context.store, self._context.settings.keep_stats
        more = await store.statistics.roll_up()
        before = None if keep is None else store.clock.now() - timedelta(seconds=keep)
        return await store.statistics.prune(before) or more
