"""Stored documents fitted to the types that their fields must have (`store/shapes.py`).

Other programs may write to the database, so that any field of any document may hold any BSON value. Every document that
is turned into a value of the model passes `fit` first: a field of the wrong type is left out, as if it had not been
stored, and is named in `Fitted.wrong`; null counts as missing. So the code behind it may rely on types, and one
malformed document is shown with its error instead of failing a whole list. Messages name fields and types, never
values: these may be secrets.

`fit` is for documents that are shown whole or in part (jobs, schedules, workers). `readable` is for documents that
count as they are or not at all (pauses, limits, calendars, keys, …): it returns the readable ones and names the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from mainspring.errors import MalformedDocument
from mainspring.model.unreadable import Listed, Unreadable
from mainspring.store.connection import Document

T = TypeVar("T")
_NAMED_AT_MOST = 5


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of values. `instead` takes the place of a value of another type; without it, the field is left out."""

    words: str
    fits: Callable[[Any], bool]
    instead: Any = None


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of values of one type, or of documents of one shape. An entry of another type is left out."""

    of: Kind | Mapping[str, Any]


Shape = Mapping[str, Any]
"""The fields of a document: a `Kind`, a `ListOf` or the shape of a document each. Other fields may hold anything."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A document without its malformed fields, and the errors of these."""

    document: Document
    wrong: tuple[str, ...] = ()

    @property
    def error(self) -> str | None:
        """The errors in a sentence; None where there is none."""
        if not self.wrong:
            return None
        more = len(self.wrong) - _NAMED_AT_MOST
        return "; ".join(self.wrong[:_NAMED_AT_MOST]) + (f"; and {more} more." if more > 0 else ".")


def fit(document: Mapping[str, Any], shape: Shape) -> Fitted:
    """A document fitted to its shape. A document without errors is returned as it is."""
    wrong: list[str] = []
    kept = _fit_document(document, shape, "", wrong)
    return Fitted(kept, tuple(wrong))


def readable(documents: Iterable[Document], shape: Shape, decode: Callable[[Document], T]) -> Listed[T]:
    """The decoded documents that fit their shape; the others are named in `unreadable`."""
    found: Listed[T] = Listed()
    for document in documents:
        fitted = fit(document, shape)
        error = fitted.error
        try:
            if error is None:
                found.append(decode(fitted.document))
        except Exception as raised:
            error = _why(raised)
        if error is not None:
            found.unreadable.append(Unreadable(str(document.get("_id")), error))
    return found


def read(document: Document, shape: Shape, decode: Callable[[Document], T], what: str) -> T:
    """One decoded document. Raises MalformedDocument."""
    found = readable([document], shape, decode)
    if found.unreadable:
        raise MalformedDocument(f"{what} {found.unreadable[0].id!r} cannot be read: {found.unreadable[0].error}")
    return found[0]


def _why(raised: Exception) -> str:
    """The reason why the decoder refused a document, without the decoder's message, which may quote values."""
    if isinstance(raised, KeyError) and raised.args:
        return f"{raised.args[0]} is missing."
    return f"its fields have the right types, and no valid values ({type(raised).__name__})."


def _fit_document(document: Mapping[str, Any], shape: Shape, path: str, wrong: list[str]) -> Document:
    changed: Document | None = None
    for key, value in document.items():
        kind = shape.get(key)
        if kind is None:
            continue
        fitted = None if value is None else _fit(value, kind, f"{path}{key}", wrong)
        if fitted is None or fitted is not value:
            changed = dict(document) if changed is None else changed
            changed[key] = fitted
            if fitted is None:
                del changed[key]
    return document if changed is None else changed  # type: ignore[return-value]


def _fit(value: Any, kind: Any, path: str, wrong: list[str]) -> Any:
    """The value, or its substitute; None where there is none."""
    if isinstance(kind, Kind):
        return value if kind.fits(value) else _refuse(path, kind.words, value, wrong, kind.instead)
    if isinstance(kind, ListOf):
        return _fit_list(value, kind, path, wrong)
    if not isinstance(value, Mapping):
        return _refuse(path, "a document", value, wrong)
    return _fit_document(value, kind, f"{path}.", wrong)


def _fit_list(value: Any, kind: ListOf, path: str, wrong: list[str]) -> Any:
    if not isinstance(value, list | tuple):
        return _refuse(path, "a list", value, wrong)
    fitted = [_fit(one, kind.of, f"{path}[{place}]", wrong) for place, one in enumerate(value)]
    if all(one is not None and one is other for one, other in zip(fitted, value, strict=True)):
        return value
    return [one for one in fitted if one is not None]


def _refuse(path: str, words: str, value: Any, wrong: list[str], instead: Any = None) -> Any:
    wrong.append(f"{path} must be {words}, not {_type_of(value)}")
    return instead


_WORDS: Mapping[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    datetime: "a date",
    list: "a list",
    dict: "a document",
    bytes: "bytes",
}


def _type_of(value: Any) -> str:
    return next((words for kind, words in _WORDS.items() if isinstance(value, kind)), type(value).__name__)
