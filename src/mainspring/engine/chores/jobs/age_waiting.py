"""Moves jobs that have waited long up one priority, where `aging` is set.

One worker at a time does it, one that has the setting. The chore has a lock of its own, so that it is done also when
the worker that has the lock of the other chores lacks the setting.
"""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.store.connection import Document

_BATCH, _BATCHES = 1000, 10
_HOLD = 15.0


class AgeWaiting(Chore):
    name = "age_waiting"

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._left: list[str | None] = []
        """The remaining parts of the current sweep: queues, and None for the wait lists."""
        self._place: Document | None = None

    @property
    def every(self) -> float:
        aging = self._context.settings.aging
        return 3600.0 if aging is None else min(30.0, aging / 10)

    async def run_once(self) -> bool:
        store, aging = self._context.store, self._context.settings.aging
        if aging is None or not await store.workers.lock("aging", self._context.worker, _HOLD + 2 * self.every):
            return False
        if not self._left:
            self._left = [*await store.claims.queues(), None]
        for _ in range(_BATCHES):
            _, self._place = await store.aging.age(self._left[0], aging, _BATCH, self._place)
            if self._place is None:
                self._left.pop(0)
            if not self._left:
                return False
        return True
