"""The facts about queues, workers, schedules and breakers that all processes share, read from the database.

A scrape reads them, at most once in `FRESH` seconds however many scrapers there are. The cost is bounded: queues are
read page by page up to `MOST_QUEUES`, and a page examines about 2,000 keys at most. Of the workers, only the one that
has the lock of the chores reads them: with a hundred workers, the database is still read once per scrape.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from mainspring.client.scheduler import Scheduler, core_of
from mainspring.clock import monotonic
from mainspring.errors import MainspringError
from mainspring.model.limits.breaker import OPEN, BreakerStatus
from mainspring.model.views.queues import QueueStatus
from mainspring.observability.metrics.catalogue import MOST_QUEUES, MOST_SCHEDULES

logger = logging.getLogger("mainspring")

FRESH = 5.0
"""For how many seconds the facts are reused."""
_PATIENCE = 4.0


@dataclass(frozen=True, slots=True)
class SharedFacts:
    """The facts as they were last read."""

    up: bool
    workers: int = 0
    overdue: float = 0.0
    """The seconds for which the schedule that should have fired first is due."""
    breakers: dict[str, bool] = field(default_factory=dict)
    queues: tuple[tuple[QueueStatus, float], ...] = ()
    """The queues, each with the seconds for which its oldest ready job has been due."""


class SharedReader:
    """Reads the facts for one process. With `always`, it does so whether or not a worker with the lock runs here."""

    def __init__(self, scheduler: Scheduler, *, always: bool) -> None:
        self._scheduler = scheduler
        self._always = always
        self._reading = asyncio.Lock()
        self._read_at = float("-inf")
        self._facts: SharedFacts | None = None

    @property
    def facts(self) -> SharedFacts | None:
        """The facts as they were last read; None where another process shows them."""
        return self._facts

    async def refresh(self) -> None:
        """Read the facts again, unless they are fresh. Never raises."""
        async with self._reading:
            if monotonic() - self._read_at >= FRESH:
                self._facts = await self._read() if self._is_ours() else None
                self._read_at = monotonic()

    def _is_ours(self) -> bool:
        worker = core_of(self._scheduler).worker.current
        return self._always or (worker is not None and worker.vitals.leads)

    async def _read(self) -> SharedFacts:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._read_all()
        except (MainspringError, TimeoutError) as error:
            logger.warning("The metrics of queues could not be read: %s", error or "MongoDB did not answer in time")
            return SharedFacts(False)

    async def _read_all(self) -> SharedFacts:
        health = await self._scheduler.monitor.health()
        if not health.clock_known:
            return SharedFacts(False)
        overdue = 0.0 if health.oldest_firing is None else (health.at - health.oldest_firing).total_seconds()
        breakers = list(await self._scheduler.limits.breakers())[:MOST_SCHEDULES]
        queues: list[QueueStatus] = []
        after: str | None = ""
        while after is not None and len(queues) < MOST_QUEUES:
            page, after = await self._scheduler.queues.page(after=after)
            queues += page
        now = self._scheduler.now()
        return SharedFacts(
            True,
            len(health.workers),
            overdue,
            {_named(one): one.state == OPEN for one in breakers},
            tuple(
                (one, 0.0 if one.oldest_ready is None else max(0.0, (now - one.oldest_ready).total_seconds()))
                for one in queues[:MOST_QUEUES]
            ),
        )


def _named(breaker: BreakerStatus) -> str:
    """The target of a breaker; of one with a key, its value too."""
    parts = [breaker.scope, breaker.target, breaker.queue, None if breaker.value is None else str(breaker.value)]
    return ":".join(part for part in parts if part is not None)
