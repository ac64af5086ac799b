"""Data that is accepted is what the handler receives: kinds of values, under annotations and without."""

from __future__ import annotations

import enum
import io
from collections import OrderedDict, UserDict, deque, namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import bson
import pytest
from bson import ObjectId
from pydantic import BaseModel, SecretStr

from mainspring.engine.handler import Handler, check_data, check_part
from mainspring.errors import InvalidJob
from mainspring.store.bounded_values import encode_data
from mainspring.store.connection import CODEC

LIMIT = 100_000
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
PARIS = timezone(timedelta(hours=2))
Pair = namedtuple("Pair", "a b")


class Colour(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    LARGE = 3


class Word(enum.StrEnum):
    YES = "yes"


@dataclass
class Point:
    x: int
    y: float


class Order(BaseModel):
    number: int
    at: datetime
    price: Decimal


class Login(BaseModel):
    password: SecretStr


class Base(BaseModel):
    a: int


class Derived(Base):
    b: int


def handler_of(annotation: Any) -> Handler:
    def handle(value: Any) -> None: ...

    handle.__annotations__ = {"value": annotation, "return": None}
    return Handler("handle", handle)


def untyped(value) -> None:  # type: ignore[no-untyped-def]
    """A handler without annotations."""


UNTYPED = Handler("untyped", untyped)


def received(handler: Handler, data: Mapping[str, Any]) -> Any:
    """What a handler receives of data that was accepted: checked, encoded, decoded, bound."""
    stored = bson.decode(bson.encode(encode_data(check_data(handler, data), LIMIT)), CODEC)
    return handler.bind(stored)["value"]


# -- what can be read only once ------------------------------------------------------------------------------------

READ_ONCE: dict[str, Callable[[], Any]] = {
    "map": lambda: map(str, [1, 2]),
    "filter": lambda: filter(None, [1, 2]),
    "generator": lambda: (str(one) for one in [1, 2]),
    "iterator": lambda: iter(["a", "b"]),
    "dictionary iterator": lambda: iter({"a": 1}),
    "zip": lambda: zip("ab", "cd", strict=True),
    "enumerate": lambda: enumerate("ab"),
    "reversed": lambda: reversed(["a", "b"]),
    "open file": lambda: io.StringIO("a\nb"),
}


@pytest.mark.parametrize(
    "handler", [handler_of(list[Any]), handler_of(Any), UNTYPED, None], ids=["list", "any", "untyped", "unknown"]
)
@pytest.mark.parametrize("kind", READ_ONCE)
def test_an_iterator_in_data_is_refused_before_it_is_read(kind: str, handler: Handler | None) -> None:
    value = READ_ONCE[kind]()
    with pytest.raises(InvalidJob, match=r"data\['value'\] is of type \w+, which can be read only once; pass list"):
        check_data(handler, {"value": value})
    assert next(value) is not None  # nothing of it was used up


def test_an_iterator_inside_other_values_is_refused_with_its_path() -> None:
    with pytest.raises(InvalidJob, match=r"data\['value'\]\[1\]\['rows'\] is of type map"):
        check_data(UNTYPED, {"value": [1, {"rows": map(str, [1])}]})


# -- what BSON holds ------------------------------------------------------------------------------------------------

EXACT: dict[str, Any] = {
    "text": "häß\0lich",
    "whole number": 2**63 - 1,
    "fraction": 0.1,
    "infinity": float("inf"),
    "bytes": b"\x00\xff",
    "UUID": UUID(int=7),
    "id": ObjectId(),
    "instant": NOON,
    "instant elsewhere": NOON.astimezone(PARIS),
    "list": [1, [2, {"a": None}]],
    "document": {"a b": {"$c.d": 1}, "": 2},
    "ordered mapping": OrderedDict(a=1),
    "read-only mapping": MappingProxyType({"a": {"b": 1}}),
    "mapping of another kind": UserDict(a=1),
    "enum of numbers": Size.LARGE,
    "enum of texts": Word.YES,
}


@pytest.mark.parametrize("kind", EXACT)
def test_what_bson_holds_arrives_equal_without_annotation(kind: str) -> None:
    assert received(UNTYPED, {"value": EXACT[kind]}) == EXACT[kind]


def test_not_a_number_arrives_as_such() -> None:
    arrived = received(UNTYPED, {"value": [float("nan")]})
    assert arrived[0] != arrived[0]


def test_an_instant_arrives_in_milliseconds() -> None:
    assert received(UNTYPED, {"value": [NOON + timedelta(microseconds=1999)]}) == [NOON + timedelta(milliseconds=1)]


# -- what has another form in the database --------------------------------------------------------------------------

OTHER: dict[str, tuple[Any, Any]] = {
    "set": ({1, 2}, set[int]),
    "frozenset": (frozenset("ab"), frozenset[str]),
    "tuple": ((1, "a"), tuple[int, str]),
    "tuple for a list": ((1, 2), list[int]),
    "tuple with not a number": ((1.0, float("nan")), tuple[float, float]),
    "tuple with microseconds": ((NOON + timedelta(microseconds=1),), tuple[datetime]),
    "named tuple": (Pair(1, 2), tuple[int, int]),
    "deque": (deque([1]), deque[int]),
    "range for a list": (range(3), list[int]),
    "keys for a list": ({"a": 1}.keys(), list[str]),
    "values for a list": ({"a": 1}.values(), list[int]),
    "items for a list": ({"a": 1}.items(), list[tuple[str, int]]),
    "decimal": (Decimal("1.20"), Decimal),
    "decimals": ([Decimal("1.20")], list[Decimal]),
    "date": (date(2026, 5, 4), date),
    "time": (time(1, 2), time),
    "timedelta": (timedelta(seconds=90), timedelta),
    "naive instant": (datetime(2026, 5, 4, 12, 0, 0, 1), datetime),
    "path": (Path("a/b"), Path),
    "enum": (Colour.RED, Colour),
    "dataclass": (Point(1, 2.5), Point),
    "model": (Order(number=1, at=NOON + timedelta(microseconds=1), price=Decimal("2.50")), Order),
    "models by name": ({"a": Base(a=1)}, dict[str, Base]),
    "numbers as keys": ({1: "a"}, dict[int, str]),
}


@pytest.mark.parametrize("kind", OTHER)
def test_other_values_arrive_equal_under_the_annotation(kind: str) -> None:
    value, annotation = OTHER[kind]
    arrived = received(handler_of(annotation), {"value": value})
    if "microseconds" in kind:
        assert arrived == (NOON,)
    elif "not a number" in kind:
        assert arrived[0] == 1.0 and arrived[1] != arrived[1]
    else:
        assert arrived == value or list(arrived) == list(value)


@pytest.mark.parametrize("handler", [UNTYPED, handler_of(Any), None], ids=["untyped", "any", "unknown here"])
@pytest.mark.parametrize("kind", OTHER)
def test_other_values_are_refused_where_no_annotation_turns_them_back(kind: str, handler: Handler | None) -> None:
    with pytest.raises(InvalidJob, match=r"data\['value'\].* is stored as .* annotate the argument 'value'"):
        check_data(handler, {"value": OTHER[kind][0]})


LOSSY: dict[str, tuple[Any, Any]] = {
    "decimal for text": (Decimal("1.2"), str),
    "decimal for anything in a list": ([Decimal("1.2")], list),
    "set for anything in a document": ({"a": {1}}, dict),
    "fields that the annotation lacks": (Derived(a=1, b=2), Base),
    "masked secret": (Login(password=SecretStr("hunter2")), Login),
}


@pytest.mark.parametrize("kind", LOSSY)
def test_a_value_that_would_arrive_as_another_is_refused(kind: str) -> None:
    value, annotation = LOSSY[kind]
    with pytest.raises(InvalidJob, match="is stored as"):
        check_data(handler_of(annotation), {"value": value})


REFUSED: dict[str, tuple[Any, str]] = {
    "huge number": (2**63, r"data\['value'\] is a whole number of more than 64 bits"),
    "object": ([object()], r"data\['value'\]\[0\] is of type object, which cannot be stored"),
    "function": (lambda: None, r"data\['value'\] is of type function"),
    "bytes that are no text": (bytearray(b"\xff"), r"data\['value'\] is of type bytearray, which cannot be stored"),
    "lone surrogate": ({"a": "\ud800"}, r"data\['value'\]\['a'\] has a lone surrogate"),
    "keys that become one": ({1: "a", "1": "b"}, r"data\['value'\] has two keys that are both stored as '1'"),
    "null character in a key": ({"a\0": 1}, r"data\['value'\] has a key with a null character"),
    "key that is no text": ({(1, object()): 1}, r"data\['value'\] has a key of type tuple"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_stored_is_refused_with_its_path(kind: str) -> None:
    value, message = REFUSED[kind]
    with pytest.raises(InvalidJob, match=message):
        check_data(UNTYPED, {"value": value})


def test_data_inside_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(InvalidJob, match="nested deeper than 100 levels"):
        check_data(UNTYPED, {"value": circle})


def test_an_argument_with_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidJob, match="must have texts as argument names, not int"):
        check_data(None, {1: 2})


def test_one_value_with_another_form_leaves_its_neighbours_as_they_are() -> None:
    def pay(price: Decimal, at, raw) -> None: ...  # type: ignore[no-untyped-def]

    assert check_data(Handler("pay", pay), {"price": Decimal("1"), "at": NOON, "raw": b"\xff"}) == {
        "price": "1",
        "at": NOON,
        "raw": b"\xff",
    }


def test_what_the_caller_changes_later_does_not_change_the_data() -> None:
    given: dict[str, Any] = {"a": 1, "b": [1]}
    for data in (given, {"a": 1}):
        accepted = check_data(None, data)
        data["a"] = 2
        assert accepted["a"] == 1
    assert accepted == {"a": 1}


def test_data_for_an_older_version_has_no_annotations_to_count_on() -> None:
    def handle(value: Decimal) -> None: ...

    handler = Handler("handle", handle, version=2, upgrade={1: dict})
    assert check_data(handler, {"value": Decimal("1")}, 2) == {"value": "1"}
    for version in (1, 3):
        with pytest.raises(InvalidJob, match="is stored as text"):
            check_data(handler, {"value": Decimal("1")}, version)


def test_a_part_of_the_data_is_checked_by_itself() -> None:
    assert check_part(handler_of(Decimal), {"value": Decimal("1")}) == {"value": "1"}
    with pytest.raises(InvalidJob, match="is stored as text"):
        check_part(None, {"value": Decimal("1")})
