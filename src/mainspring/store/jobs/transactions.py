"""Transactions: a caller's own, and the one in which a handler's writes and its job's completion commit together.

In the second kind the job's document is written last, with the fence in its filter, so that a worker that has lost its
claim commits nothing, and so that a worker that dies inside a transaction has not locked its job's document.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pymongo
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from mainspring.clock import monotonic
from mainspring.errors import ClaimLost, ConfigurationError, Unavailable, UnsupportedServer
from mainspring.model.jobs.job import COMPLETED, RUNNING
from mainspring.model.jobs.outcome import Outcome
from mainspring.store.connection import DURABLE, Connection, Document
from mainspring.store.jobs.end_fields import Finish, finish_stage

_UNKNOWN_COMMIT = "UnknownTransactionCommitResult"
_TRANSIENT = "TransientTransactionError"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 1.0
_COMMIT_PAUSE, _LEAST_WAIT = 0.05, 0.1


class Transaction:
    """An open transaction. Pass `session=tx.session` to every operation that belongs to it."""

    def __init__(self, session: AsyncClientSession, db: AsyncDatabase[Document]) -> None:
        self.session = session
        self.db = db
        self.result: Any = None
        self.completion: Outcome | None = None
        """The outcome of the job that the transaction completes."""
        self._news: list[Callable[[], None]] = []

    def on_commit(self, tell: Callable[[], None]) -> None:
        """Register a function to call once the transaction has committed. If it does not commit, the function is not
        called."""
        self._news.append(tell)

    def tell(self) -> None:
        """Call the registered functions: the transaction has committed."""
        news, self._news = self._news, []
        for tell in news:
            tell()


class Reruns:
    """The reruns of a transaction: at once at first, then with exponential backoff, until its time is over.

    The pauses have jitter, so that transactions that have conflicted do not conflict again.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._until = monotonic() + limit
        self._count = 0

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self._until - monotonic())

    def pause_after(self, error: Exception) -> float:
        """The seconds to wait before the next run; raises the final error where there is none."""
        if _is_unknown(error):
            raise Unavailable(
                f"Whether the transaction has committed could not be learned within {self._limit:g} s; look for what "
                f"it writes before you run it again: {error}"
            ) from error
        if not is_transient(error):
            raise error
        pause = random.uniform(0.5, 1.5) * min(_FIRST_PAUSE * 2.0 ** min(self._count, 20), _LONGEST_PAUSE)
        self._count += 1
        if pause >= self.left:
            raise Unavailable(
                f"The transaction met conflicts or a failing server for {self._limit:g} s and was given up; nothing "
                f"of it is stored: {error}"
            ) from error
        return pause


def is_transient(error: BaseException) -> bool:
    """Whether running the transaction again may well succeed."""
    return isinstance(error, PyMongoError) and error.has_error_label(_TRANSIENT)


def _is_unknown(error: BaseException) -> bool:
    """Whether the error leaves open if the transaction has committed."""
    return isinstance(error, PyMongoError) and error.has_error_label(_UNKNOWN_COMMIT)


class Transactions:
    """The store's verbs for transactions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: dict[int, Transaction] = {}

    def check_session(self, session: Any) -> AsyncClientSession:
        """Refuse a session that is not of the scheduler's own client, or not in a transaction."""
        self.check_supported("session=")
        if not isinstance(session, AsyncClientSession) or session.client is not self._connection.client:
            raise ConfigurationError(
                "session must come from the scheduler's own client: use scheduler.client.start_session(), "
                "scheduler.transaction(), or hand your client in with Scheduler(client=…)."
            )
        if session.has_ended:
            raise ConfigurationError(
                "session has ended; schedule inside of its block, or leave session out to store the job at once."
            )
        if not session.in_transaction:
            raise ConfigurationError(
                "session has no transaction under way, so that there is nothing for the job to be part of; call "
                "start_transaction() first, use scheduler.transaction(), or leave session out to store the job at once."
            )
        return session

    def of(self, session: AsyncClientSession) -> Transaction | None:
        """The transaction that `open` began for a session; None when it is the caller's own."""
        return self._open.get(id(session))

    @asynccontextmanager
    async def open(self, patience: float | None = None) -> AsyncIterator[Transaction]:
        """A transaction that commits when the block ends and aborts when it raises.

        `patience` is how long the commit is repeated while its outcome is unknown.
        """
        self.check_supported("transaction()")
        async with self._connection.client.start_session() as session:
            await session.start_transaction(read_concern=ReadConcern("snapshot"), write_concern=DURABLE)
            transaction = self._open[id(session)] = Transaction(session, self._connection.db)
            try:
                yield transaction
            except BaseException:
                await self._abort(session)
                raise
            finally:
                del self._open[id(session)]
            await self._commit(session, self._connection.settings.operation_timeout if patience is None else patience)
            transaction.tell()

    @asynccontextmanager
    async def completing(self, finish_of: Callable[[Transaction], Finish]) -> AsyncIterator[Transaction]:
        """A transaction whose last write completes a job, with the `Finish` of `finish_of` at the end of the block."""
        finish: Finish | None = None
        transaction: Transaction | None = None
        try:
            async with self.open() as transaction:
                yield transaction
                finish = finish_of(transaction)
                await self.complete_in(transaction, finish)
        except Exception as error:
            # The outcome of the commit may be unknown; the job's document shows it.
            if finish is None or is_transient(error) or isinstance(error, ClaimLost):
                raise
            if not await self.completed(finish):
                raise
            assert transaction is not None
            transaction.tell()
        assert transaction is not None and finish is not None
        transaction.completion = finish.ending

    async def complete_in(self, transaction: Transaction, finish: Finish) -> None:
        """Write the job's completion as the transaction's last write; raises ClaimLost when the claim is lost or the
        job's cancellation was requested."""
        written = await self._connection.jobs.update_one(
            *self._connection.mirror.update(
                {"_id": finish.id, "state": RUNNING, "token": finish.token, "cancel": None},
                finish_stage(finish, self._connection.clock.expression()),
            ),
            session=transaction.session,
        )
        if not written.matched_count:
            raise ClaimLost(f"Job {finish.id} is not held by this worker any more; its transaction was rolled back.")

    async def completed(self, finish: Finish) -> bool:
        """Whether a commit whose outcome was unknown has taken place."""
        document = await self._connection.jobs.find_one({"_id": finish.id}, {"state": 1, "token": 1})
        return document is not None and document["state"] == COMPLETED and document["token"] == finish.token

    def check_supported(self, what: str) -> None:
        """Refuse a feature that needs transactions, where the server has none."""
        if not self._connection.supports_transactions:
            raise UnsupportedServer(
                f"{what} needs transactions, which a standalone MongoDB does not have; start it as a replica set "
                "(one node is enough), or use the embedded server."
            )

    async def _abort(self, session: AsyncClientSession) -> None:
        if session.in_transaction:
            try:
                with pymongo.timeout(self._connection.settings.operation_timeout):
                    await session.abort_transaction()
            except PyMongoError:
                pass  # the server aborts it by itself

    async def _commit(self, session: AsyncClientSession, patience: float) -> None:
        """Commit, and repeat the commit while its outcome is unknown, as the driver's specification demands."""
        until = monotonic() + patience
        while True:
            try:
                with pymongo.timeout(max(_LEAST_WAIT, until - monotonic())):
                    await session.commit_transaction()
                return
            except PyMongoError as error:
                if not _is_unknown(error) or monotonic() >= until:
                    raise
            await asyncio.sleep(random.uniform(0.5, 1.5) * _COMMIT_PAUSE)
