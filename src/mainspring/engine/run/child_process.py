"""The main function of a child process: receives jobs through a pipe, runs each, and reports its end.

The child asks its worker for everything but transactions: for those it opens a connection of its own, since a
transaction belongs to one client.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from multiprocessing.connection import Connection as Pipe
from typing import Any

from mainspring.clock import ServerClock
from mainspring.config.settings import Settings
from mainspring.engine.flows.handler_waits import HandlerWaits
from mainspring.engine.flows.verbs import Asked, Begun, Heard, Portion, Settled, SignalAsked
from mainspring.engine.handler import Handler, plain_function, refuse_coroutine
from mainspring.engine.handlers import Named
from mainspring.engine.run.context import BlockingJobContext, JobContext
from mainspring.engine.run.error_details import describe, told
from mainspring.engine.run.stacks import HandlerPlace
from mainspring.engine.run.steps import COMPLETED, IN_TRANSACTION, Steps
from mainspring.engine.run.sync_bridge import Portal
from mainspring.engine.run.threads import Threads
from mainspring.errors import InvalidJob, MainspringError
from mainspring.model.fields import Fields
from mainspring.model.jobs.draft import Draft
from mainspring.model.jobs.guarantee import idempotency_key
from mainspring.model.jobs.job import Job
from mainspring.model.jobs.outcome import Completed, Outcome
from mainspring.model.privacy.redaction import NO_REDACTION, Redactor
from mainspring.store import Store
from mainspring.store.bounded_values import MAX_LOG_LINE, MAX_LOG_LINES, cut, encode_progress, encode_result
from mainspring.store.codec import new_job
from mainspring.store.connection import Connection
from mainspring.store.jobs.end_fields import Finish
from mainspring.store.jobs.stored_job import StoredJob
from mainspring.store.jobs.transactions import Transaction
from mainspring.store.privacy.cipher import RESULT, Cipher
from mainspring.store.privacy.keyring import Keyring

_PR_SET_PDEATHSIG = 1
_THREADS = Threads("mainspring-handler")
_PLACES: list[HandlerPlace] = []
"""Where the handler of the present job runs."""


@dataclass(slots=True)
class ChildJob:
    """One job for a child, with the settings that it needs to run it."""

    function: Callable[..., Any]
    name: str
    stored: StoredJob
    uri: str | None
    database: str
    settings: Settings
    redactor: Redactor = NO_REDACTION
    seals: bool = False


def serve(pipe: Pipe[Any, Any], asks: Pipe[Any, Any]) -> None:
    """Run jobs until the worker ends the child, or is gone. A thread answers when the worker `asks` for the stack."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker handles Ctrl-C
    _die_with_parent()
    threading.Thread(target=_tell_stacks, args=(asks,), name="mainspring-child-stack", daemon=True).start()
    try:
        pipe.send(("ready",))
        while (job := _received(pipe)) is not None:
            asyncio.run(_run(job, pipe))
    except (EOFError, OSError):
        pass  # the worker is gone


def _tell_stacks(asks: Pipe[Any, Any]) -> None:
    """Answer each number that the worker sends with that number and the stack of the handler."""
    try:
        while True:
            number = asks.recv()
            place = _PLACES[-1] if _PLACES else None
            asks.send((number, "The handler has just ended." if place is None else place.stack()))
    except (EOFError, OSError):
        pass  # the worker is gone


def _received(pipe: Pipe[Any, Any]) -> ChildJob | None:
    """The next job that can be read; an error about an unreadable one is reported to the worker."""
    while True:
        try:
            job: ChildJob | None = pipe.recv()
        except (EOFError, OSError):
            raise
        except Exception as error:
            _report(pipe, error)
        else:
            return job


def _die_with_parent() -> None:
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


async def _run(job: ChildJob, pipe: Pipe[Any, Any]) -> None:
    agent = PipeAgent(job, pipe)
    _PLACES[:] = [HandlerPlace(asyncio.current_task(), asyncio.get_running_loop())]
    try:
        handler = Handler(job.name, plain_function(job.function))
        arguments = handler.bind(job.stored.data)
        result = await _call(handler, arguments, job, agent)
        agent.send("result", *encode_result(result, job.settings.max_result))
    except BaseException as error:
        _report(pipe, error)
    finally:
        _PLACES.clear()
        await agent.close()


