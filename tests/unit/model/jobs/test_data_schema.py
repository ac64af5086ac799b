"""The check of data against a handler's schema refuses what the handler would refuse, and nothing else."""

from __future__ import annotations

import enum
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mainspring.engine.handler import Handler
from mainspring.errors import BadArguments
from mainspring.model.jobs.data_schema import find_misfit
from mainspring.model.jobs.handler_status import MAX_SCHEMA, schema_in


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    sku: str = Field(min_length=2)
    count: int = Field(ge=1, le=10)
    note: str | None = None


class Named(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    from_: str = Field(alias="from")


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Opaque:
    pass


def split(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


def plain(amount: int, who: str, rate: float = 1.5, urgent: bool = False, when: datetime | None = None) -> None:
    """Charge a card.

    More about it.
    """


def nested(lines: list[Line], colour: Colour = Colour.RED, kind: Literal["a", "b"] = "a") -> None: ...


def odd(words: Annotated[list[str], BeforeValidator(split)], named: Named | None = None) -> None: ...


def rich(id: UUID, day: date, price: Decimal, pair: tuple[int, str], tags: set[str], table: dict[str, int]) -> None: ...


def tree(root: Tree) -> None: ...


def opaque(thing: Opaque, anything, other: Any = None) -> None: ...  # type: ignore[no-untyped-def]


def others(known: int, **rest: Any) -> None: ...


HANDLERS = {one.__name__: Handler(one.__name__, one) for one in (plain, nested, odd, rich, tree, opaque, others)}


def schema(name: str) -> Any:
    found = schema_in(HANDLERS[name].description.to_document())
    assert found is not None
    return found


def test_a_handler_is_described_by_its_docstring_and_its_parameters() -> None:
    assert HANDLERS["plain"].description.description == "Charge a card."
    found = schema("plain")
    assert list(found["properties"]) == ["amount", "who", "rate", "urgent", "when"]
    assert (found["required"], found["additionalProperties"]) == (["amount", "who"], False)
    assert (found["properties"]["amount"]["type"], found["properties"]["rate"]["default"]) == ("integer", 1.5)
    assert schema("others")["additionalProperties"] is True


def test_a_schema_that_is_too_long_is_left_out() -> None:
    fields: dict[str, Any] = {f"field_{n}": (Literal[f"{n:0100}"], ...) for n in range(MAX_SCHEMA // 100)}
    wide = type("Wide", (BaseModel,), {"__annotations__": {name: kind for name, (kind, _) in fields.items()}})

    def handler(wide: wide) -> None: ...  # type: ignore[valid-type]

    handler.__annotations__["wide"] = wide
    assert Handler("wide", handler).description.schema is None


@pytest.mark.parametrize(
    ("name", "data", "field"),
    [
        ("plain", {"who": "x"}, "data.amount"),
        ("plain", {"amount": "many", "who": "x"}, "data.amount"),
        ("plain", {"amount": 1.5, "who": "x"}, "data.amount"),
        ("plain", {"amount": 1, "who": 5}, "data.who"),
        ("plain", {"amount": 1, "who": "x", "extra": 1}, "data.extra"),
        ("plain", {"amount": 1, "who": "x", "urgent": "maybe"}, "data.urgent"),
        ("nested", {"lines": [{"sku": "ab", "count": 1}, {"sku": "ab", "count": 11}]}, "data.lines[1].count"),
        ("nested", {"lines": [{"sku": "a", "count": 1}]}, "data.lines[0].sku"),
        ("nested", {"lines": {}}, "data.lines"),
        ("nested", {"lines": [], "colour": "green"}, "data.colour"),
        ("nested", {"lines": [], "kind": "c"}, "data.kind"),
        ("tree", {"root": {"name": "a", "children": [{"name": "b", "children": [{}]}]}},
         "data.root.children[0].children[0].name"),
        ("others", {}, "data.known"),
    ],
)  # fmt: skip
def test_data_that_the_handler_would_refuse_is_refused_with_its_place(name: str, data: Any, field: str) -> None:
    misfit = find_misfit(schema(name), data)
    assert misfit is not None and misfit.field == field
    with pytest.raises(BadArguments):
        HANDLERS[name].bind(data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("plain", {"amount": "5", "who": "x", "urgent": "yes", "rate": "2.5", "when": "2026-01-01T00:00:00Z"}),
        ("plain", {"amount": 5.0, "who": "x", "when": 1700000000}),
        ("plain", {"amount": 2**70, "who": "x", "when": None}),
        ("nested", {"lines": [{"sku": "ab", "count": "3", "more": 1}], "colour": "blue"}),
        ("odd", {"words": "a,b"}),
        ("odd", {"words": ["a"], "named": {"from_": "x"}}),
        ("rich", {"id": "6f1f3a44-4d1c-4f0e-9a34-0a7a3f6f4b11", "day": "2026-01-01", "price": "1.10",
                  "pair": [1, "x"], "tags": ["a", "a"], "table": {"a": 1}}),
        ("tree", {"root": {"name": "a", "children": [{"name": "b"}]}}),
        ("others", {"known": 1, "more": [1]}),
    ],
)  # fmt: skip
def test_data_that_the_handler_takes_is_taken(name: str, data: Any) -> None:
    HANDLERS[name].bind(data)
    assert find_misfit(schema(name), data) is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-20, 20)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "1", "x", "red"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["sku", "count", "name", "children"]), inner)
    ),
    max_leaves=8,
)


@given(name=st.sampled_from(["plain", "nested", "odd", "rich", "tree", "opaque", "others"]), data=st.data())
def test_nothing_that_a_handler_takes_is_ever_refused(name: str, data: st.DataObject) -> None:
    arguments = HANDLERS[name].argument_names
    given = data.draw(st.dictionaries(st.sampled_from([*arguments, "extra"]), JSON))
    try:
        HANDLERS[name].bind(given)
    except Exception:
        return
    assert find_misfit(schema(name), given) is None, given


@pytest.mark.parametrize(
    "broken", [{}, {"type": 5}, {"properties": 3, "type": "object"}, {"anyOf": []}, {"$ref": "#/x"}]
)
def test_a_schema_that_another_program_has_written_refuses_nothing_it_does_not_say(broken: Any) -> None:
    assert find_misfit(broken, {"a": 1}) is None


def test_a_schema_that_refers_to_itself_ends() -> None:
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}}
    assert find_misfit(loop, {}) is None
    assert json.dumps(loop)
