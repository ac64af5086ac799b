"""The probes of a worker process: whether it is alive, and whether it is ready.

Not alive means: restart it, nothing else helps. That is so only if its event loop has not run for `STUCK` seconds, or a
whole lease if that is longer: its handlers go no further, and no end of an attempt is stored. An outage of the database
is no such case: a restarted worker reaches it no better, and the handlers that still run would be lost.

Not ready means: it runs no further jobs now. It is starting, draining or stopping, the database has confirmed no
heartbeat for a lease, or its event loop does not run. A rollout waits until the new workers are ready.
"""

from __future__ import annotations

import asyncio

from mainspring.client.scheduler import Scheduler, core_of
from mainspring.engine.heartbeat import LoopWatch

STUCK = 60.0
"""The least seconds without the event loop after which a worker is not alive."""
OK = None


class Probes:
    """Answers the probes of one process, from any thread but that of the event loop."""

    def __init__(self, scheduler: Scheduler, loop: asyncio.AbstractEventLoop) -> None:
        self._scheduler = scheduler
        self._core = core_of(scheduler)
        self._loop = loop
        # Before the worker runs, and after it has stopped, its heartbeat watches no loop.
        self._watch = LoopWatch(STUCK)

    def not_live(self) -> str | None:
        """The reason why this process is not alive; None if it is."""
        held = self._held()
        limit = max(STUCK, self._scheduler.settings.lease)
        return f"The event loop has not run for {held:.0f} s; a handler blocks it." if held > limit else OK

    def not_ready(self) -> str | None:
        """The reason why this process runs no further jobs; None if it does."""
        worker = self._core.worker.current
        if worker is None:
            return "No worker runs: it is starting, waits for MongoDB, or has stopped."
        vitals = worker.vitals
        if not vitals.claims_more:
            return "The worker drains or stops."
        if vitals.beat_age > vitals.lease:
            return f"MongoDB has confirmed no heartbeat for {vitals.beat_age:.0f} s."
        if self._held() > vitals.lease:
            return "The event loop does not run; a handler blocks it."
        return OK

    def _held(self) -> float:
        self._watch.look(self._loop)
        worker = self._core.worker.current
        return max(self._watch.held_for(), 0.0 if worker is None else worker.vitals.loop_held)
