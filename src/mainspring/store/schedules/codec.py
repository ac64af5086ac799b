"""Translation between the documents of schedules and the values of the rest of the code."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from mainspring.errors import MalformedDocument
from mainspring.model.jobs.draft import Draft, start_by
from mainspring.model.jobs.job import DEFAULT_PRIORITY, PENDING
from mainspring.model.jobs.retry import LONGEST
from mainspring.model.privacy.encrypted_values import AsStored, parsed_data
from mainspring.model.schedules.firing_plan import LATE_AFTER, Make, Policy, Runs
from mainspring.model.schedules.ledger import Era, Row
from mainspring.model.schedules.schedule import ACTIVE, ENDED, PAUSED, Pause, ScheduleFacts, Spec
from mainspring.model.schedules.times import Times, firing_id, is_after_end
from mainspring.rules import Rule, rule_from_document
from mainspring.rules.calendars.calendar import Calendar
from mainspring.rules.instants import instant_text
from mainspring.rules.unreadable import UnreadableRule
from mainspring.store.codec import decode_retry
from mainspring.store.connection import Document
from mainspring.store.fitting import fit
from mainspring.store.schema import LAYOUT
from mainspring.store.shapes import SCHEDULE

OVERLAP = "overlap"
TIMING = ("rule", "start_at", "end_at", "jitter", "calendars")
_POLICY = ("misfire", "misfire_grace", "misfire_limit", "start_deadline", "overlap", "max_runs")
ASKED = ("job", "rule", "start_at", "end_at", "jitter", *_POLICY, "pause_after")
_TEMPLATE = (
    *("name", "data", "queue", "priority", "retry", "guarantee", "timeout", "tags", "start_within", "data_v"),
    *("sealed", "root", "label"),
)

CalendarsInForce = Mapping[tuple[str, int], Calendar]
"""Calendars by name and revision."""


def spec_fields(spec: Spec, job: Document) -> Document:
    """The requested fields as they are stored; `job` is the document that the draft would become."""
    policy = {key: getattr(spec.policy, key) for key in _POLICY}
    fields = {
        "job": {key: job[key] for key in _TEMPLATE if key in job},
        "rule": spec.rule.to_document(),
        "start_at": spec.start_at,
        "end_at": spec.end_at,
        "jitter": spec.jitter or None,
        **policy,
        "pause_after": spec.pause_after,
    }
    return {key: value for key, value in fields.items() if value is not None}


def policy_of(document: Mapping[str, Any]) -> Policy:
    return Policy(**{key: document[key] for key in _POLICY if document.get(key) is not None})


def calendar_keys(document: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The calendars that a timing needs, in the revisions that are in force for it."""
    return [(entry["name"], entry["rev"]) for entry in document.get("calendars") or ()]


def is_over(document: Mapping[str, Any]) -> bool:
    """Whether a schedule has made all the jobs that it may."""
    limit = document.get("max_runs")
    return limit is not None and document.get("runs", 0) >= limit


def stored_rule(document: Mapping[str, Any]) -> Rule:
    """The rule of a schedule's document; where it cannot be read, an `UnreadableRule`, which never fires."""
    try:
        return rule_from_document(document["rule"])
    except Exception as error:
        return UnreadableRule.of(document.get("rule"), error)


def times_of(schedule_id: str, timing: Mapping[str, Any], calendars: CalendarsInForce) -> Times:
    """The times that a schedule's document, or an era of it, describes."""
    rule = rule_from_document(timing["rule"])
    known = {name: calendars[name, rev] for name, rev in calendar_keys(timing) if (name, rev) in calendars}
    return Times(
        schedule_id,
        rule.bind(schedule_id, known),
        timing.get("start_at"),
        timing.get("end_at"),
        float(timing.get("jitter") or 0.0),
    )


def eras_of(document: Document, calendars: CalendarsInForce) -> list[Era]:
    """The eras of a schedule in their order, up to the present one, which has ended when all runs are made."""
    now = {**document, "until": document["cursor"] if is_over(document) else None}
    return [
        Era(era["since"], era["until"], _times_then(document["_id"], era, calendars))
        for era in (*document.get("eras", ()), now)
    ]


def _times_then(schedule_id: str, timing: Mapping[str, Any], calendars: CalendarsInForce) -> Times:
    """The times of an era; none where they cannot be read any more."""
    try:
        return times_of(schedule_id, timing, calendars)
    except Exception as error:
        return Times(schedule_id, UnreadableRule.of(timing.get("rule"), error))


def era_of(document: Document, until: datetime) -> Document:
    """The times of a schedule as they were until now, to be kept for its ledger."""
    timing = {key: document[key] for key in TIMING if key in document}
    return {**timing, "since": document["since"], "until": until}


def malformed(document: Document) -> str | None:
    """The error in a schedule's document that another program has written; None where it is sound."""
    return fit(document, SCHEDULE).error


def check_sound(document: Document) -> Document:
    """Raise MalformedDocument where a schedule cannot be read whole, so that nothing is computed from a part of it."""
    error = malformed(document)
    if error is not None:
        raise MalformedDocument(f"Schedule {document['_id']!r} cannot be read; delete it, and make it again. {error}")
    return document


