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

from mainspring.model.retry import Retry

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
    details: Mapping[str, Any] | None = None
    """What the exception had to tell beside its message, such as the answer of a server; bounded."""

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
    log_cut: int = 0
    """How many earlier lines of its log were not kept; the first line of `log` says so, too."""
    run_at: datetime | None = None
    """When it was due, where the job's own `run_at` has moved on since; None where that still tells."""

    @property
    def duration(self) -> timedelta | None:
        if self.started_at is None or self.ended_at is None:
            return None
        return self.ended_at - self.started_at


@dataclass(frozen=True, slots=True)
class Step:
    """A finished step of a job's handler: its result is kept, so that a later attempt does not run it again."""

    name: str
    at: datetime | None
    attempt: int
    result: Any = None


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


@dataclass(frozen=True, slots=True)
class Kept:
    """What is stored of a job that has encrypted values, with `Sealed` in place of each."""

    data: Any
    result: Any = None
    steps: tuple[Step, ...] = ()
    kids: tuple[str, ...] = ()
    """The ids of the keys that they are encrypted with."""


@dataclass(frozen=True, repr=False)
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
    log_cut: int = 0
    held: Held | None = None
    worker: str | None = None
    lease_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    start_within: timedelta | None = None
    timeout: timedelta | None = None
    retry: Retry | None = None
    """The policy that it was scheduled with; None for its handler's."""
    executes: str | None = None
    """The guarantee that it was scheduled with; None for its handler's."""
    dedupe_key: str | None = None
    cancel_requested: bool = False
    suspect: bool = False
    parent_id: str | None = None
    schedule_id: str | None = None
    scheduled_for: datetime | None = None
    fingerprint: str | None = None
    """Of a dead letter: the print of its error, the same for the same trouble."""
    asked_priority: int | None = None
    """The priority it was scheduled with, where waiting has moved it up since (`aging`)."""
    steps: tuple[Step, ...] = ()
    """The steps that its handler has finished and need not run again."""
    data_version: int = 1
    """The version of its handler that its data was written for."""
    deduplicated: bool = field(default=False, compare=False)
    """True on the job returned by `schedule()` when it already existed and nothing was stored."""
    kept: Kept | None = field(default=None, compare=False)
    """Of a job with encrypted values: what is stored of them."""

    @property
    def finished(self) -> bool:
        return self.state in FINISHED

    @property
    def encrypted(self) -> bool:
        """Whether any of its data, its result or its steps is encrypted where it is stored."""
        return self.kept is not None

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys that it is encrypted with."""
        return () if self.kept is None else self.kept.kids

    def __repr__(self) -> str:
        # It is printed in logs and tracebacks: nothing that a user or a handler has put into it is shown.
        return f"<Job {self.id} {self.name!r} {self.state}, queue {self.queue!r}, tries {self.tries}>"
