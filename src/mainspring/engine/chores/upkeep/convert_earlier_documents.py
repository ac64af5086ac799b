"""Records the schema version of the database, and changes what workers of an earlier version write while they are
still alive: their jobs that wait would be found by no worker of this version. `mainspring migrate` does the rest."""

from __future__ import annotations

import logging

from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.model.schema_versions import CURRENT

logger = logging.getLogger("mainspring")


class ConvertEarlierDocuments(Chore):
    name = "convert_earlier_documents"
    exclusive = True

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._current: bool | None = None

    @property
    def every(self) -> float:
        return 3600.0 if self._current else 2.0

    async def run_once(self) -> bool:
        migrations = self._context.store.migrations
        status = await migrations.record()
        if status.pending and self._current is None:
            logger.warning(
                "The database has documents of schema version %d; this version writes %d. Run: mainspring migrate",
                status.version,
                CURRENT,
            )
        self._current = not status.pending
        if self._current:
            return False
        changed = await migrations.follow()
        if changed:
            self._context.poll_all()
        return changed > 0
