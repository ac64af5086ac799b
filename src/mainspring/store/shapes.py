"""The types that the fields of stored documents have, as `store/schema.py` describes them, for `store/fitting.py`.

A field that is not named here may hold anything: the code that reads it checks its type itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from math import isfinite
from typing import Any

from bson import Code

from mainspring.model.access.api_keys import ROLES
from mainspring.model.alerts.rule import DESTINATIONS
from mainspring.model.alerts.rule import KINDS as ALERT_KINDS
from mainspring.model.jobs.guarantee import GUARANTEES
from mainspring.model.limits.breaker import CLOSED, HALF_OPEN, OPEN
from mainspring.model.limits.limits import NAME, QUEUE
from mainspring.model.operations.operations import STATES as OPERATION_STATES
from mainspring.model.operations.operations import VERBS
from mainspring.model.privacy.encrypted_values import AsStored, Encrypt
from mainspring.model.schedules.firing_plan import MISFIRES, OVERLAPS
from mainspring.store.fitting import Kind, ListOf, Shape

_LARGEST = 2**63


def _is_whole(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isfinite(value) and value == int(value) and abs(value) < _LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _is_sealed(value: Any) -> bool:
    """Whether a value lists ids of keys; or what to encrypt, in a document that is not stored yet."""
    if isinstance(value, Encrypt | AsStored):
        return True
    return isinstance(value, list) and all(map(_is_text, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Code)


TEXT = Kind("text", _is_text)
# A name or queue decides which API keys reach the document, so that an unreadable one becomes the empty text: the
# default would be within the scope of some key.
NAMED = Kind("text", _is_text, "")
WHOLE = Kind("a whole number", _is_whole)
NUMBER = Kind("a number", _is_number)
INSTANT = Kind("a date", lambda value: isinstance(value, datetime))
DOCUMENT = Kind("a document", lambda value: isinstance(value, Mapping))
LIST = Kind("a list", lambda value: isinstance(value, list))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
SEALED = Kind("a list of the ids of keys", _is_sealed)
TEXTS = ListOf(TEXT)


def one_of(*words: str) -> Kind:
    """One of these texts."""
    return Kind(f"one of {', '.join(words)}", lambda value: _is_text(value) and value in words)


GUARANTEE, SCOPE = one_of(*GUARANTEES), one_of(NAME, QUEUE)

ERROR: Shape = {"type": TEXT, "message": TEXT, "stack": TEXT, "details": DOCUMENT}
_LOG: Shape = {"log": TEXTS, "log_cut": WHOLE}
ATTEMPT: Shape = {
    "n": WHOLE,
    "token": WHOLE,
    "outcome": TEXT,
    "worker": TEXT,
    "error": ERROR,
    "run_at": INSTANT,
    "started_at": INSTANT,
    "ended_at": INSTANT,
    **_LOG,
}
STEP: Shape = {"name": TEXT, "at": INSTANT, "attempt": WHOLE}
JOB: Shape = {
    "v": WHOLE,
    "name": NAMED,
    "queue": NAMED,
    "state": NAMED,
    "data": DOCUMENT,
    "data_v": WHOLE,
    "priority": WHOLE,
    "asked_priority": WHOLE,
    "rev": WHOLE,
    "token": WHOLE,
    "tries": WHOLE,
    "run_at": INSTANT,
    "created_at": INSTANT,
    "start_by": INSTANT,
    "expires_at": INSTANT,
    "claimed_at": INSTANT,
    "lease_until": INSTANT,
    "finished_at": INSTANT,
    "edited_at": INSTANT,
    "attempts": ListOf(ATTEMPT),
    "attempts_cut": WHOLE,
    "steps": ListOf(STEP),
    "tags": TEXTS,
    "sealed": SEALED,
    "start_within": NUMBER,
    "timeout": NUMBER,
    "retry": DOCUMENT,
    "guarantee": GUARANTEE,
    "waiting_for": {"by": TEXT, "note": TEXT, "since": INSTANT},
    "progress": {"percent": NUMBER, "note": TEXT},
    "stack": {"at": INSTANT, "token": WHOLE, "text": TEXT},
    "snoozes": ListOf(
        {"token": WHOLE, "run_at": INSTANT, "started_at": INSTANT, "at": INSTANT, "until": INSTANT, "reason": TEXT}
    ),
    "error": ERROR,
    "result_note": TEXT,
    "worker": TEXT,
    "dedupe_key": TEXT,
    "parent_id": TEXT,
    "schedule_id": TEXT,
    "scheduled_for": INSTANT,
    "fingerprint": TEXT,
    "line": TEXT,
    "seq": TEXT,
    "ready": FLAG,
    **_LOG,
}

_OF_SCHEDULED: Shape = {key: JOB[key] for key in ("name", "queue", "data", "data_v", "priority", "retry", "guarantee")}
SCHEDULE: Shape = {
    "v": WHOLE,
    "rev": WHOLE,
    "rule": DOCUMENT,
    "jitter": NUMBER,
    "start_at": INSTANT,
    "end_at": INSTANT,
    "job": {**_OF_SCHEDULED, "timeout": NUMBER, "tags": TEXTS, "start_within": NUMBER, "sealed": SEALED},
    "misfire": one_of(*MISFIRES),
    "misfire_grace": NUMBER,
    "misfire_limit": WHOLE,
    "start_deadline": NUMBER,
    "overlap": one_of(*OVERLAPS),
    "max_runs": WHOLE,
    "pause_after": WHOLE,
    "runs": WHOLE,
    "failures": WHOLE,
    "since": INSTANT,
    "cursor": INSTANT,
    "next_at": INSTANT,
    "due_at": INSTANT,
    "fire_at": INSTANT,
    "calendars": ListOf({"name": TEXT, "rev": WHOLE}),
    "eras": ListOf({"since": INSTANT, "until": INSTANT}),
    "live": LIST,
    "queued": ListOf({"job": TEXT, "after": TEXT}),
    "last": {"at": INSTANT, "job": TEXT},
    "paused": {"at": INSTANT, "reason": TEXT, "actor": TEXT},
    "declared": {"app": TEXT},
    "created_at": INSTANT,
    "updated_at": INSTANT,
}
_TOLD: Shape = {"scope": SCOPE, "target": TEXT}
WORKER: Shape = {
    "host": TEXT,
    "pid": WHOLE,
    "version": TEXT,
    "release": TEXT,
    "concurrency": WHOLE,
    "running": WHOLE,
    "queues": TEXTS,
    "handlers": TEXTS,
    "keys": TEXTS,
    "memory": WHOLE,
    "lag_ms": WHOLE,
    "slots": ListOf({"job": TEXT, "name": NAMED, "queue": NAMED, "since": INSTANT, "gates": TEXTS}),
    "busy": ListOf({"queue": NAMED, "n": WHOLE}),
    "drain": {"at": INSTANT, "reason": TEXT, "actor": TEXT, "ended": FLAG},
    "versions": ListOf({"name": TEXT, "version": WHOLE}),
    "started_at": INSTANT,
    "beat_at": INSTANT,
    "lease_until": INSTANT,
    "limits": ListOf(_TOLD),
    "breakers": ListOf(_TOLD),
    "defaults": ListOf({"name": TEXT}),
}
GATE: Shape = {
    "grants": ListOf({"w": TEXT, "n": WHOLE, "at": INSTANT}),
    "limit": WHOLE,
    "tokens": NUMBER,
    "at": INSTANT,
    "served": WHOLE,
    "first": WHOLE,
    "rev": WHOLE,
    "open_at": INSTANT,
    "line": FLAG,
}
_CONTROL: Shape = {
    "scope": SCOPE,
    "target": TEXT,
    "key": TEXT,
    "at": INSTANT,
    "reason": TEXT,
    "actor": TEXT,
}
PAUSE: Shape = _CONTROL
LIMIT: Shape = {**_CONTROL, "concurrency": DOCUMENT, "rate": DOCUMENT}
BREAKER: Shape = {
    "queue": TEXT,
    **_CONTROL,
    "state": one_of(CLOSED, OPEN, HALF_OPEN),
    "since": INSTANT,
    "open_until": INSTANT,
    "good": WHOLE,
    "bad": WHOLE,
    "rule": DOCUMENT,
    "story": ListOf({"at": INSTANT, "state": TEXT, "reason": TEXT, "actor": TEXT}),
    "last_failure": {"at": INSTANT, "error": TEXT, "job": TEXT},
}
CALENDAR: Shape = {"name": TEXT, "rev": WHOLE, "calendar": DOCUMENT, "updated_at": INSTANT, "actor": TEXT}
REDRIVE: Shape = {
    "kind": TEXT,
    "state": TEXT,
    "matched": WHOLE,
    "done": WHOLE,
    "skipped": WHOLE,
    "rev": WHOLE,
    "started_at": INSTANT,
    "finished_at": INSTANT,
    "actor": TEXT,
    "reason": TEXT,
    "skips": ListOf({"job": TEXT, "reason": TEXT}),
    "selection": DOCUMENT,
}
OPERATION: Shape = {
    "verb": one_of(*VERBS),
    "state": one_of(*OPERATION_STATES),
    "filter": {
        **dict.fromkeys(("state", "name", "queue", "tag", "schedule_id", "parent_id"), TEXT),
        **dict.fromkeys(("since", "until"), INSTANT),
        "data": ListOf({"path": TEXT, "values": LIST}),
        "without": TEXTS,
    },
    "ids": TEXTS,
    "named": WHOLE,
    "priority": WHOLE,
    "queue": TEXT,
    "scope": {"queues": TEXTS, "prefixes": TEXTS},
    "open": FLAG,
    "count": WHOLE,
    "capped": FLAG,
    "cutoff": INSTANT,
    "cursor": DOCUMENT,
    "batch": LIST,
    "changed": WHOLE,
    "skipped": WHOLE,
    "refused": WHOLE,
    "reasons": ListOf({"job": TEXT, "refused": FLAG, "reason": TEXT}),
    "error": TEXT,
    "rev": WHOLE,
    "created_at": INSTANT,
    "starts_at": INSTANT,
    "started_at": INSTANT,
    "stepped_at": INSTANT,
    "finished_at": INSTANT,
    "actor": TEXT,
    "reason": TEXT,
}
LEDGER_ROW: Shape = {
    "at": INSTANT,
    "until": INSTANT,
    "outcome": TEXT,
    "reason": TEXT,
    "late_by": NUMBER,
    "job": TEXT,
    "actor": TEXT,
    "count": WHOLE,
}
API_KEY: Shape = {
    "name": TEXT,
    "role": one_of(*ROLES),
    "hash": TEXT,
    "old_hash": TEXT,
    "actor": TEXT,
    "queues": TEXTS,
    "prefixes": TEXTS,
    "requests": TEXTS,
    "created_at": INSTANT,
    "expires_at": INSTANT,
    "revoked_at": INSTANT,
    "rotated_at": INSTANT,
    "last_used_at": INSTANT,
    "old_until": INSTANT,
}
SECRET: Shape = {
    "rev": WHOLE,
    "version": WHOLE,
    "value": {"kid": TEXT},
    "old": {"kid": TEXT},
    "old_until": INSTANT,
    "created_at": INSTANT,
    "updated_at": INSTANT,
    "actor": TEXT,
}
_SUBJECT: Shape = {"key": TEXT, "text": TEXT, "since": INSTANT, "told": FLAG, "gone_at": INSTANT}
ALERT_RULE: Shape = {
    "rev": WHOLE,
    "name": TEXT,
    "kind": one_of(*ALERT_KINDS),
    "to": ListOf(
        {
            "type": one_of(*DESTINATIONS),
            "data": {"to": TEXTS, "target": TEXT, "request": {"url": TEXT, "headers": DOCUMENT, "sign_with": TEXTS}},
        }
    ),
    "queues": TEXTS,
    "prefixes": TEXTS,
    "after": NUMBER,
    "threshold": WHOLE,
    "within": NUMBER,
    "group_window": NUMBER,
    "repeat_every": NUMBER,
    "send_resolved": FLAG,
    "enabled": FLAG,
    "queue": TEXT,
    "silence": {"until": INSTANT, "reason": TEXT, "actor": TEXT, "at": INSTANT},
    "state": {
        "episode": WHOLE,
        "since": INSTANT,
        "subjects": ListOf(_SUBJECT),
        "gathering_since": INSTANT,
        "told_at": INSTANT,
        "messages": WHOLE,
        "outbox": ListOf(
            {
                "number": WHOLE,
                "kind": TEXT,
                "at": INSTANT,
                "since": INSTANT,
                "episode": WHOLE,
                "subjects": ListOf(_SUBJECT),
            }
        ),
        "jobs": TEXTS,
    },
    "created_at": INSTANT,
    "updated_at": INSTANT,
    "actor": TEXT,
}
AUDIT_ROW: Shape = {
    "id": TEXT,
    "at": INSTANT,
    "actor": TEXT,
    "address": TEXT,
    "action": TEXT,
    "target": TEXT,
    "before": TEXT,
    "after": TEXT,
    "key": TEXT,
    "prev": TEXT,
    "hash": TEXT,
}
