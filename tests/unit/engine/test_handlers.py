"""Handlers: how data becomes arguments, who gets the context, and what cannot be registered."""

from __future__ import annotations

import dataclasses
import functools
import sys
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import bson
import pytest
from pydantic import BaseModel, Field

import mainspring
import mainspring.sync
from mainspring import ConfigurationError, HandlerError, InvalidJob, JobContext, Retry, Scheduler
from mainspring.engine.handler import Handler, check_data
from mainspring.engine.handlers import Handlers
from mainspring.store.bounded_values import encode_data
from mainspring.store.connection import CODEC


def bind(function: Callable[..., Any], data: Mapping[str, Any]) -> dict[str, Any]:
    return Handler("x", function).bind(data)


def top_level(to: str) -> None: ...


class User(BaseModel):
    name: str
    age: int = 0


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Colour(Enum):
    RED = "red"


# -- binding -------------------------------------------------------------------------------------------------------


def test_data_is_bound_to_parameters_by_name() -> None:
    def handler(to: str, subject: str) -> None: ...

    assert bind(handler, {"subject": "hi", "to": "a@b.c"}) == {"subject": "hi", "to": "a@b.c"}


def test_a_missing_argument_is_refused_by_name() -> None:
    def handler(to: str, subject: str) -> None: ...

    with pytest.raises(InvalidJob, match="'x' lacks 'subject'; it takes 'to', 'subject'"):
        bind(handler, {"to": "a@b.c"})


def test_an_unknown_argument_is_refused_by_name() -> None:
    def handler(to: str) -> None: ...

    with pytest.raises(InvalidJob, match="'x' has no argument 'too'; it takes 'to'"):
        bind(handler, {"to": "a", "too": "b"})
    with pytest.raises(InvalidJob, match="'x' has no argument 'to'; it takes none"):
        bind(lambda: None, {"to": "a"})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, 5),
        (int, "five"),
        (int, 1.5),
        (bool, "maybe"),
        (list[int], ["a"]),
        (dict[str, int], {"a": "b"}),
        (Literal["a", "b"], "c"),
        (User, {"age": 5}),
        (Point, {"x": 1}),
        (uuid.UUID, "not one"),
        (datetime, "yesterday"),
        (Colour, "blue"),
        (Annotated[int, Field(gt=0)], -1),
        (int | None, "x"),
        (Decimal, "NaN-ish"),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused_by_name(annotation: Any, value: Any) -> None:
    def handler(a: Any) -> None: ...

    handler.__annotations__["a"] = annotation
    with pytest.raises(InvalidJob, match=r"The argument .a.* of 'x' is of the wrong type: "):
        bind(handler, {"a": value})


def test_a_refusal_says_where_inside_the_argument_the_fault_is() -> None:
    def handler(users: list[User]) -> None: ...

    with pytest.raises(InvalidJob, match=r"users\[1\]\['name'\]"):
        bind(handler, {"users": [{"name": "a"}, {"age": 1}]})


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (str, 5, "'a' of 'x' is of the wrong type: Input should be a valid string; a value of type int was given."),
        (list[str], ["b", None], "'a[1]' of 'x' is of the wrong type: Input should be a valid string; None was given."),
        (User, {"age": 5}, "Field required."),
    ],
)
def test_a_refusal_names_the_expected_and_the_given_type(annotation: Any, value: Any, told: str) -> None:
    def handler(a: Any) -> None: ...

    handler.__annotations__["a"] = annotation
    with pytest.raises(InvalidJob) as refused:
        bind(handler, {"a": value})
    assert str(refused.value).endswith(told)


