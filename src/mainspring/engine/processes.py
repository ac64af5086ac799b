"""Handlers in processes of their own: for CPU-bound work, work that may crash, and suspects.

A child serves one job at a time and can be killed for sure at any moment; when it dies, its job's attempt fails and
the worker lives. A suspect (a job that was running when its worker died) gets a new child that ends with it; one that
was only claimed ahead is run in a child too, but may share it with others, one after the other.
Children are spawned, never forked, and die with their worker.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import signal
import threading
from multiprocessing.connection import Connection as Pipe
from typing import Any

from mainspring.config import Settings
from mainspring.engine.agent import LocalAgent
from mainspring.engine.child import ChildJob, serve
from mainspring.engine.failure import RemoteError
from mainspring.engine.holdings import Holding
from mainspring.errors import ClaimLost, Signal
from mainspring.model.ending import PROCESS_DIED
from mainspring.store import Store

_IDLE_CHILDREN = 16


class Child:
    """One child process and the pipe to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), name="mainspring-child", daemon=True)
        self._process.start()
        theirs.close()
        self._loop = loop
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.dead = False
        self.alone = False
        self.is_ready = False
        threading.Thread(target=self._listen, name="mainspring-child-pipe", daemon=True).start()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def ready(self) -> None:
        """Wait until the process has started up."""
        if self.is_ready:
            return
        kind, *rest = await self.messages.get()
        if kind != "ready":
            raise RemoteError(
                PROCESS_DIED,
                f"The process for the handler {rest[0] if rest else ''} while it started. If your program is a script, "
                "start it under: if __name__ == '__main__':",
                None,
            )
        self.is_ready = True

    def send(self, message: Any) -> None:
        self.pipe.send(message)

    def kill(self) -> None:
        """End the process for sure. Safe from any thread."""
        self.dead = True
        self._process.kill()

    def retire(self) -> None:
        """Let an idle child end."""
        self.dead = True
        try:
            self.pipe.send(None)
        except OSError:
            pass

    def how_it_died(self) -> str:
        code = self._process.exitcode
        if code is not None and code < 0:
            try:
                return f"was killed by {signal.Signals(-code).name}"
            except ValueError:
                return f"was killed by signal {-code}"
        return f"ended with exit code {code}"

    def _listen(self) -> None:
        """Hand messages to the event loop until the process is gone; its end is the last message."""
        pipe: Pipe[Any, Any] = self.pipe
        try:
            while True:
                self._post(pipe.recv())
        except (EOFError, OSError, pickle.UnpicklingError, AttributeError, ImportError):
            self.dead = True
            self._process.join(timeout=10)
            self._post(("died", self.how_it_died()))
            pipe.close()

    def _post(self, message: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(self.messages.put_nowait, message)
        except RuntimeError:
            pass  # the loop is closed


class Processes:
    """The children of one worker."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._idle: list[Child] = []
        self._busy: set[Child] = set()

    async def prepare(self, holding: Holding, *, alone: bool) -> None:
        """Get a child ready for a job; `alone`: a new one that serves no other. Its start is not the job's time."""
        while self._idle and not alone:
            child = self._idle.pop()
            if not child.dead:
                break
        else:
            loop = asyncio.get_running_loop()
            child = await loop.run_in_executor(None, Child, loop)
        child.alone = alone
        self._busy.add(child)
        holding.process = child
        try:
            await child.ready()
        except BaseException:
            self._put_back(holding, child)
            raise

    async def run(self, holding: Holding, agent: LocalAgent) -> Any:
        """Run a job in the child that was prepared for it."""
        child = holding.process
        try:
            child.send(self._job(holding))
            return await self._converse(child, agent)
        except (OSError, ValueError) as error:
            raise RemoteError(PROCESS_DIED, f"The handler's process could not be reached: {error}", None) from error
        finally:
            self._put_back(holding, child)

    def give_back(self, holding: Holding) -> None:
        """Take a child back that was prepared but not used."""
        if holding.process is not None:
            self._put_back(holding, holding.process)

    async def close(self) -> None:
        for child in self._idle:
            child.retire()
        for child in self._busy:
            child.kill()
        self._idle.clear()

    def _put_back(self, holding: Holding, child: Child) -> None:
        holding.process = None
        self._busy.discard(child)
        idle = child.is_ready and child.messages.empty() and not child.dead
        if child.alone or not idle or len(self._idle) >= _IDLE_CHILDREN:
            child.retire() if idle else child.kill()
        else:
            self._idle.append(child)

    def _job(self, holding: Holding) -> ChildJob:
        connection = self._store.connection
        return ChildJob(
            function=holding.handler.function,
            name=holding.handler.name,
            document=holding.document,
            uri=connection.uri,
            database=connection.db.name,
            settings=self._settings,
            veil=holding.veil,
            seals=holding.sealer is not None,
            keys=self._store.sealer.ring.keys,
        )

    async def _converse(self, child: Child, agent: LocalAgent) -> Any:
        """Serve the child's requests until its job has ended."""
        try:
            while True:
                kind, *rest = await child.messages.get()
                if kind == "result":
                    result, agent.result_note = rest
                    return result
                if kind == "raised":
                    raise _raised(*rest)
                if kind == "died":
                    raise RemoteError(PROCESS_DIED, f"The handler's process {rest[0]} while it ran the job.", None)
                await self._serve(child, agent, kind, rest)
        except asyncio.CancelledError:
            child.kill()
            raise

    async def _serve(self, child: Child, agent: LocalAgent, kind: str, rest: list[Any]) -> None:
        if kind == "progress":
            agent.note_progress(*rest)
        elif kind == "log":
            agent.note_log(*rest)
        elif kind == "schedule":
            await self._answer(child, rest[0], agent.schedule(*rest[1:]))
        elif kind == "step":
            await self._answer(child, rest[0], agent.keep_step(*rest[1:]))
        elif kind == "draft":
            await self._answer(child, rest[0], agent.draft(*rest[1:]))
        elif kind == "made":
            agent.made(*rest)
        elif kind == "freeze":
            await self._answer(child, rest[0], agent.freeze())
        elif kind == "thaw":
            agent.thaw(rest[0])

    async def _answer(self, child: Child, request: int, work: Any) -> None:
        try:
            reply: tuple[Any, ...] = (request, await work, None)
        except Exception as error:
            reply = (request, None, error)
        try:
            child.send(reply)
        except (pickle.PicklingError, AttributeError, TypeError):
            child.send((request, None, RuntimeError(repr(reply[2] or reply[1]))))


def _raised(
    type: str, message: str, stack: str | None, pickled: bytes | None, pickled_details: bytes | None
) -> BaseException:
    cause, details = _unpickled(pickled), _unpickled(pickled_details)
    if isinstance(cause, Signal | ClaimLost):
        return cause
    return RemoteError(type, message, stack, cause, details)


def _unpickled(pickled: bytes | None) -> Any:
    try:
        return None if pickled is None else pickle.loads(pickled)
    except Exception:
        return None
