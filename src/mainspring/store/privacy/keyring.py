"""The keys that encrypt job data, and those that sign the audit log: where they come from, and which one encrypts.

Keys have ids. The first one encrypts or signs, all of them decrypt or verify. They come from the environment, from a
file that may change while the program runs, or from the program itself. No message and no repr here shows a key.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from mainspring.clock import monotonic
from mainspring.config.private_files import stage_private
from mainspring.errors import ConfigurationError

logger = logging.getLogger("mainspring")

KEYS_VARIABLE, FILE_VARIABLE = "MAINSPRING_KEYS", "MAINSPRING_KEYS_FILE"
AUDIT_KEYS_VARIABLE, AUDIT_FILE_VARIABLE = "MAINSPRING_AUDIT_KEYS", "MAINSPRING_AUDIT_KEYS_FILE"
KEY_BYTES = 32
_LOOK_EVERY, _LOOK_AGAIN = 2.0, 0.2
# Shorter than any key in base64, so that a key in the place of its id is never taken for an id, and shown.
_KEY_ID = re.compile(r"[A-Za-z0-9_.-]{1,24}", re.ASCII)
_CURE = "`mainspring generate-key` prints one"


class Keyring:
    """The keys of one Scheduler. Safe to use from any thread: a change is one assignment."""

    def __init__(self, keys: Mapping[str, bytes] | None = None, file: Path | None = None) -> None:
        self._given: dict[str, bytes] = dict(keys or {})
        self._file = file
        self._seen: object = None
        self._looked_at = float("-inf")
        self._keys = self._given
        if file is not None:
            self._seen = _state(file)
            self._keys = self._with(_read(file))

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all keys, the one that encrypts first."""
        self._look(_LOOK_EVERY)
        return tuple(self._keys)

    @property
    def keys(self) -> dict[str, bytes]:
        """All keys by their ids, the one that encrypts first."""
        self._look(_LOOK_EVERY)
        return dict(self._keys)

    @property
    def current(self) -> tuple[str, bytes]:
        """The key that encrypts, with its id. Raises ConfigurationError where there is none."""
        self._look(_LOOK_EVERY)
        for key_id, key in self._keys.items():
            return key_id, key
        raise ConfigurationError(
            f"There is no key to encrypt with. Set {KEYS_VARIABLE} or {FILE_VARIABLE}, or give Scheduler(keys=…); "
            f"{_CURE}."
        )

    def get(self, key_id: str) -> bytes | None:
        """The key with this id. An unknown key is looked for in the file at once."""
        self._look(_LOOK_EVERY)
        if key_id not in self._keys:
            self._look(_LOOK_AGAIN)
        return self._keys.get(key_id)

    def replace(self, keys: Mapping[str, bytes]) -> None:
        """Replace all keys by these; a file is not read any more."""
        self._file = None
        self._keys = dict(keys)

    def _with(self, read: dict[str, bytes]) -> dict[str, bytes]:
        """The keys of the file, and behind them the keys that the program passed."""
        return {**read, **{key_id: key for key_id, key in self._given.items() if key_id not in read}}

    def _look(self, every: float) -> None:
        """Read the file again when it has changed. An unreadable file leaves the keys as they are."""
        if self._file is None or monotonic() - self._looked_at < every:
            return
        self._looked_at = monotonic()
        try:
            state = _state(self._file)
            if state != self._seen:
                self._keys = self._with(_read(self._file))
                self._seen = state
        except (OSError, ConfigurationError) as error:
            logger.warning("The file of keys %s is not read again, and its keys stay: %s", self._file, error)

    def __repr__(self) -> str:
        return f"<Keyring {', '.join(self._keys) or 'empty'}>"


def find_keys(keys: object = None, environment: Mapping[str, str] = os.environ) -> Keyring:
    """The keys for data: the given ones, or else those of the environment."""
    return _find(keys, environment, KEYS_VARIABLE, FILE_VARIABLE)


