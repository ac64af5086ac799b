"""Describes handlers for the registry of workers: the first line of the docstring, and the JSON Schema of the data.

The schema comes from the annotations of the handler's parameters, by pydantic. It is for forms, and for a check of data
in processes without the handler, which must refuse nothing that the handler takes: a part that the handler converts by
code of its own is marked with `x-any`, and the check leaves it alone.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pydantic import AliasChoices, AliasPath, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind

from mainspring.clock import monotonic
from mainspring.model.fields import Fields
from mainspring.model.jobs.data_schema import ANY
from mainspring.model.jobs.handler_status import MAX_DESCRIPTION, MAX_SCHEMA, MAX_SCHEMAS, HandlerDescription

if TYPE_CHECKING:
    from mainspring.engine.handler import Handler, Parameter
    from mainspring.engine.handlers import Handlers

_MAX_DEFAULT = 200
_TOLD_EVERY = 60.0


class _Lenient(GenerateJsonSchema):
    """Pydantic's schema, with a mark on each part that accepts more than the schema says."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {  # noqa: RUF012 - declared so by pydantic
        "skipped-choice",
        "non-serializable-default",
        "skipped-discriminator",
    }

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        return {ANY: True}

    def function_before_schema(self, schema: Any) -> JsonSchemaValue:
        return _marked(super().function_before_schema(schema))

    def function_wrap_schema(self, schema: Any) -> JsonSchemaValue:
        return _marked(super().function_wrap_schema(schema))

    def function_plain_schema(self, schema: Any) -> JsonSchemaValue:
        return _marked(super().function_plain_schema(schema))

    def custom_error_schema(self, schema: Any) -> JsonSchemaValue:
        return _marked(super().custom_error_schema(schema))

    def str_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().str_schema(schema)
        changes = ("strip_whitespace", "to_lower", "to_upper", "coerce_numbers_to_str")
        return _marked(made) if any(schema.get(one) for one in changes) else made

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().model_schema(schema)
        return _marked(made) if _has_other_names(schema["cls"]) else made


def _marked(schema: JsonSchemaValue) -> JsonSchemaValue:
    return {**schema, ANY: True}


def _has_other_names(model: Any) -> bool:
    """Whether a model takes a field by more names than the one in its schema, or changes texts first."""
    config = getattr(model, "model_config", {})
    loose = ("populate_by_name", "validate_by_name", "from_attributes", "coerce_numbers_to_str", "str_strip_whitespace")
    if any(config.get(name) for name in loose):
        return True
    if any(getattr(model, "__pydantic_decorators__").model_validators.values()):  # noqa: B009 - typed as Any
        return True
    aliases = (field.validation_alias for field in getattr(model, "model_fields", {}).values())
    return any(isinstance(alias, AliasChoices | AliasPath) for alias in aliases)


def describe_handler(handler: Handler) -> HandlerDescription:
    """The description of one handler. It never raises: a handler must not be refused for its schema."""
    return HandlerDescription(_first_line(handler.function), _schema_text(handler))


class TellDescriptions:
    """Adds the descriptions to the facts that a worker's heartbeat stores: with the first one, after a change, and once
    in a while, in case its document was deleted. They are too long to be written with each."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._names: list[str] | None = None
        self._told_at = float("-inf")

    def facts(self) -> Fields:
        """The field `described`, if it is due."""
        names, now = self._handlers.own_names, monotonic()
        if names == self._names and now - self._told_at < _TOLD_EVERY:
            return {}
        self._names, self._told_at = names, now
        return {"described": self._handlers.descriptions}


def told_descriptions(handlers: Iterable[Handler]) -> list[dict[str, str]]:
    """The descriptions for the registry; beyond the bytes that a worker may write, they come without a schema."""
    told, room = [], MAX_SCHEMAS
    for handler in handlers:
        document = handler.description.to_document()
        room -= len(document.get("schema", ""))
        if room < 0:
            document.pop("schema", None)
        if document:
            told.append({"name": handler.name, **document})
    return told


def _first_line(function: Callable[..., Any]) -> str | None:
    try:
        text = inspect.getdoc(function) if inspect.isroutine(function) else None
    except Exception:
        return None
    line = (text or "").strip().partition("\n")[0].strip()
    return line[:MAX_DESCRIPTION] or None


def _schema_text(handler: Handler) -> str | None:
    try:
        text = json.dumps(_schema(handler), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except Exception:  # an annotation runs code of its own, which may raise anything
        return None
    return text if len(text) <= MAX_SCHEMA else None


def _schema(handler: Handler) -> Fields:
    known: list[tuple[str, Any, TypeAdapter[Any]]] = [
        (one.name, "validation", one.adapter) for one in handler.parameters if one.adapter is not None
    ]
    made, shared = TypeAdapter.json_schemas(known, schema_generator=_Lenient)
    parts = {name: part for (name, _), part in made.items()}
    schema: Fields = {
        "type": "object",
        "properties": {one.name: _with_default(parts.get(one.name, {}), one) for one in handler.parameters},
        "required": [one.name for one in handler.parameters if one.required],
        "additionalProperties": handler.takes_other_data,
    }
    return schema | ({"$defs": shared["$defs"]} if shared.get("$defs") else {})


def _with_default(part: JsonSchemaValue, parameter: Parameter) -> JsonSchemaValue:
    default = parameter.default
    plain = default is None or isinstance(default, bool | int | float | str)
    if parameter.required or not plain or len(str(default)) > _MAX_DEFAULT:
        return part
    return {**part, "default": default}
