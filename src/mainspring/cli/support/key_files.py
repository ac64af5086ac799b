"""The API keys of this user of the machine, one file each, in the user's settings folder: never in the folder that a
command runs in, which may be a repository.

`mainspring serve` stores the first key there, and `mainspring keys show` reads it. Files are readable by their owner
only. The content of a file decides whether its key is valid, not its name: the folder has keys of several databases,
and a key may have been rotated or revoked elsewhere.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from mainspring.config.private_files import is_private, stage_private, write_private
from mainspring.errors import InvalidKey
from mainspring.model.access.api_keys import Key, key_id, verify


def folder_of_keys(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of this user's keys. Raise RuntimeError if the user has no home."""
    base = environment.get("XDG_CONFIG_HOME", "")
    if not Path(base).is_absolute() and sys.platform == "win32":
        base = environment.get("APPDATA", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".config") / "mainspring" / "api-keys"


class StagedKey:
    """A key that is stored under a temporary name, until it is known whether the key is valid."""

    def __init__(self, text: str) -> None:
        """Store the key. Raise OSError or RuntimeError if that fails."""
        folder = _made(folder_of_keys())
        self.path = folder / key_id(text)
        self._staged = stage_private(folder, f"{text}\n")

    def publish(self) -> Path:
        """Give the file its name: the key is valid."""
        return self._staged.replace(self.path)

    def discard(self) -> None:
        """Delete the file: the key is not valid."""
        self._staged.unlink(missing_ok=True)


def find_key(keys: Iterable[Key], now: datetime) -> str | None:
    """The text of one of these keys that is stored here and valid, or None."""
    known = {key.id: key for key in keys}
    for text in _texts():
        key = known.get(_id_of(text))
        if key is not None and verify(text, key, now):
            return text
    return None


def replace_key(text: str) -> None:
    """Store the new text of a key if its old one was stored."""
    path = folder_of_keys() / key_id(text)
    if path.exists():
        write_private(path, f"{text}\n")


def forget_key(identity: str) -> None:
    """Delete the file of a revoked key."""
    (folder_of_keys() / identity).unlink(missing_ok=True)


def _made(folder: Path) -> Path:
    """The folder, created if necessary, and readable by its owner only."""
    folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in (folder.parent, folder):
        one.mkdir(mode=0o700, exist_ok=True)
    if not is_private(folder):
        folder.chmod(0o700)
    return folder


def _texts() -> Iterator[str]:
    try:
        paths = sorted(folder_of_keys().iterdir(), reverse=True)  # published files before staged ones
    except (OSError, RuntimeError):
        return
    for path in paths:
        try:
            yield path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue


def _id_of(text: str) -> str:
    try:
        return key_id(text)
    except InvalidKey:
        return ""
