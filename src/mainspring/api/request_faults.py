"""What is wrong with the fields of a request, one entry for each field, by its name on the wire.

Where a field may be of several types, pydantic reports a fault for each of them and adds the name of the type to the
field's path. Clients know neither these names nor the types: the path here has only steps that the request itself has,
and of several faults of one field the one of the type that was probably meant is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from mainspring.spelling import meant_by

# The ends of the kinds of errors that say that a value is of another type, as opposed to a wrong value of this type.
_OF_TYPES = ("_type", "_parsing", "_from_float")


def faults_of(
    errors: Sequence[Mapping[str, Any]], given: object, body: type[BaseModel] | None = None
) -> list[dict[str, str]]:
    """The faults with their fields. `given` is the body as it was sent, `body` its model."""
    places = [_place(error, given) for error in errors]
    found: dict[str, list[Mapping[str, Any]]] = {}
    for place, error in zip(places, errors, strict=True):
        if not (_is_of_type(error) and any(other.startswith(f"{place}.") for other in places)):
            found.setdefault(place, []).append(error)
    return [{"field": place, "detail": _told(several, body)} for place, several in found.items()]


def _is_of_type(error: Mapping[str, Any]) -> bool:
    return str(error["type"]).endswith(_OF_TYPES)


def _told(errors: Sequence[Mapping[str, Any]], body: type[BaseModel] | None) -> str:
    meant = next((one for one in errors if not _is_of_type(one)), None)
    return "; or ".join(dict.fromkeys(_cure(one, body) for one in (errors if meant is None else [meant])))


def _place(error: Mapping[str, Any], given: object) -> str:
    """The path of a wrong field in the request: `endpoint`, `nodes.0.over`, `query.limit`."""
    steps = list(error["loc"])
    if steps[:1] == ["body"]:
        steps = list(_in_body(steps[1:], given, missing=error["type"] == "missing"))
    return ".".join(str(step) for step in steps) or "body"


def _in_body(steps: Sequence[str | int], value: object, *, missing: bool) -> Iterator[str | int]:
    """The steps without those that are names of types."""
    for number, step in enumerate(steps, 1):
        in_list = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if in_list or (isinstance(value, dict) and step in value):
            value = value[step]  # type: ignore[index]
        elif not (missing and number == len(steps)):
            continue
        yield step


def _cure(error: Mapping[str, Any], body: type[BaseModel] | None) -> str:
    """The fault of a field, and its cure."""
    if error["type"] != "extra_forbidden":
        return str(error["msg"]).removeprefix("Value error, ")
    meant = _meant(error["loc"], body)
    if meant is not None:
        return f"There is no such field; did you mean {meant}?"
    return "There is no such field; leave it out, or look for its right name in /docs."


def _meant(location: Sequence[Any], body: type[BaseModel] | None) -> str | None:
    """The field at the top of the body that the client probably meant."""
    steps = [step for step in location if step != "body"]
    if body is None or len(steps) != 1:
        return None
    return meant_by(str(steps[0]), [field.alias or name for name, field in body.model_fields.items()])
