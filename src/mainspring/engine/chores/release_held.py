"""Puts jobs back into sight that were held because nobody could run them, once this worker can: it has a handler for
them, of a version that their data was written for, and the keys that they are encrypted with."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore, Surroundings
from mainspring.store.connection import Document
from mainspring.store.tending import NO_HANDLER, NO_KEY, TOO_NEW


class ReleaseHeld(Chore):
    name = "release_held"

    @property
    def every(self) -> float:
        return 30.0

    async def run_once(self) -> bool:
        handlers, tending = self._around.handlers, self._around.store.tending
        names = handlers.names
        released = await tending.release(NO_HANDLER, None if names is None else {"name": {"$in": names}})
        for version, own in handlers.versions.items():
            # An edit may have changed the data since: what has no version, or an earlier one, can run, too.
            fit = {"name": {"$in": own}, "data_v": {"$not": {"$gt": version}}}
            released += await tending.release(TOO_NEW, fit)
        if names is None:
            released += await tending.release(TOO_NEW, {"name": {"$nin": handlers.own_names}})
        released += await release_opened(self._around)
        if released:
            self._around.look()
        return False


async def release_opened(around: Surroundings) -> int:
    """Put jobs back into sight that were held for want of a key, where this worker has all keys that they need."""
    kids, names = around.store.sealer.ring.ids, around.handlers.names
    if not kids:
        return 0
    fit: Document = {"sealed": {"$not": {"$elemMatch": {"$nin": list(kids)}}}}
    if names is not None:
        fit["name"] = {"$in": names}
    if around.settings.queues is not None:
        fit["queue"] = {"$in": list(around.settings.queues)}
    return await around.store.tending.release(NO_KEY, fit)