def find_audit_keys(keys: object = None) -> Keyring:
    """The keys for the audit log: the given ones, or else those of the environment."""
    return _find(keys, os.environ, AUDIT_KEYS_VARIABLE, AUDIT_FILE_VARIABLE)


def kept_keys(file: Path) -> Keyring:
    """The keys of a file. A missing file is created with a new key, readable by its owner only. Of several processes
    that create it at once, one does, and all have its key."""
    try:
        if not file.exists():
            _make_file(file)
    except OSError as error:
        raise ConfigurationError(f"The file of keys {file} cannot be made: {error.strerror}.") from None
    return Keyring(file=file)


def _make_file(file: Path) -> None:
    """Write the file under another name, then link it: no process reads half of it, and none replaces another's."""
    draft = stage_private(file.parent, f"{new_key()}\n")
    try:
        with suppress(FileExistsError):
            os.link(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def _find(keys: object, environment: Mapping[str, str], variable: str, file_variable: str) -> Keyring:
    if keys is not None:
        return Keyring(check_keys(keys))
    file = environment.get(file_variable)
    written = environment.get(variable, "")
    given = _parse(written.split(","), variable) if written.strip() else {}
    return Keyring(given, Path(file).expanduser().absolute() if file else None)


def check_keys(keys: object) -> dict[str, bytes]:
    """Check the keys that a program passed: ids mapped to 32 bytes, or to these in base64."""
    if not isinstance(keys, Mapping):
        raise ConfigurationError('keys must map ids to keys of 32 bytes, such as {"2026a": key}.')
    checked: dict[str, bytes] = {}
    for place, (key_id, key) in enumerate(keys.items(), 1):
        name = _check_key_id(key_id, f"Entry {place} of keys")
        checked[name] = _check_key(key, name, "keys")
    return checked


def new_key(key_id: str | None = None) -> str:
    """A new key with an id, in the form of the environment variable and the file."""
    name = secrets.token_hex(4) if key_id is None else _check_key_id(key_id, "The key")
    return f"{name}:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode('ascii')}"


def _parse(entries: Iterable[str], where: str) -> dict[str, bytes]:
    keys: dict[str, bytes] = {}
    for place, entry in enumerate(entries, 1):
        if not entry.strip() or entry.lstrip().startswith("#"):
            continue
        key_id, colon, text = (part.strip() for part in entry.partition(":"))
        name = _check_key_id(key_id if colon else None, f"Entry {place} of {where}")
        if name in keys:
            raise ConfigurationError(f"{where} has two keys with the id {name!r}; give each an id of its own.")
        keys[name] = _check_key(text, name, where)
    return keys


def _check_key_id(key_id: object, which: str) -> str:
    """Check a key's id. The error does not show an invalid id: it may well be the key."""
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        raise ConfigurationError(
            f"{which} has no id: write ID:KEY, with an id of 1 to 24 letters, digits, '-', '_' and '.'; {_CURE}."
        )
    return key_id


def _check_key(key: object, key_id: str, where: str) -> bytes:
    if isinstance(key, str):
        key = _decoded(key)
    if not isinstance(key, bytes | bytearray) or len(key) != KEY_BYTES:
        found = f"this one has {len(key)}" if isinstance(key, bytes | bytearray) else "this one is something else"
        raise ConfigurationError(
            f"The key {key_id!r} in {where} must be {KEY_BYTES} bytes in base64; {found}. {_CURE}."
        )
    return bytes(key)


def _decoded(text: str) -> bytes | None:
    text = text.strip().rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _read(file: Path) -> dict[str, bytes]:
    try:
        return _parse(file.read_text("utf-8").splitlines(), str(file))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(f"The file of keys {file} cannot be read: {reason}.") from None


def _state(file: Path) -> object:
    """A value that changes when the file does, also when another file takes its place."""
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino
