"""Gives back claimed jobs that have waited too long for a slot here, so that another worker can run them."""

from __future__ import annotations

from mainspring.clock import monotonic
from mainspring.engine.chores.chore import Chore


class ReturnUnstarted(Chore):
    name = "return_unstarted"
    prompt = True

    @property
    def every(self) -> float:
        return min(1.0, self._context.settings.lease / 8)

    async def run_once(self) -> bool:
        patience = min(5.0, self._context.settings.lease / 4)
        self._context.slots.give_back_waiting(older_than=monotonic() - patience)
        return False
