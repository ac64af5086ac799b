"""Documents that another program may have written: values of every BSON type in every field of a good document."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import bson
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD, tz_aware=True)
Document = dict[str, Any]
Path = tuple[str | int, ...]


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "negative": -1,
    "large": Int64(2**63 - 1),
    "fraction": 1.5,
    "nan": float("nan"),
    "infinity": float("inf"),
    "empty text": "",
    "text": "hostile",
    "long text": "x" * 100_000,
    "broken text": "BROKEN_UTF8_HERE",
    "control characters": "\x1b]8;;\x07\r\n\u202e",
    "bytes": b"\x00\xff",
    "binary": Binary(b"\x01", 128),
    "empty list": [],
    "list": [1, "a", None, {"b": [2]}],
    "list of lists": [[[]]],
    "empty document": {},
    "document": {"a": 1, "": 2, "$x": 3, "b.c": 4},
    "deep": _deep(60),
    "reference": {"$ref": "jobs", "$id": 1},
    "date": datetime(2030, 1, 1, tzinfo=UTC),
    "first date": DatetimeMS(-(2**63)),
    "last date": DatetimeMS(2**63 - 1),
    "id": ObjectId("0123456789abcdef01234567"),
    "regex": Regex("^(a+)+$", "i"),
    "code": Code("function() { return 1 }"),
    "code with scope": Code("1", {"x": 1}),
    "decimal": Decimal128("1E+6000"),
    "decimal nan": Decimal128("NaN"),
    "least": MinKey(),
    "greatest": MaxKey(),
    "timestamp": Timestamp(1, 1),
    "uuid": UUID(int=7),
}


def paths_in(value: Any, before: Path = (), levels: int = 3) -> Iterator[Path]:
    """The places of all values in a document, its own id excepted; of a list, those in its first entry."""
    entries: Any = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, one in entries:
        if before or key != "_id":
            yield (*before, key)
            if levels > 1:
                yield from paths_in(one, (*before, key), levels - 1)


def with_value(document: Document, path: Path, value: Any) -> Document:
    """A copy with another value in one place."""
    copy = deepcopy(document)
    place: Any = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


def spread(document: Document, turn: int) -> Iterator[tuple[str, Document]]:
    """For each place in a document, a copy with one of the hostile values there; each turn pairs them otherwise."""
    names = list(VALUES)
    for number, path in enumerate(paths_in(document)):
        name = names[(number * 7 + turn) % len(names)]
        yield f"{'.'.join(map(str, path))}={name}", with_value(document, path, VALUES[name])


def every(document: Document) -> Iterator[tuple[str, Document]]:
    """Each hostile value in each place."""
    for path in paths_in(document):
        for name, value in VALUES.items():
            yield f"{'.'.join(map(str, path))}={name}", with_value(document, path, value)


def raw(document: Document) -> RawBSONDocument:
    """The document as bytes, with text that is no UTF-8 where that was asked for."""
    encoded = bson.encode(document, codec_options=_CODEC)
    return RawBSONDocument(encoded.replace(b"BROKEN_UTF8_HERE", b"\xed\xa0\x80\xffROKEN_UTF8_H"))
