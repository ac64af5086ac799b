"""Moves jobs that have waited long up one priority, where `aging` is set."""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore

_BATCH = 500


class AgeWaiting(Chore):
    name = "age_waiting"
    exclusive = True

    @property
    def every(self) -> float:
        aging = self._around.settings.aging
        return 3600.0 if aging is None else min(30.0, aging / 10)

    async def run_once(self) -> bool:
        store, aging = self._around.store, self._around.settings.aging
        if aging is None:
            return False
        places: list[str | None] = [*await store.claims.queues(), None]
        moved = [await store.aging.age(place, aging, _BATCH) for place in places]
        return max(moved) >= _BATCH
