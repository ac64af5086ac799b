"""Writes the head of the audit log to the worker's own log every hour: a log line that is kept out of the database's
reach proves which rows the audit log had."""

from __future__ import annotations

import logging

from mainspring.clock import monotonic
from mainspring.engine.chores.chore import Chore, ChoreContext
from mainspring.model.access.audit import AUDIT_LOG, HEAD_EVERY, describe_head

logger = logging.getLogger(AUDIT_LOG)


class LogAuditHead(Chore):
    name = "log_audit_head"
    exclusive = True

    def __init__(self, context: ChoreContext) -> None:
        super().__init__(context)
        self._told_at = float("-inf")

    @property
    def every(self) -> float:
        return 60.0

    async def run_once(self) -> bool:
        if monotonic() - self._told_at >= HEAD_EVERY:
            end = await self._context.store.audit.head()
            self._told_at = monotonic()
            if end.n:
                logger.info(describe_head(end))
        return False
