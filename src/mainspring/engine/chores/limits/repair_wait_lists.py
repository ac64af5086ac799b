"""Finds wait lists that no gate document mentions, which a crash can leave, and opens the wait lists of sequences.

The first job of a sequence changes also when an operator retries or deletes the job before it, or when the worker that
has ended that job dies before it could read the wait list.
"""

from __future__ import annotations

from mainspring.engine.chores.chore import Chore, ChoreContext


class RepairWaitLists(Chore):
    name = "repair_wait_lists"
    exclusive = True

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._after = ""

    @property
    def every(self) -> float:
        seconds = 5 if self._context.store.repair.found else 20
        return seconds * min(1.0, self._context.settings.poll_interval)

    async def run_once(self) -> bool:
        last = await self._context.store.repair.repair_next(self._after)
        self._after = last or ""
        return last is not None
