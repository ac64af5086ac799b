"""Values of callers and handlers as they are stored: data, results, steps, errors and texts, all of bounded size.

BSON holds numbers, texts, dates, bytes, ids, lists and documents. A value of another type (a set, a Decimal, a
dataclass) is stored as pydantic writes it in JSON, and `PlainData.changed` keeps the original value, so that
`check_data` in `engine/handler.py` can tell whether the handler will receive an equal value. A value that can be read
only once is refused: checking it would leave nothing to store. Instants are kept as MongoDB keeps them, in UTC and in
milliseconds. Every function that takes data from a caller calls `plain_data`, and `encode_data` encodes the outcome.

A value that is too large, or that BSON cannot hold, is refused (`encode_data`, `encode_step`), or is cut with a note of
that (`encode_result`, `encode_error`, `cut`), so that no document grows without bound. `store/codec.py` reads jobs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set, ValuesView
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import bson
from bson import DatetimeMS, Decimal128, ObjectId, Regex, Timestamp
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument

from mainspring.clock import truncate
from mainspring.errors import InvalidJob, StepError
from mainspring.model.jobs.job import JobError
from mainspring.store.connection import CODEC, Document

MAX_TYPE, MAX_MESSAGE, MAX_STACK = 200, 4_096, 16_384
MAX_DETAILS, MAX_DETAIL = 16_384, 2_000
MAX_LOG_LINES, MAX_LOG_LINE = 200, 2_000  # lines, and bytes of a line
_RAW = CODEC.with_options(document_class=RawBSONDocument)
_PLAIN = (type(None), bool, float)
_SMALL_DATA, _SMALL_TEXT = 16, 256
_DETAILS_KEPT = 6
# MongoDB stores 200 levels, some of which the job and the statement use; a level takes at least 8 bytes.
DEEPEST = 100
_LEAST_PER_LEVEL = 8
_NATIVE = (type(None), bool, float, bytes, UUID, ObjectId, Decimal128, Regex, Timestamp, DatetimeMS)
_LISTED = (tuple, Set, ValuesView, deque, range)


@dataclass(frozen=True, slots=True)
class Changed:
    """A value that is stored in another form than the caller's: its path, its type, and the type of the stored form."""

    path: str
    kind: str
    stored: str


@dataclass(slots=True)
class PlainData:
    """Data as a handler reads it from the database, before its annotations are applied."""

    values: Document
    given: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that contain a value stored in another form, as the caller passed them."""
    changed: Mapping[str, Changed] = field(default_factory=dict)
    """The first such value in each of them."""


def plain_data(data: Any) -> PlainData:
    """A caller's data as it is stored; InvalidJob names the first value that cannot be kept."""
    if data is None:
        return PlainData({})
    if type(data) is dict and is_small_and_plain(data):
        return PlainData(dict(data))
    if not isinstance(data, Mapping):
        raise InvalidJob(f"data must be a mapping of argument names to values, not {type(data).__name__}.")
    kept = _kept_as_given(data)
    return PlainData(kept) if kept is not None else _walk(data)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, where NaN equals itself and instants are compared in milliseconds."""
    if isinstance(one, float) and isinstance(other, float) and one != one and other != other:
        return True
    if isinstance(one, datetime) and isinstance(other, datetime) and (one.tzinfo is None) == (other.tzinfo is None):
        return one == other or (one.tzinfo is not None and truncate(one) == truncate(other))
    if isinstance(one, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return bool(one == other)


def _kept_as_given(data: Mapping[str, Any]) -> Document | None:
    """The data as it is read again, where that equals the caller's; None where it may not."""
    try:
        kept = bson.decode(bson.encode(data, codec_options=CODEC), CODEC)
        return kept if bool(kept == data) else None
    except Exception:
        return None  # the walk finds the value, and whether it has another form


def _walk(data: Mapping[str, Any]) -> PlainData:
    changed: dict[str, Changed] = {}
    values: Document = {}
    for name, value in data.items():
        walk = _Walk()
        if type(name) is not str:
            raise InvalidJob(f"data must have texts as argument names, not {type(name).__name__}.")
        values[name] = walk.plain(value, f"data[{name!r}]", 1)
        if walk.first is not None:
            changed[name] = walk.first
    try:
        bson.encode(values, codec_options=CODEC)
    except (BSONError, OverflowError, TypeError, ValueError, RecursionError) as error:
        raise InvalidJob(f"data cannot be stored: {error}") from error
    return PlainData(values, {name: data[name] for name in changed}, changed)


