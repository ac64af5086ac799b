"""API keys: their form, their roles and scopes, and the check of a text against a key. Pure.

A key is shown once, when it is made or rotated, as `ms_<id>_<secret>`. Only a hash of the secret is kept: the secret is
256 random bits, so that no attacker can guess it from the hash, however fast that is computed. Nothing here ever puts a
secret, or a part of one, into a message or a repr.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, Literal

from mainspring.config.settings import check_name
from mainspring.errors import ConfigurationError, InvalidKey
from mainspring.model.access.idempotency import remembered
from mainspring.spelling import suggestion

VIEWER: Final = "viewer"
OPERATOR: Final = "operator"
ADMIN: Final = "admin"
Role = Literal["viewer", "operator", "admin"]
ROLES: tuple[Role, ...] = (VIEWER, OPERATOR, ADMIN)
"""From the least to the most: each role includes the roles before it."""
PREFIX = "ms"
KEY_ACTOR = "key:"
"""The prefix of an actor that is an API key; the key's id follows."""
LONGEST_GRACE = timedelta(days=30)
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH, _SECRET_LENGTH, _SECRET_BYTES = 12, 43, 32
_FORM = re.compile(rf"{PREFIX}_([0-9A-Za-z]{{{_ID_LENGTH}}})_([0-9A-Za-z]{{{_SECRET_LENGTH}}})", re.ASCII)
_IDENTITY = re.compile(rf"[0-9A-Za-z]{{{_ID_LENGTH}}}", re.ASCII)
_MOST_SCOPES = 100
_NOBODY = "0" * 64


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a key: these queues, and jobs whose names begin with one of these prefixes; None is everything."""

    queues: tuple[str, ...] | None = None
    prefixes: tuple[str, ...] | None = None

    @property
    def everything(self) -> bool:
        return self.queues is None and self.prefixes is None

    def allows(self, queue: str | None, name: str | None) -> bool:
        """Whether the scope includes this queue and name. A scope that names queues or prefixes excludes None."""
        return self.allows_queue(queue) and self.allows_name(name)

    def allows_queue(self, queue: str | None) -> bool:
        return self.queues is None or queue in self.queues

    def allows_name(self, name: str | None) -> bool:
        return self.prefixes is None or (name is not None and name.startswith(self.prefixes))

    def covers(self, other: Scope) -> bool:
        """Whether this scope contains the other one: a key can grant only rights that it has."""
        queues = self.queues is None or (other.queues is not None and set(other.queues) <= set(self.queues))
        return queues and (
            self.prefixes is None
            or (other.prefixes is not None and all(one.startswith(self.prefixes) for one in other.prefixes))
        )

    def to_document(self) -> dict[str, Any]:
        document = {"queues": self.queues, "prefixes": self.prefixes}
        return {name: list(values) for name, values in document.items() if values is not None}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Scope:
        queues, prefixes = document.get("queues"), document.get("prefixes")
        return cls(None if queues is None else tuple(queues), None if prefixes is None else tuple(prefixes))


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class Key:
    """A stored API key: everything except the secret."""

    id: str
    name: str
    """Its name, chosen by its owner."""
    role: str
    hash: str = field(repr=False)
    created_at: datetime
    scope: Scope = EVERYTHING
    actor: str | None = None
    """The actor that made it."""
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    rotated_at: datetime | None = None
    old_hash: str | None = field(default=None, repr=False)
    old_until: datetime | None = None
    """The end of the grace time, in which the secret before the last rotation is valid too."""
    requests: tuple[str, ...] = ()
    """The last rotations that had an id, so that none is carried out twice."""

    def may(self, role: str) -> bool:
        """Whether its role is this one or a higher one."""
        return self.role in ROLES and ROLES.index(self.role) >= ROLES.index(role)

    def is_live(self, now: datetime) -> bool:
        """Whether it is valid: neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def counts(self, hash: str, now: datetime) -> bool:
        """Whether a hash is that of a secret of this key that is valid now."""
        return self.is_live(now) and (hash == self.hash or (hash == self.old_hash and _in_grace(self, now)))

    def honours(self, issued_at: datetime, now: datetime) -> bool:
        """Whether a session that was opened with it is valid now. A session ends when the secret that opened it
        does."""
        current = self.rotated_at is None or issued_at >= self.rotated_at
        return self.is_live(now) and (current or _in_grace(self, now))


def new_key(
    name: str,
    role: str,
    now: datetime,
    *,
    scope: Scope = EVERYTHING,
    expires_at: datetime | None = None,
    actor: str | None = None,
    identity: str | None = None,
) -> tuple[str, Key]:
    """A new key: the text to show, this once, and the key to store."""
    if role not in ROLES:
        raise ConfigurationError(f"There is no role {role!r:.100}.{suggestion(str(role), ROLES)}")
    if expires_at is not None:
        _check_end(expires_at, now)
    if identity is not None and not _IDENTITY.fullmatch(identity):
        raise InvalidKey(f"The id of an API key is {_ID_LENGTH} letters and digits of ASCII.")
    identity = identity or new_key_id()
    secret = _new_secret()
    key = Key(
        id=identity,
        name=check_name(name, "a key's name"),
        role=role,
        hash=_hash(secret),
        created_at=now,
        scope=scope,
        actor=actor,
        expires_at=expires_at,
    )
    return _text(identity, secret), key


