"""The tools: chosen operations of the HTTP API, described by the OpenAPI document of the service itself.

A tool has the parameters of its operation as arguments, and `body` for the body of the request. Operations about keys,
secrets and settings are not offered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields

READING = (
    *("get_overview", "get_statistics", "list_queues", "get_queue", "list_workers", "list_handlers"),
    *("search_jobs", "count_jobs", "get_job_detail", "explain_job", "compare_job", "list_related_jobs"),
    *("list_dead_letter_groups", "list_dead_letters", "get_redrive", "get_operation"),
    *("list_schedules", "get_schedule", "list_next_firings", "list_firings", "preview_rule"),
    *("list_flows", "get_flow", "list_limits", "list_pauses", "list_breakers", "get_session"),
)
CHANGING = (
    *("create_job", "cancel_job", "retry_job", "run_job", "signal_job", "cancel_flow", "retry_flow"),
    *("retry_dead_letters", "discard_dead_letters", "cancel_redrive", "create_operation", "cancel_operation"),
    *("pause_schedule", "resume_schedule", "trigger_schedule", "skip_next_firing"),
    *("pause_jobs", "resume_jobs", "put_limit", "delete_limit", "close_breaker", "drain_worker", "cancel_drain"),
)
_REFERENCE, _PLACE = "#/components/schemas/", "#/$defs/"
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """A request of the service that stands for a call of a tool."""

    method: str
    path: str
    query: list[tuple[str, str]]
    body: Any


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the service as a tool."""

    name: str
    title: str
    description: str
    changing: bool
    method: str
    path: str
    schema: Fields
    places: Mapping[str, str] = field(default_factory=dict)
    """The place of each parameter: path or query."""
    has_body: bool = False

    def request(self, arguments: Mapping[str, Any]) -> Request:
        """The request for these arguments. ConfigurationError names an argument that is unknown, missing or unfit."""
        known = {*self.places, *(("body",) if self.has_body else ())}
        unknown = sorted(set(arguments) - known)
        if unknown:
            raise ConfigurationError(f"{self.name} has no argument {unknown[0]!r}; it has {', '.join(sorted(known))}.")
        missing = [name for name in self.schema.get("required", ()) if name not in arguments]
        if missing:
            raise ConfigurationError(f"{self.name} needs the argument {missing[0]!r}.")
        path, query = self.path, []
        for name, place in self.places.items():
            if arguments.get(name) is None:
                continue
            for value in _texts(name, arguments[name]):
                if place == "path":
                    path = path.replace(f"{{{name}}}", _segment(name, value))
                else:
                    query.append((name, value))
        return Request(self.method, path, query, arguments.get("body"))


def find_operations(document: Document, *, changing: bool) -> dict[str, Operation]:
    """The tools that a service offers, by name; without `changing`, those alone that read."""
    wanted = {**dict.fromkeys(READING, False), **(dict.fromkeys(CHANGING, True) if changing else {})}
    found = {
        operation["operationId"]: _operation(document, method, path, operation, wanted[operation["operationId"]])
        for path, methods in document.get("paths", {}).items()
        for method, operation in methods.items()
        if operation.get("operationId") in wanted
    }
    return {name: found[name] for name in wanted if name in found}


def _operation(document: Document, method: str, path: str, operation: Document, changing: bool) -> Operation:
    parameters = [one for one in operation.get("parameters", ()) if one["in"] in ("path", "query")]
    properties = {one["name"]: _described(one) for one in parameters}
    required = [one["name"] for one in parameters if one.get("required")]
    body = operation.get("requestBody", {})
    content = body.get("content", {}).get("application/json", {}).get("schema")
    if content is not None:
        properties["body"] = content
        required += ["body"] if body.get("required") else []
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return Operation(
        name=operation["operationId"],
        title=str(operation.get("summary", "")),
        description=" ".join(str(operation.get("description") or operation.get("summary", "")).split()),
        changing=changing,
        method=method.upper(),
        path=path,
        schema=_with_definitions(schema, document.get("components", {}).get("schemas", {})),
        places={one["name"]: one["in"] for one in parameters},
        has_body=content is not None,
    )


def _described(parameter: Document) -> Fields:
    schema = dict(parameter.get("schema", {}))
    return {**schema, "description": parameter["description"]} if parameter.get("description") else schema


def _with_definitions(schema: Fields, schemas: Document) -> Fields:
    """The schema with the definitions that it refers to, directly or through others."""
    wanted, definitions = list(_references(schema)), {}
    while wanted:
        name = wanted.pop()
        if name not in definitions and name in schemas:
            definitions[name] = _moved(schemas[name])
            wanted += _references(schemas[name])
    moved: Fields = _moved(schema)
    return {**moved, "$defs": definitions} if definitions else moved


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from _references(one)
    elif isinstance(value, dict):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(_REFERENCE)
        for one in value.values():
            yield from _references(one)


def _moved(value: Any) -> Any:
    """A copy whose references lead to the definitions of the tool."""
    if isinstance(value, list):
        return [_moved(one) for one in value]
    if not isinstance(value, dict):
        return value
    moved = {name: _moved(one) for name, one in value.items()}
    if isinstance(value.get("$ref"), str):
        moved["$ref"] = value["$ref"].replace(_REFERENCE, _PLACE)
    return moved


def _texts(name: str, value: Any) -> list[str]:
    """The values of a parameter as they stand in a URL."""
    given = value if isinstance(value, list) else [value]
    for one in given:
        if not isinstance(one, str | int | float):
            raise ConfigurationError(f"The argument {name!r} must be text or a number, not {type(one).__name__}.")
    return [str(one).lower() if isinstance(one, bool) else str(one) for one in given]


def _segment(name: str, value: str) -> str:
    """A value as one segment of the path: it cannot lead to another operation."""
    if value.strip(".") == "":
        raise ConfigurationError(f"The argument {name!r} must not be empty or dots.")
    return quote(value, safe="")