async def _call(handler: Handler, arguments: Fields, job: ChildJob, agent: PipeAgent) -> Any:
    if handler.is_async:
        if handler.context_parameter is not None:
            arguments[handler.context_parameter] = JobContext(job.stored, agent)
        return await handler.function(**arguments)
    loop = asyncio.get_running_loop()
    if handler.context_parameter is not None:
        arguments[handler.context_parameter] = BlockingJobContext(job.stored, agent, Portal(loop))
    result = await _THREADS.run(_PLACES[0].in_thread(lambda: handler.function(**arguments)))
    refuse_coroutine(result)
    return result


def _report(pipe: Pipe[Any, Any], error: BaseException) -> None:
    described = describe(error)
    # The details go on their own as well: an exception that cannot be sent may have some that can.
    pickled, details = _pickled(error), _pickled(None if described.details is None else dict(described.details))
    pipe.send(("raised", described.type, described.message, described.stack, pickled, details))


def _check_sendable(arguments: tuple[Any, ...]) -> None:
    """Refuse arguments that the worker could not read; the handler gets the error."""
    try:
        pickle.loads(pickle.dumps(arguments))
    except Exception as error:
        raise InvalidJob(
            f"This cannot be sent from the handler's process to its worker ({told(error)}); pass plain values."
        ) from error


def _pickled(value: object) -> bytes | None:
    try:
        pickled = pickle.dumps(value)
        pickle.loads(pickled)
    except Exception:
        return None
    return pickled


class PipeFlows:
    """Sends the requests of a handler that waits to its worker."""

    def __init__(self, ask: Callable[..., Awaitable[Any]]) -> None:
        self._ask = ask

    async def begin(self, name: str) -> Begun:
        begun: Begun = await self._ask("flow", "begin", name)
        return begun

    async def spawn(self, portion: Portion) -> bool:
        fresh: bool = await self._ask("flow", "spawn", portion)
        return fresh

    async def check_last(self, name: str, total: int, keyed: bool, single: bool) -> None:
        await self._ask("flow", "check_last", name, total, keyed, single)

    async def settle(self, asked: Sequence[Asked]) -> list[Settled] | None:
        settled: list[Settled] | None = await self._ask("flow", "settle", asked)
        return settled

    async def page(self, name: str, start: int, count: int) -> list[Job]:
        jobs: list[Job] = await self._ask("flow", "page", name, start, count)
        return jobs

    async def read(self, name: str, digests: Sequence[bytes] | None) -> list[Job]:
        jobs: list[Job] = await self._ask("flow", "read", name, digests)
        return jobs

    async def below(self, parent: str, keyed: bool, after: str | None) -> list[Job]:
        jobs: list[Job] = await self._ask("flow", "below", parent, keyed, after)
        return jobs

    async def grow(self, name: Named, data: Any, options: Fields) -> str:
        child_id: str = await self._ask("flow", "grow", name, data, options)
        return child_id

    async def listen(self, asked: SignalAsked, taken: Sequence[str]) -> Heard:
        heard: Heard = await self._ask("flow", "listen", asked, taken)
        return heard

    async def taken(self, ids: Sequence[str]) -> None:
        await self._ask("flow", "taken", ids)

    async def sleep(self, name: str, until: datetime) -> bool:
        over: bool = await self._ask("flow", "sleep", name, until)
        return over

    async def now(self) -> datetime:
        now: datetime = await self._ask("flow", "now")
        return now


