"""The registry of handlers, and how a job's data becomes a handler's arguments.

A handler is registered by name in code; nothing in the database can name a function. Data is bound to parameters by
name and checked against their annotations with pydantic, by the same rule when a job is scheduled (where its handler
is known) and when it is run. A parameter annotated `JobContext`, or named `ctx` without annotation, gets the context.
A handler whose only parameter is the context takes any data.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from mainspring.config import check_name
from mainspring.errors import ConfigurationError, HandlerError, InvalidJob, Signal
from mainspring.model.dead_letters import Alert
from mainspring.model.guarantee import check_one_attempt, most_attempts
from mainspring.model.limits import Allowance
from mainspring.model.retry import Retry
from mainspring.model.sealing import Encrypt, refuse_keys
from mainspring.model.versions import FIRST_VERSION, Lift, LiftFailed, check_lifts, lifted

ISOLATIONS = ("auto", "thread", "process")
_SIMPLE: dict[Any, type | tuple[type, ...]] = {str: str, dict: dict, list: list, bytes: bytes}


class BadArguments(InvalidJob):
    """A job's data does not fit its handler; running it again would change nothing."""


class ContextMarker:
    """What `JobContext` derives from, so that the registry can tell it among the annotations."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a handler; `adapter` None takes anything."""

    name: str
    required: bool
    annotation: Any
    adapter: TypeAdapter[Any] | None