class _Walk:
    """One argument, turned into its stored form."""

    def __init__(self) -> None:
        self.first: Changed | None = None

    def plain(self, value: Any, path: str, level: int) -> Any:
        if level > DEEPEST:
            raise InvalidJob(f"{path[:200]}… is nested deeper than {DEEPEST} levels and cannot be stored.")
        if isinstance(value, str):
            return _text(value, path)
        if isinstance(value, int) and not isinstance(value, bool):
            return _whole(value, path)
        if isinstance(value, datetime):
            return self._instant(value, path)
        if isinstance(value, _NATIVE):
            return value
        if isinstance(value, Mapping):
            return self._document(value, path, level)
        if isinstance(value, list):
            return self._list(value, path, level)
        if isinstance(value, Iterator):
            raise InvalidJob(
                f"{path} is of type {type(value).__name__}, which can be read only once; pass list(…) of it."
            )
        if isinstance(value, _LISTED):
            self._note(path, value, "a list")
            return self._list(value, path, level)
        return self._in_json(value, path, level)

    def _document(self, value: Mapping[Any, Any], path: str, level: int) -> Document:
        document: Document = {}
        for key, one in value.items():
            text = self._key(key, path)
            if text in document:
                raise InvalidJob(f"{path} has two keys that are both stored as {text!r}.")
            document[text] = self.plain(one, f"{path}[{key!r}]", level + 1)
        return document

    def _list(self, value: Any, path: str, level: int) -> list[Any]:
        return [self.plain(one, f"{path}[{place}]", level + 1) for place, one in enumerate(value)]

    def _instant(self, value: datetime, path: str) -> Any:
        if value.tzinfo is not None:
            return truncate(value)
        self._note(path, value, "text")  # a stored date would have a time zone that the caller's value lacks
        return value.isoformat()

    def _key(self, key: Any, path: str) -> str:
        if isinstance(key, str):
            if "\0" in key:
                raise InvalidJob(f"{path} has a key with a null character, which cannot be stored.")
            return _text(key, path)
        # Few values are of a type that MongoDB lacks, and not every program that stores jobs has imported pydantic.
        from pydantic_core import PydanticSerializationError, to_jsonable_python

        try:
            (text,) = to_jsonable_python({key: None})
        except (PydanticSerializationError, TypeError, ValueError):
            raise InvalidJob(f"{path} has a key of type {type(key).__name__}; keys are texts.") from None
        self._note(path, key, "text, as a key")
        return str(text)

    def _in_json(self, value: Any, path: str, level: int) -> Any:
        from pydantic_core import PydanticSerializationError, to_jsonable_python

        try:
            form = to_jsonable_python(value)
        except (PydanticSerializationError, TypeError, ValueError, RecursionError):
            raise InvalidJob(f"{path} is of type {type(value).__name__}, which cannot be stored.") from None
        self._note(path, value, "text" if isinstance(form, str) else f"a {type(form).__name__}")
        return self.plain(form, path, level)

    def _note(self, path: str, value: Any, stored: str) -> None:
        if self.first is None:
            self.first = Changed(path, type(value).__name__, stored)


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidJob(f"{path} has a lone surrogate, which is no character; UTF-8 cannot store it.") from None
    return value


def _whole(value: int, path: str) -> int:
    if not -(2**63) <= value < 2**63:
        raise InvalidJob(f"{path} is a whole number of more than 64 bits; MongoDB cannot store it. Pass it as text.")
    return value


def encode_data(data: Mapping[str, Any] | None, limit: int) -> Mapping[str, Any]:
    """Plain data (`plain_data`) as it is stored; refused when it cannot be stored or is too large."""
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


def is_small_and_plain(data: Document) -> bool:
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


def _encode(value: Document) -> bytes:
    """A value as BSON; where it holds a type that BSON lacks, as pydantic writes it in JSON."""
    try:
        return _encode_exactly(value)
    except InvalidJob as refused:
        try:
            if not _has_iterator(value):
                from pydantic_core import to_jsonable_python

                return _encode_exactly(to_jsonable_python(value))
        except Exception:  # whatever code of the value itself raises: properties, computed fields, its repr
            raise refused from refused.__cause__
        raise InvalidJob("data cannot be stored: it holds an iterator; make a list of it.") from None


def _encode_exactly(value: Document) -> bytes:
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
