"""Translation between stored documents and jobs: ids, jobs, attempts, errors.

Keeps true: a document that cannot be decoded is neither lost nor guessed at (`Undecodable` has the reason).
`store/bounded_values.py` writes the values of jobs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from mainspring.clock import truncate
from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError
from mainspring.model.access.namespaces import dedupe_key_shown
from mainspring.model.dead_letters.fingerprint import fingerprint
from mainspring.model.flows.waits import read_waits
from mainspring.model.jobs.draft import Draft, start_by
from mainspring.model.jobs.guarantee import AT_LEAST_ONCE, GUARANTEES
from mainspring.model.jobs.job import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    FIRST_PRIORITY,
    LAST_PRIORITY,
    Attempt,
    HandlerStack,
    Job,
    JobError,
    Kept,
    Progress,
    Snoozing,
    Step,
    WaitingFor,
)
from mainspring.model.jobs.payload_versions import FIRST_VERSION, is_version
from mainspring.model.jobs.retry import LONGEST, Retry
from mainspring.model.privacy.encrypted_values import Encrypt, marked_data, parsed, parsed_data
from mainspring.store.connection import Document
from mainspring.store.fitting import Fitted, fit
from mainspring.store.schema import LAYOUT
from mainspring.store.shapes import JOB

DocumentId = ObjectId | str

MAX_ATTEMPTS_KEPT = 100
# Fewer attempts with long logs are kept: this many bytes of earlier attempts, beside the half MiB at most of the last.
MAX_EARLIER_ATTEMPTS = 5 * 1024 * 1024 // 2
MAX_STEPS = 1_000

_OPTIONAL = (
    *("start_within", "timeout", "retry", "guarantee", "tags", "label", "dedupe_key", "parent_id", "seq", "data_v"),
    "trace",
)
"""The fields that only some jobs have, and that a draft has under the same name."""
_HEX_ID = re.compile(r"[0-9a-f]{24}")
_NEW_JOB = ("name", "state", "queue", "priority", "run_at", "created_at")
# The number of fields of a new job without options.
_PLAIN_DOCUMENT = 13


UNDECODABLE = "Undecodable"
"""The type of the error of a job that cannot be read."""


class Undecodable(ValueError):
    """A document is no valid job; the message has the reason."""


def document_id(job_id: str) -> DocumentId:
    """The `_id` that a job's id stands for."""
    if not isinstance(job_id, str) or not job_id:
        raise ConfigurationError(f"A job's id is a non-empty string, not {job_id!r}.")
    return ObjectId(job_id) if _HEX_ID.fullmatch(job_id) else job_id


def fingerprint_of(name: Any, error: Any) -> str:
    """The fingerprint of a stored error of a job; any stored value has one."""
    known = _decode_error(error) or JobError("", "")
    return fingerprint(str(name or ""), known.type, known.message, known.stack)


def add_options(document: Document, draft: Draft, run_at: datetime) -> None:
    """Add the fields that only some jobs have to the document of a draft."""
    for key in _OPTIONAL:
        value = getattr(draft, key)
        if value is not None:
            document[key] = value
    if draft.debounce is not None:
        document["burst"] = {"at": document["created_at"], "token": 0}
    if draft.expires_at is not None:
        document["expires_at"] = truncate(draft.expires_at)
    if draft.dedupe_window is not None:
        document["dedupe_until"] = truncate(document["created_at"] + timedelta(seconds=draft.dedupe_window))
    limit = start_by(run_at, draft.expires_at, draft.start_within)
    if limit is not None:
        document["start_by"] = truncate(limit)


def fields_of_root(draft: Draft) -> Document:
    """The fields of the root of a declared flow or a batch: it is listed from its insert on, under the user's name."""
    label = draft.data.get("label") if isinstance(draft.data, Mapping) else None
    return {"root": True, "label": label} if isinstance(label, str) else {"root": True}


