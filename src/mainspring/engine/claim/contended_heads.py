"""Turns at the heads of queues: workers that claim the candidates of each other read one after another for a while."""

from __future__ import annotations

import asyncio
import random

from mainspring.clock import monotonic
from mainspring.store import Store

_CONTENDED_FOR = 2.0
_TURN = 1.5


class ContendedHeads:
    """Whether this worker contends with others, and its turns while it does."""

    def __init__(self, store: Store, worker: str) -> None:
        self._store = store
        self._worker = worker
        self._until = float("-inf")

    @property
    def contended(self) -> bool:
        """Whether several workers contend at the head of a queue."""
        return monotonic() < self._until

    def note(self, lost: int, asked: int) -> None:
        """Note how many of the jobs that a claim asked for another worker had taken."""
        if lost > 1 and lost * 10 > asked:
            self._until = monotonic() + _CONTENDED_FOR

    async def take_turn(self, queue: str, batch_time: float) -> None:
        """Take the lock of the queue's head; wait a few seconds at most for it. A dead worker's turn ends by itself."""
        pause = min(max(0.02, batch_time), 0.15)
        until = monotonic() + 2 * _TURN
        while not await self._store.claims.lock_head(queue, self._worker, _TURN) and monotonic() < until:
            self._until = monotonic() + _CONTENDED_FOR
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))

    async def end_turn(self, queue: str) -> None:
        """Give the lock of the queue's head back."""
        await self._store.claims.unlock_head(queue, self._worker)
