"""The secrets of an embedded server: its key file, and the password that is derived from it.

The guardian makes the key file before it starts mongod. A process that can read it, as the owner of the folder can, may
log in as the server's own account, `__system`. The first process sets the server up that way, so that no other program
can connect without a password at any moment. Programs log in as another account, whose password is derived from the
key. So there is one secret to keep, and removing the file replaces both at the next start. Standard library only, since
the guardian imports this module.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from pathlib import Path

from mainspring.config.private_files import is_private, write_private

USER = "mainspring"
"""The account that programs log in as."""
_KEY_BYTES = 96
_KEY = re.compile(r"[A-Za-z0-9+/=]{64,1024}")


def ensure_key(path: Path) -> None:
    """Make the key file unless there is a valid one; replace a key that other users of the machine may have read.
    Raises OSError."""
    try:
        if is_private(path) and read_key(path) is not None:
            return
    except FileNotFoundError:
        pass
    write_private(path, base64.b64encode(os.urandom(_KEY_BYTES)).decode("ascii") + "\n")


def read_key(path: Path) -> str | None:
    """The key in a key file; None if it is missing or damaged. Raises OSError."""
    try:
        text = path.read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return text if _KEY.fullmatch(text) else None


def password_of(key: str) -> str:
    """The password of the account that programs log in as."""
    digest = hmac.digest(key.encode("ascii"), b"the password of the user mainspring", hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")
