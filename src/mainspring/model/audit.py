"""The audit log's rows: who changed what, from where, and the chain of hashes that shows when one was tampered with.
Pure.

Each row's hash covers the row and the hash of the one before it, so that a row that is edited, taken out or put in
breaks the chain at a place that can be named. What was before and after is kept as JSON text: a value that a database
reads back in another shape would break the chain by itself. Whatever is kept is redacted first and cut to size then,
never the other way round.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGINNING = "0" * 64
"""What stands for the hash before the first row."""
MASK = "***"
LONGEST_VALUE = 16 * 1024
LONGEST_WORD = 500
_MARK = "mainspring audit 1"
# How much of a value is kept, in rounds, until it fits: letters of a text, entries of a list, levels.
_CUTS = ((4000, 200, 12), (500, 50, 8), (100, 10, 4))
_SENSITIVE = re.compile(r"pass(word|wd|phrase)|secret|token|authori[sz]ation|cookie|credential|api_?-?key|hash|private")
Redact = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """A change to be noted: who did what to what, and how it was before and after."""

    actor: str
    action: str
    target: str
    address: str | None = None
    """Where the request came from."""
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
    prev: str
    hash: str

    def value_before(self) -> Any:
        return None if self.before is None else json.loads(self.before)

    def value_after(self) -> Any:
        return None if self.after is None else json.loads(self.after)


@dataclass(frozen=True, slots=True)
class Link:
    """A place in the chain that the next row follows."""

    n: int = 0
    hash: str = BEGINNING
    at: datetime = EPOCH


@dataclass(frozen=True, slots=True)
class Verdict:
    """What checking the chain has found: how many rows are in order, and the first that is not, with the reason."""

    checked: int
    last: Link
    broken: int | None = None
    reason: str = ""

    @property
    def ok(self) -> bool:
        return not self.reason


FIELDS = tuple(Row.__dataclass_fields__)
_TEXTS = ("id", "actor", "action", "target", "prev", "hash")
_MAYBE_TEXTS = ("address", "before", "after")


def write_rows(link: Link, entries: Sequence[tuple[str, Entry]], now: datetime, redact: Redact) -> list[Row]:
    """The rows that follow a link, for entries with a random id each. Time never goes back along the chain."""
    rows: list[Row] = []
    for identity, entry in entries:
        row = _write_row(link, identity, entry, max(now, link.at), redact)
        rows.append(row)
        link = Link(row.n, row.hash, row.at)
    return rows


def _write_row(link: Link, identity: str, entry: Entry, at: datetime, redact: Redact) -> Row:
    fields: dict[str, Any] = {
        "n": link.n + 1,
        "id": identity,
        "at": at,
        "actor": _word(entry.actor),
        "address": None if entry.address is None else _word(entry.address),
        "action": _word(entry.action),
        "target": _word(entry.target),
        "before": _kept(entry.before, redact),
        "after": _kept(entry.after, redact),
        "prev": link.hash,
    }
    return Row(**fields, hash=hash_of(fields))


def hash_of(fields: Mapping[str, Any]) -> str:
    """The hash of a row, over everything in it but the hash itself."""
    covered = [fields[name] for name in FIELDS if name not in ("at", "hash")]
    milliseconds = (fields["at"] - EPOCH) // timedelta(milliseconds=1)
    text = json.dumps([_MARK, milliseconds, *covered], separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode()).hexdigest()


def check_rows(link: Link, rows: Iterable[Mapping[str, Any]], known: Sequence[Link]) -> Verdict:
    """Follow the chain from a link through rows as they are stored; the verdict ends at the first that is broken. The
    chain has to pass through the links that are known from elsewhere.
    """
    checked = 0
    for fields in rows:
        reason = _fault(link, fields) or _contradiction(fields, known)
        if reason:
            return Verdict(checked, link, link.n + 1, reason)
        link = Link(int(fields["n"]), str(fields["hash"]), fields["at"])
        checked += 1
    return Verdict(checked, link)


def _fault(link: Link, fields: Mapping[str, Any]) -> str:
    """What is wrong with the row that is found after a link; empty when nothing is."""
    there, expected = fields.get("n"), link.n + 1
    if isinstance(there, bool) or not isinstance(there, int):
        return f"a row with the number {there!r:.50} does not belong there"
    if there != expected:
        return f"row {expected} is missing" if there > expected else f"row {there} does not belong there"
    if set(fields) != set(FIELDS) or not _well_formed(fields):
        return f"row {expected} was changed: its fields are not those of a row"
    if fields["prev"] != link.hash:
        return f"row {expected} does not follow row {link.n}"
    return "" if fields["hash"] == hash_of(fields) else f"row {expected} was changed"


def _contradiction(fields: Mapping[str, Any], known: Sequence[Link]) -> str:
    other = any(fields["n"] == one.n and fields["hash"] != one.hash for one in known)
    return f"row {fields['n']} is not the one that was written" if other else ""


def _well_formed(fields: Mapping[str, Any]) -> bool:
    return (
        isinstance(fields["at"], datetime)
        and all(isinstance(fields[name], str) for name in _TEXTS)
        and all(fields[name] is None or isinstance(fields[name], str) for name in _MAYBE_TEXTS)
    )


def to_fields(row: Row) -> dict[str, Any]:
    """A row's fields by name."""
    return {name: getattr(row, name) for name in FIELDS}


# -- what is kept of a value ---------------------------------------------------------------------------------------


def mask_secrets(value: Any) -> Any:
    """A redaction for plain data: what stands under a name such as password or token is masked, at any depth."""
    if isinstance(value, Mapping):
        return {key: _masked(str(key), one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [mask_secrets(one) for one in value]
    return value


def _masked(name: str, value: Any) -> Any:
    plain = value is None or isinstance(value, bool | int | float)
    return MASK if not plain and _SENSITIVE.search(name.lower()) else mask_secrets(value)


def _kept(value: Any, redact: Redact) -> str | None:
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
    """The value in JSON's own types; what is cut says so."""
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


def _word(text: str) -> str:
    """A short text: names of people, actions and things, where whatever cannot be shown is replaced."""
    shown = "".join(one if one.isprintable() else "\ufffd" for one in str(text)[: LONGEST_WORD + 1])
    return shown if len(shown) <= LONGEST_WORD else f"{shown[: LONGEST_WORD - 1]}…"
