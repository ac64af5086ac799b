"""Looks again at blocked jobs: at the end of a timed wait, and where the process that should have checked a wait has
died. While no job waits, it reads one key every few seconds."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.engine.chores.chore import Chore

_BATCH = 1000
_LOOK_EVERY = timedelta(seconds=5)


class CheckWaiting(Chore):
    name = "check_waiting"
    exclusive = True
    prompt = True
    at_start = True

    @property
    def every(self) -> float:
        return 1.0

    _next: datetime | None = None

    async def run_once(self) -> bool:
        context = self._context
        now = context.store.clock.now()
        if self._next is not None and now < self._next:
            return False
        checks = context.store.checks
        soonest = await checks.next_look()
        if soonest is None or soonest > now:
            # A job that is blocked meanwhile is due for a look in five seconds at the earliest, or at its own time.
            self._next = min(soonest or now + _LOOK_EVERY, now + _LOOK_EVERY)
            return False
        self._next = None
        checked, found = await checks.sweep(_BATCH)
        context.checker.settle(checked)
        for marked in checked.marked:
            await context.checker.carry_on(marked)
        return found >= _BATCH