def new_key_id() -> str:
    """A random id for a key."""
    return "".join(secrets.choice(_LETTERS) for _ in range(_ID_LENGTH))


def key_id_from(seed: str) -> str:
    """The id of a key that is made for a request: the same however often the request is repeated."""
    return _letters(int.from_bytes(sha256(f"key {seed}".encode()).digest()), _ID_LENGTH)


def rotated_key(
    key: Key, now: datetime, grace: timedelta = timedelta(0), request_id: str | None = None
) -> tuple[str, Key]:
    """The key with a new secret, and its text to show; the old one is valid for the grace time. Its expiry stays."""
    if not timedelta(0) <= grace <= LONGEST_GRACE:
        raise ConfigurationError(f"The grace time of a rotation is from 0 to {LONGEST_GRACE.days} days, not {grace}.")
    secret = _new_secret()
    old = {"old_hash": key.hash, "old_until": now + grace} if grace else {"old_hash": None, "old_until": None}
    requests = tuple(remembered(key.requests, request_id))
    return _text(key.id, secret), replace(key, hash=_hash(secret), rotated_at=now, requests=requests, **old)


def key_id(text: str) -> str:
    """The id in a key's text, by which to look the key up."""
    return _read(text)[0]


def secret_hash(text: str) -> str:
    """The hash of the secret in a key's text."""
    return _hash(_read(text)[1])


def verify(text: str, key: Key | None, now: datetime) -> bool:
    """Whether a text is this key, and the key is valid now. An unknown key takes as long as a wrong secret."""
    try:
        identity, secret = _read(text)
    except InvalidKey:
        return False
    given = _hash(secret)
    current = compare_digest(given, _NOBODY if key is None else key.hash)
    old = compare_digest(given, _NOBODY if key is None or key.old_hash is None else key.old_hash)
    if key is None or key.id != identity or not key.is_live(now):
        return False
    return current or (old and _in_grace(key, now))


def made_with(keys: Iterable[Key], key_id: str) -> frozenset[str]:
    """The ids of all keys that were made with a key, directly or through other keys."""
    makers: dict[str, list[str]] = {}
    for key in keys:
        makers.setdefault(key.actor or "", []).append(key.id)
    found: set[str] = set()
    ahead = [key_id]
    while ahead:
        new = set(makers.get(actor_of(ahead.pop()), ())) - found
        found |= new
        ahead += new
    return frozenset(found)


def actor_of(key_id: str) -> str:
    """The actor of a key, for the audit log and jobs."""
    return f"{KEY_ACTOR}{key_id}"


def make_scope(queues: Iterable[str] | None, prefixes: Iterable[str] | None) -> Scope:
    """A scope as users write it."""
    return Scope(_words(queues, "queues", "a queue's name"), _words(prefixes, "prefixes", "a prefix of names"))


def _words(values: Iterable[str] | None, what: str, one: str) -> tuple[str, ...] | None:
    if values is None:
        return None
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{what} must be a list, or None for everything, not {values!r:.100}.")
    found = tuple(dict.fromkeys(check_name(value, one) for value in values))
    if not 1 <= len(found) <= _MOST_SCOPES:
        raise ConfigurationError(f"{what} must have 1 to {_MOST_SCOPES} entries; leave it out for everything.")
    return found


def _check_end(expires_at: datetime, now: datetime) -> None:
    if not isinstance(expires_at, datetime) or expires_at.tzinfo is None:
        raise ConfigurationError(f"expires_at must be a datetime with a time zone, not {expires_at!r}.")
    if expires_at <= now:
        raise ConfigurationError(f"expires_at is in the past: {expires_at.isoformat()}.")


def _in_grace(key: Key, now: datetime) -> bool:
    return key.old_until is not None and now < key.old_until


def _read(text: str) -> tuple[str, str]:
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise InvalidKey(f"This is not an API key; one has the form {PREFIX}_<id>_<secret>. Copy it whole.")
    return found[1], found[2]


def _text(identity: str, secret: str) -> str:
    return f"{PREFIX}_{identity}_{secret}"


def _hash(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _new_secret() -> str:
    """256 random bits as letters and digits, which survive a double click and any shell."""
    return _letters(int.from_bytes(secrets.token_bytes(_SECRET_BYTES)), _SECRET_LENGTH)


def _letters(number: int, length: int) -> str:
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[digit])
    return "".join(letters)
