"""What a worker reports about itself: with each heartbeat the memory of its process and what its slots run, and its
vital signs to the metrics and probes of its process.

The heartbeat's thread calls these functions; they read shared sets and fields once and change nothing.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from mainspring.clock import EPOCH
from mainspring.config.settings import Settings
from mainspring.engine.run.claimed_jobs import ClaimedJob
from mainspring.model.fields import Fields
from mainspring.model.limits.limits import CONCURRENCY
from mainspring.model.schema_versions import CURRENT

SLOTS_REPORTED = 50
"""How many running jobs a heartbeat names: those that have run for longest."""
_QUEUES_REPORTED = 50
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Vitals:
    """The vital signs of a worker at one instant. They are read from any thread, and nothing waits for them."""

    running: int
    """How many slots run a job."""
    concurrency: int
    claimed: int
    """The jobs that it has claimed: running, waiting for a slot, and those whose end is being stored."""
    claims_more: bool
    """Whether it claims jobs: it has started, and is neither draining nor stopping."""
    leads: bool
    """Whether it has the lock of the chores that one worker at a time does."""
    beat_age: float
    """The seconds since the database has last confirmed its heartbeat."""
    loop_held: float
    """For how many seconds its event loop has not run now."""
    lease: float


def new_worker_id() -> str:
    """An id that names the host and the process of a worker, and is never used twice."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def memory_in_use() -> int | None:
    """The resident memory of this process in bytes; None on a system that does not tell it."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def process_facts(settings: Settings, running: Collection[ClaimedJob], started_at: datetime, version: str) -> Fields:
    """What the registry has of a worker's process: its place, its settings, its versions, and what its slots run."""
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "queues": None if settings.queues is None else list(settings.queues),
        "concurrency": settings.concurrency,
        "running": len(running),
        **reported_slots(running),
        "memory": memory_in_use(),
        "started_at": started_at,
        "version": version,
        "schema": CURRENT,
        "release": settings.release,
    }


def reported_slots(running: Iterable[ClaimedJob]) -> Fields:
    """The running jobs as the registry keeps them: the oldest ones by id, and the number of each queue."""
    jobs = list(running)
    oldest = sorted(jobs, key=lambda claimed: claimed.started_at or EPOCH)[:SLOTS_REPORTED]
    queues = Counter(claimed.job.queue for claimed in jobs).most_common(_QUEUES_REPORTED)
    return {
        "slots": [_slot(claimed) for claimed in oldest],
        "busy": [{"queue": queue, "n": number} for queue, number in queues],
    }


def _slot(claimed: ClaimedJob) -> Fields:
    """One slot: its job, since when it runs, and the limits whose slots it holds."""
    held = [gate.name for gate in claimed.gates if gate.name.startswith(f"{CONCURRENCY}:")]
    return {
        "job": str(claimed.id),
        "name": claimed.job.name,
        "queue": claimed.job.queue,
        "since": claimed.started_at,
        "gates": held,
    }
