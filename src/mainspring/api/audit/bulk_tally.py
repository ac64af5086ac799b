"""The audit entry of many objects at once: the first of them, as many as fit, and a digest of all.

The digest is the SHA-256 over a line for each object: its JSON without spaces, and a line feed. It can be recomputed
from a list of the stored objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from mainspring.model.access.audit import LONGEST_VALUE
from mainspring.model.fields import Fields
from mainspring.model.jobs.reserved_names import EMAIL, HTTP

_FIRST = 100
# A value of the audit log is bounded; the rest of its length is for the other fields.
_ROOM = LONGEST_VALUE - 2048


class Tally:
    """Counts objects, and keeps the first of them."""

    def __init__(self, things: Iterable[Any] = ()) -> None:
        self._digest = sha256()
        self._first: list[Any] = []
        self._room = _ROOM
        self.count = 0
        for thing in things:
            self.add(thing)

    def add(self, thing: Any) -> None:
        text = json.dumps(thing, separators=(",", ":"), ensure_ascii=True)
        self._digest.update(f"{text}\n".encode())
        self.count += 1
        self._room -= len(text) + 1
        if len(self._first) < _FIRST and self._room > 0:
            self._first.append(thing)

    def told(self) -> Fields:
        """The audit entry."""
        return {"count": self.count, "first": self._first, "digest": self._digest.hexdigest()}


def in_short(job_id: str, name: str, data: Mapping[str, Any]) -> list[str | None]:
    """A job in the audit row of a bulk: its id, its name, and the target or the addresses that it is sent to."""
    return [job_id, name, _target(name, data)]


def _target(name: str, data: Mapping[str, Any]) -> str | None:
    field = {HTTP: "target", EMAIL: "to"}.get(name)
    found = None if field is None else data.get(field)
    if isinstance(found, list):
        return ", ".join(one for one in found if isinstance(one, str))
    return found if isinstance(found, str) else None
