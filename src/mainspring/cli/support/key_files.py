"""API keys that this user of the machine has been given, one file each, in the user's settings folder: never in the
folder that a command runs in, which may be a repository.

`mainspring serve` puts the first key there, and `mainspring api-key show` reads it. Files are readable by their owner
only. A file counts by what is in it, not by its name: keys of several databases lie side by side, and one that was
rotated or revoked elsewhere is not taken for good.
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
    """The folder of this user's keys. RuntimeError where the user has no home."""
    base = environment.get("XDG_CONFIG_HOME", "")
    if not Path(base).is_absolute() and sys.platform == "win32":
        base = environment.get("APPDATA", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".config") / "mainspring" / "api-keys"


class StagedKey:
    """A key that is stored already, but not by its name yet: whether it will count is still to be seen."""

    def __init__(self, text: str) -> None:
        """Raises OSError or RuntimeError where it cannot be stored."""
        folder = _made(folder_of_keys())
        self.path = folder / key_id(text)
        self._staged = stage_private(folder, f"{text}\n")

    def publish(self) -> Path:
        """The key counts."""
        return self._staged.replace(self.path)

    def discard(self) -> None:
        """The key does not count."""
        self._staged.unlink(missing_ok=True)


def find_key(keys: Iterable[Key], now: datetime) -> str | None:
    """The text of one of these keys that is stored here and counts, if there is one."""
    known = {key.id: key for key in keys}
    for text in _texts():
        key = known.get(_id_of(text))
        if key is not None and verify(text, key, now):
            return text
    return None


def replace_key(text: str) -> None:
    """A key has a new text: store it if the old one was stored."""
    path = folder_of_keys() / key_id(text)
    if path.exists():
        write_private(path, f"{text}\n")


def forget_key(identity: str) -> None:
    """A key is revoked."""
    (folder_of_keys() / identity).unlink(missing_ok=True)


def _made(folder: Path) -> Path:
    """The folder, made if need be, and closed to others."""
    folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in (folder.parent, folder):
        one.mkdir(mode=0o700, exist_ok=True)
    if not is_private(folder):
        folder.chmod(0o700)
    return folder


def _texts() -> Iterator[str]:
    try:
        paths = sorted(folder_of_keys().iterdir(), reverse=True)  # those with a name before those that are staged
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
