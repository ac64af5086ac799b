"""The alert rules in a process of the HTTP service: it evaluates them as a worker does, and sends what no worker can.

So an alert is told while no worker is alive. Beside a worker in the same process it does nothing: that one evaluates.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from mainspring.client.alerts.courier import Courier
from mainspring.client.outgoing.builtin_jobs import BuiltinSettings
from mainspring.client.scheduler import Scheduler, core_of
from mainspring.engine.alerts.evaluation import evaluate
from mainspring.engine.chores.upkeep.evaluate_alerts import EVERY, SELDOM
from mainspring.engine.service import Service
from mainspring.store import Store
from mainspring.store.refusals import brief

logger = logging.getLogger("mainspring")


class AlertWatch:
    """Evaluates the alert rules of a scheduler in this process, and runs the jobs of their messages if need be."""

    def __init__(self, scheduler: Scheduler, settings: BuiltinSettings) -> None:
        self._core = core_of(scheduler)
        self._courier = Courier(scheduler, settings)

    async def look(self) -> bool:
        """Evaluate once, and send what no worker can; returns whether there are rules."""
        if self._core.worker.current is not None:
            return False
        store = await self._core.store()
        evaluated = await evaluate(store)
        await self.deliver({job for rule in evaluated.rules for job in rule.state.jobs})
        return bool(evaluated.rules)

    async def deliver(self, ids: Collection[str]) -> None:
        """Run those of these jobs of messages that no worker can run."""
        if ids and self._core.worker.current is None:
            await self._courier.deliver(await self._core.store(), ids)

    async def close(self) -> None:
        """Close the connections of the messages."""
        await self._courier.close()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Evaluate every so often while the service runs."""
        loop = _Loop(self, await self._core.store())
        loop.start()
        try:
            yield
        finally:
            loop.stop()
            if loop.task is not None:
                await loop.task
            await self.close()


class _Loop(Service):
    name = "alerts"

    def __init__(self, watch: AlertWatch, store: Store) -> None:
        super().__init__(store, _log)
        self._watch = watch

    async def _begin(self) -> None:
        """Several services that start together do not look together, and a short-lived one not at all."""
        await self._sleep(random.uniform(0.5, 1.0) * EVERY)

    async def run_once(self) -> float:
        return EVERY if await self._watch.look() else SELDOM


def _log(error: Exception) -> None:
    logger.warning("The alert rules could not be evaluated: %s", brief(error))
