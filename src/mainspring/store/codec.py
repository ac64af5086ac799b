"""Translation between documents and the values of the rest of the code: ids, jobs, attempts, bounded values.

Keeps true: a document that cannot be decoded is neither lost nor guessed at (`Undecodable` has the reason), and nothing
of unbounded size is stored: a cut value has a note of that.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

import bson
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from pydantic_core import to_jsonable_python

from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError, InvalidJob, StepError
from mainspring.model.access.namespaces import dedupe_key_shown
from mainspring.model.dead_letters.fingerprint import fingerprint
from mainspring.model.flows.waits import read_waits
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
from mainspring.store.connection import CODEC, Document
from mainspring.store.fitting import Fitted, fit
from mainspring.store.schema import LAYOUT
from mainspring.store.shapes import JOB

DocumentId = ObjectId | str

MAX_ATTEMPTS_KEPT = 100
# Fewer attempts with long logs are kept: this many bytes of earlier attempts, beside the half MiB at most of the last.
MAX_EARLIER_ATTEMPTS = 5 * 1024 * 1024 // 2
MAX_TYPE, MAX_MESSAGE, MAX_STACK = 200, 4_096, 16_384
MAX_DETAILS, MAX_DETAIL = 16_384, 2_000
MAX_LOG_LINES, MAX_LOG_LINE = 200, 2_000  # lines, and bytes of a line
MAX_STEPS = 1_000

_RAW = CODEC.with_options(document_class=RawBSONDocument)
_HEX_ID = re.compile(r"[0-9a-f]{24}")
_PLAIN = (type(None), bool, float)
_NEW_JOB = ("name", "state", "queue", "priority", "run_at", "created_at")
# The number of fields of a new job without options.
_PLAIN_DOCUMENT = 13
_SMALL_DATA, _SMALL_TEXT = 16, 256
_DETAILS_KEPT = 6
# MongoDB stores 200 levels, some of which the job and the statement use; a level takes at least 8 bytes.
DEEPEST = 100
_LEAST_PER_LEVEL = 8


UNDECODABLE = "Undecodable"
"""The type of the error of a job that cannot be read."""


class Undecodable(ValueError):
    """A document is no valid job; the message has the reason."""


def document_id(job_id: str) -> DocumentId:
    """The `_id` that a job's id stands for."""
    if not isinstance(job_id, str) or not job_id:
        raise ConfigurationError(f"A job's id is a non-empty string, not {job_id!r}.")
    return ObjectId(job_id) if _HEX_ID.fullmatch(job_id) else job_id


def encode_data(data: Mapping[str, Any] | None, limit: int) -> Mapping[str, Any]:
    """Plain data (`store/plain_data.py`) as it is stored; refused when it cannot be stored or is too large."""
    if data is None:
        return {}
    if type(data) is dict and limit >= _SMALL_DATA * 2 * _SMALL_TEXT and is_small_and_plain(data):
        return data
    if not isinstance(data, Mapping):
        raise InvalidJob(f"data must be a mapping of argument names to values, not {type(data).__name__}.")
    encoded = _encode_exactly(dict(data))
    if len(encoded) > limit:
        raise InvalidJob(
            f"data takes {len(encoded):,} bytes, over the limit of {limit:,}; store the bulk elsewhere and pass a "
            "reference, or raise max_data."
        )
    return RawBSONDocument(encoded, _RAW)


def is_small_and_plain(data: dict[str, Any]) -> bool:
    """Whether data can certainly be stored and is certainly small, so that it need not be encoded to check."""
    if len(data) > _SMALL_DATA:
        return False
    for key, value in data.items():
        if type(key) is not str or len(key) > _SMALL_TEXT or not key.isidentifier():
            return False
        kind = type(value)
        if kind is str:
            if len(value) > _SMALL_TEXT or not value.isascii():
                return False
        elif kind is int:
            if not -(2**63) <= value < 2**63:
                return False
        elif kind is not bool and kind is not float and value is not None:
            return False
    return True


def _encode(value: dict[str, Any]) -> bytes:
    """A value as BSON; where it holds a type that BSON lacks, as pydantic writes it in JSON."""
    try:
        return _encode_exactly(value)
    except InvalidJob as refused:
        try:
            if not _has_iterator(value):
                return _encode_exactly(to_jsonable_python(value))
        except Exception:  # whatever code of the value itself raises: properties, computed fields, its repr
            raise refused from refused.__cause__
        raise InvalidJob("data cannot be stored: it holds an iterator; make a list of it.") from None


def _encode_exactly(value: dict[str, Any]) -> bytes:
    try:
        encoded = bson.encode(value, check_keys=False, codec_options=CODEC)
    except Exception as error:
        raise InvalidJob(f"data cannot be stored: {_said(error)}") from error
    if len(encoded) > DEEPEST * _LEAST_PER_LEVEL and _is_deeper(value, DEEPEST):
        raise InvalidJob(f"data cannot be stored: it is nested deeper than {DEEPEST} levels.")
    return encoded


def _said(error: Exception) -> str:
    """The message of an error; its `str()` may raise, where code of the value raised the error."""
    try:
        return str(error)
    except Exception:
        return type(error).__name__


