"""Between documents and what the rest of the code handles: ids, jobs, attempts, bounded values.

Keeps true: nothing that cannot be decoded is lost or guessed at (`Undecodable` says what is wrong), and nothing of
unbounded size is stored: what was cut says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import bson
from bson import ObjectId
from bson.errors import BSONError, InvalidDocument
from bson.raw_bson import RawBSONDocument
from pydantic_core import PydanticSerializationError, to_jsonable_python

from mainspring.config import check_name
from mainspring.errors import ConfigurationError, InvalidJob, StepError
from mainspring.model.fingerprint import fingerprint
from mainspring.model.guarantee import AT_LEAST_ONCE, GUARANTEES
from mainspring.model.job import (
    DEFAULT_PRIORITY,
    DEFAULT_QUEUE,
    FIRST_PRIORITY,
    LAST_PRIORITY,
    Attempt,
    Held,
    Job,
    JobError,
    Kept,
    Progress,
    Step,
)
from mainspring.model.retry import LONGEST, Retry
from mainspring.model.sealing import Encrypt, marked_data, parsed, parsed_data
from mainspring.model.versions import FIRST_VERSION, is_version
from mainspring.store.connection import CODEC, Document

DocumentId = ObjectId | str

MAX_ATTEMPTS_KEPT = 100
# Of attempts with logs so long that all of them together would come near what a document may hold, fewer are kept.
MAX_ATTEMPTS_SIZE, FEW_ATTEMPTS_KEPT = 4 * 1024 * 1024, 20
MAX_TYPE, MAX_MESSAGE, MAX_STACK = 200, 4_096, 16_384
MAX_DETAILS, MAX_DETAIL = 16_384, 2_000
MAX_LOG_LINES, MAX_LOG_LINE = 200, 2_000
MAX_STEPS, MAX_STEPS_SIZE = 1_000, 1_048_576

_RAW = CODEC.with_options(document_class=RawBSONDocument)
_HEX_ID = re.compile(r"[0-9a-f]{24}")
_PLAIN = (type(None), bool, float)
_NEW_JOB = ("name", "state", "queue", "priority", "run_at", "created_at")
# How many fields a new job has that nobody gave options for.
_PLAIN_DOCUMENT = 13
_SMALL_DATA, _SMALL_TEXT = 16, 256
_DETAILS_KEPT = 6
# MongoDB stores 200 levels, some of which are the job's own and its statements'; a level takes at least 8 bytes.
_DEEPEST = 100
_LEAST_PER_LEVEL = 8


class Undecodable(ValueError):
    """A document that is no valid job; the message says why."""


def document_id(job_id: str) -> DocumentId:
    """The `_id` that a job's id stands for."""
    if not isinstance(job_id, str) or not job_id:
        raise ConfigurationError(f"A job's id is a non-empty string, not {job_id!r}.")
    return ObjectId(job_id) if _HEX_ID.fullmatch(job_id) else job_id


def encode_data(data: Mapping[str, Any] | None, limit: int) -> Mapping[str, Any]:
    """The arguments as they are stored, encoded once; refused when they cannot be stored or are too large."""
    if data is None:
        return {}
    if type(data) is dict and limit >= _SMALL_DATA * 2 * _SMALL_TEXT and _is_small_and_plain(data):
        return data
    if not isinstance(data, Mapping):
        raise InvalidJob(f"data must be a mapping of argument names to values, not {type(data).__name__}.")
    encoded = _encode(dict(data))
    if len(encoded) > limit:
        raise InvalidJob(
            f"data takes {len(encoded):,} bytes, over the limit of {limit:,}; store the bulk elsewhere and pass a "
            "reference, or raise max_data."
        )
    return RawBSONDocument(encoded, _RAW)


