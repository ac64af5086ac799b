"""Gives back claimed jobs that have waited too long for a slot here, so that another worker can run them."""

from __future__ import annotations

from mainspring.clock import monotonic
from mainspring.engine.chores.chore import Chore


class ReturnIdle(Chore):
    name = "return_idle"

    @property
    def every(self) -> float:
        return min(1.0, self._around.settings.lease / 8)

    async def run_once(self) -> bool:
        patience = min(5.0, self._around.settings.lease / 4)
        self._around.slots.give_back_waiting(older_than=monotonic() - patience)
        return False
