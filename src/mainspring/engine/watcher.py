"""Listening for new jobs and changed schedules while this worker has nothing better to do.

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

logger = logging.getLogger("mainspring")

_BUSY_FOR, _LOOK_EVERY = 0.5, 0.1


class Watcher:
    """Turns the change stream's hints into wake-ups."""

    def __init__(
        self, store: Store, producer: Producer, on_raw: Callable[[], None], on_schedule: Callable[[], None]
    ) -> None:
        self._store = store
        self._producer = producer
        self._on_raw = on_raw
        self._on_schedule = on_schedule
        self.listening = False
        """Whether hints come in now."""

    async def run(self) -> None:
        """Listen for ever. A broken stream is opened anew after a pause; the producer polls all the while."""
        if not self._store.watch.possible:
            return
        pause = 0.25
        while True:
            try:
                if self._producer.resting:
                    await self.run_once()
                    pause = 0.25
                await asyncio.sleep(_LOOK_EVERY)
            except Exception as error:
                logger.info("The change stream broke (%s); polling goes on", error)
                await asyncio.sleep(random.uniform(0.5, 1.0) * pause)
                pause = min(pause * 2, 10.0)
                self._producer.wake()

    async def run_once(self) -> None:
        """Listen until the worker has been busy for a while."""
        listening = asyncio.create_task(self._listen())
        rested_at = monotonic()
        try:
            while monotonic() - rested_at < _BUSY_FOR:
                done, _ = await asyncio.wait({listening}, timeout=_LOOK_EVERY)
                if done:
                    return listening.result()
                if self._producer.resting:
                    rested_at = monotonic()
        finally:
            self.listening = False
            self._on_schedule()  # who relied on being told has to look by itself from now on
            listening.cancel()
            await asyncio.wait({listening})

    async def _listen(self) -> None:
        async for hint in self._store.watch.hints(self._opened):
            if hint.schedule:
                self._on_schedule()
            elif hint.raw:
                self._on_raw()
            else:
                self._producer.hint(hint)

    def _opened(self) -> None:
        """What was inserted before the stream began gives no hint: look once more."""
        self.listening = True
        self._producer.look_everywhere()
        self._on_raw()
        self._on_schedule()
