"""Carries on the redrives that are under way, batch by batch, and deletes redrives that ended long ago."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.clock import monotonic
from mainspring.engine.chores.jobs.carry_out_orders import LONGEST_PASS, CarryOutOrders
from mainspring.engine.services.redriving import take_step
from mainspring.store.connection import Document
from mainspring.store.dead_letters.redrives import is_running, retries


class RunRedrives(CarryOutOrders):
    name = "run_redrives"

    async def _under_way(self) -> Sequence[Document]:
        return await self._context.store.redrives.under_way()

    async def _carry(self, order: Document) -> bool:
        until = monotonic() + LONGEST_PASS
        while is_running(order) and monotonic() < until:
            order = await take_step(self._context.store, self._context.archive, order)
        if retries(order):
            self._context.poll_all()
        return is_running(order)

    async def _prune(self, before: datetime, limit: int) -> int:
        return await self._context.store.redrives.prune(before, limit)
