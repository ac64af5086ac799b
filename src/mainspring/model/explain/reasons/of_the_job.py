"""The gates of the job itself: its state, its time, and the runs or jobs that it waits for. Pure."""

from __future__ import annotations

from datetime import datetime

from mainspring.model.explain.explanation import (
    OVERLAP,
    STATE,
    TIME,
    WITHHELD,
    ExplainedGate,
    are,
    brief,
    plural,
    sentence,
    span,
)
from mainspring.model.explain.facts import ExplainFacts
from mainspring.model.fields import Fields
from mainspring.model.jobs.job import BLOCKED, CANCELLED, COMPLETED, EXPIRED, FAILED, RUNNING, Job
from mainspring.rules.instants import instant_text

_ENDED = {COMPLETED: "completed", FAILED: "failed", CANCELLED: "was cancelled", EXPIRED: "expired"}
_BY_OVERLAP = "overlap"
_SPOKEN_OF = (_BY_OVERLAP, "handler", "version", "key")


def state_gate(job: Job, now: datetime, *, adopted: bool = True, ahead: bool = False) -> ExplainedGate:
    """Whether the job waits at all: it may be running, or have ended."""
    data: Fields = {"state": job.state}
    if job.state == RUNNING:
        return _running(job, now, ahead, data)
    if job.finished:
        return _ended(job, now, data)
    if not adopted:
        text = "Another program inserted it, and no worker has adopted it yet."
        return ExplainedGate(STATE, False, text, data | {"adopted": False})
    return ExplainedGate(STATE, True, f"It is {job.state}.", data)


def _running(job: Job, now: datetime, ahead: bool, data: Fields) -> ExplainedGate:
    data |= {
        "worker": job.worker,
        "since": job.started_at,
        "lease_until": job.lease_until,
        "attempt": job.tries,
        "ahead": ahead,
        "cancel_requested": job.cancel_requested,
    }
    for_long = "" if job.started_at is None else f" for {span(now - job.started_at)}"
    if ahead:
        who = "A worker" if job.worker is None else f"Worker {job.worker}"
        text = f"{who} has held it{for_long} and starts it when a slot of its own is free"
    else:
        where = "" if job.worker is None else f" on worker {job.worker}"
        text = f"It has been running{for_long}{where}, as attempt {job.tries}"
    text += f"; {_lease(job.lease_until, now)}."
    if job.cancel_requested:
        text += " It was asked to stop."
    return ExplainedGate(STATE, False, text, data)


def _lease(until: datetime | None, now: datetime) -> str:
    if until is None:
        return "it has no lease, so it is about to be rescued"
    if until <= now:
        return f"its lease ran out {span(now - until)} ago, so it is about to be rescued"
    return f"its lease lasts for another {span(until - now)}"


def _ended(job: Job, now: datetime, data: Fields) -> ExplainedGate:
    data |= {"finished_at": job.finished_at, "error": None if job.error is None else str(job.error)}
    text = f"It {_ENDED[job.state]}"
    if job.finished_at is not None:
        text += f" {span(now - job.finished_at)} ago, at {instant_text(job.finished_at)}"
    if job.error is not None and job.state == CANCELLED:
        text += f": {brief(job.error.message)}"
    elif job.error is not None and job.state == FAILED:
        text += f": {brief(str(job.error))}"
    elif job.state == EXPIRED:
        text += ", since no worker had started it in time"
    return ExplainedGate(STATE, False, sentence(text), data)


def overlap_gate(facts: ExplainFacts) -> ExplainedGate | None:
    """Whether it waits for an earlier run of its schedule."""
    job, runs = facts.job, facts.waits_for
    if job.waiting_for is None or job.waiting_for.by != _BY_OVERLAP:
        return None
    data = {
        "schedule": job.schedule_id,
        "after": list(runs),
        "note": job.waiting_for.note,
        "since": job.waiting_for.since,
    }
    if not runs:
        return ExplainedGate(OVERLAP, False, sentence(f"It {job.waiting_for.note}"), data)
    text = f"It waits until job {runs[-1]}, an earlier run of the schedule {job.schedule_id}, has ended"
    others = len(runs) - 1
    text += f"; {plural(others, 'other run')} {are(others)} before that one" if others else ""
    return ExplainedGate(OVERLAP, False, sentence(text), data)


def time_gate(facts: ExplainFacts) -> ExplainedGate:
    """Whether the job is due, and not too late."""
    job, now = facts.job, facts.now
    run_at: datetime | None = job.run_at  # a raw insert may lack it
    data: Fields = {"run_at": run_at, "start_by": facts.start_by}
    if job.tries:
        data["retry"] = {"number": job.tries, "error": None if job.error is None else str(job.error)}
    if facts.start_by is not None and facts.start_by < now:
        text = f"It was to be started by {instant_text(facts.start_by)}, {span(now - facts.start_by)} ago"
        return ExplainedGate(TIME, False, f"{text}: it is about to expire.", data | {"expires": True})
    if run_at is None or run_at <= now:
        due = "It is due." if run_at is None else f"It has been due for {span(now - run_at)}."
        return ExplainedGate(TIME, True, due, data)
    data["seconds"] = (run_at - now).total_seconds()
    text = f"{f'Retry {job.tries}' if job.tries else 'It'} is due in {span(run_at - now)}, at {instant_text(run_at)}"
    if job.tries and job.error is not None:
        text += f", after {brief(str(job.error))}"
    return ExplainedGate(TIME, False, sentence(text), data)


def held_gate(facts: ExplainFacts) -> ExplainedGate | None:
    """The reason why the job is not ready, where no other gate mentions it."""
    job, held = facts.job, facts.job.waiting_for
    spoken_of = facts.line is not None or (held is not None and held.by in _SPOKEN_OF)
    if facts.ready or spoken_of or not facts.adopted or job.state == BLOCKED:
        return None
    if held is None:
        return ExplainedGate(WITHHELD, False, "It is not marked as ready, and nothing says why: no worker sees it.")
    since = "" if held.since is None else f" for {span(facts.now - held.since)}"
    data = {"by": held.by, "note": held.note, "since": held.since}
    return ExplainedGate(WITHHELD, False, sentence(f"It has been held{since} by {held.by}: {held.note}"), data)
