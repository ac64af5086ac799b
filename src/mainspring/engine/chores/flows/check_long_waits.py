"""Looks once a minute at all blocked jobs that `check_waiting` looks at later than that: a wait of hours has its own
looks hours apart, so that it is hardly ever written, and a check that a dead process has left out is made within a
minute all the same. A round only reads, unless it finds a wait that is over."""

from __future__ import annotations

from contextlib import aclosing

from mainspring.engine.chores.chore import Chore
from mainspring.store.flows.looks import MINUTE


class CheckLongWaits(Chore):
    name = "check_long_waits"
    exclusive = True
    prompt = True

    @property
    def every(self) -> float:
        return MINUTE

    async def run_once(self) -> bool:
        checks = self._context.store.checks
        async with aclosing(checks.long_waiting()) as batches:
            async for ids in batches:
                self._context.checker.settle(await checks.check_jobs(ids))
        return False
