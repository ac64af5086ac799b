"""A plain-dict model of the jobs collection: what each of the store's verbs must do, written without MongoDB.

Used by test_state_machine.py only. Every function changes the model as the verb should change the collection and
returns what the verb should return.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

LIVE = ("pending", "running")
AGAIN = ("failed", "cancelled", "completed")
LEGAL_MOVES = {
    ("pending", "running"),
    ("running", "completed"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("running", "pending"),
    ("pending", "cancelled"),
    ("pending", "expired"),
    ("failed", "pending"),
    ("cancelled", "pending"),
    ("completed", "pending"),
}
NEXT_STATE = {
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "retried": "pending",
    "snoozed": "pending",
    "released": "pending",
}


@dataclass
class ModelJob:
    """What matters of one job."""

    queue: str
    priority: int
    run_at: datetime
    start_within: float | None = None
    key: str | None = None
    state: str = "pending"
    waiting_for: bool = False
    rev: int = 0
    token: int = 0
    tries: int = 0
    max_attempts: int | None = None
    claim: str | None = None
    lease_until: datetime | None = None
    cancel: bool = False
    suspect: bool = False
    result: Any = None
    started_for: datetime | None = None
    """The run_at for which it was started in time, and came back undone."""
    attempts: list[tuple[int, int, str]] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return self.state == "pending" and not self.waiting_for

    @property
    def start_by(self) -> datetime | None:
        if self.start_within is None or self.started_for == self.run_at:
            return None
        return self.run_at + timedelta(seconds=self.start_within)

    def let_go(self) -> None:
        self.claim, self.lease_until, self.cancel, self.suspect = None, None, False, False


@dataclass(frozen=True)
class Holder:
    """A worker's belief that it holds a job; it may have been wrong for long."""

    id: Any
    token: int
    tries: int
    claim: str
    worker: str


