"""The worker's side of a handler's context: carries out the handler's requests in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mainspring.clock import monotonic
from mainspring.config.settings import Settings
from mainspring.engine.callbacks import Callbacks
from mainspring.engine.flows.children import Children, DraftChildren
from mainspring.engine.flows.handler_waits import HandlerWaits
from mainspring.engine.flows.layout import DraftNode, Layout
from mainspring.engine.handlers import Named
from mainspring.engine.privacy import sealed_result
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.engine.run.steps import COMPLETED, IN_TRANSACTION, Steps
from mainspring.errors import ClaimLost, Unavailable
from mainspring.model.fields import Fields
from mainspring.model.flows.waits import Waits
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.guarantee import idempotency_key
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.outcome import Completed
from mainspring.store import Store
from mainspring.store.bounded_values import MAX_LOG_LINE, cut, encode_progress, encode_result
from mainspring.store.connection import Document
from mainspring.store.jobs.end_fields import Finish
from mainspring.store.jobs.transactions import Transaction

# The pause between two tries to store the result of a step, in seconds.
_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class ChildScheduling:
    """The functions by which a handler schedules child jobs."""

    schedule: Callable[[Named, Any, Fields], Awaitable[Job]]
    draft: Callable[[Named, Any, Fields], Awaitable[Draft]]
    """Checks a job that another process is to store in its transaction."""
    announce: Callable[[Document, Job], None]
    """Announces a job that is stored."""
    draft_children: DraftChildren
    """Checks the children that a handler waits for."""
    announce_children: Callable[[list[Document]], None]
    """Announces children that are stored."""
    draft_node: DraftNode
    """Checks the nodes of a flow."""


class ContextBackend:
    """Serves one handler's context from the event loop that runs it."""

    def __init__(
        self,
        claimed: ClaimedJob,
        store: Store,
        settings: Settings,
        events: Callbacks,
        worker: str,
        enqueuer: ChildScheduling,
    ) -> None:
        self._claimed = claimed
        self._store = store
        self._settings = settings
        self._events = events
        self._worker = worker
        self._enqueuer = enqueuer
        self.used_transaction = False
        self.told_to_stop = False
        """Whether the handler has asked if it should stop, and was told that it should."""
        self.committed: Completed | None = None
        self._steps: Steps | None = None
        self._children: Children | None = None
        self._waits: HandlerWaits | None = None
        self.result_note: str | None = None
        """Why the result that a process has sent differs from the one that its handler returned."""

    def note_progress(self, percent: float, note: str | None) -> None:
        note = None if note is None else self._claimed.redactor.text(note)
        self._claimed.notes.set_progress(encode_progress(percent, note))

    def note_log(self, line: str) -> None:
        self._claimed.notes.add_line(cut(self._claimed.redactor.text(line), MAX_LOG_LINE))

    def is_stopping(self) -> bool:
        self.told_to_stop = self._claimed.stopping
        return self.told_to_stop

    async def schedule(self, name: Named, data: Any, options: Fields) -> Job:
        if self._steps is not None:
            self._steps.refuse_suspended()
        return await self._enqueuer.schedule(name, data, self._of_child(options))

    async def draft(self, name: Named, data: Any, options: Fields) -> Draft:
        """A child job, checked, that the handler's own process is to store in its transaction."""
        return await self._enqueuer.draft(name, data, self._of_child(options))

    def made(self, document: Document, job: Job) -> None:
        """Announce a child job that the handler's own process has stored."""
        self._enqueuer.announce(document, job)

    def _of_child(self, options: Fields) -> Fields:
        return {"parent_id": str(self._claimed.id), **options}

    @property
    def idempotency_key(self) -> str:
        return idempotency_key(self._claimed.id, self._store.connection.jobs.full_name)

    @property
    def steps(self) -> Steps:
        """The steps of this attempt; most handlers have none."""
        if self._claimed.lost:
            raise ClaimLost(f"Job {self._claimed.id} is not held by this worker any more; no further step is run.")
        if self._steps is None:
            self._steps = Steps(self._claimed.shown, self._settings, self._keep_step)
        return self._steps

    @property
    def children(self) -> Children:
        """The children of this attempt; most handlers have none."""
        if self._children is None:
            made = self._enqueuer.announce_children
            self._children = Children(self._claimed, self._store, self._enqueuer.draft_children, made)
        return self._children

    @property
    def waits(self) -> HandlerWaits:
        """The waits of this attempt."""
        if self._waits is None:
            self._waits = HandlerWaits(self.children, lambda: self.steps)
        return self._waits

    @property
    def layout(self) -> Layout:
        """The nodes of a declared flow, or the callbacks of a batch; for the handlers of their roots."""
        enqueuer = self._enqueuer
        return Layout(self._claimed, self._store, self.children, enqueuer.draft_node, enqueuer.announce_children)

    @property
    def suspended(self) -> Waits | None:
        """The waits that the handler was suspended for."""
        return None if self._children is None else self._children.suspended

    async def forget_signals(self) -> None:
        """Mark the signals of the kept steps as taken, before the steps are forgotten."""
        if self.steps.signals:
            await self.children.mark_taken(self.steps.signals)

    def begin_again(self) -> None:
        """Let the handler run again within the same attempt."""
        if self._steps is not None:
            self._steps.begin_again()

    async def keep_step(self, name: str, result: Any) -> Fields:
        """Store a step that a process of the handler's own has run."""
        entry = await self._keep_step(name, result)
        self.steps.note(entry)
        return entry

    async def _keep_step(self, name: str, result: Any) -> Fields:
        """Store a step. Try again while the server cannot be reached and the claim holds: the step has been run."""
        claimed = self._claimed
        sealed = None if claimed.cipher is None else claimed.cipher.encrypt_step(claimed.job.document, name, result)
        stored, key_id = (result, None) if sealed is None else (sealed.to_document(), sealed.key_id)
        while True:
            try:
                entry = await self._store.steps.keep(claimed.id, claimed.token, name, claimed.job.tries, stored, key_id)
                break
            except Unavailable:
                if claimed.stopping or monotonic() >= claimed.valid_until:
                    raise
                await asyncio.sleep(_PAUSE)
        if entry is None:
            raise ClaimLost(f"Job {claimed.id} is not held by this worker any more; step {name!r} was not kept.")
        claimed.step_kept(entry)
        return {**entry, "result": result}

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Transaction]:
        steps = self.steps
        steps.refuse_second_transaction()
        self.used_transaction = True
        steps.closed = IN_TRANSACTION
        completed: Completed | None = None
        try:
            await self.freeze()
            async with self._store.transactions.completing(self._finish) as transaction:
                yield transaction
            assert isinstance(transaction.completion, Completed)
            completed = transaction.completion
        finally:
            steps.closed = None if completed is None else COMPLETED
            self.thaw(completed)

    def thaw(self, completed: Completed | None) -> None:
        """End the freeze after a transaction, also of the handler's own process; `completed` is what it committed."""
        self._claimed.thaw(committed=completed is not None)
        self.used_transaction = True
        self.committed = completed

    async def freeze(self) -> None:
        """Keep the heartbeat from writing the document during the transaction: a renewal in between would conflict.

        The transaction has half a lease at least. This also notes that the job has been started: that write would
        conflict later, too.
        """
        claimed = self._claimed
        asked = claimed.freeze()
        if claimed.ahead or claimed.valid_until - asked < self._settings.lease * 2 / 3:
            if not await self._store.claims.renew_one(claimed.id, claimed.token, self._settings.lease):
                raise ClaimLost(f"Job {claimed.id} is not held by this worker any more.")
            claimed.start_noted()
            claimed.renewed(asked, asked + self._settings.lease - self._settings.fence_margin)

    def _finish(self, transaction: Transaction) -> Finish:
        claimed = self._claimed
        claimed.commit()
        result, note = encode_result(transaction.result, self._settings.max_result)
        result = sealed_result(claimed, result)
        now = self._store.clock.now()
        return claimed.finish(self._worker, claimed.started_at or now, now, Completed(result, note))
