"""How many workers a queue needs, for autoscalers such as KEDA. Pure.

The work that is ready is its number of jobs times the measured run time. With `drain`, the time within which it should
be done, that gives the slots needed, and with the slots of a worker the workers. A slot that runs a job always counts:
a worker with running jobs is needed until they end.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import ceil

DRAIN = 60.0
"""The seconds within which ready jobs should be started and done, if the caller does not say."""
UNKNOWN_RUN = 1.0
"""The seconds that a job is assumed to run while none of its queue has ended lately."""


@dataclass(frozen=True, slots=True)
class QueueScale:
    """The backlog of a queue, and the workers that it needs."""

    queue: str
    ready: int
    """The jobs that are due and may start now, counted up to a bound."""
    capped: bool
    """Whether there are more ready jobs than were counted."""
    oldest_ready: timedelta
    busy_slots: int
    """The jobs of the queue that run."""
    run_time: timedelta | None
    """The mean run time of its attempts in the last hour; None if none has ended."""
    slots_per_worker: int
    wanted: int
    """The workers needed."""


def wanted_workers(
    ready: int, busy: int, run_seconds: float | None, slots_per_worker: int, drain: float, *, paused: bool = False
) -> int:
    """The workers that are needed to finish the ready jobs within `drain` seconds. A paused queue needs only those that
    its running jobs occupy."""
    if paused:
        ready = 0
    # A job occupies its slot for its whole run, so that no job counts for more than one slot.
    share = min(1.0, (UNKNOWN_RUN if run_seconds is None else run_seconds) / drain)
    slots = max(busy, ceil((ready + busy) * share))
    if ready:
        slots = max(1, slots)
    return ceil(slots / max(1, slots_per_worker))
