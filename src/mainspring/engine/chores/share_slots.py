"""Gives back the slots of limits that this worker has taken and has no use for, so that others can have them."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore


class ShareSlots(Chore):
    name = "share_slots"

    @property
    def every(self) -> float:
        return 0.25

    async def run_once(self) -> bool:
        if self._around.gatekeeper.holds:
            await self._around.gatekeeper.tidy()
        return False