def _has_iterator(value: Any, levels: int = DEEPEST) -> bool:
    """Whether a value holds an iterator, which pydantic would run to its end; it may be endless."""
    if hasattr(type(value), "__next__"):
        return True
    return levels == 0 or any(_has_iterator(one, levels - 1) for one in _parts(value))


def _parts(value: Any) -> Iterable[Any]:
    """The inner values that pydantic writes for a container."""
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset | deque):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return vars(value).values() if hasattr(type(value), "__pydantic_serializer__") else ()


def _is_deeper(value: Any, levels: int) -> bool:
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in value)


def encode_result(result: Any, limit: int) -> tuple[Any, str | None]:
    """A handler's return value as it is stored, and a note where it is not kept whole. Never raises."""
    if type(result) in _PLAIN or (type(result) is str and len(result) <= limit and result.isascii()):
        return result, None
    try:
        encoded = _encode({"r": result})
        if len(encoded) <= limit:
            return bson.decode(encoded, CODEC)["r"], None
    except Exception:
        if hasattr(type(result), "__next__"):
            return None, (
                f"The result, of type {type(result).__name__}, is an iterator: it was not run and was not kept. "
                "Return a list."
            )
        return None, f"The result, of type {type(result).__name__}, cannot be stored and was not kept."
    return None, f"The result of {len(encoded):,} bytes is over the limit of {limit:,} and was not kept."


def encode_step(what: str, result: Any, limit: int, *, verb: str = "return") -> tuple[Any, int]:
    """The result of a step, or another value that is kept for a handler, as it is stored and read again, and its size
    in bytes. `what` names it in errors, and `verb` is how the caller gives it.

    Unlike a job's result, a value that cannot be kept is refused: the next attempt would run the step again.
    """
    try:
        encoded = _encode({"r": result})
    except InvalidJob as error:
        raise StepError(
            f"{what}, of type {type(result).__name__}, cannot be kept ({error}); {verb} plain values, or store it "
            f"elsewhere and {verb} a reference."
        ) from error
    if len(encoded) > limit:
        raise StepError(
            f"{what} takes {len(encoded):,} bytes, over the limit of {limit:,}, and cannot be kept; store it elsewhere "
            f"and {verb} a reference, or raise max_result."
        )
    return bson.decode(encoded, CODEC)["r"], len(encoded)


def size_of_steps(entries: list[Any]) -> int:
    """The bytes that stored steps take."""
    return len(bson.encode({"s": entries}, codec_options=CODEC)) if entries else 0


def encode_error(error: JobError) -> Document:
    """An error as it is stored: the beginning of its message, the end of its stack. Never raises."""
    document: Document = {"type": cut(error.type, MAX_TYPE), "message": cut(error.message, MAX_MESSAGE)}
    if error.stack:
        document["stack"] = _cut_before(error.stack, MAX_STACK)
    if error.details:
        document["details"] = encode_details(error.details)
    return document


def plain_details(details: Mapping[str, Any]) -> Document:
    """The details of an error in plain values, whatever they are; not cut yet."""
    try:
        return bson.decode(_encode(dict(details)), CODEC)
    except Exception:
        return {"note": "The details cannot be stored and were not kept."}


def encode_details(details: Mapping[str, Any]) -> Document:
    """The details of an error as they are stored: all of them, or as many as fit."""
    plain = plain_details(details)
    if _size(plain) > MAX_DETAILS:
        plain = {cut(str(key), MAX_TYPE): _shortened(value) for key, value in list(plain.items())[:_DETAILS_KEPT]}
    if _size(plain) > MAX_DETAILS:
        return {"note": f"The details are over the limit of {MAX_DETAILS:,} bytes and were not kept."}
    return plain


def _size(document: Mapping[str, Any]) -> int:
    return len(bson.encode(document, codec_options=CODEC))


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return cut(value, MAX_DETAIL)
    return value if isinstance(value, int | float | None) else "… (cut)"


def fingerprint_of(name: Any, error: Any) -> str:
    """The fingerprint of a stored error of a job; any stored value has one."""
    known = _decode_error(error) or JobError("", "")
    return fingerprint(str(name or ""), known.type, known.message, known.stack)


def encode_progress(percent: float, note: str | None) -> Document:
    """The progress of a job, as it is stored."""
    return {"percent": percent} if note is None else {"percent": percent, "note": cut(note, MAX_LOG_LINE)}


def cut(text: str, limit: int) -> str:
    """At most `limit` bytes of a text, in whole characters, with a note when something was cut."""
    # A character takes at least a byte: no more than this is encoded, even of a huge text.
    encoded = _utf8(text[: limit + 1])
    if len(encoded) <= limit:
        return encoded.decode()
    kept = encoded[:limit].decode("utf-8", "ignore")
    return f"{kept}… ({len(text) - len(kept):,} more characters cut)"


def _cut_before(text: str, limit: int) -> str:
    """At most the last `limit` bytes of a text, in whole characters, with a note when something was cut."""
    encoded = _utf8(text[-limit - 1 :])
    return encoded.decode() if len(encoded) <= limit else "… (cut)\n" + encoded[-limit:].decode("utf-8", "ignore")


def _utf8(text: str) -> bytes:
    """A text as it is stored, without the lone surrogates that file names may contain: UTF-8 has none."""
    return text.encode("utf-8", "replace")


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


def _add_rare(fields: dict[str, Any], document: Document) -> None:
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
