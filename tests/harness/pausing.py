"""Pausing a queue or a job name, whichever a test is about."""

from __future__ import annotations

from typing import Any

from mainspring import Paused, Scheduler


async def pause(scheduler: Scheduler, *, queue: str | None = None, name: str | None = None, **options: Any) -> Paused:
    """Pause a queue or a name."""
    if name is None:
        return await scheduler.queues.pause(queue, **options)  # type: ignore[arg-type]
    return await scheduler.limits.pause(name, **options)


async def resume(
    scheduler: Scheduler, *, queue: str | None = None, name: str | None = None, **options: Any
) -> Paused | None:
    """End the pause that was made with the same arguments."""
    if name is None:
        return await scheduler.queues.resume(queue, **options)  # type: ignore[arg-type]
    return await scheduler.limits.resume(name, **options)
