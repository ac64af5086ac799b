"""The check of query parameters: a request with a parameter that its path does not take is refused with the right name.

The app adds `check_parameters` to every router, so that it covers a new endpoint without further code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import Request
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel

from mainspring.api.problems import Problem
from mainspring.spelling import meant_by

_LONGEST = 100


class Prefixed:
    """A dependency: all query parameters whose names begin with a prefix, without it, in the order of the request."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __call__(self, request: Request) -> list[tuple[str, str]]:
        query = request.query_params.multi_items()
        return [(name.removeprefix(self.prefix), text) for name, text in query if name.startswith(self.prefix)]


async def check_parameters(request: Request) -> None:
    """Refuse a query parameter that the request's path does not take."""
    if not request.query_params:
        return
    names, prefixes = taken_by(request.scope["route"])
    for name in request.query_params:
        if name not in names and not name.startswith(prefixes):
            raise Problem(422, _refusal(name[:_LONGEST], sorted(names)), field=f"query.{name[:_LONGEST]}")


def taken_by(route: Any) -> tuple[frozenset[str], tuple[str, ...]]:
    """The query parameters that a route takes, and the prefixes of those whose names the caller chooses."""
    dependants = list(_all(route.dependant))
    names = frozenset(name for one in dependants for name in _names(one))
    return names, tuple(one.call.prefix for one in dependants if isinstance(one.call, Prefixed))


def _all(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for one in dependant.dependencies:
        yield from _all(one)


def _names(dependant: Dependant) -> Iterator[str]:
    for parameter in dependant.query_params:
        kind = parameter.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (field.alias or name for name, field in kind.model_fields.items())
        else:
            yield parameter.alias


def _refusal(name: str, known: list[str]) -> str:
    if not known:
        return f"There is no parameter {name!r}; this path takes none."
    meant = meant_by(name, known)
    hint = f"did you mean {meant!r}?" if meant else f"this path takes {', '.join(known)}."
    return f"There is no parameter {name!r}; {hint}"