def decode_schedule(document: Document) -> Document:
    """The fields of `ScheduleFacts`. A missing or malformed field has its default, and is named in `error`."""
    fitted = fit(document, SCHEDULE)
    document = fitted.document
    job, last, declared = (document.get(key) or {} for key in ("job", "last", "declared"))
    rule = stored_rule(document)
    return {
        "id": str(document["_id"]),
        "name": job.get("name") or "",
        "data": parsed_data(job.get("data") or {}) if job.get("sealed") else job.get("data") or {},
        "rule": rule,
        "state": state_of(document, rule),
        "next_at": document.get("next_at"),
        "due_at": document.get("due_at"),
        "last_at": last.get("at"),
        "last_job_id": last.get("job"),
        "runs": document.get("runs", 0),
        "failures": document.get("failures", 0),
        "paused": _pause(document.get("paused")),
        "queue": job.get("queue") or "",
        "priority": job.get("priority", DEFAULT_PRIORITY),
        "created_at": document.get("created_at"),
        "updated_at": document.get("updated_at"),
        "start_at": document.get("start_at"),
        "end_at": document.get("end_at"),
        "jitter": _duration(document.get("jitter")) or timedelta(0),
        "policy": policy_of(document),
        "pause_after": document.get("pause_after"),
        "tags": tuple(job.get("tags") or ()),
        "label": job["label"] if isinstance(job.get("label"), str) else None,
        "retry_policy": decode_retry(job.get("retry")),
        "guarantee": job.get("guarantee") or job.get("executes"),  # its name in schema version 1
        "timeout": _duration(job.get("timeout")),
        "start_within": _duration(job.get("start_within")),
        "declared_by": declared.get("app"),
        "rev": document.get("rev", 0),
        "error": fitted.error,
    }


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None or not 0 <= seconds <= LONGEST else timedelta(seconds=seconds)


def state_of(document: Document, rule: Rule) -> str:
    if document.get("paused") is not None:
        return PAUSED
    waits = is_after_end(rule) and bool(document.get("live"))
    return ACTIVE if waits or document.get("next_at") is not None else ENDED


def _pause(document: Mapping[str, Any] | None) -> Pause | None:
    at: Any = None if document is None else document.get("at")
    return None if document is None else Pause(at, document.get("reason", ""), document.get("actor"))


def runs_of(document: Document) -> Runs:
    queued = [(entry["job"], entry["after"]) for entry in document.get("queued", ())]
    return Runs(list(document.get("live", ())), queued)


def encode_make(make: Make) -> Document:
    document: Document = {"job": make.job_id, "at": make.at, "due": make.due}
    return document if make.after is None else {**document, "after": make.after}


def job_of(schedule: Document, make: Mapping[str, Any], now: datetime) -> Document:
    """The job of one firing. A late job's time to start counts from now: otherwise it could never start in time."""
    template = schedule["job"]
    run_at = make["due"] if now - make["due"] <= LATE_AFTER else now
    job: Document = {
        **template,
        "_id": make["job"],
        "v": LAYOUT,
        "state": PENDING,
        "run_at": run_at,
        "created_at": now,
        "rev": 0,
        "token": 0,
        "tries": 0,
        "schedule_id": schedule["_id"],
        "scheduled_for": make["at"],
    }
    limit = start_by(run_at, None, template.get("start_within"))
    if limit is not None:
        job["start_by"] = limit
    if is_tracked(schedule):
        job["tracked"] = True
    if "after" in make:
        note = f"waits until job {make['after']} of the same schedule has ended"
        job["waiting_for"] = {"by": OVERLAP, "note": note, "since": now}
    else:
        job["ready"] = True
    return job


def is_tracked(schedule: Mapping[str, Any]) -> bool:
    """Whether the end of this schedule's runs matters to it."""
    overlaps = schedule.get("overlap", "allow") != "allow"
    return overlaps or bool(schedule.get("pause_after")) or schedule["rule"].get("after") == "end"


def encode_row(schedule_id: str, row: Row) -> Document:
    """A ledger's row under an id that is the same in every process that writes it."""
    document: Document = {
        "_id": row.job_id if row.outcome == "triggered" else row_id(schedule_id, row),
        "schedule_id": schedule_id,
        "at": row.at,
        "until": row.until,
        "span": row.until != row.at or None,
        "outcome": row.outcome,
        "reason": row.reason,
        "late_by": None if row.late_by is None else row.late_by.total_seconds(),
        "job": row.job_id,
        "actor": row.actor,
        "count": row.count if row.count != 1 else None,
    }
    return {key: value for key, value in document.items() if value not in (None, "")}


def row_id(schedule_id: str, row: Row) -> str:
    first = firing_id(schedule_id, row.at)
    return first if row.at == row.until else f"{first}..{instant_text(row.until)}"


def decode_row(document: Mapping[str, Any]) -> Row:
    late = document.get("late_by")
    return Row(
        document["at"],
        document["until"],
        document["outcome"],
        document.get("reason", ""),
        None if late is None else timedelta(seconds=late),
        document.get("job"),
        document.get("actor"),
        document.get("count", 1),
    )


def draft_of(document: Document) -> Draft:
    """The job that a stored schedule makes, as a draft."""
    job = document["job"]
    kept = ("start_within", "timeout", "retry", "guarantee", "tags", "label", "data_v")
    options = {key: job.get(key) for key in kept}
    options["guarantee"] = options["guarantee"] or job.get("executes")
    sealed = AsStored(tuple(job["sealed"])) if job.get("sealed") else None
    return Draft(job["name"], job.get("data"), job["queue"], job["priority"], encrypt=sealed, **options)


def options_of(document: Document) -> Document:
    """The options that a stored schedule was made with."""
    return {key: document.get(key) for key in ("start_at", "end_at", "jitter", *_POLICY, "pause_after")}


def facts(document: Document) -> ScheduleFacts:
    return ScheduleFacts(**decode_schedule(document))
