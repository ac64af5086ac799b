"""The worker's side of a running handler: carries out what its context is asked for, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mainspring.clock import monotonic
from mainspring.config import Settings
from mainspring.engine.events import Events
from mainspring.engine.holdings import Holding
from mainspring.engine.secrecy import sealed_result
from mainspring.engine.steps import COMPLETED, IN_TRANSACTION, Steps
from mainspring.errors import ClaimLost, MainspringError, Unavailable
from mainspring.model.draft import Draft
from mainspring.model.ending import Completed
from mainspring.model.guarantee import idempotency_key
from mainspring.model.job import Job
from mainspring.store import Store
from mainspring.store.codec import MAX_LOG_LINE, MAX_LOG_LINES, cut, encode_progress, encode_result
from mainspring.store.connection import Document
from mainspring.store.finish import Finish
from mainspring.store.transaction import Transaction

# Between two tries to store the result of a step.
_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Enqueuer:
    """How jobs are scheduled from a handler."""

    schedule: Callable[[str, Any, dict[str, Any]], Awaitable[Job]]
    draft: Callable[[str, Any, dict[str, Any]], Awaitable[Draft]]
    """Checks a job that another process is to store in its transaction."""
    announce: Callable[[Document, Job], None]
    """Tells of a job that is stored."""


class LocalAgent:
    """Serves one handler's context from the event loop that runs it."""

    def __init__(
        self, holding: Holding, store: Store, settings: Settings, events: Events, worker: str, enqueuer: Enqueuer
    ) -> None:
        self._holding = holding
        self._store = store
        self._settings = settings
        self._events = events
        self._worker = worker
        self._enqueuer = enqueuer
        self.used_transaction = False
        self.told_to_stop = False
        """Whether the handler has asked if it should stop, and knows that it should."""
        self.committed: Completed | None = None
        self._steps: Steps | None = None
        self.result_note: str | None = None
        """Why the result that a process has sent over is not all of what its handler returned."""

    def note_progress(self, percent: float, note: str | None) -> None:
        self._holding.progress = encode_progress(percent, None if note is None else self._holding.veil.text(note))
        self._holding.progress_new = True

    def note_log(self, line: str) -> None:
        line = cut(self._holding.veil.text(line), MAX_LOG_LINE)
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
        return await self._enqueuer.schedule(name, data, self._of_child(options))

    async def draft(self, name: str, data: Any, options: dict[str, Any]) -> Draft:
        """A child job, checked, that the handler's own process is to store in its transaction."""
        return await self._enqueuer.draft(name, data, self._of_child(options))

    def made(self, document: Document, job: Job) -> None:
        """The handler's own process has stored a child job."""
        self._enqueuer.announce(document, job)

    def _of_child(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"parent_id": str(self._holding.id), **options}

    @property
    def idempotency_key(self) -> str:
        return idempotency_key(self._holding.id, self._store.connection.jobs.full_name)

    @property
    def steps(self) -> Steps:
        """The steps of this attempt; most handlers have none."""
        if self._holding.lost:
            raise ClaimLost(f"Job {self._holding.id} is not held by this worker any more; no further step is run.")
        if self._steps is None:
            self._steps = Steps(self._holding.document, self._settings.max_result, self._keep_step)
        return self._steps

    def begin_again(self) -> None:
        """The handler is run again within the same attempt."""
        if self._steps is not None:
            self._steps.begin_again()

    async def keep_step(self, name: str, result: Any) -> dict[str, Any]:
        """Store a step that a process of the handler's own has run."""
        entry = await self._keep_step(name, result)
        self.steps.note(entry)
        return entry

    async def _keep_step(self, name: str, result: Any) -> dict[str, Any]:
        """Store a step; again, while the server cannot be reached and the claim holds: what it has done is done."""
        holding = self._holding
        sealed = None if holding.sealer is None else holding.sealer.seal_step(holding.document, name, result)
        stored, kid = (result, None) if sealed is None else (sealed.to_document(), sealed.kid)
        while True:
            try:
                entry = await self._store.checkpoints.keep(
                    holding.id, holding.token, name, holding.document["tries"], stored, kid
                )
                break
            except Unavailable:
                if holding.stopping or monotonic() >= holding.valid_until:
                    raise
                await asyncio.sleep(_PAUSE)
        if entry is None:
            raise ClaimLost(f"Job {holding.id} is not held by this worker any more; step {name!r} was not kept.")
        holding.step_kept(entry)
        return {**entry, "result": result}

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Transaction]:
        if self.committed is not None:
            raise MainspringError("This job has completed in an earlier transaction; a job has one only.")
        self.used_transaction = True
        steps = self.steps
        steps.closed = IN_TRANSACTION
        try:
            await self.freeze()
            async with self._store.transactions.completing(self._finish) as transaction:
                yield transaction
        finally:
            self._holding.frozen = False
            steps.closed = None
        steps.closed = COMPLETED
        assert isinstance(transaction.completion, Completed)
        self.committed = transaction.completion

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
        result = sealed_result(holding, result)
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
            log_cut=holding.log_cut,
        )
