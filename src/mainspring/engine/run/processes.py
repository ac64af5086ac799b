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

from mainspring.config.settings import Settings
from mainspring.engine.flows.verbs import VERBS
from mainspring.engine.handler import published
from mainspring.engine.run.child_process import ChildJob, serve
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.engine.run.context_backend import ContextBackend
from mainspring.engine.run.error_details import RemoteError, told
from mainspring.engine.run.threads import Threads
from mainspring.errors import ClaimLost, Signal
from mainspring.model.jobs.outcome import PROCESS_DIED
from mainspring.store import Store

_IDLE_CHILDREN = 16
_STACK_WITHIN = 2.0


class Child:
    """One child process and the pipe to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._asks, their_asks = context.Pipe()
        self._asking = threading.Lock()
        self._asked = 0
        self._process = context.Process(target=serve, args=(theirs, their_asks), name="mainspring-child", daemon=True)
        self._process.start()
        theirs.close()
        their_asks.close()
        self._loop = loop
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.dead = False
        self.alone = False
        self.is_ready = False
        threading.Thread(target=self._listen, name="mainspring-child-pipe", daemon=True).start()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether the process is alive; False also if it has died and its last message has not arrived yet."""
        return not self.dead and self._process.is_alive()

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

    def stack(self) -> str:
        """The stack of the handler, as the child's own thread sees it. Safe from any thread."""
        with self._asking:
            self._asked += 1
            try:
                self._asks.send(self._asked)
                while self._asks.poll(_STACK_WITHIN):
                    number, text = self._asks.recv()
                    if number == self._asked:  # not the late answer to an earlier question
                        return str(text)
            except (OSError, EOFError, ValueError):
                return "The handler's process has just ended."
        return "The handler's process does not answer: it is stopped, or its code keeps the interpreter's lock."

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
        unread = ""
        try:
            while True:
                self._post(pipe.recv())
        except (EOFError, OSError):
            pass
        except Exception as error:  # reading a message runs code of the classes that are in it
            unread = f"sent a message that cannot be read ({told(error)}) and was ended"
            self._process.kill()
        self.dead = True
        self._process.join(timeout=10)
        self._post(("died", unread or self.how_it_died()))
        pipe.close()
        with self._asking:
            self._asks.close()

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
        self._threads = Threads("mainspring-child-send")

    async def prepare(self, claimed: ClaimedJob, *, alone: bool) -> None:
        """Get a child ready for a job; `alone`: a new one that serves no other. Its start does not count for the job's
        timeout."""
        while self._idle and not alone:
            child = self._idle.pop()
            if child.lives:
                break
        else:
            child = await self._start()
        child.alone = alone
        self._busy.add(child)
        claimed.use_process(child)
        try:
            await child.ready()
        except BaseException:
            self._put_back(claimed, child)
            raise

    @staticmethod
    async def _start() -> Child:
        """Start a child in a thread; one that starts too late, after its job was stopped, is ended."""
        loop = asyncio.get_running_loop()
        starting = loop.run_in_executor(None, Child, loop)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_end_unused)
            raise

    async def run(self, claimed: ClaimedJob, agent: ContextBackend) -> Any:
        """Run a job in the child that was prepared for it."""
        child = claimed.process
        assert isinstance(child, Child)
        try:
            await self._send(child, self._job(claimed))
            kind, *rest = await self._until_ended(child, agent)
        except BaseException as error:
            child.kill()  # it may still be at work, and no other job may wait behind it
            if isinstance(error, OSError | ValueError):
                message = f"The handler's process could not be reached: {error}"
                raise RemoteError(PROCESS_DIED, message, None) from error
            raise
        finally:
            self._put_back(claimed, child)
        if kind == "raised":
            raise _raised(*rest)
        if kind == "died":
            raise RemoteError(PROCESS_DIED, f"The handler's process {rest[0]} while it ran the job.", None)
        result, agent.result_note = rest
        return result

    def give_back(self, claimed: ClaimedJob) -> None:
        """Take back a child that was prepared but not used."""
        if isinstance(claimed.process, Child):
            self._put_back(claimed, claimed.process)

    async def close(self) -> None:
        for child in self._idle:
            child.retire()
        for child in self._busy:
            child.kill()
        self._idle.clear()
        self._threads.close()

    def _put_back(self, claimed: ClaimedJob, child: Child) -> None:
        claimed.use_process(None)
        self._busy.discard(child)
        idle = child.is_ready and child.messages.empty() and not child.dead
        if child.alone or not idle or len(self._idle) >= _IDLE_CHILDREN:
            child.retire() if idle else child.kill()
        else:
            self._idle.append(child)

    def _job(self, claimed: ClaimedJob) -> ChildJob:
        connection = self._store.connection
        return ChildJob(
            function=published(claimed.handler.function),
            name=claimed.handler.name,
            stored=claimed.shown,
            uri=connection.uri,
            database=connection.db.name,
            settings=self._settings,
            redactor=claimed.redactor,
            seals=claimed.cipher is not None,
        )

    async def _until_ended(self, child: Child, agent: ContextBackend) -> Any:
        """Serve the child's requests until its job has ended; return the message that says how."""
        while True:
            message = await child.messages.get()
            if message[0] in ("result", "raised", "died"):
                return message
            await self._serve(child, agent, message[0], list(message[1:]))

    async def _serve(self, child: Child, agent: ContextBackend, kind: str, rest: list[Any]) -> None:
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
        elif kind == "flow":
            verb = rest[1] if rest[1] in VERBS else "begin"
            await self._answer(child, rest[0], getattr(agent.children, verb)(*rest[2:]))
        elif kind == "keys":
            await self._answer(child, rest[0], self._keys(rest[1]))
        elif kind == "made":
            agent.made(*rest)
        elif kind == "freeze":
            await self._answer(child, rest[0], agent.freeze())
        elif kind == "thaw":
            agent.thaw(rest[0])

    async def _keys(self, key_ids: tuple[str, ...]) -> dict[str, bytes]:
        """The keys that a child needs for values that it stores itself: those of these ids, or the current key."""
        ring = self._store.cipher.ring
        return (
            {key_id: key for key_id in key_ids if (key := ring.get(key_id)) is not None}
            if key_ids
            else dict([ring.current])
        )

    async def _send(self, child: Child, message: Any) -> None:
        """Send a message from a thread: a process that does not read must not block the event loop."""
        await self._threads.run(lambda: child.send(message))

    async def _answer(self, child: Child, request: int, work: Any) -> None:
        try:
            reply: tuple[Any, ...] = (request, await work, None)
        except Exception as error:
            reply = (request, None, error)
        try:
            await self._send(child, reply)
        except OSError:
            raise
        except Exception:  # the reply cannot be pickled
            what = told(reply[2]) if reply[2] is not None else type(reply[1]).__name__
            await self._send(child, (request, None, RuntimeError(what)))


def _end_unused(starting: asyncio.Future[Child]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().kill()


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
