"""A job and its attempts, as users see them.

States, and the only moves between them:

    pending → running → completed | failed | cancelled
    running → pending                         retry, snooze, rescue, release
    running → blocked                         the handler waits for children or signals
    pending → cancelled | expired | failed    (failed: it cannot be decoded)
    blocked → pending | cancelled             the wait is over, or a predecessor's end decided it
    cancelled → blocked                       retry of a flow: its predecessors run again
    failed | cancelled | completed → pending  run again by hand, as a new round of attempts
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Protocol, Unpack

from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.flows.waits import Waits
from mainspring.model.jobs.options import JobChanges
from mainspring.model.jobs.retry import Retry, Seconds

PENDING = "pending"
RUNNING = "running"
COMPLETED = "completed"
FAILED = "failed"
CANCELLED = "cancelled"
EXPIRED = "expired"
BLOCKED = "blocked"

JobState = Literal["pending", "running", "completed", "failed", "cancelled", "expired", "blocked"]
STATES = (PENDING, RUNNING, COMPLETED, FAILED, CANCELLED, EXPIRED, BLOCKED)
FinishedState = Literal["completed", "failed", "cancelled", "expired"]
FINISHED = (COMPLETED, FAILED, CANCELLED, EXPIRED)
RETRIABLE = (FAILED, CANCELLED, COMPLETED)
"""The states of jobs that can be run again by hand."""
NOT_STARTED = (PENDING, BLOCKED)
"""The states of jobs that can be changed by hand."""

FIRST_PRIORITY, LAST_PRIORITY, DEFAULT_PRIORITY = 1, 10, 5
DEFAULT_QUEUE = "default"


@dataclass(frozen=True, slots=True)
class JobError:
    """The error of an attempt."""

    type: str
    message: str
    stack: str | None = None
    details: Mapping[str, Any] | None = None
    """The exception's details beside its message, such as the response of a server; bounded."""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job. `outcome` is completed, retried, failed, cancelled, or lost (the worker died or its lease ran
    out). A snooze or a release uses no attempt and is not listed."""

    number: int
    token: int
    outcome: str
    worker: str | None
    started_at: datetime | None
    ended_at: datetime | None
    error: JobError | None = None
    log: tuple[str, ...] = ()
    log_cut: int = 0
    """The number of earlier lines of its log that were not kept; the first line of `log` has it, too."""
    run_at: datetime | None = None
    """When it was due, where the job's own `run_at` has changed since; otherwise None."""

    @property
    def duration(self) -> timedelta | None:
        if self.started_at is None or self.ended_at is None:
            return None
        # The clock of a worker follows the server's, and may be set back a little.
        return max(self.ended_at - self.started_at, timedelta(0))