class PipeAgent:
    """Serves a handler's context from a child process."""

    def __init__(self, job: ChildJob, pipe: Pipe[Any, Any]) -> None:
        self._job = job
        self._pipe = pipe
        self._lock = threading.Lock()
        self._requests = itertools.count()
        self._asking = asyncio.Lock()
        self._opened: Store | None = None
        # Without a key. Values that this process stores in its handler's transaction may need one: see `_get_keys`.
        self._cipher = Cipher(Keyring())
        self._log: deque[str] = deque(maxlen=MAX_LOG_LINES)
        self._logged = 0
        self._progress: Fields | None = None
        self.steps = Steps(job.stored, job.settings, self._keep_step)
        self.waits = HandlerWaits(PipeFlows(self._ask), lambda: self.steps)

    def send(self, *message: Any) -> None:
        with self._lock:
            self._pipe.send(message)

    def note_progress(self, percent: float, note: str | None) -> None:
        self._progress = encode_progress(percent, None if note is None else self._job.redactor.text(note))
        self.send("progress", percent, note)

    def note_log(self, line: str) -> None:
        self._log.append(cut(self._job.redactor.text(line), MAX_LOG_LINE))
        self._logged += 1
        self.send("log", line)

    def is_stopping(self) -> bool:
        return False  # a child that should stop is killed

    @property
    def idempotency_key(self) -> str:
        return idempotency_key(self._job.stored.id, f"{self._job.database}.{self._job.settings.collection}")

    async def schedule(self, name: Named, data: Any, options: Fields) -> Job:
        self.steps.refuse_suspended()
        session = options.pop("session", None)
        if session is not None:
            return await self._schedule_in(session, name, data, options)
        job: Job = await self._ask("schedule", name, data, options)
        return job

    async def _schedule_in(self, session: Any, name: Named, data: Any, options: Fields) -> Job:
        """Store a child job in this process's own transaction; the worker checks it before, and announces it after."""
        store = await self._store()
        checked = store.transactions.check_session(session)
        draft: Draft = await self._ask("draft", name, data, options)
        if draft.encrypt is not None:
            await self._get_keys()
        ((document, fresh),) = await store.inserts.insert_in(checked, [draft])
        if not fresh and (key_ids := StoredJob(document).key_ids):
            await self._get_keys(*key_ids)
        job = new_job(document, dict(draft.data or {})) if fresh else self._cipher.decode(document, deduplicated=True)
        transaction = store.transactions.of(checked)
        if fresh and transaction is not None:
            told = {key: document[key] for key in ("_id", "queue", "run_at")}
            transaction.on_commit(lambda: self.send("made", told, job))
        return job

    async def _get_keys(self, *key_ids: str) -> None:
        """Ask the worker for the keys of these ids; without ids, for the current encryption key."""
        ring = self._cipher.ring
        if not key_ids or not set(key_ids) <= set(ring.ids):
            ring.replace({**await self._ask("keys", key_ids), **ring.keys})

    async def _keep_step(self, name: str, result: Any) -> Fields:
        entry: Fields = await self._ask("step", name, result)
        return entry

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Transaction]:
        self.steps.refuse_second_transaction()
        store = await self._store()
        if self._job.seals:
            await self._get_keys()
        completed: Outcome | None = None
        self.steps.closed = IN_TRANSACTION
        try:
            await self._ask("freeze")
            async with store.transactions.completing(self._finish) as transaction:
                yield transaction
            completed = transaction.completion
        finally:
            self.steps.closed = None if completed is None else COMPLETED
            self.send("thaw", completed)

    def _finish(self, transaction: Transaction) -> Finish:
        job = self._job.stored
        result, note = encode_result(transaction.result, self._job.settings.max_result)
        if self._job.seals and result is not None:
            result = self._cipher.encrypt(job.document, (RESULT,), result)
        assert self._opened is not None
        now = self._opened.clock.now()
        return Finish(
            job.id,
            job.token,
            job.tries,
            job.worker,
            job.claimed_at or now,
            now,
            Completed(result, note),
            tuple(self._log),
            self._progress,
            job.name,
            self._logged - len(self._log),
        )

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def _store(self) -> Store:
        if self._job.uri is None:
            raise MainspringError(
                "transaction() in a process of its own needs the server's address; "
                "give Scheduler the uri beside the client."
            )
        if self._opened is None:
            settings = replace(self._job.settings, database=self._job.database)
            connection = await Connection.open(settings, ServerClock(), uri=self._job.uri)
            self._opened = Store(connection, self._cipher)
        return self._opened

    async def _ask(self, kind: str, *arguments: Any) -> Any:
        """Send a request to the worker and wait for its answer, which is read from the pipe even if the caller is
        cancelled."""
        return await asyncio.shield(self._exchange(kind, *arguments))

    async def _exchange(self, kind: str, *arguments: Any) -> Any:
        """Send one request at a time and wait for its answer, so that answers come in order."""
        _check_sendable(arguments)
        async with self._asking:
            request = next(self._requests)
            self.send(kind, request, *arguments)
            answered, result, error = await asyncio.to_thread(self._pipe.recv)
            assert answered == request
            if error is not None:
                raise error
            return result
