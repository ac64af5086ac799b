"""Writes the reference of the Python interface, docs/reference/python.md and python-types.md, from the signatures and
docstrings of the code.

`python -m supply.python_reference` writes both pages; `make docs` calls it. A test compares them with the code, and
with the public names, so that none is missing.
"""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, get_overloads

import mainspring
from mainspring.client import job_functions
from mainspring.client.namespaces.all_namespaces import NAMESPACES
from mainspring.client.scheduler import AllOptions
from mainspring.model.jobs.options import JobOptions
from mainspring.model.schedules.schedule import RepeatOptions

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
_VERBS_HEAD = """# Python: the Scheduler

The Scheduler, its namespaces, handlers and their context, with signatures and docstrings; made from the code by
`make docs`. [The types](python-types.md) have a page of their own. Import the names from `mainspring`. The blocking
Scheduler of `mainspring.sync` has the same verbs without `await` ([Django, Flask,
scripts](../howto/django-flask-scripts.md)). A duration is a number of seconds, a `timedelta`, or a text such as `"5m"`.
"""
_TYPES_HEAD = """# Python: the types

Every other public name of `mainspring`, with its signature and its docstring; made from the code by `make docs`. [The
Scheduler](python.md) has a page of its own.
"""
_NOWHERE = "mongodb://127.0.0.1:1/x"
_WIDTH = 100
_OPTIONS = {
    "JobOptions": (JobOptions, "The options of a job: keyword arguments of `schedule` and of `JobFunction.options`."),
    "RepeatOptions": (RepeatOptions, "The further options of `schedule` where `repeat` is given: those of a schedule."),
    "AllOptions": (
        AllOptions,
        "The options of a Scheduler beside its URI, also of `configure`. [Settings](settings.md).",
    ),
}
# The heading of a public type, by the beginning of its module's name. The first that fits counts.
_GROUPS = {
    "mainspring.errors": "Errors and signals",
    "mainspring.rules": "Rules",
    "mainspring.model.schedules": "Schedules",
    "mainspring.store.schedules": "Schedules",
    "mainspring.client.namespaces.schedules": "Schedules",
    "mainspring.model.limits": "Limits",
    "mainspring.model.flows": "Flows",
    "mainspring.engine.flows": "Flows",
    "mainspring.client.flows": "Flows",
    "mainspring.client.namespaces.flows": "Flows",
    "mainspring.model.dead_letters": "Dead letters and operations",
    "mainspring.model.operations": "Dead letters and operations",
    "mainspring.client.namespaces.dead_letters": "Dead letters and operations",
    "mainspring.client.namespaces.operations": "Dead letters and operations",
    "mainspring.model.access": "Access and privacy",
    "mainspring.model.privacy": "Access and privacy",
    "mainspring.client.namespaces.api_keys": "Access and privacy",
    "mainspring.model.views": "Views",
    "mainspring.model.explain": "Views",
}
_REST = "Jobs"
_SEPARATE = ("Scheduler", "JobContext")
"""Types with sections of their own."""


def pages() -> dict[Path, str]:
    """The texts of both pages, by their places."""
    texts = {"python.md": _text(_VERBS_HEAD, _verbs()), "python-types.md": _text(_TYPES_HEAD, _types())}
    return {REFERENCE / name: _formatted(name, text) for name, text in texts.items()}


def _text(head: str, sections: Iterator[list[str]]) -> str:
    return "\n".join([head, *(line for section in sections for line in [*section, ""])]).rstrip() + "\n"


