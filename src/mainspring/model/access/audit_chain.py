"""The chain of the audit log: rows that each carry the hash before them, written and checked. Pure.

A row's hash covers the row and the hash of the row before, so that a row that is edited, taken out or put in breaks the
chain at a place that can be named. With a key, which is kept outside the database, the hash is an HMAC: a program that
can write to the database, but has no key, can write no valid row. The head, one document with the end of the log, has a
MAC of its own, so that the check notices rows that are cut off at the end as well.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from mainspring.errors import AuditKeyMissing
from mainspring.model.access.audit import FIELDS, Entry, Redact, Row, kept_text, kept_value

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
class Link:
    """A place in the chain that the next row follows."""

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
    fields: dict[str, Any] = {
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
