"""Starts the operations whose time has come, carries them on batch by batch, and writes their ends to the audit log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from mainspring.clock import monotonic
from mainspring.engine.chores.chore import ChoreContext
from mainspring.engine.chores.jobs.carry_out_orders import LONGEST_PASS, CarryOutOrders
from mainspring.engine.services.operating import carry_on, finish, is_under_way
from mainspring.errors import ArchiveError, Unavailable
from mainspring.model.operations.operations import CANCEL, DELETE
from mainspring.store.connection import Document
from mainspring.store.fitting import fit
from mainspring.store.shapes import OPERATION

logger = logging.getLogger("mainspring")

# The pause between two looks, in seconds, while operations are carried on or no change stream tells of new ones; and
# the longest one otherwise. The start of an operation that was found before its time ends the pause.
_PAUSE, _LONGEST_PAUSE, _SHORTEST_PAUSE = 1.0, 5.0, 0.2
# How long an operation that met an error is left alone, in seconds.
_LEFT_ALONE = 10.0


class RunOperations(CarryOutOrders):
    name = "run_operations"

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._left_alone: dict[str, float] = {}
        self._next_look = _LONGEST_PAUSE

    @property
    def every(self) -> float:
        longest = _LONGEST_PAUSE if self._context.listening() else _PAUSE
        return max(_SHORTEST_PAUSE, min(self._next_look, longest))

    async def _under_way(self) -> Sequence[Document]:
        """The operations that are due. A malformed one is named in the list of operations, and not carried on; like one
        that met an error, it is left alone for a while, so that those behind it are found."""
        self._next_look = _PAUSE
        until_next = await self._context.store.operations.next_start()
        if until_next is None or until_next > 0:
            self._next_look = _LONGEST_PAUSE if until_next is None else until_next
            return []
        now = monotonic()
        self._left_alone = {one: until for one, until in self._left_alone.items() if until > now}
        found = await self._context.store.operations.find_due(list(self._left_alone))
        sound = []
        for one in found:
            if fit(one, OPERATION).error is None:
                sound.append(one)
            elif isinstance(one["_id"], str):
                self._leave_alone(one)
        return sound

    async def _carry(self, order: Document) -> bool:
        try:
            return await self._carry_on(order)
        except ArchiveError as error:
            self._leave_alone(order)
            logger.warning("The operation %s waits: %s", order["_id"], error)
            await self._context.store.operations.hold(order, str(error))
        except Unavailable:
            raise
        except Exception:
            self._leave_alone(order)
            raise
        return False

    async def _carry_on(self, order: Document) -> bool:
        store, events = self._context.store, self._context.events
        cancelled = (lambda job: events.emit("job:cancel", job)) if events.wanted("job:cancel") else None
        until = monotonic() + LONGEST_PASS
        while is_under_way(order) and monotonic() < until:
            order = await carry_on(store, self._context.archive, order, cancelled)
        if order["verb"] not in (CANCEL, DELETE):
            self._context.poll_all()
        if is_under_way(order):
            return True
        await finish(store, order, self._context.worker)
        return False

    async def _prune(self, before: datetime, limit: int) -> int:
        return await self._context.store.operations.prune(before, limit)

    def _leave_alone(self, order: Document) -> None:
        self._left_alone[order["_id"]] = monotonic() + _LEFT_ALONE
