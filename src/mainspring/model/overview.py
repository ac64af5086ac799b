"""What there is to be seen of queues and workers as a whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mainspring.model.controls import Paused


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue as it is now. Its jobs are counted up to `counted`; a number that reaches it means "or more"."""

    name: str
    ready: int
    """Pending jobs that may be started as soon as their time has come."""
    waiting: int
    """Pending jobs that something holds back: a limit, a pause, a missing handler."""
    running: int
    counted: int
    paused: Paused | None = None
    """The pause of the whole queue, where there is one."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker process as its last beat described it. `queues` or `handlers` None: all of them."""

    id: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    handlers: tuple[str, ...] | None
    concurrency: int
    running: int
    live: bool
    """Whether its last beat is recent."""
    started_at: datetime | None = None
    beat_at: datetime | None = None
    lease_until: datetime | None = None
    version: str | None = None
    """That of Mainspring."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """The versions of its handlers, where they are not the first."""
