"""Scopes as conditions of queries: documents out of reach are not read in the first place."""

from __future__ import annotations

from mainspring.model.access.api_keys import Scope
from mainspring.store.connection import Document

ABOVE_ALL_NAMES = "\U0010ffff"


def reached(scope: Scope, queue: str = "queue", name: str = "name") -> Document:
    """The condition of a scope, for the fields of the queue and the name. A prefix becomes a range of texts, never a
    pattern."""
    wanted: Document = {}
    if scope.queues is not None:
        wanted[queue] = {"$in": list(scope.queues)}
    if scope.prefixes is not None:
        ranges: list[Document] = [{name: {"$gte": one, "$lt": one + ABOVE_ALL_NAMES}} for one in scope.prefixes]
        wanted["$or"] = ranges or [{name: {"$in": []}}]
    return wanted


def both(one: Document, other: Document) -> Document:
    """Both conditions, even if they are about the same field."""
    return {"$and": [one, other]} if one and other else one or other
