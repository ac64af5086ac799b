"""A long-lived loop of a worker: started, woken, stopped; and a lock that says which worker does a thing for now.

A service says what one pass is (`run_once`) and how long to sleep after it. The loop, the wake-ups, the pause after an
error and the report of it are here. No error ends a service before its worker stops.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

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

    # -- its life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.task = asyncio.create_task(self._keep_running(), name=f"mainspring-{self.name}")

    def wake(self) -> None:
        """There may be something to do."""
        self._woken.set()

    def stop(self) -> None:
        """End after the pass that is under way."""
        self._stopping = True
        self._woken.set()

    async def _keep_running(self) -> None:
        """Run until told to stop, whatever happens."""
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
        """Pass after pass until told to stop."""
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
        """One pass; returns for how many seconds there is nothing to do unless the service is woken."""
        raise AssertionError("a service says what a pass is")

    async def _begin(self) -> None:
        """Before the first pass."""

    async def _end(self) -> None:
        """After the last pass."""

    async def _recover(self, error: Exception) -> float:
        """Report an error, and make an index again whose absence was the reason; returns the pause after it."""
        self._failed(error)
        await self._store.connection.indexes.mend(error)
        return random.uniform(0.2, 0.6)

    async def _sleep(self, seconds: float) -> None:
        """Sleep until the time has passed, or until woken."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()


class LockHolder:
    """Whether a lock is this worker's for now. The database is asked again when about half of `hold` seconds are over;
    a worker that dies loses the lock after `hold` seconds."""

    def __init__(self, store: Store, name: str, worker: str, hold: float) -> None:
        self._store = store
        self._name = name
        self._worker = worker
        self._hold = hold
        self._mine = False
        self._until = float("-inf")
        self._asking = asyncio.Lock()

    async def is_mine(self) -> bool:
        async with self._asking:
            now = monotonic()
            if now >= self._until:
                self._mine = await self._store.workers.lock(self._name, self._worker, self._hold)
                self._until = now + self._hold * (0.6 if self._mine else 0.3)
            return self._mine

    async def renew(self) -> None:
        """Keep it while something goes on that takes longer than it lasts."""
        await self._store.workers.lock(self._name, self._worker, self._hold)

    async def give_up(self) -> None:
        """Let another worker have it at once. Where that fails, the lock ends by itself."""
        if self._mine:
            with suppress(Exception):
                await self._store.workers.unlock(self._name, self._worker)
