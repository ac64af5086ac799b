"""Draining: an operator asks one worker to claim no more, to finish its jobs, and to end.

The request is a field of the worker's document in the registry, which the heartbeat reads every other second. Until the
worker has nothing left to do the request can be cancelled, and the worker claims again. The end is decided by a
compare-and-set on that field, so that a drain that was cancelled in time never ends the worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mainspring.engine.claim.producer import Producer
from mainspring.engine.run.claimed_jobs import ClaimedJobs
from mainspring.engine.run.slots import Slots
from mainspring.store import Store

logger = logging.getLogger("mainspring")


class Draining:
    """The drain of one worker. `drained` is called once, on the event loop, when the worker is to stop."""

    def __init__(
        self,
        store: Store,
        worker: str,
        claimed_jobs: ClaimedJobs,
        slots: Slots,
        producer: Producer,
        drained: Callable[[], None],
    ) -> None:
        self._store = store
        self._worker = worker
        self._claimed_jobs = claimed_jobs
        self._slots = slots
        self._producer = producer
        self._drained = drained
        self._asked = False
        self._ending: asyncio.Task[None] | None = None

    @property
    def asked(self) -> bool:
        """Whether the worker drains now."""
        return self._asked

    def look(self, asked: bool) -> None:
        """Follow the request as the heartbeat has read it, on the event loop."""
        if asked != self._asked:
            self._asked = asked
            if asked:
                self._begin()
            else:
                self._go_on()
        if asked and not len(self._claimed_jobs) and self._ending is None:
            self._ending = asyncio.create_task(self._end(), name="mainspring-drain")

    def _begin(self) -> None:
        logger.info("The worker %s drains: it finishes its jobs, claims no more, and ends", self._worker)
        self._producer.hold()
        self._slots.close()

    def _go_on(self) -> None:
        logger.info("The drain of the worker %s was cancelled; it claims jobs again", self._worker)
        self._slots.open()
        self._producer.go_on()

    async def _end(self) -> None:
        try:
            if await self._store.workers.end_drain(self._worker):
                logger.info("The worker %s is drained", self._worker)
                self._drained()
        except Exception as error:
            logger.warning("The drain of the worker %s cannot end now (%s); it is tried again", self._worker, error)
        finally:
            self._ending = None
