"""Files that only their owner can read, replaced in one step: passwords and API keys on the disk.

The embedded server and the command line use it. It needs the standard library only, since the guardian imports it.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""The bits of a file's mode that give rights to users other than its owner."""


def write_private(path: Path, text: str) -> None:
    """Write or replace a file that is readable by its owner only. Raise OSError."""
    new = stage_private(path.parent, text)
    try:
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def stage_private(folder: Path, text: str) -> Path:
    """Write such a file under a new, unique name, to be renamed or removed later. Raise OSError."""
    fd, name = tempfile.mkstemp(prefix=".new-", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return path


def owner_only(name: str, flags: int) -> int:
    """An opener that creates files readable by their owner only: `open(…, opener=owner_only)`."""
    return os.open(name, flags, 0o600)


def is_private(path: Path) -> bool:
    """Whether only its owner can read or change a file or folder; Windows has no such modes. Raise OSError."""
    return os.name == "nt" or not path.stat().st_mode & OTHERS