def new_job(document: Document, data: Mapping[str, Any]) -> Job:
    """A job that has just been stored. A bulk makes tens of thousands, so that only non-default fields are set."""
    job = object.__new__(Job)
    fields = {key: document[key] for key in _NEW_JOB}
    fields["id"] = str(document["_id"])
    fields["data"] = data
    if len(document) > _PLAIN_DOCUMENT:
        _add_rare(fields, document)
    job.__dict__.update(fields)
    return job


def _add_rare(fields: Document, document: Document) -> None:
    for key in ("expires_at", "guarantee", "parent_id", "schedule_id", "scheduled_for", "label", "node"):
        if key in document:
            fields[key] = document[key]
    if "dedupe_key" in document:
        fields["dedupe_key"] = dedupe_key_shown(document["dedupe_key"])
    for key in ("start_within", "timeout"):
        fields[key] = _duration(document.get(key))
    fields["data_version"] = document.get("data_v", FIRST_VERSION)
    fields["tags"] = tuple(document.get("tags", ()))
    fields["retry_policy"] = decode_retry(document.get("retry"))
    if isinstance(document.get("sealed"), Encrypt):
        fields["kept"] = Kept(marked_data(fields["data"], document["sealed"]))


def decode_job(document: Mapping[str, Any], *, deduplicated: bool = False) -> Job:
    """A stored document as a Job; a missing field has its default, so that any document can be shown.

    Encrypted values stay encrypted: `store/privacy/cipher.py` decrypts them.
    """
    fitted = fit(document, JOB)
    document = fitted.document
    if document.get("sealed"):
        document = {**document, **_parsed(document)}
    return Job(
        id=str(document["_id"]),
        name=document.get("name") or "",
        data=document.get("data") or {},
        state=document.get("state") or "",
        queue=document.get("queue", DEFAULT_QUEUE),
        priority=document.get("priority", DEFAULT_PRIORITY),
        run_at=document.get("run_at"),  # type: ignore[arg-type]
        created_at=document.get("created_at"),  # type: ignore[arg-type]
        attempts=tuple(_decode_attempt(entry) for entry in document.get("attempts") or ()),
        attempts_cut=document.get("attempts_cut", 0),
        tries=document.get("tries", 0),
        token=document.get("token", 0),
        result=document.get("result"),
        result_note=document.get("result_note"),
        error=_decode_error(document.get("error")) or _malformed(document, fitted),
        tags=tuple(document.get("tags") or ()),
        progress=_decode_progress(document.get("progress")),
        log=_decode_log(document),
        log_cut=document.get("log_cut") or 0,
        waiting_for=_decode_held(document.get("waiting_for")),
        worker=document.get("worker"),
        lease_until=document.get("lease_until"),
        started_at=document.get("claimed_at"),
        finished_at=document.get("finished_at"),
        edited_at=document.get("edited_at"),
        expires_at=document.get("expires_at"),
        start_within=_duration(document.get("start_within")),
        timeout=_duration(document.get("timeout")),
        retry_policy=decode_retry(document.get("retry")),
        guarantee=document.get("guarantee") or document.get("executes"),
        dedupe_key=dedupe_key_shown(document.get("dedupe_key")),
        cancel_requested=document.get("cancel") is not None,
        suspect=bool(document.get("suspect")),
        parent_id=document.get("parent_id"),
        schedule_id=document.get("schedule_id"),
        scheduled_for=document.get("scheduled_for"),
        fingerprint=document.get("fingerprint"),
        asked_priority=document.get("asked_priority"),
        steps=tuple(_decode_step(entry) for entry in document.get("steps") or ()),
        data_version=document.get("data_v") or FIRST_VERSION,
        snoozes=tuple(_decode_snooze(entry) for entry in document.get("snoozes") or ()),
        stack=_decode_stack(document.get("stack")),
        flow_id=_text(document.get("flow")),
        node=_text(document.get("node")),
        label=_text(document.get("label")),
        because=_text(document.get("because")),
        waits=read_waits(document.get("waits")),
        deduplicated=deduplicated,
        kept=document.get("kept"),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def error_text(error: Any) -> str | None:
    """A stored error in words; None where there is none."""
    decoded = _decode_error(error)
    return None if decoded is None else str(decoded)


def _decode_stack(stack: Mapping[str, Any] | None) -> HandlerStack | None:
    return None if not stack else HandlerStack(stack.get("at"), stack.get("text") or "", stack.get("token") or 0)


def _decode_snooze(entry: Mapping[str, Any]) -> Snoozing:
    times = (entry.get("started_at"), entry.get("at"), entry.get("until"))
    return Snoozing(entry.get("token") or 0, *times, entry.get("reason") or "", entry.get("run_at"))


def _malformed(document: Document, fitted: Fitted) -> JobError | None:
    """The error in a document that another program, or a newer version, has written."""
    if (document.get("v") or LAYOUT) > LAYOUT:
        return JobError(UNDECODABLE, f"Its layout {document['v']} is newer than the layouts that this version reads.")
    return None if fitted.error is None else JobError(UNDECODABLE, fitted.error)


def _parsed(document: Mapping[str, Any]) -> Document:
    """The parts of a document in which values may be encrypted, with `EncryptedValue` in their place."""
    data, result = parsed_data(document.get("data") or {}), parsed(document.get("result"))
    steps = parsed(document.get("steps") or [])
    if isinstance(document["sealed"], Encrypt):  # the document is not stored yet
        return {"kept": Kept(marked_data(data, document["sealed"]))}
    kept = Kept(data, result, tuple(_decode_step(entry) for entry in steps), tuple(document["sealed"]))
    return {"data": data, "result": result, "steps": steps, "kept": kept}


def _duration(value: Any) -> timedelta | None:
    return timedelta(seconds=value) if _is_duration(value) else None


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST


def _decode_attempt(entry: Mapping[str, Any]) -> Attempt:
    return Attempt(
        number=entry.get("n", 0),
        token=entry.get("token", 0),
        outcome=entry.get("outcome", ""),
        worker=entry.get("worker"),
        started_at=entry.get("started_at"),
        ended_at=entry.get("ended_at"),
        error=_decode_error(entry.get("error")),
        log=_decode_log(entry),
        log_cut=entry.get("log_cut") or 0,
        run_at=entry.get("run_at"),
    )


def _decode_step(entry: Mapping[str, Any]) -> Step:
    return Step(entry.get("name", ""), entry.get("at"), entry.get("attempt", 0), entry.get("result"))


def _decode_log(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The lines of a log that were kept, after one that counts the lines that were cut."""
    lines, cut_before = tuple(entry.get("log") or ()), entry.get("log_cut")
    return (f"… ({cut_before:,} earlier lines cut)", *lines) if cut_before else lines


def _decode_error(error: Any) -> JobError | None:
    if not isinstance(error, Mapping):
        return None
    details = error.get("details")
    decoded = JobError(
        str(error.get("type") or ""),
        str(error.get("message") or ""),
        error.get("stack"),
        details if isinstance(details, Mapping) else None,
    )
    return decoded if str(decoded) or decoded.stack else None


def decode_retry(stored: Any) -> Retry | None:
    """A stored retry policy; None where there is none, or where another program has stored an invalid one."""
    if not isinstance(stored, Mapping):
        return None
    try:
        return Retry.from_document(stored)
    except (ConfigurationError, TypeError):
        return None


def _decode_progress(progress: Mapping[str, Any] | None) -> Progress | None:
    return None if progress is None else Progress(float(progress.get("percent", 0)), progress.get("note"))


def _decode_held(held: Mapping[str, Any] | None) -> WaitingFor | None:
    return None if held is None else WaitingFor(held.get("by", ""), held.get("note", ""), held.get("since"))


def cancel_reason(cancel: Any) -> str:
    """The reason in a request to cancel; another program may have written the request, in any form."""
    return str(cancel.get("reason") or "") if isinstance(cancel, Mapping) else ""


def undecodable(document: Mapping[str, Any]) -> str | None:
    """The reason why a stored document cannot be run; None where it can. Most were checked when stored or adopted."""
    for key in ("rev", "token", "tries"):
        if not _is_whole(document.get(key)):
            return f"{key} must be a whole number, not {document.get(key)!r}."
    if not isinstance(document.get("name"), str):
        return f"name must be text, not {document.get('name')!r}."
    for key in ("data", "retry"):
        if not isinstance(document.get(key) or {}, dict):
            return f"{key} must be a document, not {document.get(key)!r}."
    if not _is_whole(document.get("priority")):
        return f"priority must be a whole number, not {document.get('priority')!r}."
    for key, required in (("run_at", True), ("start_by", False)):
        if not isinstance(document.get(key), datetime) and (required or document.get(key) is not None):
            return f"{key} must be a date, not {document.get(key)!r}."
    if (document.get("guarantee") or AT_LEAST_ONCE) not in GUARANTEES:
        return f"guarantee must be one of {', '.join(GUARANTEES)}, not {document['guarantee']!r}."
    if "sealed" in document and not _is_texts(document["sealed"]):
        return "sealed must be a list of the ids of keys."
    if "data_v" in document and not _is_whole(document["data_v"]):
        return f"data_v must be a whole number, not {document['data_v']!r}."
    return _undecodable_history(document)


def _undecodable_history(document: Mapping[str, Any]) -> str | None:
    if not isinstance(document.get("steps") or [], list):
        return f"steps must be a list, not {document['steps']!r}."
    if not isinstance(document.get("attempts") or [], list):
        return f"attempts must be a list, not {document['attempts']!r}."
    if not _is_whole(document.get("attempts_cut") or 0):
        return f"attempts_cut must be a whole number, not {document['attempts_cut']!r}."
    return None


def check_fields(document: Mapping[str, Any]) -> None:
    """Raise `Undecodable` when a document of another program cannot be run as a job. Null means missing."""
    given = {key: value for key, value in document.items() if value is not None}
    _check_id(document.get("_id", "unknown"))
    try:
        check_name(given.get("name"), "name")
        check_name(given.get("queue", DEFAULT_QUEUE), "queue")
    except ConfigurationError as error:
        raise Undecodable(str(error)) from None
    if not _is_priority(given.get("priority", DEFAULT_PRIORITY)):
        raise Undecodable(f"priority must be a whole number from 1 to 10, not {given['priority']!r}.")
    for key in ("run_at", "created_at", "expires_at"):
        if key in given and not isinstance(given[key], datetime):
            raise Undecodable(f"{key} must be a date, not {given[key]!r}.")
    for key, kind in (("data", Mapping), ("retry", Mapping), ("tags", list)):
        if key in given and not isinstance(given[key], kind):
            raise Undecodable(f"{key} must be a {'list' if kind is list else 'document'}, not {given[key]!r}.")
    for key in ("timeout", "start_within"):
        if key in given and not _is_duration(given[key]):
            raise Undecodable(f"{key} must be seconds, not {given[key]!r}.")
    if given.get("guarantee", AT_LEAST_ONCE) not in GUARANTEES:
        raise Undecodable(f"guarantee must be one of {', '.join(GUARANTEES)}, not {given['guarantee']!r}.")
    if not is_version(given.get("data_v", FIRST_VERSION)):
        raise Undecodable(f"data_v must be a whole number from 1 on, not {given['data_v']!r}.")
    problem = _undecodable_history(document)
    if problem is not None:
        raise Undecodable(problem)


def _check_id(identity: Any) -> None:
    """Refuse an id that `document_id` cannot make: no caller could request the job."""
    if not isinstance(identity, ObjectId | str) or identity == "":
        raise Undecodable(f"_id must be an ObjectId or a string, not {identity!r}.")
    if isinstance(identity, str) and _HEX_ID.fullmatch(identity):
        raise Undecodable(f"_id must not be a string of 24 hex digits; make it the ObjectId {identity}.")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_priority(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return FIRST_PRIORITY <= value <= LAST_PRIORITY and value == int(value)
