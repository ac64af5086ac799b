"""Transactions: a caller's own, and the one in which a handler's writes and its job's completion commit together.

In the second kind the job's document is written last, with the fence in its filter, so that a holder that has lost its
claim commits nothing, and so that a worker that dies inside a transaction has not locked its job's document.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from mainspring.clock import monotonic
from mainspring.errors import ClaimLost, ConfigurationError, UnsupportedServer
from mainspring.model.job import COMPLETED, RUNNING
from mainspring.store.connection import DURABLE, Connection, Document
from mainspring.store.finish import Finish, finish_stage

_UNKNOWN_COMMIT = "UnknownTransactionCommitResult"
_TRANSIENT = "TransientTransactionError"


class Transaction:
    """An open transaction. Pass `session=tx.session` to every operation that belongs to it."""

    def __init__(self, session: AsyncClientSession, db: AsyncDatabase[Document]) -> None:
        self.session = session
        self.db = db
        self.result: Any = None


def is_transient(error: BaseException) -> bool:
    """Whether running the transaction again may well succeed."""
    return isinstance(error, PyMongoError) and error.has_error_label(_TRANSIENT)


class Transactions:
    """The store's verbs for transactions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def check_session(self, session: Any) -> AsyncClientSession:
        """A session that schedules jobs must be one of the scheduler's own client."""
        self._check_supported("session=")
        if not isinstance(session, AsyncClientSession) or session.client is not self._connection.client:
            raise ConfigurationError(
                "session must come from the scheduler's own client: use scheduler.client.start_session(), "
                "scheduler.transaction(), or hand your client in with Scheduler(client=…)."
            )
        return session

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Transaction]:
        """A transaction that commits when the block ends and aborts when it raises."""
        self._check_supported("transaction()")
        async with self._connection.client.start_session() as session:
            await session.start_transaction(read_concern=ReadConcern("snapshot"), write_concern=DURABLE)
            try:
                yield Transaction(session, self._connection.db)
            except BaseException:
                await self._abort(session)
                raise
            await self._commit(session)

    async def complete_in(self, transaction: Transaction, finish: Finish) -> None:
        """Write the job's completion as the transaction's last write; raises ClaimLost when it is not ours to end."""
        written = await self._connection.jobs.update_one(
            {"_id": finish.id, "state": RUNNING, "token": finish.token, "cancel": None},
            finish_stage(finish, self._connection.clock.expression()),
            session=transaction.session,
        )
        if not written.matched_count:
            raise ClaimLost(f"Job {finish.id} is not held by this worker any more; its transaction was rolled back.")

    async def completed(self, finish: Finish) -> bool:
        """Whether a commit whose outcome was unknown has taken place."""
        with self._connection.deadline():
            document = await self._connection.jobs.find_one({"_id": finish.id}, {"state": 1, "token": 1})
        return document is not None and document["state"] == COMPLETED and document["token"] == finish.token

    def _check_supported(self, what: str) -> None:
        if not self._connection.supports_transactions:
            raise UnsupportedServer(
                f"{what} needs transactions, which a standalone MongoDB does not have; start it as a replica set "
                "(one node is enough), or use the embedded server."
            )

    async def _abort(self, session: AsyncClientSession) -> None:
        if session.in_transaction:
            try:
                await session.abort_transaction()
            except PyMongoError:
                pass  # the server gives it up by itself

    async def _commit(self, session: AsyncClientSession) -> None:
        """Commit, asking again while the outcome is unknown, as the driver's rules want it."""
        until = monotonic() + self._connection.settings.operation_timeout
        while session.in_transaction or session.has_ended is False:
            try:
                await session.commit_transaction()
                return
            except PyMongoError as error:
                if not error.has_error_label(_UNKNOWN_COMMIT) or monotonic() > until:
                    raise
                await asyncio.sleep(0.05)
