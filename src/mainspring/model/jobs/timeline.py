"""The life of a job as spans of time, in order and without gaps: what it waited for, and when it ran. Pure.

A span begins where the one before it ends. The last one is open (`end` None) while the job has not ended. Attempts and
snoozes that were not kept leave a span `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from mainspring.model.jobs.job import BLOCKED, PENDING, RUNNING, Job

Kind = Literal["scheduled", "waiting", "running", "retry_wait", "snoozed", "between_rounds", "blocked", "unknown"]

_AFTER: dict[str | None, Kind] = {
    None: "scheduled",
    "snoozed": "snoozed",
    "retried": "retry_wait",
    "lost": "retry_wait",
    "completed": "between_rounds",
    "failed": "between_rounds",
    "cancelled": "between_rounds",
}
"""By the outcome of the run before it: the kind of the time until the job was due again."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a job's life. Of a run: the number of its attempt, its token, and how it ended (None: it runs)."""

    kind: Kind
    start: datetime
    end: datetime | None
    attempt: int | None = None
    token: int | None = None
    outcome: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class _Run:
    start: datetime
    end: datetime | None
    attempt: int | None
    token: int
    outcome: str | None
    due: datetime | None = None
    next_due: datetime | None = None
    note: str | None = None


def timeline(job: Job, now: datetime) -> list[Span]:
    """The spans of a job's life. A job without the time of its creation, which another program has stored, has none."""
    if job.created_at is None:
        return []
    spans: list[Span] = []
    at = job.created_at
    before: _Run | None = None
    cut = job.attempts_cut > 0
    for run in _runs(job):
        due = run.due if before is None or before.next_due is None else before.next_due
        spans += _until_started(before, at, due, run.start, cut and before is None)
        start = max(at, run.start)
        end = None if run.end is None else max(start, run.end)
        spans.append(Span("running", start, end, run.attempt, run.token, run.outcome, run.note))
        at, before = end or start, run
    return spans + list(_still_waiting(job, before, at, now))


def _until_started(
    before: _Run | None, at: datetime, due: datetime | None, start: datetime, cut: bool
) -> Iterator[Span]:
    if cut:
        if start > at:
            yield Span("unknown", at, start, note="Earlier attempts were not kept.")
        return
    if due is not None and due > at:
        until = min(due, start)
        yield Span(_AFTER.get(None if before is None else before.outcome, "unknown"), at, until)
        at = until
    if start > at:
        yield Span("waiting", at, start)


def _still_waiting(job: Job, before: _Run | None, at: datetime, now: datetime) -> Iterator[Span]:
    if job.state == BLOCKED:
        yield Span("blocked", at, None)
    elif job.state == PENDING:
        kind: Kind = _AFTER.get(None if before is None else before.outcome, "unknown")
        due = at if job.run_at is None else max(at, job.run_at)
        if due > now:
            yield Span(kind, at, None if job.run_at is None else due)
            return
        if due > at:
            yield Span(kind, at, due)
        held = job.waiting_for
        yield Span("waiting", due, None, note=None if held is None else held.note)
    elif job.finished and job.finished_at is not None and job.finished_at > at and _ended_unstarted(job, before):
        yield Span("waiting", at, job.finished_at, outcome=job.state)


def _ended_unstarted(job: Job, before: _Run | None) -> bool:
    """Whether a job ended while it waited: it was cancelled or has expired."""
    return before is None or before.token != job.token or before.outcome not in _AFTER or before.outcome == "snoozed"


def _runs(job: Job) -> list[_Run]:
    """The attempts, the snoozes and the running attempt, in order."""
    runs: list[_Run] = []
    for one in job.attempts:
        if one.started_at is not None:
            due = one.run_at or (job.run_at if one.token == job.token and job.state != PENDING else None)
            runs.append(_Run(one.started_at, one.ended_at, one.number, one.token, one.outcome, due))
    for snooze in job.snoozes:
        if snooze.started_at is not None and snooze.at is not None:
            note = snooze.reason or None
            due, until = snooze.run_at, snooze.until
            runs.append(_Run(snooze.started_at, snooze.at, None, snooze.token, "snoozed", due, until, note))
    if job.state == RUNNING and job.started_at is not None:
        runs.append(_Run(job.started_at, None, job.tries, job.token, None, job.run_at))
    return sorted(runs, key=lambda run: run.token)
