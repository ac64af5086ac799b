"""Stores this worker's counts for the statistics, in one write, if there are any."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore


class FlushStatistics(Chore):
    name = "flush_statistics"

    @property
    def every(self) -> float:
        return 1.0

    async def run_once(self) -> bool:
        await self._context.counting.store()
        return False
