"""The OpenAPI document: FastAPI's description of the endpoints, with the errors that each of them can answer."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from mainspring.api.problems import MEDIA_TYPE
from mainspring.model.fields import Fields

_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_ERRORS = {
    "400": "The body is not valid JSON.",
    "401": "No API key was sent, or it is unknown, expired or revoked.",
    "403": "The key's role or scope does not allow it, or the request comes from another site.",
    "404": "It does not exist, or is out of the key's scope.",
    "405": "This path has no such method.",
    "409": "It is in a state that does not allow this.",
    "413": "The body is too large.",
    "415": "The body is of another type than JSON.",
    "422": "A field is wrong; `errors` names it, and the cure.",
    "429": "Too many requests, or a full queue; `Retry-After` says when to try again.",
    "431": "The path and the headers are too large.",
    "501": "The database cannot do this.",
    "503": "MongoDB is unreachable; `Retry-After` says when to try again.",
}
# Names of classes whose module says here what they belong to; a client has one namespace for all of them.
_RENAMED = {
    "Change": "JobChange",
    "Copy": "JobCopy",
    "Creation": "JobCreation",
    "DeadLetters": "DeadLetterPage",
    "FillIn": "FlowFillIn",
    "Listed": "SchedulePage",
    "Movement": "NameMovement",
    "Reach": "KeyReach",
    "Repeat": "RepeatIn",
    "RowOut": "TimelineRowOut",
    "Series": "StatisticsSeries",
    "SpanOut": "TimelineSpanOut",
    "Summary": "ExecutionSummary",
    "UseOut": "GateUseOut",
}
_ANSWER = re.compile(r"(Answer|ListAnswer)_(\w+)_")
_REFERENCE = "#/components/schemas/"
_TEXT = {"type": "string"}
_SCHEMA: Fields = {
    "type": "object",
    "title": "Problem",
    "description": "An error, as problem details (RFC 9457).",
    "required": ["type", "title", "status", "detail", "success", "error"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": {**_TEXT, "description": "The cause and the cure."},
        "success": {"const": False},
        "error": {**_TEXT, "description": "The detail once more."},
        "errors": {
            "type": "array",
            "items": {"type": "object", "properties": {"field": _TEXT, "detail": _TEXT}},
        },
    },
}


def operation_id(route: APIRoute) -> str:
    """The name of an operation, from which clients name their functions: that of the endpoint. The paths of the older
    service have names of their own."""
    return f"{route.name}_v1" if "v1" in route.tags else route.name


def specification(app: FastAPI) -> Fields:
    """The OpenAPI document of an app, made once."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            openapi_version="3.1.0",
        )
        components = schema.setdefault("components", {})
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        components.setdefault("schemas", {})["Problem"] = _SCHEMA
        for unused in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(unused, None)
        schema["security"] = [{"key": []}]
        for methods in schema["paths"].values():
            for operation in methods.values():
                _add_errors(operation["responses"])
        app.openapi_schema = _renamed(schema)
    return app.openapi_schema


def _add_errors(responses: Fields) -> None:
    for status, description in _ERRORS.items():
        found = responses.get(status)
        if found is None or status == "422":  # FastAPI describes its own 422, which this service never answers
            responses[status] = {"description": description, "content": {MEDIA_TYPE: {"schema": _PROBLEM}}}


def _renamed(value: Any) -> Any:
    """A copy of a document, or of a part of it, with the schemas' names that are meant for clients."""
    if isinstance(value, list):
        return [_renamed(one) for one in value]
    if not isinstance(value, dict):
        return value
    renamed = {name: _renamed(one) for name, one in value.items()}
    reference = renamed.get("$ref")
    if isinstance(reference, str):
        renamed["$ref"] = _REFERENCE + _schema_name(reference.removeprefix(_REFERENCE))
    schemas = renamed.get("schemas")
    if isinstance(schemas, dict):
        renamed["schemas"] = {(known := _schema_name(name)): {**one, "title": known} for name, one in schemas.items()}
    return renamed


def _schema_name(name: str) -> str:
    """The name of a schema for clients: that of its class, and of an answer the name of its content first."""
    answer = _ANSWER.fullmatch(name)
    if answer is None:
        return _RENAMED.get(name, name)
    return _content(answer[2]) + answer[1]


def _content(name: str) -> str:
    """The content of an answer in a word: JobOut is Job, list_QueueOut_ is QueueList, Union_A__B_ is AOrB."""
    if name.startswith("list_"):
        return _content(name.removeprefix("list_").removesuffix("_")) + "List"
    if name.startswith("Union_"):
        return "Or".join(map(_content, name.removeprefix("Union_").removesuffix("_").split("__")))
    return _RENAMED.get(name, name).removesuffix("Out").removesuffix("Facts")
