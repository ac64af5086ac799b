"""One handler: its function, its options, and how a job's data becomes its arguments.

Data is bound to parameters by name and checked against their annotations with pydantic, by the same rule when a job is
scheduled (where its handler is known) and when it is run. A parameter annotated `JobContext`, or named `ctx` without
annotation, gets the context. A handler whose only parameter is the context takes any data.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from mainspring.config.settings import check_name
from mainspring.errors import BadArguments, ConfigurationError, HandlerError, InvalidJob, Signal
from mainspring.model.fields import Fields
from mainspring.model.jobs.declared_defaults import JobDefaults
from mainspring.model.jobs.guarantee import check_one_attempt, most_attempts
from mainspring.model.jobs.handler_status import HandlerDescription
from mainspring.model.jobs.job import DEFAULT_PRIORITY, DEFAULT_QUEUE
from mainspring.model.jobs.payload_versions import (
    FIRST_VERSION,
    PayloadUpgradeFailed,
    Upgrade,
    check_upgrades,
    upgraded,
)
from mainspring.model.jobs.retry import Retry
from mainspring.model.limits.limits import JobLimits
from mainspring.model.privacy.encrypted_values import Encrypt, refuse_keys
from mainspring.spelling import suggestion
from mainspring.store.bounded_values import PlainData, plain_data, same

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Isolation = Literal["auto", "thread", "process"]
ISOLATIONS: tuple[Isolation, ...] = get_args(Isolation)
_SIMPLE: dict[Any, type | tuple[type, ...]] = {str: str, dict: dict, list: list, bytes: bytes}


class HandlerFunction:
    """An object that replaces a handler's function, under the name that the function has in its module."""

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __reduce__(self) -> str:
        return self.__qualname__  # pickled by its name, as functions are


class ContextMarker:
    """The base class of `JobContext`, by which the registry recognises it among the annotations."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a handler; without an `adapter` it takes any value."""

    name: str
    required: bool
    annotation: Any
    adapter: TypeAdapter[Any] | None
    default: Any = None


