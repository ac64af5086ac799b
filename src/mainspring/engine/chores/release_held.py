"""Puts jobs back into sight that were held because nobody had a handler for them, once this worker has one."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore
from mainspring.store.tending import NO_HANDLER


class ReleaseHeld(Chore):
    name = "release_held"

    @property
    def every(self) -> float:
        return 15.0

    async def run_once(self) -> bool:
        if await self._around.store.tending.release(NO_HANDLER, self._around.handlers.names):
            self._around.look()
        return False
