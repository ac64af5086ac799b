"""The routes of the service as its OpenAPI document tells them, filled in with a tenant's things.

Nothing is listed here by hand: a route that is added tomorrow is attacked tomorrow. What is not known of a field is
made up by its schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

_VERBS = ("get", "post", "put", "patch", "delete")
_STREAM = "/api/events"


@dataclass(frozen=True)
class Route:
    """A method and a path, with what its parameters and its body are made of."""

    method: str
    path: str
    parameters: tuple[Mapping[str, Any], ...] = ()
    body: Any = None
    """An example of a body; None where it takes none."""
    media: str = "application/json"

    @property
    def names(self) -> list[str]:
        """The parameters in its path."""
        return re.findall(r"\{([^}]+)\}", self.path)

    @property
    def query(self) -> list[str]:
        return [str(one["name"]) for one in self.parameters if one["in"] == "query"]

    def at(self, things: Mapping[str, str]) -> str:
        """The path with these in place of its parameters."""
        return re.sub(r"\{([^}]+)\}", lambda found: quote(things[found[1]], safe=""), self.path)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def routes(document: Mapping[str, Any], fields: Mapping[str, Any]) -> Iterator[Route]:
    """All routes but the stream; bodies have these values in fields of these names."""
    for path, verbs in document["paths"].items():
        for verb, operation in verbs.items():
            if verb not in _VERBS or path == _STREAM:
                continue
            parameters = tuple(operation.get("parameters", ()))
            content = operation.get("requestBody", {}).get("content", {})
            media = next(iter(content), "application/json")
            body = _Maker(document, fields).body(content[media]) if content else None
            yield Route(verb.upper(), path, parameters, body, media)


class _Maker:
    """Makes values by schemas."""

    def __init__(self, document: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        self._schemas = document.get("components", {}).get("schemas", {})
        self._fields = fields

    def body(self, content: Mapping[str, Any]) -> Any:
        schema = self._resolve(content.get("schema", {}))
        given = content.get("example") or (schema.get("examples") or [None])[0]
        return self._object(schema, given) if schema.get("type") == "object" or given else self.value(schema, 0)

    def _object(self, schema: Mapping[str, Any], given: Any) -> Any:
        properties = schema.get("properties", {})
        made = dict(given) if isinstance(given, dict) else {}
        for name in schema.get("required", []):
            made.setdefault(name, self.value(properties.get(name, {}), 1))
        known = {name: value for name, value in self._fields.items() if name in properties}
        return made | known

    def value(self, schema: Mapping[str, Any], depth: int) -> Any:
        schema = self._resolve(schema)
        for choice in ("anyOf", "oneOf", "allOf"):
            if schema.get(choice):
                kinds = [self._resolve(one) for one in schema[choice]]
                return self.value(next((one for one in kinds if one.get("type") != "null"), {}), depth)
        if "examples" in schema:
            return schema["examples"][0]
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema, None) if depth < 4 else {}
        if kind == "array":
            return [self.value(schema.get("items", {}), depth + 1)] if depth < 4 else []
        if kind == "string" and schema.get("format") == "date-time":
            return "2026-01-01T00:00:00Z"
        simple: dict[Any, Any] = {"integer": 1, "number": 1.0, "boolean": True, "string": "x"}
        return simple.get(kind)

    def _resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        return schema
