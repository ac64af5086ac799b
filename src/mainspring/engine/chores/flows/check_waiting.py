"""Looks again at blocked jobs: at the end of a timed wait, and where the process that should have checked a wait has
died. The looks lie on a grid of time, and a pass looks at thousands of jobs at once. While no job waits, it reads one
key every few seconds."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.errors import Unavailable
from mainspring.store.codec import DocumentId
from mainspring.store.connection import Document
from mainspring.store.flows.checks import SWEPT_AT_ONCE
from mainspring.store.refusals import brief

logger = logging.getLogger("mainspring")

_LOOK_EVERY = timedelta(seconds=5)
_FEWEST = 500
_MOST_REMEMBERED = 10_000


class CheckWaiting(Chore):
    name = "check_waiting"
    exclusive = True
    prompt = True
    at_start = True

    @property
    def every(self) -> float:
        return 1.0

    _next: datetime | None = None
    _known = False
    """Whether a look is known to be due at `_next`, so that there is no need to ask for it then."""
    _batch = SWEPT_AT_ONCE

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._told: dict[DocumentId, type[Exception]] = {}
        """The last error of each job whose mark could not be carried on."""

    async def run_once(self) -> bool:
        now = self._context.store.clock.now()
        if self._next is not None and now < self._next:
            return False
        if not self._known:
            soonest = await self._context.store.checks.next_look()
            if soonest is None or soonest > now:
                # A job that is blocked meanwhile is due for a look in five seconds at the earliest, or at its own time.
                self._next = min(soonest or now + _LOOK_EVERY, now + _LOOK_EVERY)
                self._known = self._next == soonest
                return False
        self._next, self._known = None, False
        return await self._sweep()

    async def _sweep(self) -> bool:
        context, batch = self._context, self._batch
        # Fewer at once after an error: a server under load may not manage so many within the timeout of an operation.
        self._batch = max(_FEWEST, batch // 4)
        checked, found = await context.store.checks.sweep(batch)
        self._batch = min(SWEPT_AT_ONCE, batch * 2)
        context.checker.settle(checked)
        await self._carry_on(checked.marked)
        return found >= batch

    async def _carry_on(self, marked: Sequence[Document]) -> None:
        """Carry on the cancellations and retries of flows; one that fails for good keeps none of the others waiting. It
        is tried again at each look, and told once: what another program has written into a mark stays there."""
        fresh: list[Exception] = []
        for one in marked:
            try:
                await self._context.checker.carry_on(one)
            except Unavailable:
                raise
            except Exception as error:
                if self._is_told(one["_id"], error):
                    await self._context.store.mend_indexes(error)
                    continue
                logger.error(
                    "The jobs below job %s cannot be cancelled or retried: %s",
                    one["_id"],
                    brief(error),
                    extra={"job_id": str(one["_id"])},
                )
                fresh.append(error)
            else:
                self._told.pop(one["_id"], None)
        if fresh:
            raise fresh[0]

    def _is_told(self, job_id: DocumentId, error: Exception) -> bool:
        """Whether this process has told of such an error of this job before; from now on it has."""
        before = self._told.pop(job_id, None)
        self._told[job_id] = type(error)
        if len(self._told) > _MOST_REMEMBERED:
            del self._told[next(iter(self._told))]
        return before is type(error)
