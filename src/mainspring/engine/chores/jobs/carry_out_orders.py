"""Carries on the orders of one kind that are under way, batch by batch, and forgets those that ended long ago: what
`run_redrives` and `run_operations` share. The other chores wait for a pass, so that a pass is short."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from mainspring.clock import monotonic
from mainspring.engine.chores.chore import Chore
from mainspring.store.connection import Document

# So long may one order take of a pass, in seconds.
LONGEST_PASS = 0.3
_FORGET_EVERY = 3600.0
_BATCH = 500


class CarryOutOrders(Chore):
    """A kind of orders says which are under way, how one is carried on, and how old ones are deleted."""

    exclusive = True

    _forgot_at = float("-inf")

    async def run_once(self) -> bool:
        orders = await self._under_way()
        errors, more = [], False
        for order in orders:
            try:
                more |= await self._carry(order)
            except Exception as error:  # one that cannot go on must not hold up the others
                errors.append(error)
        if errors:
            raise errors[0]
        if not orders and monotonic() >= self._forgot_at + _FORGET_EVERY:
            await self._forget()
        return more

    async def _under_way(self) -> Sequence[Document]:
        """The orders that a pass is to carry on."""
        raise AssertionError("a kind of orders says which are under way")

    async def _carry(self, order: Document) -> bool:
        """Take steps of an order, for as long as a pass lasts; returns whether more is left."""
        raise AssertionError("a kind of orders says how it is carried on")

    async def _prune(self, before: datetime, limit: int) -> int:
        """Delete orders that ended, and began before an instant; returns how many."""
        raise AssertionError("a kind of orders says how old ones are deleted")

    async def _forget(self) -> None:
        keep = self._context.settings.keep_ledger
        now = self._context.store.clock.now()
        if keep is None or await self._prune(now - timedelta(seconds=keep), _BATCH) < _BATCH:
            self._forgot_at = monotonic()
