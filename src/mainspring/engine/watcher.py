"""Reads the change stream for new jobs, changed schedules and controls, and new operations while this worker is idle.

A saturated worker claims all the time and needs no hints; reading them would only cost time, here and on the server.
So the stream is closed when the worker has been busy for a while, and opened again when it is idle.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from mainspring.clock import monotonic
from mainspring.engine.claim.producer import Producer
from mainspring.engine.service import Service, cancel_task
from mainspring.store import Store

logger = logging.getLogger("mainspring")

_BUSY_FOR, _LOOK_EVERY = 0.5, 0.1
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0


class Watcher(Service):
    """Turns the change stream's hints into wake-ups. A broken stream is opened again after a pause; the producer polls
    all the while."""

    name = "watcher"

    def __init__(
        self,
        store: Store,
        producer: Producer,
        on_raw: Callable[[], None],
        on_schedule: Callable[[], None],
        on_control: Callable[[], None],
        on_operation: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(store, failed)
        self._producer = producer
        self._on_raw = on_raw
        self._on_schedule = on_schedule
        self._on_control = on_control
        self._on_operation = on_operation
        self.listening = False
        """Whether the stream is open, so that hints arrive."""
        self._stream: asyncio.Task[None] | None = None
        self._back_off = _FIRST_PAUSE

    def stop(self) -> None:
        super().stop()
        if self._stream is not None:
            self._stream.cancel()

    async def run(self) -> None:
        if self._store.hints.possible:
            await super().run()

    async def run_once(self) -> float:
        if self._producer.resting:
            await self._listen_while_resting()
            self._back_off = _FIRST_PAUSE
        return _LOOK_EVERY

    async def _recover(self, error: Exception) -> float:
        logger.info("The change stream broke (%s); polling goes on", error)
        self._producer.wake()
        pause, self._back_off = self._back_off, min(self._back_off * 2, _LONGEST_PAUSE)
        return random.uniform(0.5, 1.0) * pause

    async def _listen_while_resting(self) -> None:
        """Listen until the worker has been busy for a while."""
        self._stream = stream = asyncio.create_task(self._listen())
        rested_at = monotonic()
        try:
            while monotonic() - rested_at < _BUSY_FOR and not self._stopping:
                done, _ = await asyncio.wait({stream}, timeout=_LOOK_EVERY)
                if done:
                    return None if self._stopping else stream.result()
                if self._producer.resting:
                    rested_at = monotonic()
        finally:
            self.listening, self._stream = False, None
            self._on_schedule()  # the timekeeper relied on hints, and has to poll from now on
            await cancel_task(stream)

    async def _listen(self) -> None:
        async for hint in self._store.hints.hints(self._opened):
            if hint.schedule:
                self._on_schedule()
            elif hint.control:
                self._on_control()
            elif hint.operation:
                self._on_operation()
            elif hint.raw:
                self._on_raw()
            else:
                self._producer.hint(hint)

    def _opened(self) -> None:
        """Poll once more: a job that was inserted before the stream began gives no hint."""
        self.listening = True
        self._producer.poll_all()
        self._on_raw()
        self._on_schedule()
        self._on_control()
        self._on_operation()
