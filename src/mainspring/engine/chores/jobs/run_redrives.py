"""Carries on the redrives that are under way, batch by batch, and deletes redrives that ended long ago."""

from __future__ import annotations

from datetime import timedelta

from mainspring.clock import monotonic
from mainspring.engine.chores.chore import Chore
from mainspring.engine.services.redriving import take_step
from mainspring.store.connection import Document
from mainspring.store.dead_letters.redrives import is_running, retries

# The longest time that a pass spends on one redrive, in seconds; the other chores wait for it.
_LONGEST_PASS = 0.3
_FORGET_EVERY = 3600.0
_BATCH = 500


class RunRedrives(Chore):
    name = "run_redrives"
    exclusive = True

    _forgot_at = float("-inf")

    @property
    def every(self) -> float:
        return 10.0

    async def run_once(self) -> bool:
        redrives = await self._context.store.redrives.under_way()
        errors = []
        for redrive in redrives:
            try:
                await self._carry(redrive)
            except Exception as error:  # a redrive that fails must not delay the others
                errors.append(error)
        if errors:
            raise errors[0]
        if not redrives and monotonic() >= self._forgot_at + _FORGET_EVERY:
            await self._forget()
        return bool(redrives)

    async def _carry(self, redrive: Document) -> None:
        until = monotonic() + _LONGEST_PASS
        while is_running(redrive) and monotonic() < until:
            redrive = await take_step(self._context.store, self._context.archive, redrive)
        if retries(redrive):
            self._context.poll_all()

    async def _forget(self) -> None:
        store, keep = self._context.store, self._context.settings.keep_ledger
        if keep is None or await store.redrives.prune(store.clock.now() - timedelta(seconds=keep), _BATCH) < _BATCH:
            self._forgot_at = monotonic()