@dataclass(frozen=True, slots=True)
class Step:
    """A finished step of a job's handler: its result is kept, so that a later attempt does not run it again."""

    name: str
    at: datetime | None
    attempt: int
    result: Any = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress that a running job reports."""

    percent: float
    note: str | None = None


@dataclass(frozen=True, slots=True)
class HandlerStack:
    """The stack of a handler at an instant: the calls, without values. `token` is the fencing token of the claim."""

    at: datetime | None
    text: str
    token: int


@dataclass(frozen=True, slots=True)
class Snoozing:
    """A run of a job that ended with a snooze. It used no attempt."""

    token: int
    started_at: datetime | None
    at: datetime | None
    """When the handler snoozed."""
    until: datetime | None
    reason: str = ""
    run_at: datetime | None = None
    """When that run was due."""


@dataclass(frozen=True, slots=True)
class WaitingFor:
    """The reason why a pending job may not be claimed."""

    by: str
    note: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """The stored values of a job that has encrypted ones, with `EncryptedValue` in place of each."""

    data: Any
    result: Any = None
    steps: tuple[Step, ...] = ()
    key_ids: tuple[str, ...] = ()
    """The ids of the keys that the values are encrypted with."""


class JobVerbs(Protocol):
    """Carries out the verbs of jobs: a part of the Scheduler that returned them."""

    async def get_job(self, job_id: str) -> Job: ...

    async def wait(self, job_id: str, timeout: Seconds | None = None) -> Job: ...

    async def cancel(self, job_id: str, reason: str = "") -> Job: ...

    async def retry(self, job_id: str, *, request_id: str | None = None) -> Job: ...

    async def run_now(self, job_id: str) -> Job: ...

    async def signal(self, job_id: str, name: str, payload: Any = None, *, id: str | None = None) -> Job: ...

    async def update(
        self, job_id: str, *, data: Mapping[str, Any] | None = None, **changes: Unpack[JobChanges]
    ) -> Job: ...

    async def delete(self, job_id: str) -> None: ...


@dataclass(frozen=True, repr=False)
class Job:
    """One piece of work, as it was stored when it was read. It is a snapshot and does not change by itself. A job that
    a Scheduler returned has methods, such as `await job.wait()`."""

    # Without slots, so that an unset field reads its default from the class: `new_job` sets few fields.

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
    """The error of the last attempt; or, where its document is malformed, the fields that cannot be read."""
    tags: tuple[str, ...] = ()
    progress: Progress | None = None
    log: tuple[str, ...] = ()
    log_cut: int = 0
    waiting_for: WaitingFor | None = None
    worker: str | None = None
    lease_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    edited_at: datetime | None = None
    """When it was last changed by hand: by update(), run_now() or retry()."""
    expires_at: datetime | None = None
    start_within: timedelta | None = None
    timeout: timedelta | None = None
    retry_policy: Retry | None = None
    """The policy that it was scheduled with; None for its handler's."""
    guarantee: str | None = None
    """The guarantee that it was scheduled with; None for its handler's."""
    dedupe_key: str | None = None
    cancel_requested: bool = False
    suspect: bool = False
    parent_id: str | None = None
    schedule_id: str | None = None
    scheduled_for: datetime | None = None
    fingerprint: str | None = None
    """Of a dead letter: the fingerprint of its error, the same for the same cause."""
    asked_priority: int | None = None
    """The priority it was scheduled with, where waiting has moved it up since (`aging`)."""
    steps: tuple[Step, ...] = ()
    """The steps that its handler has finished and need not run again."""
    data_version: int = 1
    """The version of its handler that its data was written for."""
    snoozes: tuple[Snoozing, ...] = ()
    """Its last snoozes."""
    stack: HandlerStack | None = None
    """Where its handler was when `scheduler.workers.ask_stack()` last asked for it."""
    flow_id: str | None = None
    """Of a member of a flow: the id of the flow's root."""
    node: str | None = None
    """Of a member of a flow: the names of the waits below the root, with "/" between."""
    label: str | None = None
    """The user's name for it, beside the name of its handler: of a webhook, or of the root of a declared flow."""
    because: str | None = None
    """Of a job that was cancelled or skipped because of another one's end: the id of that job."""
    waits: Waits | None = None
    """What it waits for, or has waited for last: jobs, signals and a time."""
    deduplicated: bool = field(default=False, compare=False)
    """True on the job returned by `schedule()` when it already existed and nothing was stored."""
    kept: Kept | None = field(default=None, compare=False)
    """Of a job with encrypted values: its values as they are stored."""

    @property
    def finished(self) -> bool:
        return self.state in FINISHED

    @property
    def updated_at(self) -> datetime | None:
        """When the job last changed, as far as its fields show: when it was created, edited, made to wait, started, or
        ended. None if another program stored it without these fields."""
        known = [self.created_at, self.edited_at, self.started_at, self.finished_at]
        known += [] if self.waiting_for is None else [self.waiting_for.since]
        known += [self.attempts[-1].ended_at] if self.attempts else []
        return max((instant for instant in known if instant is not None), default=None)

    @property
    def stack_is_stale(self) -> bool:
        """Whether its stack belongs to a run that has ended."""
        return self.stack is not None and (self.state != RUNNING or self.stack.token != self.token)

    @property
    def encrypted(self) -> bool:
        """Whether any part of its data, result or steps is stored encrypted."""
        return self.kept is not None

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of the keys that it is encrypted with."""
        return () if self.kept is None else self.kept.key_ids

    _verbs: ClassVar[JobVerbs | None] = None
    """No field: two jobs are equal whichever Scheduler returned them, and a pickled job has no verbs."""

    def _face(self) -> JobVerbs:
        if self._verbs is None:
            raise ConfigurationError("This job was not returned by a Scheduler, so its methods cannot be used.")
        return self._verbs

    async def refresh(self) -> Job:
        """Return the job as it is stored now. Raise JobNotFound."""
        return await self._face().get_job(self.id)

    async def wait(self, timeout: Seconds | None = None) -> Job:
        """Wait until it has ended, in any state, and return it. Raise WaitTimeout."""
        return await self._face().wait(self.id, timeout)

    async def cancel(self, reason: str = "") -> Job:
        """Cancel it at once if it is pending, or ask it to stop if it is running."""
        return await self._face().cancel(self.id, reason)

    async def retry(self, *, request_id: str | None = None) -> Job:
        """Run it again, once it has ended, as a new round of attempts."""
        return await self._face().retry(self.id, request_id=request_id)

    async def signal(self, name: str, payload: Any = None, *, id: str | None = None) -> Job:
        """Send it a signal, which its handler gets from `ctx.wait_for(name)`; once per `id`."""
        return await self._face().signal(self.id, name, payload, id=id)

    async def run_now(self) -> Job:
        """Make it due at once. It must be pending."""
        return await self._face().run_now(self.id)

    async def update(self, *, data: Mapping[str, Any] | None = None, **changes: Unpack[JobChanges]) -> Job:
        """Change it. It must be pending. Options that you do not pass stay as they are."""
        return await self._face().update(self.id, data=data, **changes)

    async def delete(self) -> None:
        """Delete it. It must not be running."""
        await self._face().delete(self.id)

    def __getstate__(self) -> Fields:
        return {key: value for key, value in self.__dict__.items() if key != "_verbs"}

    def __repr__(self) -> str:
        # Logs and tracebacks print it: no value of a user or a handler is shown.
        return f"<Job {self.id} {self.name!r} {self.state}, queue {self.queue!r}, tries {self.tries}>"


def bind(job: Job, verbs: JobVerbs) -> Job:
    """Give a job its verbs. The job was just made, and no other caller has it yet."""
    job.__dict__["_verbs"] = verbs
    return job