def _is_small_and_plain(data: dict[str, Any]) -> bool:
    """Whether data surely can be stored and surely is small, so that it need not be encoded to find out."""
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
    try:
        encoded = bson.encode(value, check_keys=False, codec_options=CODEC)
    except (InvalidDocument, OverflowError, BSONError, TypeError, ValueError, RecursionError) as error:
        try:
            value = to_jsonable_python(value)
            encoded = bson.encode(value, codec_options=CODEC)
        except (PydanticSerializationError, BSONError, OverflowError, TypeError, ValueError, RecursionError):
            raise InvalidJob(f"data cannot be stored: {error}") from error
    if len(encoded) > _DEEPEST * _LEAST_PER_LEVEL and _is_deeper(value, _DEEPEST):
        raise InvalidJob(f"data cannot be stored: it is nested deeper than {_DEEPEST} levels.")
    return encoded


def _is_deeper(value: Any, levels: int) -> bool:
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in value)


def encode_result(result: Any, limit: int) -> tuple[Any, str | None]:
    """What is kept of a handler's return value, and a note where that is not all of it."""
    if isinstance(result, _PLAIN) or (isinstance(result, str) and len(result) <= limit and result.isascii()):
        return result, None
    try:
        encoded = _encode({"r": result})
    except InvalidJob:
        return None, f"The result, of type {type(result).__name__}, cannot be stored and was not kept."
    if len(encoded) > limit:
        return None, f"The result of {len(encoded):,} bytes is over the limit of {limit:,} and was not kept."
    return bson.decode(encoded, CODEC)["r"], None


def encode_step(name: str, result: Any, limit: int) -> tuple[Any, int]:
    """The result of a step as it is stored, and will be read again, and how many bytes it takes.

    Unlike a job's result it is refused where it cannot be kept: the next attempt would run the step again.
    """
    try:
        encoded = _encode({"r": result})
    except InvalidJob as error:
        raise StepError(
            f"The result of step {name!r}, of type {type(result).__name__}, cannot be kept ({error}); return plain "
            "values, or store it elsewhere and return a reference."
        ) from error
    if len(encoded) > limit:
        raise StepError(
            f"The result of step {name!r} takes {len(encoded):,} bytes, over the limit of {limit:,}, and cannot be "
            "kept; store it elsewhere and return a reference, or raise max_result."
        )
    return bson.decode(encoded, CODEC)["r"], len(encoded)


def size_of_steps(entries: list[Any]) -> int:
    """How many bytes steps take that are kept already."""
    return len(bson.encode({"s": entries}, codec_options=CODEC)) if entries else 0


def encode_error(error: JobError) -> Document:
    """An error as it is stored: the beginning of its message, the end of its stack."""
    document: Document = {"type": cut(error.type, MAX_TYPE), "message": cut(error.message, MAX_MESSAGE)}
    if error.stack:
        stack = error.stack
        document["stack"] = _storable(stack if len(stack) <= MAX_STACK else "… (cut)\n" + stack[-MAX_STACK:])
    if error.details:
        document["details"] = encode_details(error.details)
    return document


def encode_details(details: Mapping[str, Any]) -> Document:
    """What an error tells beside its message, as it is stored: all of it, or as much as there is room for."""
    try:
        encoded = _encode(dict(details))
        if len(encoded) > MAX_DETAILS:
            encoded = _encode({str(key): _shortened(value) for key, value in list(details.items())[:_DETAILS_KEPT]})
    except InvalidJob:
        return {"note": "The details cannot be stored and were not kept."}
    if len(encoded) > MAX_DETAILS:
        return {"note": f"The details are over the limit of {MAX_DETAILS:,} bytes and were not kept."}
    return bson.decode(encoded, CODEC)


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return cut(value, MAX_DETAIL)
    return value if isinstance(value, int | float | None) else "… (cut)"


def fingerprint_of(name: Any, error: Any) -> str:
    """The print of a stored error of a job; whatever is stored, there is one."""
    known = _decode_error(error) or JobError("", "")
    return fingerprint(str(name or ""), known.type, known.message, known.stack)


def encode_progress(percent: float, note: str | None) -> Document:
    """How far a job is, as it is stored."""
    return {"percent": percent} if note is None else {"percent": percent, "note": cut(note, MAX_LOG_LINE)}


