"""The audit log's rows: which key or user changed what, from where, and the values before and after. Pure.

The states before and after are stored as JSON text: a value that a database reads back in another shape would break the
chain of hashes (`model/access/audit_chain.py`) by itself. A value is redacted first and then cut to size, never the
other way round.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

LONGEST_VALUE = 16 * 1024
LONGEST_WORD = 500
# The parts of a value that are kept, in rounds, until it fits: letters of a text, entries of a list, levels.
_CUTS = ((4000, 200, 12), (500, 50, 8), (100, 10, 4))
Redact = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """A change for the audit log: its actor, action and object, and the object before and after."""

    actor: str
    action: str
    target: str
    address: str | None = None
    """The address that the request came from."""
    before: Any = None
    after: Any = None
    id: str | None = None
    """The id that the row is to have; without one, it is random."""


@dataclass(frozen=True, slots=True)
class Row:
    """A change as it is kept. `before` and `after` are JSON."""

    n: int
    id: str
    at: datetime
    actor: str
    address: str | None
    action: str
    target: str
    before: str | None
    after: str | None
    key: str | None
    """The id of the key that its hash was made with; None where there was none."""
    prev: str
    hash: str

    def value_before(self) -> Any:
        return None if self.before is None else json.loads(self.before)

    def value_after(self) -> Any:
        return None if self.after is None else json.loads(self.after)


FIELDS = tuple(Row.__dataclass_fields__)


def to_fields(row: Row) -> dict[str, Any]:
    """A row's fields by name."""
    return {name: getattr(row, name) for name in FIELDS}


# -- values --------------------------------------------------------------------------------------------------------


def kept_value(value: Any, redact: Redact) -> str | None:
    """A value as JSON: redacted, then cut until it fits."""
    if value is None:
        return None
    redacted, text = redact(value), ""
    for letters, entries, levels in _CUTS:
        text = json.dumps(_plain(redacted, letters, entries, levels), ensure_ascii=True, separators=(",", ":"))
        if len(text) <= LONGEST_VALUE:
            return text
    return json.dumps({"…": f"too large to keep: {len(text):,} characters even when cut"})


def _plain(value: Any, letters: int, entries: int, levels: int) -> Any:
    """The value in JSON's own types; a cut value has a note of that."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, int):
        return int(value) if abs(value) < 2**63 else _cut(f"{value:#x}", letters)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({len(value):,} bytes)"
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _plain_many(value, letters, entries, levels) if levels else "…"
    return _cut(str(value), letters)


def _plain_many(value: Any, letters: int, entries: int, levels: int) -> Any:
    more = len(value) - entries
    if isinstance(value, Mapping):
        pairs = list(value.items())[:entries]
        found = {_cut(str(key), letters): _plain(one, letters, entries, levels - 1) for key, one in pairs}
        return found if more <= 0 else {**found, "…": f"{more:,} more"}
    items = [_plain(one, letters, entries, levels - 1) for one in list(value)[:entries]]
    return items if more <= 0 else [*items, f"… {more:,} more"]


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[:letters]}… ({len(text):,} characters)"


def kept_text(text: str) -> str:
    """A short text, such as an actor, an action or a target; characters that cannot be shown are replaced."""
    shown = "".join(one if one.isprintable() else "\ufffd" for one in str(text)[: LONGEST_WORD + 1])
    return shown if len(shown) <= LONGEST_WORD else f"{shown[: LONGEST_WORD - 1]}…"
