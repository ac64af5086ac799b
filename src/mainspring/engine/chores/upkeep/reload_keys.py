"""Notices that this worker has other encryption keys than before, and releases the jobs that waited for them."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.engine.chores.jobs.release_held import release_opened


class ReloadKeys(Chore):
    name = "reload_keys"

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._known = context.store.cipher.ring.ids

    @property
    def every(self) -> float:
        return 2.0

    async def run_once(self) -> bool:
        key_ids = self._context.store.cipher.ring.ids
        if key_ids != self._known:
            if await release_opened(self._context):
                self._context.poll_all()
            self._known = key_ids
        return False