class Handler:
    """A function that runs the jobs of one name, with its own defaults."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        retry: Retry | None = None,
        guarantee: str | None = None,
        timeout: float | None = None,
        isolation: str = "auto",
        queue: str | None = None,
        priority: int | None = None,
        allowance: JobLimits = JobLimits(),  # noqa: B008 - a frozen value
        version: int = FIRST_VERSION,
        upgrade: Mapping[int, Upgrade] | None = None,
        encrypt: Encrypt | None = None,
        redact: tuple[str, ...] = (),
    ) -> None:
        if not callable(function):
            raise HandlerError(f"The handler of {name!r} must be a function, not {function!r}.")
        _refuse_generator(name, function)
        if isolation not in ISOLATIONS:
            raise HandlerError(f"isolation must be one of {', '.join(ISOLATIONS)}, not {isolation!r}.")
        self.name = check_name(name, "a job's name")
        self.function = function
        self.retry = retry
        self.guarantee = guarantee
        if retry is not None:
            check_one_attempt(guarantee, most_attempts(retry))
        self.timeout = timeout
        self.queue = None if queue is None else check_name(queue, "a queue's name")
        self.defaults = JobDefaults(self.queue or DEFAULT_QUEUE, priority or DEFAULT_PRIORITY, guarantee, encrypt)
        self.allowance = allowance
        self.encrypt = encrypt
        self.redact = redact
        refuse_keys(encrypt, allowance.paths, f"A limit, a sequence or the fairness of {name!r}")
        self.version, self._upgrades = check_upgrades(name, version, upgrade)
        self.is_async = inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__
        )
        if isolation == "thread" and self.is_async:
            raise HandlerError(f"{name!r} is an async function and runs on the event loop; leave isolation out.")
        self.isolation = isolation
        self.importable = _importable(function)
        if isolation == "process" and not self.importable:
            raise HandlerError(
                f"{name!r} cannot run in a process of its own: define it at the top level of a module, "
                "so that the other process can import it."
            )
        self.context_parameter, self.parameters, self._takes_any = _read_signature(name, function)
        self._ignores_data = self.context_parameter is not None and not self.parameters and not self._takes_any
        self._by_name = {parameter.name: parameter for parameter in self.parameters}
        self._description: HandlerDescription | None = None
        self._check_keys()

    def _check_keys(self) -> None:
        """Refuse a limit by a value that no job of this handler can have: it would be one limit for all of them."""
        if self._takes_any or self._ignores_data:
            return
        for path in self.allowance.paths:
            first = path.partition(".")[0]
            if first not in self._by_name:
                hint = suggestion(first, sorted(self._by_name)) if self._by_name else " It takes no arguments."
                raise HandlerError(
                    f"A limit, a sequence, fair or a breaker of {self.name!r} uses {path!r} in the data, but its "
                    f"handler has no argument {first!r}.{hint}"
                )

    @property
    def takes_other_data(self) -> bool:
        """Whether it takes data that it has no parameter for."""
        return self._takes_any or self._ignores_data

    @property
    def description(self) -> HandlerDescription:
        """Its description for the registry, made once."""
        if self._description is None:
            from mainspring.engine.handler_schemas import describe_handler  # imports pydantic, as below

            self._description = describe_handler(self)
        return self._description

    @property
    def argument_names(self) -> list[str]:
        """The names of the arguments that data is bound to."""
        return list(self._by_name)

    def bind(self, data: Mapping[str, Any], later: Container[str] = ()) -> Fields:
        """The data as arguments by name. BadArguments names an argument that is missing, unknown or of a wrong type.
        The values of the arguments in `later` are not known yet, so that their types are not checked."""
        if self._ignores_data:
            return {}
        arguments: Fields = {}
        for name, value in data.items():
            parameter = self._by_name.get(name)
            if parameter is None and not self._takes_any:
                raise BadArguments(f"{self.name!r} has no argument {name!r}; it takes {self._takes()}.")
            plain = parameter is None or parameter.adapter is None or name in later
            arguments[name] = value if plain else self._convert(parameter, value)
        if len(arguments) < len(self.parameters) or self._takes_any:
            self._check_missing(arguments)
        return arguments

    def restores(self, name: str, given: Any, stored: Any) -> bool:
        """Whether an argument that is stored in another form arrives equal to the given value."""
        parameter = self._by_name.get(name)
        if parameter is None or parameter.adapter is None:
            return False
        try:
            received = parameter.adapter.validate_python(stored)
            return same(received, given) or same(received, parameter.adapter.validate_python(given))
        except Exception:
            return False  # values that the annotation does not take, or that cannot be compared

    def upgrade(self, data: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        """Data that was written for an earlier version, upgraded to this handler's; other data unchanged."""
        return data if version >= self.version else upgraded(self.name, data, version, self.version, self._upgrades)

    def _convert(self, parameter: Parameter | None, value: Any) -> Any:
        assert parameter is not None and parameter.adapter is not None
        simple = _SIMPLE.get(parameter.annotation)
        if simple is not None and type(value) is simple:
            return value
        from pydantic import ValidationError

        try:
            return parameter.adapter.validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            where = "".join(f"[{step!r}]" for step in first["loc"])
            raise BadArguments(
                f"The argument {parameter.name + where!r} of {self.name!r} is of the wrong type: {first['msg']}"
                f"{_given(first)}."
            ) from None

    def _check_missing(self, arguments: Mapping[str, Any]) -> None:
        missing = [p.name for p in self.parameters if p.required and p.name not in arguments]
        if missing:
            raise BadArguments(f"{self.name!r} lacks {', '.join(map(repr, missing))}; it takes {self._takes()}.")

    def _takes(self) -> str:
        return ", ".join(repr(parameter.name) for parameter in self.parameters) or "none"


def _given(error: Any) -> str:
    """The type of the value that pydantic refuses. The value itself may be a secret, and the text is stored and logged;
    of a missing field, the value is that of what surrounds it."""
    if error["type"] == "missing":
        return ""
    value = error["input"]
    return "; None was given" if value is None else f"; a value of type {type(value).__name__} was given"


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, if an object replaces it."""
    return function.function if isinstance(function, HandlerFunction) else function


def published(function: Callable[..., Any]) -> Callable[..., Any]:
    """The object that another process finds under a function's name: the function, or the object that replaces it."""
    module = sys.modules.get(function.__module__)
    found = getattr(module, function.__qualname__, None)
    return found if isinstance(found, HandlerFunction) and found.function is function else function  # type: ignore[return-value]


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a handler. Annotations that cannot be resolved, such as those of types that are imported for
    type checkers alone, are text. Python 3.14 evaluates annotations when they are read, and not when the function is
    defined, so that reading them as values fails here."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        try:
            return inspect.signature(function)
        except (TypeError, ValueError):
            raise  # it has none
        except Exception:
            return inspect.signature(function, annotation_format=Format.STRING)
    return inspect.signature(function)


def _read_signature(name: str, function: Callable[..., Any]) -> tuple[str | None, list[Parameter], bool]:
    """The name of the context's parameter, the parameters for data, and whether there is a `**` for other data."""
    try:
        signature = signature_of(function)
    except (TypeError, ValueError) as error:
        raise HandlerError(f"The signature of {name!r} cannot be read; wrap it in a function.") from error
    hints = _hints(function)
    context: str | None = None
    parameters: list[Parameter] = []
    takes_any = False
    unnamed: str | None = None
    for parameter in signature.parameters.values():
        annotation = hints.get(parameter.name, parameter.annotation)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise HandlerError(f"{name!r} must take {parameter.name!r} by name; remove the '/' from its signature.")
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
        elif parameter.kind is parameter.VAR_POSITIONAL:
            unnamed = parameter.name
        elif _is_context(parameter, annotation):
            context = parameter.name
        else:
            required = parameter.default is parameter.empty
            default = None if required else parameter.default
            adapter = _adapter(parameter, annotation)
            parameters.append(Parameter(parameter.name, required, annotation, adapter, default))
    if unnamed is not None and not takes_any:  # a function with both is a wrapper around another one
        raise HandlerError(
            f"{name!r} has *{unnamed}, but a job passes its data as keyword arguments; name them, or take **{unnamed} "
            "for those without a parameter of their own."
        )
    return context, parameters, takes_any


