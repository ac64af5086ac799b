"""Gives dead letters of earlier versions the print of their error, so that they can be grouped."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore
from mainspring.store.dead_letters import Place

_BATCH = 2000


class PrintDead(Chore):
    name = "print_dead"
    exclusive = True

    _place: Place | None = None

    @property
    def every(self) -> float:
        # Whoever fails a job today stores its print; only a worker of an earlier version beside this one does not.
        return 3600.0

    async def run_once(self) -> bool:
        seen, place = await self._around.store.dead_letters.fill_prints(_BATCH, self._place)
        self._place = place if seen >= _BATCH else None
        return self._place is not None
