"""The worker's side of a running handler: carries out what its context is asked for, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mainspring.clock import monotonic
from mainspring.config import Settings
from mainspring.engine.events import Events
from mainspring.engine.holdings import Holding
from mainspring.errors import ClaimLost, MainspringError
from mainspring.model.ending import Completed
from mainspring.model.job import Job
from mainspring.store import Store
from mainspring.store.codec import MAX_LOG_LINE, MAX_LOG_LINES, cut, encode_progress, encode_result
from mainspring.store.finish import Finish
from mainspring.store.transaction import Transaction, is_transient

Schedule = Callable[[str, Any, dict[str, Any]], Awaitable[Job]]


class LocalAgent:
    """Serves one handler's context from the event loop that runs it."""

    def __init__(
        self, holding: Holding, store: Store, settings: Settings, events: Events, worker: str, schedule: Schedule
    ) -> None:
        self._holding = holding
        self._store = store
        self._settings = settings
        self._events = events
        self._worker = worker
        self._schedule = schedule
        self.used_transaction = False
        self.told_to_stop = False
        """Whether the handler has asked if it should stop, and knows that it should."""
        self.committed: Completed | None = None
        self.result_note: str | None = None
        """Why the result that a process has sent over is not all of what its handler returned."""

    def note_progress(self, percent: float, note: str | None) -> None:
        self._holding.progress = encode_progress(percent, note)
        self._holding.progress_new = True

    def note_log(self, line: str) -> None:
        line = cut(line, MAX_LOG_LINE)
        log = self._holding.log
        log.append(line)
        self._holding.unwritten.append(line)
        if len(log) > MAX_LOG_LINES:
            del log[0]
            self._holding.log_cut += 1

    def is_stopping(self) -> bool:
        self.told_to_stop = self._holding.stopping
        return self.told_to_stop

    async def schedule(self, name: str, data: Any, options: dict[str, Any]) -> Job:
        return await self._schedule(name, data, {"parent_id": str(self._holding.id), **options})

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Transaction]:
        if self.committed is not None:
            raise MainspringError("This job has completed in an earlier transaction; a job has one only.")
        self.used_transaction = True
        finish: Finish | None = None
        try:
            await self.freeze()
            async with self._store.transactions.open() as transaction:
                yield transaction
                finish = self._finish(transaction)
                await self._store.transactions.complete_in(transaction, finish)
        except Exception as error:
            # What the commit has done may be unknown; the job's document knows.
            if finish is None or is_transient(error) or isinstance(error, ClaimLost):
                raise
            if not await self._store.transactions.completed(finish):
                raise
        finally:
            self._holding.frozen = False
        assert finish is not None and isinstance(finish.ending, Completed)
        self.committed = finish.ending

    def thaw(self, completed: Completed | None) -> None:
        """A transaction in the handler's own process is over; `completed` tells what it has committed."""
        self._holding.frozen = False
        self.used_transaction = True
        self.committed = completed

    async def freeze(self) -> None:
        """Keep the heartbeat off the document while the transaction lasts: a renewal in between would conflict."""
        holding = self._holding
        holding.frozen = True
        if holding.valid_until - monotonic() < self._settings.lease / 2:
            asked = monotonic()
            if not await self._store.claims.renew_one(holding.id, holding.token, self._settings.lease):
                raise ClaimLost(f"Job {holding.id} is not held by this worker any more.")
            holding.renewed_at = asked
            holding.valid_until = asked + self._settings.lease - self._settings.fence_margin

    def _finish(self, transaction: Transaction) -> Finish:
        holding = self._holding
        result, note = encode_result(transaction.result, self._settings.max_result)
        now = self._store.clock.now()
        return Finish(
            holding.id,
            holding.token,
            holding.document["tries"],
            self._worker,
            holding.started_at or now,
            now,
            Completed(result, note),
            tuple(holding.log),
            holding.progress if holding.progress_new else None,
        )