def _is_context(parameter: inspect.Parameter, annotation: Any) -> bool:
    if any(isinstance(kind, type) and issubclass(kind, ContextMarker) for kind in (annotation, *get_args(annotation))):
        return True
    if isinstance(annotation, str) and annotation.rpartition(".")[2] == "JobContext":
        return True
    return annotation is parameter.empty and parameter.name == "ctx"


def _adapter(parameter: inspect.Parameter, annotation: Any) -> TypeAdapter[Any] | None:
    if annotation is parameter.empty or annotation is Any or isinstance(annotation, str):
        return None
    # A program without annotated handlers, such as one that only stores jobs, need not import pydantic.
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter
    from pydantic.errors import PydanticSchemaGenerationError

    try:
        return TypeAdapter(annotation)
    except (PydanticSchemaGenerationError, PydanticUserError):
        # pydantic does not know this class: the value must be an instance of it.
        return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))


def _hints(function: Callable[..., Any]) -> Fields:
    target: Any = function
    if not inspect.isroutine(function):
        target = vars(type(function)).get("__call__", function)  # a callable object
    try:
        return typing.get_type_hints(inspect.unwrap(target), include_extras=True)
    except Exception:
        return {}  # annotations that cannot be resolved here check nothing


def refuse_coroutine(result: Any) -> None:
    """Refuse an awaitable that a plain function returned and did not await: the work has not been done."""
    if inspect.iscoroutine(result):
        result.close()  # so that Python does not warn that it was never awaited
        raise HandlerError(
            "The handler is a plain function and returned a coroutine, which was never awaited; make the handler an "
            "async function that awaits it."
        )


def _refuse_generator(name: str, function: Callable[..., Any]) -> None:
    """Refuse a generator function: calling it runs none of its code, so that its jobs would complete undone."""
    for one in (function, getattr(function, "__call__", None)):  # noqa: B004 - an object may be called, too
        if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
            raise HandlerError(
                f"The handler of {name!r} has a yield, so calling it would run none of its code; return a list "
                "instead of yielding its items."
            )


def _importable(function: Callable[..., Any]) -> bool:
    qualname = getattr(function, "__qualname__", "")
    return bool(getattr(function, "__module__", None)) and qualname.isidentifier() and "<" not in qualname


def stored_version(handler: Handler) -> int | None:
    """The payload version that is stored with data for a handler; None for the first version."""
    return handler.version if handler.version > FIRST_VERSION else None


def check_data(handler: Handler | None, data: Any, version: int | None = None, later: Container[str] = ()) -> Fields:
    """The data as it is stored and as the handler will read it. Refuse data that the handler, if it is known, could not
    be called with, and values that would not arrive as they were given.

    Data of an older `version` is upgraded for this check; data of a newer one is not checked against the handler. The
    arguments in `later` get their values when the job starts; older data that lacks some is upgraded and checked then.
    """
    plain = plain_data(data)
    incomplete = bool(later) and handler is not None and version not in (None, handler.version)
    if handler is None or incomplete or (version is not None and version > handler.version):
        _refuse_changed(None, plain)
        return plain.values
    try:
        handler.bind(handler.upgrade(plain.values, version or handler.version), later)
    except InvalidJob:
        raise
    except (PayloadUpgradeFailed, Signal) as error:
        raise InvalidJob(str(error)) from error
    except ConfigurationError as error:
        raise InvalidJob(str(error)) from None
    _refuse_changed(handler if version in (None, handler.version) else None, plain)
    return plain.values


def check_part(handler: Handler | None, data: Any) -> Fields:
    """Some arguments of a job, as they are stored. Refuse a value that would not arrive as it was given."""
    plain = plain_data(data)
    _refuse_changed(handler, plain)
    return plain.values


def _refuse_changed(handler: Handler | None, plain: PlainData) -> None:
    """Refuse values that are stored in another form, unless the handler's annotations restore an equal value."""
    for name, changed in plain.changed.items():
        if handler is None or not handler.restores(name, plain.given[name], plain.values[name]):
            raise InvalidJob(
                f"{changed.path} is of type {changed.kind}; it is stored as {changed.stored}, and no annotation of a "
                "handler that this process knows makes an equal value of that. Pass plain values (numbers, texts, "
                f"dates, lists, documents), or annotate the argument {name!r} of the handler."
            )
