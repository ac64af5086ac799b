"""One interface to the async and the blocking Scheduler, for the commands.

A blocking Scheduler must run on its own event loop, which its handlers call back into; the command's loop must not run
its async part.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from mainspring.client.blocking import Scheduler as BlockingScheduler
from mainspring.client.blocking import wait_for
from mainspring.client.scheduler import Scheduler
from mainspring.errors import IndexesBuilding

logger = logging.getLogger("mainspring")

_LOOK_EVERY = 0.5
T = TypeVar("T")


class Face:
    """A user's scheduler, which a command starts and stops from its event loop."""

    def __init__(self, scheduler: Scheduler | BlockingScheduler) -> None:
        self._blocking = scheduler if isinstance(scheduler, BlockingScheduler) else None
        self.inner: Scheduler = scheduler.inner if isinstance(scheduler, BlockingScheduler) else scheduler

    def run_to_end(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a command, and a blocking scheduler too, on the fastest event loop that is installed."""
        factory = _fast_loop()
        if self._blocking is not None and factory is not None:
            self._blocking.loop_factory = factory
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(main)

    async def start(self) -> None:
        if self._blocking is None:
            await self.inner.start()
        else:
            await asyncio.to_thread(wait_for, self._blocking, self.inner.start())

    async def stop(self, grace: float) -> None:
        if self._blocking is None:
            await self.inner.stop(timeout=grace)
        else:
            await asyncio.to_thread(self._blocking.stop, timeout=grace)

    async def run(self, function: Callable[[], Awaitable[T]]) -> T:
        """Await a function on the event loop of the scheduler."""
        if self._blocking is None:
            return await function()
        return await asyncio.to_thread(wait_for, self._blocking, function())

    def stop_now(self) -> None:
        if self._blocking is None:
            self.inner.stop_now()
        else:
            self._blocking.stop_now()


async def when_built(start: Callable[[], Awaitable[None]]) -> None:
    """Start something; while MongoDB builds an index that the start needs, try again. On a large collection that takes
    minutes, and a command that gave up would be started again and again for nothing."""
    told = False
    while True:
        try:
            return await start()
        except IndexesBuilding as error:
            if not told:
                logger.warning("Waiting for indexes before the start: %s", error)
            told = True
        await asyncio.sleep(_LOOK_EVERY)


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop, if it is installed (the extra `fast`)."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
