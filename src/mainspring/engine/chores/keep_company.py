"""Keeps what this worker knows of the server's clock and of the other workers fresh, while it is of use."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore


class KeepCompany(Chore):
    name = "keep_company"

    @property
    def every(self) -> float:
        return 2.0

    async def run_once(self) -> bool:
        await self._around.store.connection.keep_clock()
        busy = len(self._around.holdings) > 0
        if self._around.peers.age > (2.0 if busy else 30.0):
            await self._around.peers.refresh()
        return False
