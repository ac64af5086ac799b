"""Documents in the jobs collection that are no jobs of Mainspring: how they are told apart, and how they are reported.

Pure. `store/foreign/foreign.py` queries them by the same rule. A document is taken for a job if it has a `name` and a
`state` that is one of Mainspring's. A document without a `state` is taken for a pending job only if it has no other
fields than a job may be inserted with, since documents of other programs have names, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mainspring.config.field_map import FieldMap
from mainspring.model.jobs.job import STATES

INSERTED_FIELDS = frozenset(
    {
        *("_id", "name", "state", "data", "data_v", "queue", "priority", "run_at", "created_at", "expires_at"),
        *("start_within", "timeout", "retry", "guarantee", "tags", "dedupe_key"),
    }
)
"""The fields that a program may set in a job that it inserts itself."""

_FIELDS_NAMED = 8


@dataclass(frozen=True, slots=True)
class ForeignDocument:
    """A document that is left alone: its id, the reason why it is not a job, and the names of its fields."""

    id: Any
    reason: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForeignDocuments:
    """The documents in the jobs collection that are left alone: their number, and some of them."""

    count: int
    """At most 1,000 are counted."""
    more: bool
    """Whether there are more than that."""
    samples: tuple[ForeignDocument, ...] = ()


def describe_foreign(document: Mapping[str, Any], map: FieldMap | None = None) -> ForeignDocument:
    """The report about a document that is no job. Of its values, only the id and the state are shown."""
    return ForeignDocument(document["_id"], _reason_by_map(document, map) or _reason(document), tuple(document))


def _reason_by_map(document: Mapping[str, Any], map: FieldMap | None) -> str | None:
    """The reason why a document that has the status field of a field map is no job by it."""
    if map is None or document.get(map.status) is None:
        return None
    status = document[map.status]
    if not isinstance(status, str) or status not in map.states:
        return f"its {map.status} {status!r:.100} is not in the field map"
    return f"it has a {map.status} and no {map.name}"


def _reason(document: Mapping[str, Any]) -> str:
    if document.get("name") is None:
        return "it has no name"
    state = document.get("state")
    if state is not None and state not in STATES:
        return f"its state {state!r:.100} is none of Mainspring's"
    others = sorted(str(key) for key in document if key not in INSERTED_FIELDS)
    named = ", ".join(others[:_FIELDS_NAMED]) + (", …" if len(others) > _FIELDS_NAMED else "")
    return f"it has no state, and fields that are not Mainspring's: {named}"