def test_a_refusal_does_not_show_the_value() -> None:
    def handler(password: int) -> None: ...

    with pytest.raises(InvalidJob) as caught:
        bind(handler, {"password": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_a_parameter_with_a_default_may_be_left_out() -> None:
    def handler(to: str, subject: str = "hi", *, cc: list[str] | None = None) -> None: ...

    assert bind(handler, {"to": "a"}) == {"to": "a"}
    assert bind(handler, {"to": "a", "cc": ["b"]}) == {"to": "a", "cc": ["b"]}


def test_a_parameter_without_annotation_takes_anything() -> None:
    def handler(a, b: Any):  # type: ignore[no-untyped-def]
        ...

    value = object()
    assert bind(handler, {"a": value, "b": value}) == {"a": value, "b": value}


def test_keyword_arguments_take_whatever_is_not_a_parameter() -> None:
    def handler(to: str, **rest: Any) -> None: ...

    assert bind(handler, {"to": "a", "b": 1, "c": 2}) == {"to": "a", "b": 1, "c": 2}


def test_keyword_arguments_do_not_excuse_the_declared_parameters() -> None:
    def handler(to: str, count: int = 0, **rest: Any) -> None: ...

    with pytest.raises(InvalidJob, match="'x' lacks 'to'"):
        bind(handler, {"b": 1})
    with pytest.raises(InvalidJob, match="The argument 'count'"):
        bind(handler, {"to": "a", "count": "many"})


def test_keyword_arguments_beside_the_context_get_the_data() -> None:
    def handler(ctx: JobContext, **data: Any) -> None: ...

    assert bind(handler, {"a": 1, "b": 2}) == {"a": 1, "b": 2}


def test_a_handler_whose_only_parameter_is_the_context_takes_any_data() -> None:
    def handler(ctx: JobContext) -> None: ...

    assert bind(handler, {"a": 1}) == {}
    assert bind(handler, {}) == {}


def test_a_wrapper_that_takes_everything_is_a_handler_like_any_other() -> None:
    def handler(*args: Any, **rest: Any) -> None: ...

    assert bind(handler, {"a": 1}) == {"a": 1}


# -- what comes back from the database as what ----------------------------------------------------------------------


def _through_the_database(function: Callable[..., Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments after the data was checked, stored and read back."""
    handler = Handler("x", function)
    encoded = encode_data(check_data(handler, data), 1_000_000)
    stored: dict[str, Any] = bson.decode(bson.encode({"d": encoded}, codec_options=CODEC), CODEC)["d"]
    return handler.bind(stored)


INSTANT = datetime(2030, 1, 1, 12, tzinfo=UTC)
IDENTITY = uuid.UUID(int=7)


@pytest.mark.parametrize(
    ("annotation", "given", "received"),
    [
        (User, {"name": "a", "age": 5}, User(name="a", age=5)),
        (User, User(name="a", age=5), User(name="a", age=5)),
        (list[User], [User(name="a")], [User(name="a")]),
        (Point, Point(1, 2), Point(1, 2)),
        (Point, {"x": 1, "y": 2}, Point(1, 2)),
        (uuid.UUID, IDENTITY, IDENTITY),
        (uuid.UUID, str(IDENTITY), IDENTITY),
        (datetime, INSTANT, INSTANT),
        (datetime, INSTANT.isoformat(), INSTANT),
        (date, date(2030, 1, 1), date(2030, 1, 1)),
        (Decimal, Decimal("1.10"), Decimal("1.10")),
        (set[int], {1, 2}, {1, 2}),
        (tuple[int, str], (1, "a"), (1, "a")),
        (Colour, Colour.RED, Colour.RED),
        (bytes, b"\x00\xff", b"\x00\xff"),
        (int, 2**40, 2**40),
        (dict[str, Any], {"$set": {"a.b": 1}}, {"$set": {"a.b": 1}}),
        (dict[int, str], {1: "a"}, {1: "a"}),
    ],
)
def test_a_value_arrives_as_its_annotation_says(annotation: Any, given: Any, received: Any) -> None:
    def handler(a: Any) -> None: ...

    handler.__annotations__["a"] = annotation
    assert _through_the_database(handler, {"a": given}) == {"a": received}


def test_one_value_that_needs_a_detour_does_not_change_the_others() -> None:
    def handler(when: datetime, day: date, key: uuid.UUID) -> None: ...

    data = {"when": INSTANT, "day": date(2030, 1, 1), "key": IDENTITY}
    assert _through_the_database(handler, data) == data


class Unknown:
    """A class that pydantic knows nothing of."""


def test_a_class_that_pydantic_does_not_know_wants_an_instance() -> None:
    def handler(a: Unknown) -> None: ...

    instance = Unknown()
    assert bind(handler, {"a": instance}) == {"a": instance}
    with pytest.raises(InvalidJob, match="The argument 'a'"):
        bind(handler, {"a": {}})


# -- the context ----------------------------------------------------------------------------------------------------


def _by_annotation(context: JobContext, a: int) -> None: ...
def _by_blocking_annotation(context: mainspring.sync.JobContext, a: int) -> None: ...
def _by_name(ctx, a: int):  # type: ignore[no-untyped-def]
    ...


def _last(a: int, *, context: JobContext) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameter"),
    [(_by_annotation, "context"), (_by_blocking_annotation, "context"), (_by_name, "ctx"), (_last, "context")],
)
def test_the_context_goes_to_the_parameter_annotated_or_named_for_it(
    function: Callable[..., Any], parameter: str
) -> None:
    handler = Handler("x", function)
    assert handler.context_parameter == parameter
    assert handler.bind({"a": 1}) == {"a": 1}


def test_the_context_is_known_by_its_annotations_text_where_that_cannot_be_resolved() -> None:
    def handler(context: JobContext, a: int) -> None: ...

    handler.__annotations__.update(context="somewhere.JobContext", a="NoSuchType")
    made = Handler("x", handler)
    assert made.context_parameter == "context"
    assert made.bind({"a": "anything goes"}) == {"a": "anything goes"}


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated when a function is defined")
def test_annotations_that_are_imported_for_type_checkers_alone_are_taken_as_text() -> None:
    source = "def handler(context: JobContext, a: Decimal, b: list[Line], c: int) -> Decimal: ..."
    names: dict[str, Any] = {}
    exec(compile(source, "app.py", "exec", dont_inherit=True), names)
    made = Handler("x", names["handler"])
    assert made.context_parameter == "context"
    assert made.bind({"a": "anything", "b": 1, "c": "goes"}) == {"a": "anything", "b": 1, "c": "goes"}


def test_a_parameter_named_ctx_with_another_annotation_is_data() -> None:
    def handler(ctx: int) -> None: ...

    made = Handler("x", handler)
    assert made.context_parameter is None and made.bind({"ctx": 5}) == {"ctx": 5}


def test_an_optional_context_is_a_context() -> None:
    def handler(a: int, ctx: JobContext | None = None) -> None: ...

    assert Handler("x", handler).context_parameter == "ctx"


# -- kinds of handlers ----------------------------------------------------------------------------------------------


class Callee:
    async def __call__(self, ctx: JobContext, a: int) -> None: ...

    def method(self, a: int) -> None: ...


def test_objects_methods_and_partial_functions_can_be_handlers() -> None:
    callee = Handler("x", Callee())
    assert callee.is_async and callee.context_parameter == "ctx" and callee.bind({"a": 1}) == {"a": 1}
    method = Handler("x", Callee().method)
    assert not method.is_async and method.bind({"a": 1}) == {"a": 1}

    async def handler(a: int, b: int) -> None: ...

    partial = Handler("x", functools.partial(handler, a=1))
    assert partial.is_async and partial.bind({"b": 2}) == {"b": 2}


def test_a_wrapped_function_is_seen_through() -> None:
    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @decorated
    async def handler(ctx: JobContext, a: int) -> None: ...

    made = Handler("x", handler)
    assert made.is_async and made.context_parameter == "ctx"
    with pytest.raises(InvalidJob):
        made.bind({"b": 1})


# -- registering ----------------------------------------------------------------------------------------------------


@pytest.fixture
def offline() -> Scheduler:
    """A scheduler that connects to nothing."""
    return Scheduler("mongodb://127.0.0.1:1/x")


def test_a_positional_only_parameter_is_refused_with_its_cure(offline: Scheduler) -> None:
    with pytest.raises(HandlerError, match="must take 'to' by name; remove the '/' from its signature"):

        @offline.job("x")
        def handler(to: str, /) -> None: ...


def test_two_handlers_of_one_name_are_refused(offline: Scheduler) -> None:
    @offline.job("x")
    def one() -> None: ...

    with pytest.raises(HandlerError, match=r"Two handlers are registered for 'x': .*one and .*two\. Give one of them"):

        @offline.job("x")
        def two() -> None: ...


def test_registering_the_same_function_again_is_no_conflict(offline: Scheduler) -> None:
    offline.job("x")(top_level)
    offline.job("x")(top_level)


def test_a_local_function_cannot_run_in_a_process_of_its_own(offline: Scheduler) -> None:
    with pytest.raises(HandlerError, match="cannot run in a process of its own: define it at the top level"):

        @offline.job("x", isolation="process")
        def local() -> None: ...

    with pytest.raises(HandlerError, match="top level of a module"):
        offline.job("y", isolation="process")(lambda: None)
    offline.job("z", isolation="process")(top_level)


def test_an_async_function_is_not_for_threads(offline: Scheduler) -> None:
    with pytest.raises(HandlerError, match="is an async function and runs on the event loop; leave isolation out"):

        @offline.job("x", isolation="thread")
        async def handler() -> None: ...


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"isolation": "container"}, "isolation must be one of auto, thread, process, not 'container'"),
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"timeout": "1"}, "timeout='1' lacks a unit"),
        ({"priority": 11}, "priority must be a whole number"),
        ({"retry": "often"}, "retry must be a Retry"),
        ({"queue": ""}, "a queue's name must be printable"),
        ({"queue": 5}, "a queue's name must be printable"),
    ],
)
def test_wrong_options_are_refused_when_registering(offline: Scheduler, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        offline.job("x", **options)(top_level)


def test_the_decorator_wants_to_be_called(offline: Scheduler) -> None:
    with pytest.raises(ConfigurationError, match=r'Write @scheduler\.job\("name"\), or @scheduler\.job\(\)'):

        @offline.job  # type: ignore[arg-type]
        def handler() -> None: ...


def test_a_function_without_a_name_given_is_registered_under_its_own(offline: Scheduler) -> None:
    offline.job()(top_level)
    with pytest.raises(HandlerError, match="Two handlers are registered for 'top_level'"):
        offline.job("top_level")(lambda: None)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(HandlerError, match="must be a function, not 5"):
        Handler("x", 5)  # type: ignore[arg-type]
    with pytest.raises(HandlerError, match="must be a function, not 5"):
        Scheduler("mongodb://127.0.0.1:1/x", handler=5)  # type: ignore[arg-type]


def test_a_registered_function_stays_callable_as_it_is(offline: Scheduler) -> None:
    @offline.job("x", retry=Retry(attempts=1), timeout=5, queue="q", priority=1)
    def handler(a: int) -> int:
        return a + 1

    assert handler(1) == 2


def test_the_catch_all_takes_every_name_that_has_no_handler_of_its_own() -> None:
    handlers = Handlers()
    own, catch_all = Handler("x", top_level), Handler("*", top_level)
    handlers.add(own)
    assert handlers.get("y") is None and handlers.names == ["x"] and len(handlers) == 1
    handlers.catch_all = catch_all
    assert handlers.get("x") is own and handlers.get("y") is catch_all
    assert handlers.own("y") is None and handlers.names is None and len(handlers) == 2


@pytest.mark.parametrize("data", [[1], "text", 5])
def test_data_that_is_no_mapping_is_refused(data: Any) -> None:
    with pytest.raises(InvalidJob, match="data must be a mapping of argument names to values, not "):
        check_data(Handler("x", top_level), data)
