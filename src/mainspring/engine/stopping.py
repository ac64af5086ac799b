"""The steps in which a worker ends its handlers, its services and its last writes; `Worker.stop` has their order.

Keeps true: no step waits for ever. A handler that does not end is released, and its later writes are refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from mainspring.clock import monotonic
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.engine.run.completer import Completer
from mainspring.engine.run.slots import Slots
from mainspring.model.jobs.outcome import Released

logger = logging.getLogger("mainspring")

_LAST_WRITES = 10.0


async def let_finish(slots: Slots, grace: float) -> None:
    """Wait until no handler runs, for `grace` seconds at most."""
    until = monotonic() + grace
    while slots.running and monotonic() < until:
        tasks = [claimed.task for claimed in slots.running if claimed.task is not None]
        await asyncio.wait(tasks, timeout=until - monotonic())


async def release_rest(rest: Sequence[ClaimedJob], slots: Slots, completer: Completer, worker: str) -> None:
    """Wait a moment for handlers that were cancelled, and release the jobs of those that do not stop."""
    if not rest:
        return
    tasks = [claimed.task for claimed in rest if claimed.task is not None]
    await asyncio.wait(tasks, timeout=2.0)
    for claimed in list(slots.running):
        logger.error(
            "Job %s does not stop; it is released, and its later writes are refused",
            claimed.id,
            extra=claimed.job.log_fields(worker),
        )
        slots.running.discard(claimed)
        completer.add(claimed, Released(started=True))


async def end_tasks(tasks: Sequence[asyncio.Task[None]], patience: float) -> None:
    """Wait until services have ended by themselves: a task that is cancelled while the driver connects would leave its
    socket behind. Cancel only those that do not end in time."""
    if tasks:
        await asyncio.wait(tasks, timeout=patience)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=1.0)


async def last_write(patience: float, write: Coroutine[Any, Any, None]) -> None:
    """One of the writes with which a worker leaves; an error of it does not keep the worker from the others."""
    try:
        async with asyncio.timeout(_LAST_WRITES + patience):
            await write
    except Exception as error:
        logger.warning("Not everything could be stored while stopping (%r); leases will run out", error)
