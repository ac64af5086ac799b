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
from mainspring.errors import ConfigurationError, InvalidJob
from mainspring.model.job import (
    DEFAULT_QUEUE,
    FIRST_PRIORITY,
    LAST_PRIORITY,
    Attempt,
    Held,
    Job,
    JobError,
    Progress,
)
from mainspring.store.connection import CODEC, Document

DocumentId = ObjectId | str

MAX_ATTEMPTS_KEPT = 20
MAX_MESSAGE, MAX_STACK = 4_096, 16_384
MAX_LOG_LINES, MAX_LOG_LINE = 200, 2_000

_HEX_ID = re.compile(r"[0-9a-f]{24}")
_PLAIN = (type(None), bool, float)


class Undecodable(ValueError):
    """A document that is no valid job; the message says why."""


def document_id(job_id: str) -> DocumentId:
    """The `_id` that a job's id stands for."""
    if not isinstance(job_id, str) or not job_id:
        raise ConfigurationError(f"A job's id is a non-empty string, not {job_id!r}.")
    return ObjectId(job_id) if _HEX_ID.fullmatch(job_id) else job_id


def encode_data(data: Mapping[str, Any] | None, limit: int) -> RawBSONDocument:
    """The arguments as they are stored, encoded once; refused when they cannot be stored or are too large."""
    if data is None:
        data = {}
    if not isinstance(data, Mapping):
        raise InvalidJob(f"data must be a mapping of argument names to values, not {type(data).__name__}.")
    encoded = _encode(dict(data))
    if len(encoded) > limit:
        raise InvalidJob(
            f"data takes {len(encoded):,} bytes, over the limit of {limit:,}; store the bulk elsewhere and pass a "
            "reference, or raise max_data."
        )
    return RawBSONDocument(encoded, CODEC.with_options(document_class=RawBSONDocument))


def _encode(value: dict[str, Any]) -> bytes:
    try:
        return bson.encode(value, check_keys=False, codec_options=CODEC)
    except (InvalidDocument, OverflowError, BSONError, TypeError, ValueError) as error:
        try:
            return bson.encode(to_jsonable_python(value), codec_options=CODEC)
        except (PydanticSerializationError, BSONError, OverflowError, TypeError, ValueError):
            raise InvalidJob(f"data cannot be stored: {error}") from error


def encode_result(result: Any, limit: int) -> tuple[Any, str | None]:
    """What is kept of a handler's return value, and a note where that is not all of it."""
    if isinstance(result, _PLAIN) or (isinstance(result, str) and len(result) * 4 <= limit):
        return result, None
    try:
        encoded = _encode({"r": result})
    except InvalidJob:
        return None, f"The result, a {type(result).__name__}, cannot be stored and was not kept."
    if len(encoded) > limit:
        return None, f"The result of {len(encoded):,} bytes is over the limit of {limit:,} and was not kept."
    return bson.decode(encoded, CODEC)["r"], None


def encode_error(error: JobError) -> Document:
    """An error as it is stored: the beginning of its message, the end of its stack."""
    document: Document = {"type": error.type[:200], "message": cut(error.message, MAX_MESSAGE)}
    if error.stack:
        stack = error.stack
        document["stack"] = stack if len(stack) <= MAX_STACK else "… (cut)\n" + stack[-MAX_STACK:]
    return document


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, saying so when something was cut."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters cut)"


def decode_job(document: Mapping[str, Any], *, deduplicated: bool = False) -> Job:
    """A stored document as a Job; whatever is missing has its default, so that any document can be shown."""
    cancel = document.get("cancel")
    return Job(
        id=str(document["_id"]),
        name=str(document.get("name", "")),
        data=document.get("data") or {},
        state=str(document.get("state", "")),
        queue=str(document.get("queue", DEFAULT_QUEUE)),
        priority=document.get("priority", 5),
        run_at=document.get("run_at"),  # type: ignore[arg-type]
        created_at=document.get("created_at"),  # type: ignore[arg-type]
        attempts=tuple(_decode_attempt(entry) for entry in document.get("attempts") or ()),
        attempts_cut=document.get("attempts_cut", 0),
        tries=document.get("tries", 0),
        token=document.get("token", 0),
        result=document.get("result"),
        result_note=document.get("result_note"),
        error=_decode_error(document.get("error")),
        tags=tuple(document.get("tags") or ()),
        progress=_decode_progress(document.get("progress")),
        log=tuple(document.get("log") or ()),
        held=_decode_held(document.get("held")),
        worker=document.get("worker"),
        lease_until=document.get("lease_until"),
        started_at=document.get("claimed_at"),
        finished_at=document.get("finished_at"),
        expires_at=document.get("expires_at"),
        start_within=_duration(document.get("start_within")),
        timeout=_duration(document.get("timeout")),
        dedupe_key=document.get("dedupe_key"),
        cancel_requested=cancel is not None,
        suspect=bool(document.get("suspect")),
        parent_id=document.get("parent_id"),
        schedule_id=document.get("schedule_id"),
        scheduled_for=document.get("scheduled_for"),
        deduplicated=deduplicated,
    )


def _duration(value: Any) -> timedelta | None:
    return timedelta(seconds=value) if isinstance(value, int | float) else None


def _decode_attempt(entry: Mapping[str, Any]) -> Attempt:
    return Attempt(
        number=entry.get("n", 0),
        token=entry.get("token", 0),
        outcome=entry.get("outcome", ""),
        worker=entry.get("worker"),
        started_at=entry.get("started_at"),
        ended_at=entry.get("ended_at"),
        error=_decode_error(entry.get("error")),
        log=tuple(entry.get("log") or ()),
    )


def _decode_error(error: Any) -> JobError | None:
    if not isinstance(error, Mapping):
        return None
    return JobError(str(error.get("type", "")), str(error.get("message", "")), error.get("stack"))


def _decode_progress(progress: Any) -> Progress | None:
    if not isinstance(progress, Mapping):
        return None
    return Progress(float(progress.get("percent", 0)), progress.get("note"))


def _decode_held(held: Any) -> Held | None:
    if not isinstance(held, Mapping):
        return None
    return Held(str(held.get("by", "")), str(held.get("note", "")), held.get("since"))


def check_fields(document: Mapping[str, Any]) -> None:
    """Raise `Undecodable` when a document that somebody else wrote cannot be run as a job."""
    try:
        check_name(document.get("name"), "name")
        check_name(document.get("queue", DEFAULT_QUEUE), "queue")
    except ConfigurationError as error:
        raise Undecodable(str(error)) from None
    priority = document.get("priority", 5)
    if isinstance(priority, bool) or not isinstance(priority, int | float) or priority != int(priority):
        raise Undecodable(f"priority must be a whole number from 1 to 10, not {priority!r}.")
    if not FIRST_PRIORITY <= priority <= LAST_PRIORITY:
        raise Undecodable(f"priority must be a whole number from 1 to 10, not {priority!r}.")
    for key in ("run_at", "created_at", "expires_at"):
        if document.get(key) is not None and not isinstance(document[key], datetime):
            raise Undecodable(f"{key} must be a date, not {document[key]!r}.")
    for key, kind in (("data", Mapping), ("retry", Mapping), ("tags", list)):
        if document.get(key) is not None and not isinstance(document[key], kind):
            raise Undecodable(f"{key} must be a {'list' if kind is list else 'document'}, not {document[key]!r}.")
    for key in ("timeout", "start_within"):
        value = document.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
            raise Undecodable(f"{key} must be seconds, not {value!r}.")
