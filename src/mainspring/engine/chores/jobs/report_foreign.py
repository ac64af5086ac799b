"""Logs the foreign documents in the jobs collection: they are left alone, but their author may have meant them to be
jobs."""

from __future__ import annotations

import logging

from mainspring.clock import monotonic
from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.model.jobs.foreign import ForeignDocuments

logger = logging.getLogger("mainspring")

_TELL_AGAIN = 3600.0
_TELL_CHANGED = 600.0


class ReportForeign(Chore):
    name = "report_foreign"
    exclusive = True

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._told = 0
        self._told_at = float("-inf")

    @property
    def every(self) -> float:
        return 60.0

    async def run_once(self) -> bool:
        found = await self._context.store.foreign.look(1)
        silence = _TELL_AGAIN if found.count == self._told else _TELL_CHANGED
        if found.count and monotonic() >= self._told_at + silence:
            self._told, self._told_at = found.count, monotonic()
            self._tell(found)
        return False

    def _tell(self, found: ForeignDocuments) -> None:
        # The reason quotes values of another program's document: a caller that asks may see it, the log may not.
        first = f", such as {found.samples[0].id!r:.100}" if found.samples else ""
        logger.warning(
            "%s%d document%s in the collection %s %s no job of Mainspring's and left alone%s; "
            "scheduler.monitor.foreign_documents() tells more",
            *("More than " if found.more else "", found.count, "" if found.count == 1 else "s"),
            *(self._context.settings.collection, "is" if found.count == 1 else "are", first),
        )
