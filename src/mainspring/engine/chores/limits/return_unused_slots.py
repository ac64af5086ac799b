"""Gives back the slots of limits that this worker has taken and does not use, so that other workers can take them."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore


class ReturnUnusedSlots(Chore):
    name = "return_unused_slots"
    prompt = True

    @property
    def every(self) -> float:
        return 0.25

    async def run_once(self) -> bool:
        if self._context.limiter.holds:
            await self._context.limiter.tidy()
        return False
