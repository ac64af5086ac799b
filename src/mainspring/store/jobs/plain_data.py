"""A job's data in the form in which it is stored and read again, made from the caller's values.

BSON holds numbers, texts, dates, bytes, ids, lists and documents. A value of another type (a set, a Decimal, a
dataclass) is stored as pydantic writes it in JSON, and `PlainData.changed` keeps the original value, so that
`handlers.check_data` can tell whether the handler will receive an equal value. A value that can be read only once is
refused: checking it would leave nothing to store. Instants are kept as MongoDB keeps them, in UTC and in milliseconds.

Every function that takes data from a caller calls `plain_data`; `store/bounded_values.py` encodes the outcome.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Set, ValuesView
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import bson
from bson import DatetimeMS, Decimal128, ObjectId, Regex, Timestamp
from bson.errors import BSONError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from mainspring.clock import truncate
from mainspring.errors import InvalidJob
from mainspring.store.bounded_values import DEEPEST, is_small_and_plain
from mainspring.store.connection import CODEC
from mainspring.store.schema import Document

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
        try:
            (text,) = to_jsonable_python({key: None})
        except (PydanticSerializationError, TypeError, ValueError):
            raise InvalidJob(f"{path} has a key of type {type(key).__name__}; keys are texts.") from None
        self._note(path, key, "text, as a key")
        return str(text)

    def _in_json(self, value: Any, path: str, level: int) -> Any:
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
