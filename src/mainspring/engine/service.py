"""A long-lived loop of a worker: started, woken, stopped; and a lock that one worker at a time has.

A subclass defines one pass (`run_once`) and how long to sleep after it. The loop, the wake-ups, the pause after an
error and the report of it are here. No error ends a service before its worker stops.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

from mainspring.clock import monotonic
from mainspring.store import Store

logger = logging.getLogger("mainspring")


class Service:
    """One loop. It ends by itself after `stop()`: a task that is cancelled while the driver connects would leave its
    socket behind."""

    name: ClassVar[str] = ""

    def __init__(self, store: Store, failed: Callable[[Exception], None]) -> None:
        self._store = store
        self._failed = failed
        self._woken = asyncio.Event()
        self._stopping = False
        self.task: asyncio.Task[None] | None = None

    # -- start and stop --------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.task = asyncio.create_task(self._keep_running(), name=f"mainspring-{self.name}")

    def wake(self) -> None:
        """Begin the next pass at once, since there may be work."""
        self._woken.set()

    def stop(self) -> None:
        """End after the pass that is under way."""
        self._stopping = True
        self._woken.set()

    async def _keep_running(self) -> None:
        """Run until told to stop; start again after every error."""
        while not self._stopping:
            try:
                await self.run()
                return
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if self._stopping or task is None or task.cancelling():
                    raise
                logger.warning("The %s waited for something that was cancelled; it starts again", self.name)
            except Exception as error:
                logger.exception("The %s failed; it starts again", self.name)
                self._failed(error)
            await asyncio.sleep(random.uniform(0.2, 0.5))

    # -- the loop --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Do pass after pass until told to stop."""
        await self._begin()
        while not self._stopping:
            self._woken.clear()
            try:
                pause = await self.run_once()
            except Exception as error:
                pause = await self._recover(error)
            await self._sleep(pause)
        await self._end()

    async def run_once(self) -> float:
        """Do one pass; return the seconds until the next one, unless the service is woken before."""
        raise AssertionError("a subclass of Service overrides run_once")

    async def _begin(self) -> None:
        """Called before the first pass."""

    async def _end(self) -> None:
        """Called after the last pass."""

    async def _recover(self, error: Exception) -> float:
        """Report an error, and make an index again whose absence was the cause; return the pause after it."""
        self._failed(error)
        try:
            await self._store.mend_indexes(error)
        except Exception as another:  # the next pass that misses the index asks for it again
            self._failed(another)
        return random.uniform(0.2, 0.6)

    async def _sleep(self, seconds: float) -> None:
        """Sleep until the time has passed, or until woken."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()


async def cancel_task(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait for its end. The driver may raise an error of its own when it is cancelled while it waits
    for a connection; without a reader, asyncio would log it as an error that was never retrieved."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.debug("A task that was cancelled ended with %r", error)


class LockHolder:
    """Tries to have a lock for this worker, and knows whether it has it. It asks the database again after about half of
    `hold` seconds; a worker that dies loses the lock after `hold` seconds."""

    def __init__(self, store: Store, name: str, worker: str, hold: float) -> None:
        self._store = store
        self._name = name
        self._worker = worker
        self._hold = hold
        self._mine = False
        self._until = float("-inf")
        self._asking = asyncio.Lock()

    @property
    def held(self) -> bool:
        """Whether this worker had the lock when it last asked, and that was not long ago."""
        return self._mine and monotonic() < self._until + self._hold * 0.4

    async def is_mine(self) -> bool:
        async with self._asking:
            now = monotonic()
            if now >= self._until:
                self._mine = await self._store.workers.lock(self._name, self._worker, self._hold)
                self._until = now + self._hold * (0.6 if self._mine else 0.3)
            return self._mine

    async def renew(self) -> None:
        """Keep the lock during an operation that takes longer than the lock lasts."""
        await self._store.workers.lock(self._name, self._worker, self._hold)

    async def give_up(self) -> None:
        """Let another worker have the lock at once. If that fails, the lock ends by itself."""
        if self._mine:
            with suppress(Exception):
                await self._store.workers.unlock(self._name, self._worker)
