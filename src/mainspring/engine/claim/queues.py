"""The queues that a worker polls: those it is told to serve, or all that have ready jobs; their round robin, and the
turns of workers that claim the candidates of each other at the head of a queue."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime

from mainspring.clock import monotonic
from mainspring.config.settings import Settings
from mainspring.engine.limits.job_gates import Limits
from mainspring.store import Store

_QUEUES_FOR = 10.0
_CONTENDED_FOR = 2.0
_TURN = 1.5


class Queues:
    """The queues of one worker, without those that are paused."""

    def __init__(self, store: Store, settings: Settings, limits: Limits) -> None:
        self._store = store
        self._settings = settings
        self._limits = limits
        self._found: list[str] = []
        self._found_at = float("-inf")
        self._served: dict[str, int] = {}
        # Without a change stream there are no hints about new queues.
        self._found_for = _QUEUES_FOR if store.hints.possible else settings.poll_interval

    def look_again(self) -> None:
        """Look for new queues at the next poll."""
        self._found_at = float("-inf")

    def add(self, queue: str) -> None:
        """Poll a queue that a hint was about, if this worker serves all queues."""
        if self._settings.queues is None and queue not in self._found:
            self._found.append(queue)

    def serves(self, queue: str) -> bool:
        """Whether jobs of this queue are claimed now."""
        served = self._settings.queues is None or queue in self._settings.queues
        return served and queue not in self._limits.paused_queues

    async def to_poll(self) -> list[str]:
        """The queues to poll; the queues that have ready jobs, if the worker serves all."""
        if self._settings.queues is not None:
            return self._not_paused(self._settings.queues)
        if not self._found or monotonic() - self._found_at > self._found_for:
            self._found = await self._store.claims.queues()
            self._found_at = monotonic()
        return self._not_paused(self._found)

    def _not_paused(self, queues: Sequence[str]) -> list[str]:
        paused = self._limits.paused_queues
        return [queue for queue in queues if queue not in paused] if paused else list(queues)

    def in_round_robin(self, heads: list[tuple[datetime, str]]) -> list[tuple[datetime, str]]:
        """The heads of queues, the queue that was served longest ago first: a single free slot, too, serves queues in
        round robin."""
        heads.sort(key=lambda head: self._served.get(head[1], 0))
        self._served = {queue: self._served.get(queue, 0) for _, queue in heads}
        return heads

    def served(self, queue: str) -> None:
        """Note that jobs of a queue were claimed last."""
        self._served[queue] = max(self._served.values()) + 1


class ContendedHeads:
    """Whether this worker contends with others, and its turns while it does."""

    def __init__(self, store: Store, worker: str) -> None:
        self._store = store
        self._worker = worker
        self._until = float("-inf")
        self.contended_at_last_claim = False
        """It holds until the next claim, however long the jobs run: their ends load the server, too."""

    @property
    def contended(self) -> bool:
        """Whether several workers contend at the head of a queue."""
        return monotonic() < self._until

    def note(self, lost: int, asked: int) -> None:
        """Note how many of the jobs that a claim asked for another worker had taken."""
        if lost > 1 and lost * 10 > asked:
            self._until = monotonic() + _CONTENDED_FOR
        self.contended_at_last_claim = self.contended

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
