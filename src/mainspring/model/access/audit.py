"""The audit log's rows (which key or user changed what, from where, and the values before and after), and the chain of
hashes over them. Pure.

The states before and after are stored as JSON text: a value that a database reads back in another shape would break the
chain by itself. A value is redacted first and then cut to size, never the other way round.

A row's hash covers the row and the hash of the row before, so that a row that is edited, taken out or put in breaks the
chain at a place that can be named. With a key, which is kept outside the database, the hash is an HMAC: a program that
can write to the database, but has no key, can write no valid row. The head, one document with the end of the log, has a
MAC of its own, so that the check notices rows that are cut off at the end as well.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from mainspring.errors import AuditKeyMissing
from mainspring.model.fields import Fields

LONGEST_VALUE = 16 * 1024
LONGEST_WORD = 500
# The parts of a value that are kept, in rounds, until it fits: letters of a text, entries of a list, levels.
_CUTS = ((4000, 200, 12), (500, 50, 8), (100, 10, 4))
Redact = Callable[[Any], Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGINNING = "0" * 64
"""The hash before the first row."""
SEAL = "audit.seal"
"""The action of a row by which an operator with the key accepts the rows before it that were not signed."""
AUDIT_LOG = "mainspring.audit"
"""The logger that the end of the log is written to."""
HEAD_EVERY = 3600.0
"""The interval of that, in seconds."""
_MARK = "mainspring audit 2"
_HEAD_MARK = "mainspring audit head 1"
_TEXTS = ("id", "actor", "action", "target", "prev", "hash")
_MAYBE_TEXTS = ("address", "before", "after", "key")

Keys = Mapping[str, bytes]
"""The keys of the log by their ids; the first one signs."""


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
    """A stored change. `before` and `after` are JSON."""

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


def to_fields(row: Row) -> Fields:
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


# -- the chain of hashes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Link:
    """A position in the chain; the next row follows it."""

    n: int = 0
    hash: str = BEGINNING
    at: datetime = EPOCH


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the log according to its head, with the id of the key and the MAC, if it is signed."""

    link: Link
    key: str | None = None
    mac: str | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The end of the log, behind which the next row goes."""

    link: Link
    forged: bool = False
    """Whether the head is missing or was changed by a program without the key: rows may have been cut off."""
    unsigned: bool = False
    """Whether the head has to be signed before the first signed row is written."""
    unsealed: bool = False
    """Whether there is a key, and the last row is not signed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check of the chain: the number of valid rows, and the first invalid one, with the reason."""

    checked: int
    last: Link
    broken: int | None = None
    reason: str = ""
    keyed: bool = False
    """Whether all of these rows are signed, or accepted by a signed seal."""

    @property
    def ok(self) -> bool:
        return not self.reason


# -- writing -------------------------------------------------------------------------------------------------------


def write_rows(
    link: Link, entries: Sequence[tuple[str, Entry]], now: datetime, redact: Redact, keys: Keys
) -> list[Row]:
    """The rows that follow a link, for entries with an id each. Time never goes back along the chain."""
    rows: list[Row] = []
    for identity, entry in entries:
        row = _write_row(link, identity, entry, max(now, link.at), redact, keys)
        rows.append(row)
        link = Link(row.n, row.hash, row.at)
    return rows


def _write_row(link: Link, identity: str, entry: Entry, at: datetime, redact: Redact, keys: Keys) -> Row:
    key = next(iter(keys), None)
    fields: Fields = {
        "n": link.n + 1,
        "id": identity,
        "at": at,
        "actor": kept_text(entry.actor),
        "address": None if entry.address is None else kept_text(entry.address),
        "action": kept_text(entry.action),
        "target": kept_text(entry.target),
        "before": kept_value(entry.before, redact),
        "after": kept_value(entry.after, redact),
        "key": key,
        "prev": link.hash,
    }
    return Row(**fields, hash=hash_of(fields, None if key is None else keys[key]))


def hash_of(fields: Mapping[str, Any], key: bytes | None = None) -> str:
    """The hash of a row, over all its fields but the hash itself; with a key, an HMAC."""
    covered = [fields[name] for name in FIELDS if name not in ("at", "hash")]
    return _digest([_MARK, _milliseconds(fields["at"]), *covered], key)


def sign_head(link: Link, keys: Keys) -> Head:
    """The head for a log that ends at a link, signed if there is a key."""
    key_id = next(iter(keys), None)
    return Head(link) if key_id is None else Head(link, key_id, _head_mac(link, key_id, keys[key_id]))


def _head_mac(link: Link, key_id: str, key: bytes) -> str:
    return _digest([_HEAD_MARK, link.n, link.hash, _milliseconds(link.at), key_id], key)


def _digest(covered: Sequence[Any], key: bytes | None) -> str:
    text = json.dumps(covered, separators=(",", ":"), ensure_ascii=True).encode()
    return sha256(text).hexdigest() if key is None else hmac.digest(key, text, "sha256").hex()


def _milliseconds(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)


def find_end(last: Link, last_key: str | None, head: Head | None, keys: Keys) -> End:
    """The end of the log, by the last row, the id of its key, and the head. A head that is ahead of the rows wins: rows
    that were cut off at the end stay visible as a break. Raises AuditKeyMissing where this process lacks the key: a row
    without it would break the chain.
    """
    told = head or Head(Link())
    for key_id in (last_key, told.key):
        if key_id is not None and key_id not in keys:
            raise AuditKeyMissing(key_id)
    further = last if last.n > told.link.n else told.link
    if not keys or last_key is None:
        return End(further, unsigned=bool(keys) and told.mac is None, unsealed=bool(keys) and last.n > 0)
    if not is_signed(head, keys):
        # One number is skipped, so that the next check names the place where rows may be missing.
        return End(replace(last, n=last.n + 1), forged=True)
    return End(further)


def is_signed(head: Head | None, keys: Keys) -> bool:
    """Whether a process with a key has written the head."""
    key = None if head is None or head.key is None else keys.get(head.key)
    if head is None or head.key is None or head.mac is None or key is None:
        return False
    return hmac.compare_digest(head.mac.encode(), _head_mac(head.link, head.key, key).encode())


def describe_head(link: Link) -> str:
    """The line with the end of the log, in the form that `mainspring audit verify --known` takes."""
    return f"The audit log ends at {link.n}:{link.hash}"


# -- checking ------------------------------------------------------------------------------------------------------


class Walk:
    """Follows the chain from a link through stored rows, up to the first broken one. The chain must contain the links
    that are known from elsewhere.

    Where there is a key, an unsigned row is valid only if a signed seal follows it.
    """

    def __init__(self, link: Link, known: Sequence[Link], keys: Keys) -> None:
        self._verdict = Verdict(0, link)
        self._known = known
        self._keys = keys
        self._unsealed: Verdict | None = None
        """The verdict before the first unsigned row that no seal has accepted yet."""
        self.last_key: str | None = None
        """The id of the key of the last row."""

    def follow(self, rows: Iterable[Mapping[str, Any]]) -> bool:
        """Check more rows; returns whether all of them are valid."""
        for fields in rows:
            before = self._verdict
            reason = self._fault(fields) or self._contradiction(fields)
            if reason:
                self._verdict = replace(before, broken=before.last.n + 1, reason=reason)
                return False
            link = Link(int(fields["n"]), str(fields["hash"]), fields["at"])
            self._verdict = Verdict(before.checked + 1, link)
            self.last_key = fields["key"]
            self._seal(fields, before)
        return True

    def verdict(self) -> Verdict:
        """The result so far."""
        if not self._verdict.ok or not self._keys:
            return self._verdict
        if self._unsealed is None:
            return replace(self._verdict, keyed=True)
        number = self._unsealed.last.n + 1
        reason = (
            f"row {number} has no key's signature, and no row {SEAL} behind it accepts it: it was written before there "
            "was a key, or by a program that has none"
        )
        return replace(self._unsealed, broken=number, reason=reason)

    def _seal(self, fields: Mapping[str, Any], before: Verdict) -> None:
        if fields["key"] is None:
            self._unsealed = self._unsealed or before
        elif fields["action"] == SEAL:
            self._unsealed = None

    def _fault(self, fields: Mapping[str, Any]) -> str:
        """The fault of the next row; empty when it has none."""
        link = self._verdict.last
        there, expected = fields.get("n"), link.n + 1
        if isinstance(there, bool) or not isinstance(there, int):
            return f"a row with the number {there!r:.50} does not belong there"
        if there != expected:
            return f"row {expected} is missing" if there > expected else f"row {there} does not belong there"
        if set(fields) != set(FIELDS) or not _well_formed(fields):
            return f"row {expected} was changed: its fields are not those of a row"
        if fields["prev"] != link.hash:
            return f"row {expected} does not follow row {link.n}"
        return self._wrong_hash(fields)

    def _wrong_hash(self, fields: Mapping[str, Any]) -> str:
        key_id = fields["key"]
        key = None if key_id is None else self._keys.get(key_id)
        if key_id is not None and key is None:
            return f"row {fields['n']} cannot be checked: {AuditKeyMissing(key_id)}"
        same = hmac.compare_digest(fields["hash"].encode(), hash_of(fields, key).encode())
        return "" if same else f"row {fields['n']} was changed"

    def _contradiction(self, fields: Mapping[str, Any]) -> str:
        other = any(fields["n"] == one.n and fields["hash"] != one.hash for one in self._known)
        return f"row {fields['n']} is not the one that was written" if other else ""


def _well_formed(fields: Mapping[str, Any]) -> bool:
    return (
        isinstance(fields["at"], datetime)
        and all(isinstance(fields[name], str) for name in _TEXTS)
        and all(fields[name] is None or isinstance(fields[name], str) for name in _MAYBE_TEXTS)
    )
