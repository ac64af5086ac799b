"""FieldMap: the fields of another program's jobs, and its words for their states.

`config/settings.py` makes it from the setting `field_map`; `store/foreign/mirror.py` and `store/foreign/mapped.py`
apply it. A map without arguments is the one named "status-lock": a `status` with a lock of `locked_by` and `locked_at`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from mainspring.durations import Duration, duration_ms
from mainspring.errors import ConfigurationError
from mainspring.spelling import suggestion

STATUS_LOCK = "status-lock"
_WORDS = ("pending", "running", "completed", "failed", "cancelled", "expired")
_COPIED = ("name", "run_at", "data")
_KEPT_IN_STEP = ("status", "locked_by", "locked_at")
# Mainspring's own fields of a job; a test compares them with the data dictionary.
_MAINSPRINGS = frozenset(
    {
        *("_id", "v", "name", "data", "data_v", "queue", "priority", "asked_priority", "aged_at", "state", "ready"),
        *("waiting_for", "line", "seq", "run_at", "created_at", "rev", "token", "tries", "attempts", "attempts_cut"),
        *("last_failure_at", "tags", "retry", "timeout", "guarantee", "expires_at", "start_within", "start_by"),
        *("dedupe_key", "dedupe_until", "burst", "parent_id", "schedule_id", "scheduled_for", "tracked", "ahead"),
        *("suspect", "claim", "worker", "claimed_at", "lease_until", "max_attempts", "once", "cancel", "steps"),
        *("progress", "log", "log_cut", "result", "result_note", "error", "finished_at", "sealed", "fingerprint"),
        *("redrive", "requests", "alert", "mapped", "edited_at", "snoozes", "stack", "trace"),
        *(
            "after",
            "because",
            "before",
            "cancel_tree",
            "check_at",
            "flow",
            "label",
            "node",
            "refs",
            "retry_tree",
            "root",
            "round",
            "spawned",
            "waits",
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMap:
    """The fields of another program's jobs, and its words for their states.

    A worker reads `name`, `run_at` and `data` when it adopts a document. It reads `status`, `locked_by` and
    `locked_at`, and writes them whenever the job's state changes. Each field in `tags` becomes a tag, such as
    `scheduler_id:17`. A lock of the other program ends `takeover` after `locked_at`: seconds, a timedelta, or a text
    such as "15m".
    """

    name: str = "job_name"
    status: str = "status"
    run_at: str = "trigger_time"
    data: str = "payload"
    locked_by: str = "locked_by"
    locked_at: str = "locked_at"
    tags: tuple[str, ...] = ("scheduler_id",)
    pending: str = "pending"
    running: str = "locked"
    completed: str = "completed"
    failed: str = "failed"
    cancelled: str = "cancelled"
    expired: str = "expired"
    takeover: float = 900.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "takeover", _seconds(self.takeover))
        if isinstance(self.tags, str) or not all(isinstance(field, str) for field in self.tags):
            raise ConfigurationError(f"tags of a field map must be a list of fields, not {self.tags!r}.")
        object.__setattr__(self, "tags", tuple(self.tags))
        for role in (*_COPIED, *_KEPT_IN_STEP):
            _check_field(role, getattr(self, role))
        named = [getattr(self, role) for role in (*_COPIED, *_KEPT_IN_STEP)]
        if len(set(named)) < len(named):
            raise ConfigurationError(f"A field map must name a different field for each role, not {', '.join(named)}.")
        for word in self.words.values():
            if not isinstance(word, str) or not word:
                raise ConfigurationError(f"A field map's word for a state must be a text, not {word!r}.")
        if len(set(self.words.values())) < len(_WORDS):
            raise ConfigurationError("A field map must have a different word for each state.")

    @property
    def words(self) -> dict[str, str]:
        """The other program's word for each state."""
        return {state: getattr(self, state) for state in _WORDS}

    @property
    def states(self) -> dict[str, str]:
        """The state that each of the other program's words means."""
        return {word: state for state, word in self.words.items()}


def make_field_map(value: object) -> FieldMap | None:
    """Make a field map from a user's value: the name of one, a mapping (or JSON) of the differences, or a FieldMap."""
    if value is None or isinstance(value, FieldMap):
        return value
    if value == STATUS_LOCK:
        return FieldMap()
    if isinstance(value, str):
        value = _parsed(value)
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"field_map must be {STATUS_LOCK!r}, a mapping or a FieldMap, not {value!r:.100}.")
    known = [field.name for field in fields(FieldMap)]
    for key in value:
        if key not in known:
            raise ConfigurationError(f"A field map has no {key!r}.{suggestion(str(key), known)}")
    return FieldMap(**value)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        raise ConfigurationError(
            f"There is no field map named {text!r:.100}; use {STATUS_LOCK!r}, or a JSON object such as "
            '{"name": "job_name", "status": "status"}.'
        ) from None


def _check_field(role: str, field: object) -> None:
    if not isinstance(field, str) or not field or field.startswith("$") or "." in field or "\0" in field:
        raise ConfigurationError(f"{role} of a field map must be the name of a top-level field, not {field!r}.")
    if field in _MAINSPRINGS and not (role in _COPIED and field == role):
        raise ConfigurationError(f"{role} of a field map cannot be {field!r}: Mainspring uses that field itself.")


def _seconds(value: Duration) -> float:
    seconds = duration_ms(value, "takeover of a field map", ConfigurationError) / 1000
    if not 0 < seconds < 1e10:
        raise ConfigurationError(f"takeover of a field map must be above 0, not {value!r}.")
    return seconds
