"""A job and its attempts, as users see them.

States, and the only moves between them:

    pending → running → completed | failed | cancelled
    running → pending                         retry, snooze, rescue, release
    pending → cancelled | expired | failed    (failed: it cannot be decoded)
    blocked → pending | cancelled
    failed | cancelled | completed → pending  run again by hand, as a new round of attempts
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

PENDING = "pending"
RUNNING = "running"
COMPLETED = "completed"
FAILED = "failed"
CANCELLED = "cancelled"
EXPIRED = "expired"
BLOCKED = "blocked"

STATES = (PENDING, RUNNING, COMPLETED, FAILED, CANCELLED, EXPIRED, BLOCKED)
FINISHED = (COMPLETED, FAILED, CANCELLED, EXPIRED)

FIRST_PRIORITY, LAST_PRIORITY, DEFAULT_PRIORITY = 1, 10, 5
DEFAULT_QUEUE = "default"


@dataclass(frozen=True, slots=True)
class JobError:
    """Why an attempt did not succeed."""

    type: str
    message: str
    stack: str | None = None

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at running a job. `outcome` says how it ended: completed, retried, failed, cancelled, or lost (the
    worker died or its lease ran out). What costs no attempt, a snooze or a release, leaves none."""

    number: int
    token: int
    outcome: str
    worker: str | None
    started_at: datetime | None
    ended_at: datetime | None
    error: JobError | None = None
    log: tuple[str, ...] = ()

    @property
    def duration(self) -> timedelta | None:
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running job says it is."""

    percent: float
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """Why a pending job is kept out of the workers' sight for now."""

    by: str
    note: str
    since: datetime | None = None


@dataclass(frozen=True)
class Job:
    """One piece of work, as it was stored when it was read. A snapshot: it does not change by itself."""

    # Without slots, so that a field that was not set reads its default from the class: `new_job` sets few of them.

    id: str
    name: str
    data: Mapping[str, Any]
    state: str
    queue: str
    priority: int
    run_at: datetime
    created_at: datetime
    attempts: tuple[Attempt, ...] = ()
    attempts_cut: int = 0
    tries: int = 0
    token: int = 0
    result: Any = None
    result_note: str | None = None
    error: JobError | None = None
    tags: tuple[str, ...] = ()
    progress: Progress | None = None
    log: tuple[str, ...] = ()
    held: Held | None = None
    worker: str | None = None
    lease_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    start_within: timedelta | None = None
    timeout: timedelta | None = None
    dedupe_key: str | None = None
    cancel_requested: bool = False
    suspect: bool = False
    parent_id: str | None = None
    schedule_id: str | None = None
    scheduled_for: datetime | None = None
    asked_priority: int | None = None
    """The priority it was scheduled with, where waiting has moved it up since (`aging`)."""
    deduplicated: bool = field(default=False, compare=False)
    """True on the job returned by `schedule()` when it already existed and nothing was stored."""

    @property
    def finished(self) -> bool:
        return self.state in FINISHED
