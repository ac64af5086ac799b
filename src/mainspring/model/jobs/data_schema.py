"""Checks a job's data against the JSON Schema that a worker has registered for its handler. Pure.

The check is for processes without the handler. It follows pydantic's lenient mode, in which the handler reads the data
("5" is a whole number, too), and knows the keywords that pydantic writes. It refuses only what the handler would surely
refuse: keywords that it does not know, formats and patterns are left to the handler.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ANY = "x-any"
"""Marks a part of a schema that accepts more than the schema says."""
_DEEPEST = 60
_BRANCHES = 20_000
"""The number of alternatives that are tried for one document: nested unions could multiply."""
_TRUTH = ("0", "1", "off", "on", "f", "t", "false", "true", "n", "y", "no", "yes")
_TIMES = ("date-time", "date", "time", "duration")
_CALLED = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a document",
    "null": "null",
}


Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Misfit:
    """A place in the data, and what is wrong there. The value itself is not repeated."""

    path: Path
    text: str

    @property
    def field(self) -> str:
        """The place as the wire names it: `data.items[0].price`."""
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return "data" + "".join(steps)

    def __str__(self) -> str:
        return f"{self.field} {self.text}"


def find_misfit(schema: Mapping[str, Any], data: Any) -> Misfit | None:
    """The first place at which data does not fit a schema; None if it fits."""
    try:
        return _Check(schema).look(schema, data, ())
    except RecursionError:
        return None  # a schema that another program has written may refer to itself for ever


class _Check:
    """One check of one document."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        defs = schema.get("$defs")
        self._defs: Mapping[str, Any] = defs if isinstance(defs, Mapping) else {}
        self._left = _BRANCHES

    def _tired(self) -> bool:
        self._left -= 1
        return self._left < 0

    def look(self, schema: Any, value: Any, path: Path) -> Misfit | None:
        if not isinstance(schema, Mapping) or schema.get(ANY) or len(path) > _DEEPEST:
            return None
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if self._tired():
                return None
            return self.look(self._defs.get(reference.removeprefix("#/$defs/")), value, path)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                return self._any(schema[keyword], value, path)
        if isinstance(schema.get("allOf"), list):
            found = (self.look(one, value, path) for one in schema["allOf"])
            return next((one for one in found if one is not None), None)
        if "const" in schema or "enum" in schema:
            return _listed(schema, value, path)
        return self._typed(schema, value, path)

    def _any(self, options: list[Any], value: Any, path: Path) -> Misfit | None:
        misfits: list[Misfit] = []
        for option in options:
            if self._tired():
                return None
            misfit = self.look(option, value, path)
            if misfit is None:
                return None
            misfits.append(misfit)
        # The alternative that fits best is the one whose error lies deepest.
        deepest = max(misfits, key=lambda one: len(one.path), default=None)
        if deepest is None or len(deepest.path) > len(path) or len(misfits) == 1:
            return deepest
        texts = dict.fromkeys(one.text.removeprefix("must be ").removesuffix(".") for one in misfits)
        return Misfit(path, f"must be {' or '.join(texts)}.")

    def _typed(self, schema: Mapping[str, Any], value: Any, path: Path) -> Misfit | None:
        kind = schema.get("type")
        if not isinstance(kind, str):
            return None
        if not _is(kind, value, schema):
            return Misfit(path, f"must be {_CALLED.get(kind, kind)}.")
        if kind == "object" and isinstance(value, Mapping):
            return self._object(schema, value, path)
        if kind == "array" and isinstance(value, list | tuple):
            return self._list(schema, value, path)
        return _bounds(schema, value, path)

    def _object(self, schema: Mapping[str, Any], value: Mapping[str, Any], path: Path) -> Misfit | None:
        properties = schema.get("properties")
        known: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        for name in schema.get("required") or ():
            if name not in value:
                return Misfit((*path, name), "is missing.")
        other = schema.get("additionalProperties", True)
        for name, one in value.items():
            if name in known:
                misfit = self.look(known[name], one, (*path, name))
            elif other is False:
                names = ", ".join(known) or "none"
                misfit = Misfit((*path, name), f"is not known here; known are {names}.")
            else:
                misfit = self.look(other, one, (*path, name))
            if misfit is not None:
                return misfit
        return None

    def _list(self, schema: Mapping[str, Any], value: list[Any] | tuple[Any, ...], path: Path) -> Misfit | None:
        least, most = schema.get("minItems"), schema.get("maxItems")
        if not schema.get("uniqueItems"):  # the handler drops repeated items before it counts
            if isinstance(least, int) and len(value) < least:
                return Misfit(path, f"must have at least {least} items.")
            if isinstance(most, int) and len(value) > most:
                return Misfit(path, f"must have at most {most} items.")
        first = schema.get("prefixItems")
        heads: list[Any] = first if isinstance(first, list) else []
        rest = schema.get("items")
        for place, one in enumerate(value):
            misfit = self.look(heads[place] if place < len(heads) else rest, one, (*path, place))
            if misfit is not None:
                return misfit
        return None


def _listed(schema: Mapping[str, Any], value: Any, path: Path) -> Misfit | None:
    options = [schema["const"]] if "const" in schema else schema["enum"]
    if not isinstance(options, list) or any(one == value or str(one) == str(value) for one in options):
        return None
    shown = ", ".join(str(one) for one in options[:20])
    return Misfit(path, f"must be one of {shown}." if len(options) > 1 else f"must be {shown}.")


def _is(kind: str, value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value is of a type, or can be converted to it by the handler."""
    if kind == "null":
        return value is None
    if kind == "object":
        return isinstance(value, Mapping)
    if kind == "array":
        return isinstance(value, list | tuple)
    if kind == "boolean":
        return isinstance(value, bool) or value in (0, 1) or (isinstance(value, str) and value.lower() in _TRUTH)
    if kind in ("integer", "number"):
        return _is_number(value, whole=kind == "integer")
    if kind == "string":
        plain = isinstance(value, str) or not isinstance(value, bool | int | float | list | tuple | Mapping | None)
        return plain or (schema.get("format") in _TIMES and isinstance(value, int | float))
    return True


def _is_number(value: Any, *, whole: bool) -> bool:
    if isinstance(value, bool | int):
        return True
    if isinstance(value, str):
        try:
            value = float(value.replace("_", ""))
        except ValueError:
            return False
    if isinstance(value, float):
        return not whole or value.is_integer()
    return value is not None and not isinstance(value, list | tuple | Mapping)  # a number of MongoDB's own


def _bounds(schema: Mapping[str, Any], value: Any, path: Path) -> Misfit | None:
    if isinstance(value, str) and schema.get("type") == "string":
        least, most = schema.get("minLength"), schema.get("maxLength")
        if isinstance(least, int) and len(value) < least:
            return Misfit(path, f"must have at least {least} characters.")
        if isinstance(most, int) and len(value) > most:
            return Misfit(path, f"must have at most {most} characters.")
    if isinstance(value, int | float) and schema.get("type") in ("integer", "number"):
        for keyword, fails, words in _NUMERIC:
            limit = schema.get(keyword)
            if isinstance(limit, int | float) and fails(value, limit):
                return Misfit(path, f"must be {words} {limit}.")
    return None


_NUMERIC: tuple[tuple[str, Callable[[float, float], bool], str], ...] = (
    ("minimum", operator.lt, "at least"),
    ("maximum", operator.gt, "at most"),
    ("exclusiveMinimum", operator.le, "more than"),
    ("exclusiveMaximum", operator.ge, "less than"),
)
