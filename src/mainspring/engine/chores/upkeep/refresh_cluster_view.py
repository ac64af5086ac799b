"""Refreshes this worker's view of the server's clock and of the other workers, the latter seldom while it is idle."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore


class RefreshClusterView(Chore):
    name = "refresh_cluster_view"

    @property
    def every(self) -> float:
        return 2.0

    async def run_once(self) -> bool:
        await self._context.store.connection.keep_clock()
        busy = len(self._context.claimed_jobs) > 0
        if self._context.peers.age > (2.0 if busy else 30.0):
            await self._context.peers.refresh()
        return False
