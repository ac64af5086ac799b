"""Releases jobs that wait because no worker could run them, once this worker can: it has a handler for them, of the
version that their data was written for, and the keys that they are encrypted with."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore, ChoreContext


class ReleaseHeld(Chore):
    name = "release_held"
    at_start = True

    @property
    def every(self) -> float:
        return 30.0

    async def run_once(self) -> bool:
        handlers, upkeep = self._context.handlers, self._context.store.upkeep
        released = await upkeep.release_handled(handlers.runnable)
        released += await upkeep.release_versions(handlers.versions)
        if handlers.names is None:
            released += await upkeep.release_unversioned(handlers.own_names)
        released += await release_opened(self._context)
        if released:
            self._context.poll_all()
        return False


async def release_opened(context: ChoreContext) -> int:
    """Release jobs that wait for an encryption key, if this worker has all keys that they need; return their number."""
    key_ids = context.store.cipher.ring.ids
    if not key_ids:
        return 0
    return await context.store.upkeep.release_opened(key_ids, context.handlers.runnable, context.settings.queues)
