"""Queues as they are listed. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.model.limits.controls import Paused


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue as it is now. Its jobs are counted up to `counted`; a number that reaches it means "or more"."""

    name: str
    ready: int
    """Pending jobs that may be started as soon as they are due."""
    waiting: int
    """Pending jobs that wait for a gate: a limit, a pause, a missing handler."""
    running: int
    counted: int
    paused: Paused | None = None
    """The pause of the whole queue, where there is one."""
