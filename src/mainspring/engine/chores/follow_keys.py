"""Notices that this worker has got other keys for encrypted jobs, and puts those back into sight that waited for it."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore, Surroundings
from mainspring.engine.chores.release_held import release_opened


class FollowKeys(Chore):
    name = "follow_keys"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._known = around.store.sealer.ring.ids

    @property
    def every(self) -> float:
        return 2.0

    async def run_once(self) -> bool:
        kids = self._around.store.sealer.ring.ids
        if kids != self._known:
            if await release_opened(self._around):
                self._around.look()
            self._known = kids
        return False