def _formatted(name: str, text: str) -> str:
    """The page as `make check` wants it: the formatter looks into the code blocks of pages, too."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(REFERENCE / name), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def _verbs() -> Iterator[list[str]]:
    yield from _scheduler()
    yield from _type(job_functions.JobFunction, "##")
    yield from _type(job_functions.JobCall, "##")
    yield from _type(mainspring.JobContext, "##")
    yield from _options()


def _types() -> Iterator[list[str]]:
    groups: dict[str, list[str]] = {_REST: [], **{heading: [] for heading in _GROUPS.values()}}
    for name in mainspring.__all__:
        if name not in _SEPARATE:
            groups[_group(getattr(mainspring, name))].append(name)
    for heading, names in groups.items():
        yield [f"## {heading}"]
        for name in names:
            thing = getattr(mainspring, name)
            skip = tuple(_verbs_of(mainspring.Rule)) if heading == "Rules" and name != "Rule" else ()
            plain = not isinstance(thing, type)
            yield from _member(name, name, thing, "###") if plain else _type(thing, "###", name=name, skip=skip)


def _group(thing: Any) -> str:
    return next((heading for module, heading in _GROUPS.items() if thing.__module__.startswith(module)), _REST)


def _scheduler() -> Iterator[list[str]]:
    yield from _type(mainspring.Scheduler, "##", skip=tuple(namespaces()))
    for name, namespace in namespaces().items():
        yield [f"## scheduler.{name}", "", _doc(type(namespace))]
        yield from _members(type(namespace), f"scheduler.{name}")


def namespaces() -> dict[str, Any]:
    """The namespaces of a Scheduler, by the names of their attributes."""
    scheduler = mainspring.Scheduler(_NOWHERE)
    return {name: getattr(scheduler, name) for name in sorted(NAMESPACES)}


def _options() -> Iterator[list[str]]:
    yield ["## Options"]
    for name, (kind, words) in _OPTIONS.items():
        fields = [f"    {field}: {_plain(hint)}" for field, hint in sorted(_hints(kind).items())]
        yield [f"### {name}", "", words, "", *_code([f"class {name}(TypedDict, total=False):", *fields])]


def _hints(kind: Any) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for base in reversed([kind, *getattr(kind, "__orig_bases__", ())]):
        hints |= getattr(base, "__annotations__", {})
    return hints


def _type(
    kind: type, level: str, words: str = "", *, name: str = "", skip: tuple[str, ...] = ()
) -> Iterator[list[str]]:
    name = name or kind.__name__
    yield [f"{level} {name}", "", *([words, ""] if words else []), _doc(kind), *_made(kind, name)]
    yield from _members(kind, name, skip)


def _made(kind: type, name: str) -> list[str]:
    """How a value of the type is made, or what its fields are."""
    bases = ", ".join(base.__name__ for base in kind.__bases__) if issubclass(kind, BaseException) else ""
    head = f"class {name}({bases}):" if bases else f"class {name}:"
    if dataclasses.is_dataclass(kind):
        fields = [_field(field) for field in dataclasses.fields(kind) if not field.name.startswith("_")]
        return ["", *_code([head, *(f"    {field}" for field in fields)])]
    if issubclass(kind, BaseException) and "__init__" not in vars(kind):
        return ["", *_code([f"{head} ..."])]
    if "__init__" in vars(kind) and name in mainspring.__all__:
        return [
            "",
            *_code([head, *(f"    {line}" for line in _signature("__init__", vars(kind)["__init__"], bound=False))]),
        ]
    return []


def _field(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"{field.name}: {_plain(field.type)} = {_default(field.default)}"
    made = "" if field.default_factory is dataclasses.MISSING else " = ..."
    return f"{field.name}: {_plain(field.type)}{made}"


def _members(kind: type, prefix: str, skip: tuple[str, ...] = ()) -> Iterator[list[str]]:
    for name, value in _verbs_of(kind).items():
        if name not in skip:
            yield from _member(f"{prefix}.{name}", name, value)


def _verbs_of(kind: type) -> dict[str, Any]:
    """The public methods and properties of a type and of its bases of ours, in the order of their definition."""
    known: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("mainspring"):
            known |= {name: value for name, value in vars(base).items() if _is_verb(name, value)}
    return known


def _is_verb(name: str, value: Any) -> bool:
    kinds = (property, cached_property, classmethod, staticmethod)
    return not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, kinds))


def _member(heading: str, name: str, value: Any, level: str = "####") -> Iterator[list[str]]:
    function = _function(value)
    lines = [line for one in _variants(function) for line in _signature(name, one, _decorator(value))]
    yield [f"{level} {heading}", "", *_code(lines), "", _doc(function)]


def _function(value: Any) -> Callable[..., Any]:
    if isinstance(value, property):
        return value.fget  # type: ignore[return-value]
    if isinstance(value, cached_property):
        return value.func
    function: Callable[..., Any] = getattr(value, "__func__", value)
    return function


def _variants(function: Callable[..., Any]) -> list[Any]:
    plain = inspect.unwrap(function)
    return list(get_overloads(function)) or list(get_overloads(plain)) or [function]


def _decorator(value: Any) -> str:
    if isinstance(value, property | cached_property):
        return "@property"
    return f"@{type(value).__name__}" if isinstance(value, classmethod | staticmethod) else ""


def _signature(name: str, function: Any, decorator: str = "", *, bound: bool = True) -> list[str]:
    """The function as a stub, in as many lines as it needs."""
    plain = inspect.unwrap(function)
    signature = inspect.signature(plain)
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name in ("self", "cls") and bound:
        parameters = parameters[1:]
    written = _written(parameters)
    awaited = inspect.iscoroutinefunction(plain) and not inspect.isasyncgenfunction(plain)
    start, end = f"{'async ' if awaited else ''}def {name}(", f"){_returned(signature)}: ..."
    line = start + ", ".join(written) + end
    lines = [line] if len(line) <= _WIDTH else [start, *(f"    {one}," for one in written), end]
    return [*([decorator] if decorator else []), *lines]


def _written(parameters: list[inspect.Parameter]) -> list[str]:
    written, starred = [], False
    for place, one in enumerate(parameters):
        if one.kind is one.KEYWORD_ONLY and not starred:
            starred = True
            written.append("*")
        starred = starred or one.kind is one.VAR_POSITIONAL
        written.append(_parameter(one))
        following = parameters[place + 1].kind if place + 1 < len(parameters) else None
        if one.kind is one.POSITIONAL_ONLY and following is not one.POSITIONAL_ONLY:
            written.append("/")
    return written


def _parameter(one: inspect.Parameter) -> str:
    stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
    hint = "" if one.annotation is one.empty else f": {_plain(one.annotation)}"
    default = "" if one.default is one.empty else f" = {_default(one.default)}"
    return f"{stars}{one.name}{hint}{default}"


def _returned(signature: inspect.Signature) -> str:
    return "" if signature.return_annotation is signature.empty else f" -> {_plain(signature.return_annotation)}"


def _plain(hint: Any) -> str:
    """An annotation as it is written in the code."""
    text = hint if isinstance(hint, str) else getattr(hint, "__forward_arg__", None) or inspect.formatannotation(hint)
    return str(text).strip("'\"") if str(text).startswith(("'", '"')) else str(text)


def _default(value: Any) -> str:
    text = repr(value)
    return "..." if text.startswith("<") or " at 0x" in text else text


def _doc(thing: Any) -> str:
    return (inspect.getdoc(inspect.unwrap(thing) if callable(thing) else thing) or inspect.getdoc(thing) or "").strip()


def _code(lines: list[str]) -> list[str]:
    return ["```python", *lines, "```"]


if __name__ == "__main__":
    for place, text in pages().items():
        place.write_text(text, "utf-8")
