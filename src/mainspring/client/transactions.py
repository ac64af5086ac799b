"""The verbs for transactions: opening one, running a function in one, and storing jobs as part of one.

Jobs of a transaction are announced after it has committed: right after the commit if the transaction was opened here.
Mainspring does not learn of the commit of the caller's own session; workers find its jobs like those of other
processes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from mainspring.client.core import Core
from mainspring.errors import ConfigurationError
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.guarantee import EXACTLY_ONCE
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.retry import Seconds, seconds
from mainspring.store import Store
from mainspring.store.connection import Document
from mainspring.store.jobs.transactions import Reruns, Transaction

T = TypeVar("T")

AsJob = Callable[[Document, Draft, bool], Job]
"""Makes the job of a stored document, which is new or existed already."""


class Transactions:
    """Opens transactions, and stores jobs as part of them."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def in_transaction(self, function: Callable[[Transaction], Awaitable[T]], *, timeout: Seconds = 60) -> T:
        """Run `async def function(tx)` in a transaction, commit it, and return the function's result.

        After a conflict or a failover the whole function is rerun, after a short pause; if the outcome of the commit is
        unknown, the commit is retried. After `timeout`, Unavailable is raised, and says whether something may be
        stored. An exception of the function aborts the transaction.
        """
        reruns = Reruns(seconds(timeout, "timeout"))
        while True:
            try:
                async with self.open(reruns.left) as transaction:
                    return await _awaited(function(transaction))
            except Exception as error:
                pause = reruns.pause_after(error)
            await asyncio.sleep(pause)

    @asynccontextmanager
    async def open(self, patience: float | None = None) -> AsyncIterator[Transaction]:
        """Open a transaction of the scheduler's client; `patience` is how long its commit may take."""
        store = await self._core.store()
        async with store.transactions.open(patience) as transaction:
            yield transaction

    async def insert_in(self, store: Store, session: Any, drafts: Sequence[Draft], as_job: AsJob) -> list[Job]:
        """Store jobs in a transaction, and announce them once it has committed."""
        checked = store.transactions.check_session(session)
        stored = await store.inserts.insert_in(checked, drafts)
        transaction = store.transactions.of(checked)
        jobs = []
        for (document, fresh), draft in zip(stored, drafts, strict=True):
            job = as_job(document, draft, fresh)
            jobs.append(job)
            if fresh and transaction is not None:
                transaction.on_commit(partial(self._core.announce, document, job))
        return jobs

    def check_guarantee(self, store: Store, draft: Draft) -> None:
        """Refuse a job that needs transactions if the server has none."""
        declared = self._core.live_handlers.defaults(draft.name)
        if (draft.guarantee or (declared and declared.guarantee)) == EXACTLY_ONCE:
            store.transactions.check_supported(f'guarantee="exactly_once" (of {draft.name!r})')

    def check_handlers(self, store: Store) -> None:
        """Refuse to run handlers that need transactions if the server has none."""
        for name in self._core.handlers.executing(EXACTLY_ONCE):
            store.transactions.check_supported(f'guarantee="exactly_once" (of {name!r})')


async def _awaited(outcome: Awaitable[T]) -> T:
    if not inspect.isawaitable(outcome):
        raise ConfigurationError("in_transaction() takes an async function; write async def, or use mainspring.sync.")
    return await outcome
