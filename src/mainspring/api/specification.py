"""The OpenAPI document: FastAPI's description of the endpoints, with the errors that each of them can answer."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from mainspring.api.problems import MEDIA_TYPE

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
    "501": "The database cannot do this.",
    "503": "MongoDB is unreachable; `Retry-After` says when to try again.",
}
_TEXT = {"type": "string"}
_SCHEMA: dict[str, Any] = {
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


def specification(app: FastAPI) -> dict[str, Any]:
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
        app.openapi_schema = schema
    return app.openapi_schema


def _add_errors(responses: dict[str, Any]) -> None:
    for status, description in _ERRORS.items():
        found = responses.get(status)
        if found is None or status == "422":  # FastAPI describes its own 422, which this service never answers
            responses[status] = {"description": description, "content": {MEDIA_TYPE: {"schema": _PROBLEM}}}
