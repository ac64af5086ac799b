"""Encrypted values: which values of a job's data are encrypted, and their stored form. Pure.

`Encrypt` names the values, `EncryptedValue` is one of them without its key, and the walks here find their places.
`Cipher` (`store/privacy/cipher.py`) encrypts and decrypts, with the keys of `store/privacy/keyring.py`. An encrypted
value is a small document, marked by its first field; `kid` is the id of its key:

    {"__sealed__": 1, "kid": "2026b", "n": nonce, "c": ciphertext, "of": "schedule"}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mainspring.errors import ConfigurationError, InvalidJob
from mainspring.model.fields import Fields

MARK, FORM = "__sealed__", 1
ALL = "*"
"""The name of all data, where that is encrypted as a whole; in a path, any one step."""
SCHEDULE = "schedule"

Place = tuple[str | int, ...]
"""The path of a value: the names of fields, and places in lists."""


@dataclass(frozen=True, slots=True, repr=False)
class EncryptedValue:
    """An encrypted value that is not decrypted, because this process lacks its key (`key_id`) or the value must not be
    shown."""

    key_id: str
    nonce: bytes = b""
    text: bytes = b""
    of: str = ""
    """The document that it is bound to: its job, or, with "schedule", the schedule that made the job."""

    def __repr__(self) -> str:
        return f"EncryptedValue({self.key_id!r})"

    def to_document(self) -> Fields:
        document = {MARK: FORM, "kid": self.key_id, "n": self.nonce, "c": self.text}
        return {**document, "of": self.of} if self.of else document


@dataclass(frozen=True, slots=True)
class Encrypt:
    """The values to encrypt: those at these paths; all data, as a whole, where no path is given."""

    paths: tuple[str, ...] = ()

    @property
    def all(self) -> bool:
        return not self.paths

    def covers(self, key: str) -> bool:
        """Whether the value at this path is encrypted, or a part of it, or a value that contains it."""
        steps = key.split(".")
        return self.all or any(_meet(path.split("."), steps) for path in self.paths)

    def __or__(self, other: Encrypt | None) -> Encrypt:
        if other is None or self.all:
            return self
        return other if other.all else Encrypt(tuple(dict.fromkeys((*self.paths, *other.paths))))


@dataclass(frozen=True, slots=True)
class AsStored:
    """In place of an `Encrypt`: the data is encrypted already, with these keys, and is stored as it is."""

    key_ids: tuple[str, ...]


def check_encrypt(value: object) -> Encrypt | None:
    """The option `encrypt` as users write it: True for all data, or a list of paths."""
    if value is None or value is False:
        return None
    if value is True:
        return Encrypt()
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise ConfigurationError('encrypt must be True, or a list of paths such as ["card.number", "iban"].')
    return Encrypt(tuple(dict.fromkeys(check_path(path, "encrypt") for path in value)))


def both(one: Encrypt | None, other: Encrypt | None) -> Encrypt | None:
    """The union of two requests for encryption."""
    return other if one is None else one | other


def check_path(value: object, option: str) -> str:
    """The path of values in the data, names with dots; a step may be `*`."""
    if not isinstance(value, str) or not 1 <= len(value) <= 200 or ".." in f".{value}." or not value.isprintable():
        raise ConfigurationError(f'{option} lists paths of values in the data, such as "card.number", not {value!r}.')
    return value


def refuse_keys(encrypt: Encrypt | None, keys: Sequence[str], whose: str) -> None:
    """Refuse keys of limits and the like that are encrypted: a worker has to read them to tell jobs apart."""
    for key in keys:
        if encrypt is not None and encrypt.covers(key):
            raise ConfigurationError(
                f"{whose} needs the value of {key!r} to tell jobs apart, and that is encrypted, so that no worker can "
                "compare it. Use a field that is not encrypted, such as a random reference, as the key."
            )


def encrypted_at(data: Mapping[str, Any], encrypt: Encrypt, change: Callable[[Place, Any], Any]) -> Fields:
    """The data with `change` applied to the values at the paths. All data is one value, at no place."""
    if encrypt.all:
        sealed: Fields = change((), dict(data))
        return sealed
    for place, _ in _marked(data, ()):
        raise InvalidJob(f"data has a field {MARK!r} in {_said(place)}, which marks encrypted values; rename it.")
    routes = [path.split(".") for path in encrypt.paths]
    replaced: Fields = _replaced(data, routes, (), change)
    return replaced


def marked_data(data: Mapping[str, Any], encrypt: Encrypt) -> Any:
    """Data with `EncryptedValue` in place of the values that will be encrypted: the form in which a job that was just
    scheduled may be shown."""
    return parsed_data(encrypted_at(data, encrypt, lambda *_: EncryptedValue("")))


def _replaced(value: Any, routes: list[list[str]], place: Place, change: Callable[[Place, Any], Any]) -> Any:
    if any(not route for route in routes):
        return change(place, value)
    if isinstance(value, Mapping):
        return {
            key: _replaced(one, onward, (*place, key), change)
            if (onward := [route[1:] for route in routes if route[0] in (ALL, key)])
            else one
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_replaced(one, _into_list(routes, at), (*place, at), change) for at, one in enumerate(value)]
    return value


def _into_list(routes: list[list[str]], at: int) -> list[list[str]]:
    """The rest of the paths for an item of a list: a step may be the item's place; a field's name skips lists."""
    return [route[1:] if route[0] in (ALL, str(at)) else route for route in routes]


def parsed(value: Any) -> Any:
    """A stored value with `EncryptedValue` in place of its encrypted parts."""
    return opened(value, lambda _, sealed: sealed)


def parsed_data(data: Any) -> Any:
    """Stored data with `EncryptedValue` in place of its encrypted parts; where that is all of it, under the name
    `*`."""
    found = parsed(data)
    return {ALL: found} if isinstance(found, EncryptedValue) else found


def opened(value: Any, open_: Callable[[Place, EncryptedValue], Any], place: Place = ()) -> Any:
    """A stored value with `open_` applied to its encrypted parts; a value without any is not copied."""
    sealed = as_encrypted(value)
    if sealed is not None:
        return open_(place, sealed)
    if isinstance(value, Mapping):
        items: Fields = {key: opened(one, open_, (*place, key)) for key, one in value.items()}
        return items if any(items[key] is not one for key, one in value.items()) else value
    if isinstance(value, list | tuple):
        entries = [opened(one, open_, (*place, at)) for at, one in enumerate(value)]
        return entries if any(new is not old for new, old in zip(entries, value, strict=True)) else value
    return value


def as_encrypted(value: Any) -> EncryptedValue | None:
    """The encrypted value that a document represents; None if it represents none."""
    if isinstance(value, EncryptedValue):
        return value
    if not isinstance(value, Mapping) or value.get(MARK) != FORM:
        return None
    key_id, nonce, text, of = (value.get(key, "") for key in ("kid", "n", "c", "of"))
    if not (isinstance(key_id, str) and isinstance(nonce, bytes) and isinstance(text, bytes) and isinstance(of, str)):
        return None
    return EncryptedValue(key_id, nonce, text, of)


def encrypted_places(value: Any) -> set[Place]:
    """The places of encrypted values in a stored value."""
    places: set[Place] = set()

    def note(at: Place, sealed: EncryptedValue) -> EncryptedValue:
        places.add(at)
        return sealed

    opened(value, note)
    return places


def places_to_encrypt(data: Mapping[str, Any], encrypt: Encrypt) -> set[Place]:
    """The places of values to encrypt in data."""
    places: set[Place] = set()
    encrypted_at(data, encrypt, lambda at, _: places.add(at))
    return places


def encrypt_like(data: Any) -> Encrypt | None:
    """The encryption for data that replaces this, so that no encrypted value becomes plain."""
    places = encrypted_places(data)
    if not places:
        return None
    paths = tuple(sorted({".".join(ALL if isinstance(step, int) else step for step in place) for place in places}))
    ambiguous = any(step == ALL or "." in step for place in places for step in place if isinstance(step, str))
    return Encrypt() if () in places or ambiguous else Encrypt(paths)


def key_ids_in(value: Any) -> set[str]:
    """The keys that a stored value is encrypted with."""
    key_ids: set[str] = set()

    def note(_: Place, sealed: EncryptedValue) -> EncryptedValue:
        key_ids.add(sealed.key_id)
        return sealed

    opened(value, note)
    return key_ids


def _marked(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    """The places of documents that have the mark of encrypted values."""
    if isinstance(value, Mapping):
        if MARK in value:
            yield place, value
        for key, one in value.items():
            yield from _marked(one, (*place, key))
    elif isinstance(value, list | tuple):
        for at, one in enumerate(value):
            yield from _marked(one, (*place, at))


def _said(place: Place) -> str:
    return repr(".".join(map(str, place))) if place else "itself"


def _meet(path: Sequence[str], key: Sequence[str]) -> bool:
    """Whether one of two paths leads to the other, or both to the same."""
    return all(ALL in pair or pair[0] == pair[1] for pair in zip(path, key, strict=False))