class Handler:
    """A function that runs the jobs of one name, with its own defaults."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        retry: Retry | None = None,
        executes: str | None = None,
        timeout: float | None = None,
        isolation: str = "auto",
        queue: str | None = None,
        priority: int | None = None,
        allowance: Allowance = Allowance(),  # noqa: B008 - a frozen value
        version: int = FIRST_VERSION,
        lift: Mapping[int, Lift] | None = None,
        encrypt: Encrypt | None = None,
        redact: tuple[str, ...] = (),
    ) -> None:
        if not callable(function):
            raise HandlerError(f"The handler of {name!r} must be a function, not {function!r}.")
        if isolation not in ISOLATIONS:
            raise HandlerError(f"isolation must be one of {', '.join(ISOLATIONS)}, not {isolation!r}.")
        self.name = check_name(name, "a job's name")
        self.function = function
        self.retry = retry
        self.executes = executes
        if retry is not None:
            check_one_attempt(executes, most_attempts(retry))
        self.timeout = timeout
        self.queue = None if queue is None else check_name(queue, "a queue's name")
        self.priority = priority
        self.allowance = allowance
        self.encrypt = encrypt
        self.redact = redact
        refuse_keys(encrypt, allowance.paths, f"A limit, a sequence or the fairness of {name!r}")
        self.version, self._lifts = check_lifts(name, version, lift)
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

    def bind(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The data as arguments by name; BadArguments says what is missing, unknown or of the wrong type."""
        if self._ignores_data:
            return {}
        arguments: dict[str, Any] = {}
        for name, value in data.items():
            parameter = self._by_name.get(name)
            if parameter is None and not self._takes_any:
                raise BadArguments(f"{self.name!r} has no argument {name!r}; it takes {self._takes()}.")
            plain = parameter is None or parameter.adapter is None
            arguments[name] = value if plain else self._convert(parameter, value)
        if len(arguments) < len(self.parameters) or self._takes_any:
            self._check_missing(arguments)
        return arguments

    def lift(self, data: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        """Data that was written for an earlier version as this handler takes it; other data as it is."""
        return data if version >= self.version else lifted(self.name, data, version, self.version, self._lifts)

    def _convert(self, parameter: Parameter | None, value: Any) -> Any:
        assert parameter is not None and parameter.adapter is not None
        simple = _SIMPLE.get(parameter.annotation)
        if simple is not None and type(value) is simple:
            return value
        try:
            return parameter.adapter.validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = "".join(f"[{step!r}]" for step in first["loc"])
            raise BadArguments(
                f"The argument {parameter.name + where!r} of {self.name!r} is of the wrong type: {first['msg']}."
            ) from None

    def _check_missing(self, arguments: Mapping[str, Any]) -> None:
        missing = [p.name for p in self.parameters if p.required and p.name not in arguments]
        if missing:
            raise BadArguments(f"{self.name!r} lacks {', '.join(map(repr, missing))}; it takes {self._takes()}.")

    def _takes(self) -> str:
        return ", ".join(repr(parameter.name) for parameter in self.parameters) or "none"


class Handlers:
    """All handlers of a Scheduler, and the catch-all, if it has one."""

    def __init__(self) -> None:
        self._by_name: dict[str, Handler] = {}
        self.catch_all: Handler | None = None
        self.alerts: dict[str, Alert] = {}
        """Those that are told of dead letters."""

    def add(self, handler: Handler) -> None:
        existing = self._by_name.get(handler.name)
        if existing is not None and not _same_place(existing.function, handler.function):
            raise HandlerError(
                f"Two handlers are registered for {handler.name!r}: {_place(existing.function)} and "
                f"{_place(handler.function)}. Give one of them another name."
            )
        self._by_name[handler.name] = handler

    def get(self, name: str) -> Handler | None:
        """The handler of a name, or the catch-all."""
        return self._by_name.get(name) or self.catch_all

    def own(self, name: str) -> Handler | None:
        """The handler of a name, without the catch-all."""
        return self._by_name.get(name)

    def takes(self, name: str, version: int) -> bool:
        """Whether data of this version can be run here. The catch-all takes data as it is, whatever its version."""
        handler = self._by_name.get(name)
        return self.catch_all is not None if handler is None else version <= handler.version

    @property
    def versions(self) -> dict[int, list[str]]:
        """The names that have a handler of their own, by its version."""
        found: dict[int, list[str]] = {}
        for name, handler in sorted(self._by_name.items()):
            found.setdefault(handler.version, []).append(name)
        return found

    @property
    def told(self) -> dict[str, Any]:
        """What others are to know of the handlers: the versions above the first, or all where a catch-all takes any."""
        told = [
            {"name": name, "version": version}
            for version, names in self.versions.items()
            for name in names
            if version > FIRST_VERSION or self.catch_all is not None
        ]
        return {"versions": told}

    @property
    def own_names(self) -> list[str]:
        """The names that have a handler of their own."""
        return list(self._by_name)

    def name_of(self, function: Callable[..., Any]) -> str | None:
        """The name that a function is the handler of, if it is one."""
        return next((name for name, handler in self._by_name.items() if handler.function is function), None)

    def remove(self, name: str) -> None:
        self._by_name.pop(name, None)

    def executing(self, guarantee: str) -> list[str]:
        """The names whose handlers have chosen this guarantee."""
        return sorted(name for name, handler in self._by_name.items() if handler.executes == guarantee)

    @property
    def fair(self) -> bool:
        """Whether the keys of any handler's jobs take turns."""
        return any(handler.allowance.fair is not None for handler in self._by_name.values())

    @property
    def limited(self) -> bool:
        """Whether any handler has limits."""
        return any(handler.allowance for handler in self._by_name.values())

    @property
    def allowances(self) -> dict[str, Allowance]:
        """The limits of the names that have any."""
        return {name: handler.allowance for name, handler in list(self._by_name.items()) if handler.allowance}

    @property
    def names(self) -> list[str] | None:
        """The names that can be run; None means any."""
        return None if self.catch_all is not None else sorted(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name) + (self.catch_all is not None)


def _read_signature(name: str, function: Callable[..., Any]) -> tuple[str | None, list[Parameter], bool]:
    """The name of the context's parameter, the parameters for data, and whether there is a `**` for other data."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise HandlerError(f"The signature of {name!r} cannot be read; wrap it in a function.") from error
    hints = _hints(function)
    context: str | None = None
    parameters: list[Parameter] = []
    takes_any = False
    for parameter in signature.parameters.values():
        annotation = hints.get(parameter.name, parameter.annotation)
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise HandlerError(f"{name!r} must take {parameter.name!r} by name; remove the '/' from its signature.")
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
        elif parameter.kind is parameter.VAR_POSITIONAL:
            continue
        elif _is_context(parameter, annotation):
            context = parameter.name
        else:
            required = parameter.default is parameter.empty
            parameters.append(Parameter(parameter.name, required, annotation, _adapter(parameter, annotation)))
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
    try:
        return TypeAdapter(annotation)
    except (PydanticSchemaGenerationError, PydanticUserError):
        # A class pydantic knows nothing of: the value must be an instance of it.
        return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target: Any = function
    if not inspect.isroutine(function):
        target = vars(type(function)).get("__call__", function)  # an object that is called
    try:
        return typing.get_type_hints(inspect.unwrap(target), include_extras=True)
    except Exception:
        return {}  # annotations that cannot be resolved here check nothing


def _importable(function: Callable[..., Any]) -> bool:
    qualname = getattr(function, "__qualname__", "")
    return bool(getattr(function, "__module__", None)) and qualname.isidentifier() and "<" not in qualname


def _place(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def _same_place(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """A module that is loaded again registers the same function anew; that is no conflict."""
    return _place(one) == _place(other)


def stored_version(handler: Handler) -> int | None:
    """What is stored with data that is written for a handler as it is now; nothing for the first version."""
    return handler.version if handler.version > FIRST_VERSION else None


def check_data(handler: Handler | None, data: Any, version: int | None = None) -> None:
    """Refuse data that the handler, where it is known, could not be called with. Data of an older `version` is lifted
    first; of that of a newer one nothing is known here."""
    if handler is None or (version is not None and version > handler.version):
        return
    if data is not None and not isinstance(data, Mapping):
        raise InvalidJob(f"data must be a mapping of argument names to values, not {type(data).__name__}.")
    try:
        handler.bind(handler.lift(data or {}, version or handler.version))
    except InvalidJob:
        raise
    except (LiftFailed, Signal) as error:
        raise InvalidJob(str(error)) from error
    except ConfigurationError as error:
        raise InvalidJob(str(error)) from None
