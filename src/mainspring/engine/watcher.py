"""Listening for new jobs while this worker has nothing better to do.

A saturated worker claims all the time and needs no hints; reading them would only cost it and the server. So the
stream is closed when the worker has been busy for a while, and opened again when it comes to rest.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from mainspring.clock import monotonic
from mainspring.engine.producer import Producer
from mainspring.store import Store
from mainspring.store.watch import Hint

logger = logging.getLogger("mainspring")

_BUSY_FOR = 1.0


class Watcher:
    """Turns the change stream's hints into wake-ups."""

    def __init__(self, store: Store, producer: Producer, on_raw: Callable[[], None]) -> None:
        self._store = store
        self._producer = producer
        self._on_raw = on_raw
        self._rested_at = monotonic()

    async def run(self) -> None:
        """Listen for ever. A broken stream is opened anew after a pause; the producer polls all the while."""
        if not self._store.watch.possible:
            return
        pause = 0.25
        while True:
            try:
                await self._producer.idle.wait()
                self._rested_at = monotonic()
                await self.run_once()
                pause = 0.25
            except Exception as error:
                logger.info("The change stream broke (%s); polling goes on", error)
                await asyncio.sleep(random.uniform(0.5, 1.0) * pause)
                pause = min(pause * 2, 10.0)
                self._producer.wake()

    async def run_once(self) -> None:
        """Listen until the worker is busy."""
        async for hint in self._store.watch.hints():
            self._take(hint)
            if self._producer.idle.is_set():
                self._rested_at = monotonic()
            elif monotonic() - self._rested_at > _BUSY_FOR:
                return

    def _take(self, hint: Hint) -> None:
        if hint.raw:
            self._on_raw()
        else:
            self._producer.hint(hint)