def cut(text: str, limit: int) -> str:
    """At most `limit` characters of a text, fit to be stored, saying so when something was cut."""
    kept = text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters cut)"
    return _storable(kept)


def _storable(text: str) -> str:
    """A text without the lone surrogates that file names bring along: UTF-8, and so MongoDB, has none."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def new_job(document: Document, data: Mapping[str, Any]) -> Job:
    """A job that has just been stored. Made by the ten thousand, so only what is not the default is set."""
    job = object.__new__(Job)
    fields = {key: document[key] for key in _NEW_JOB}
    fields["id"] = str(document["_id"])
    fields["data"] = data
    if len(document) > _PLAIN_DOCUMENT:
        _add_rare(fields, document)
    job.__dict__.update(fields)
    return job


def _add_rare(fields: dict[str, Any], document: Document) -> None:
    for key in ("expires_at", "executes", "dedupe_key", "parent_id", "schedule_id", "scheduled_for"):
        if key in document:
            fields[key] = document[key]
    for key in ("start_within", "timeout"):
        fields[key] = _duration(document.get(key))
    fields["data_version"] = document.get("data_v", FIRST_VERSION)
    fields["tags"] = tuple(document.get("tags", ()))
    fields["retry"] = decode_retry(document.get("retry"))
    if isinstance(document.get("sealed"), Encrypt):
        fields["kept"] = Kept(marked_data(fields["data"], document["sealed"]))


def decode_job(document: Mapping[str, Any], *, deduplicated: bool = False) -> Job:
    """A stored document as a Job; whatever is missing has its default, so that any document can be shown.

    What is encrypted in it is not opened: `store/sealing.py` does that.
    """
    cancel = document.get("cancel")
    if document.get("sealed"):
        document = {**document, **_parsed(document)}
    return Job(
        id=str(document["_id"]),
        name=str(document.get("name", "")),
        data=document.get("data") or {},
        state=str(document.get("state", "")),
        queue=str(document.get("queue", DEFAULT_QUEUE)),
        priority=document.get("priority", 5),
        run_at=_instant(document.get("run_at")),  # type: ignore[arg-type]
        created_at=_instant(document.get("created_at")),  # type: ignore[arg-type]
        attempts=tuple(_decode_attempt(entry) for entry in _entries(document.get("attempts"))),
        attempts_cut=document.get("attempts_cut", 0),
        tries=document.get("tries", 0),
        token=document.get("token", 0),
        result=document.get("result"),
        result_note=document.get("result_note"),
        error=_decode_error(document.get("error")),
        tags=_entries(document.get("tags")),
        progress=_decode_progress(document.get("progress")),
        log=_decode_log(document),
        log_cut=_log_cut(document),
        held=_decode_held(document.get("held")),
        worker=document.get("worker"),
        lease_until=_instant(document.get("lease_until")),
        started_at=_instant(document.get("claimed_at")),
        finished_at=_instant(document.get("finished_at")),
        expires_at=_instant(document.get("expires_at")),
        start_within=_duration(document.get("start_within")),
        timeout=_duration(document.get("timeout")),
        retry=decode_retry(document.get("retry")),
        executes=document.get("executes"),
        dedupe_key=document.get("dedupe_key"),
        cancel_requested=cancel is not None,
        suspect=bool(document.get("suspect")),
        parent_id=document.get("parent_id"),
        schedule_id=document.get("schedule_id"),
        scheduled_for=_instant(document.get("scheduled_for")),
        fingerprint=document.get("fingerprint"),
        asked_priority=document.get("asked_priority"),
        steps=tuple(_decode_step(entry) for entry in _entries(document.get("steps"))),
        data_version=document.get("data_v") or FIRST_VERSION,
        deduplicated=deduplicated,
        kept=document.get("kept"),
    )


def _parsed(document: Mapping[str, Any]) -> Document:
    """The parts of a document in which values may be sealed, with `Sealed` in their place."""
    data, result = parsed_data(document.get("data") or {}), parsed(document.get("result"))
    steps = parsed(document.get("steps") or [])
    if isinstance(document["sealed"], Encrypt):  # it is not stored yet
        return {"kept": Kept(marked_data(data, document["sealed"]))}
    kids = tuple(map(str, _entries(document["sealed"])))
    kept = Kept(data, result, tuple(_decode_step(entry) for entry in _entries(steps)), kids)
    return {"data": data, "result": result, "steps": steps, "kept": kept}


def _instant(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None


def _duration(value: Any) -> timedelta | None:
    return timedelta(seconds=value) if _is_duration(value) else None


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST


def _entries(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


def _decode_attempt(entry: Any) -> Attempt:
    if not isinstance(entry, Mapping):
        entry = {}
    return Attempt(
        number=entry.get("n", 0),
        token=entry.get("token", 0),
        outcome=entry.get("outcome", ""),
        worker=entry.get("worker"),
        started_at=_instant(entry.get("started_at")),
        ended_at=_instant(entry.get("ended_at")),
        error=_decode_error(entry.get("error")),
        log=_decode_log(entry),
        log_cut=_log_cut(entry),
        run_at=_instant(entry.get("run_at")),
    )


def _decode_step(entry: Any) -> Step:
    if not isinstance(entry, Mapping):
        entry = {}
    return Step(str(entry.get("name", "")), _instant(entry.get("at")), entry.get("attempt", 0), entry.get("result"))


def _decode_log(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """The lines of a log that were kept, after one that tells of those that were not."""
    lines, cut_before = _entries(entry.get("log")), _log_cut(entry)
    return (f"… ({cut_before:,} earlier lines cut)", *lines) if cut_before else lines


def _log_cut(entry: Mapping[str, Any]) -> int:
    number: Any = entry.get("log_cut")
    return int(number) if _is_whole(number) else 0


def _decode_error(error: Any) -> JobError | None:
    if not isinstance(error, Mapping):
        return None
    details = error.get("details")
    return JobError(
        str(error.get("type", "")),
        str(error.get("message", "")),
        error.get("stack"),
        details if isinstance(details, Mapping) else None,
    )


def decode_retry(stored: Any) -> Retry | None:
    """A stored retry policy; None where there is none, or where somebody else wrote what is none."""
    if not isinstance(stored, Mapping):
        return None
    try:
        return Retry.from_document(stored)
    except (ConfigurationError, TypeError):
        return None


def _decode_progress(progress: Any) -> Progress | None:
    percent = progress.get("percent", 0) if isinstance(progress, Mapping) else None
    return Progress(float(percent), progress.get("note")) if isinstance(percent, int | float) else None


def _decode_held(held: Any) -> Held | None:
    if not isinstance(held, Mapping):
        return None
    return Held(str(held.get("by", "")), str(held.get("note", "")), _instant(held.get("since")))


def cancel_reason(cancel: Any) -> str:
    """The reason in a request to cancel; somebody else may have written the request, in whatever form."""
    return str(cancel.get("reason") or "") if isinstance(cancel, Mapping) else ""


def undecodable(document: Mapping[str, Any]) -> str | None:
    """What keeps a stored document from being run, if anything. Most were checked when they were stored or adopted."""
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
    if (document.get("executes") or AT_LEAST_ONCE) not in GUARANTEES:
        return f"executes must be one of {', '.join(GUARANTEES)}, not {document['executes']!r}."
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
    """Raise `Undecodable` when a document that somebody else wrote cannot be run as a job. Null means missing."""
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
    if given.get("executes", AT_LEAST_ONCE) not in GUARANTEES:
        raise Undecodable(f"executes must be one of {', '.join(GUARANTEES)}, not {given['executes']!r}.")
    if not is_version(given.get("data_v", FIRST_VERSION)):
        raise Undecodable(f"data_v must be a whole number from 1 on, not {given['data_v']!r}.")
    problem = _undecodable_history(document)
    if problem is not None:
        raise Undecodable(problem)


def _check_id(identity: Any) -> None:
    """An id under which nobody could ask for the job is refused: what `document_id` can name is what may be used."""
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