class Model:
    """All jobs, and the dedupe keys in force."""

    def __init__(self) -> None:
        self.jobs: dict[Any, ModelJob] = {}
        self.keys: dict[str, Any] = {}

    # -- inserting -------------------------------------------------------------------------------------------------

    def key_holder(self, key: str) -> Any | None:
        """The id of the live job that holds a key."""
        job_id = self.keys.get(key)
        holder = self.jobs.get(job_id)
        return job_id if holder is not None and holder.state in LIVE else None

    def insert(self, job_id: Any, job: ModelJob) -> None:
        self.jobs[job_id] = job
        if job.key is not None:
            self.keys[job.key] = job_id

    # -- claiming --------------------------------------------------------------------------------------------------

    def due(self, queue: str, now: datetime, limit: int) -> list[Any]:
        found = [
            (job.priority, job.run_at, job_id)
            for job_id, job in self.jobs.items()
            if job.ready and job.queue == queue and job.run_at <= now
        ]
        return [job_id for _, _, job_id in sorted(found)[:limit]]

    def claim(self, seen: Iterable[tuple[Any, int]], claim: str, lease_until: datetime, max_attempts: int) -> list[Any]:
        """Take those jobs that are just as they were seen, given as (id, rev)."""
        taken = []
        for job_id, rev in seen:
            job = self.jobs.get(job_id)
            if job is None or not job.ready or job.rev != rev:
                continue
            job.state, job.claim, job.lease_until, job.max_attempts = "running", claim, lease_until, max_attempts
            job.token += 1
            job.tries += 1
            job.rev += 1
            taken.append(job_id)
        return taken

    def holds(self, holder: Holder) -> bool:
        job = self.jobs.get(holder.id)
        return job is not None and job.state == "running" and job.token == holder.token

    def renew(self, holders: list[Holder], lease_until: datetime) -> set[Any]:
        """Renew what is held under one of these claims; a worker has one holder at most for each job."""
        claims = {holder.claim for holder in holders}
        gone = set()
        for holder in holders:
            job = self.jobs.get(holder.id)
            if job is not None and job.state == "running" and job.claim in claims:
                job.lease_until = lease_until
            else:
                gone.add(holder.id)
        return gone

    # -- ending ----------------------------------------------------------------------------------------------------

    def finish(self, holder: Holder, outcome: str, now: datetime, delay: float, result: Any = None) -> str:
        """The outcome that is really written; "lost" when nothing is."""
        if not self.holds(holder):
            return self._written_before(holder, outcome)
        job = self.jobs[holder.id]
        if job.cancel and outcome in ("retried", "snoozed", "released"):
            outcome = "cancelled"
        suspect = job.suspect
        job.let_go()
        job.state = NEXT_STATE[outcome]
        job.rev += 1
        job.result = result if outcome == "completed" else None
        if outcome in ("snoozed", "released"):
            job.tries -= 1
            job.suspect = suspect and outcome == "released"
        else:
            job.attempts.append((holder.tries, holder.token, outcome))
        if outcome in ("retried", "snoozed"):
            job.run_at, job.started_for = now + timedelta(seconds=delay), None
        return outcome

    def _written_before(self, holder: Holder, outcome: str) -> str:
        """A repeated end of the very attempt that ended so is no loss, and what has completed it was this holder."""
        job = self.jobs.get(holder.id)
        if job is not None and job.token == holder.token and job.state == "completed":
            return "completed"
        if job is None or job.token != holder.token or job.state != NEXT_STATE[outcome]:
            return "lost"
        ended = job.attempts[-1] if job.attempts and job.attempts[-1][1] == holder.token else None
        as_claimed = None if outcome in ("snoozed", "released") else (holder.tries, holder.token, outcome)
        return outcome if ended == as_claimed else "lost"

    def rescue(self, job_id: Any) -> str:
        job = self.jobs[job_id]
        state = "cancelled" if job.cancel else "failed" if job.tries >= (job.max_attempts or 3) else "pending"
        job.attempts.append((job.tries, job.token, "lost"))
        job.let_go()
        job.state, job.suspect = state, state == "pending"
        job.rev += 1
        if state == "pending":
            job.started_for = job.run_at
        return state

    def overdue_leases(self, before: datetime) -> set[Any]:
        return {
            job_id
            for job_id, job in self.jobs.items()
            if job.state == "running" and job.lease_until is not None and job.lease_until <= before
        }

    # -- by hand ---------------------------------------------------------------------------------------------------

    def cancel(self, job_id: Any) -> bool:
        job = self.jobs[job_id]
        if job.state == "pending":
            job.state, job.waiting_for = "cancelled", False
            job.rev += 1
            return True
        job.cancel = job.cancel or job.state == "running"
        return False

    def retry(self, job_id: Any, now: datetime) -> None:
        job = self.jobs[job_id]
        job.let_go()
        job.state, job.tries, job.run_at, job.started_for, job.result = "pending", 0, now, None, None
        job.rev += 1
        if job.key is not None:
            self.keys[job.key] = job_id

    def may_retry(self, job_id: Any) -> str:
        """ "yes", or what keeps it: "state" or "key"."""
        job = self.jobs[job_id]
        if job.state not in AGAIN:
            return "state"
        holder = None if job.key is None else self.key_holder(job.key)
        return "yes" if holder in (None, job_id) else "key"

    def hold(self, ids: Iterable[Any]) -> int:
        count = 0
        for job_id in ids:
            job = self.jobs.get(job_id)
            if job is not None and job.ready:
                job.waiting_for = True
                job.rev += 1
                count += 1
        return count

    def release(self) -> int:
        held = [job for job in self.jobs.values() if job.waiting_for]
        for job in held:
            job.waiting_for = False
            job.rev += 1
        return len(held)

    def late(self, now: datetime) -> set[Any]:
        return {
            job_id
            for job_id, job in self.jobs.items()
            if job.state == "pending" and job.start_by is not None and job.start_by < now
        }

    def expire(self, now: datetime) -> set[Any]:
        late = self.late(now)
        for job_id in late:
            job = self.jobs[job_id]
            job.state, job.waiting_for = "expired", False
            job.rev += 1
        return late
