"""Runs chores: each when it is due, one after the other, in one task.

A worker has one `Rounds` for all its slow chores, and one for each chore that other work waits for (`prompt`), so that
a slow pass over a large collection never delays the return of a slot or the rescue of a job.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from mainspring.clock import monotonic
from mainspring.engine.chores.chore import Chore
from mainspring.engine.service import LockHolder, Service
from mainspring.store import Store

# The longest sleep of a task before it checks again which chores are due, in seconds.
_LONGEST_SLEEP = 1.0
_AGAIN = 0.05


class Rounds(Service):
    """Runs the chores that `listed` returns; `lock` is the lock of the exclusive chores."""

    name = "chores"

    def __init__(
        self,
        listed: Callable[[], Sequence[Chore]],
        lock: LockHolder,
        store: Store,
        failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(store, failed)
        self._listed = listed
        self._lock = lock
        self._due: dict[str, float] = {}

    def run_now(self, name: str) -> None:
        """Run a chore at once, if it is one of these."""
        if name in self._due:
            self._due[name] = monotonic()
            self.wake()

    async def _begin(self) -> None:
        for chore in self._listed():
            first = 0.0 if chore.at_start else random.uniform(0, min(1.0, chore.every))
            self._due[chore.name] = monotonic() + first

    async def run_once(self) -> float:
        for chore in self._listed():
            if not self._stopping and monotonic() >= self._due[chore.name]:
                await self._do_in_turn(chore)
        soonest = min((self._due[chore.name] for chore in self._listed()), default=float("inf"))
        return min(max(0.0, soonest - monotonic()), _LONGEST_SLEEP)

    async def _do_in_turn(self, chore: Chore) -> None:
        """Run a chore, and note when it is due again: whatever the pass and the recovery from its error raise."""
        self._due[chore.name] = float("inf")  # unless run_now asks for it during the pass
        again = False
        try:
            again = await self._do(chore)
        finally:
            pause = _AGAIN if again else chore.every * random.uniform(0.9, 1.1)
            self._due[chore.name] = min(self._due[chore.name], monotonic() + pause)

    async def _do(self, chore: Chore) -> bool:
        try:
            if chore.exclusive and not await self._lock.is_mine():
                return False
            return await chore.run_once()
        except Exception as error:
            await self._recover(error)
            return False
