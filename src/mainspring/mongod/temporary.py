"""An embedded server for one run of tests: in a temporary folder, which is deleted when its last user has closed it.

Processes that are given the same key, as those of pytest-xdist, share one server. `mainspring.testing` opens it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from mainspring.mongod.folder import Folder
from mainspring.mongod.locks import FileLock
from mainspring.mongod.server import open_server

# A server with its journal and its oplog takes about a hundred megabytes.
_ROOM = 2 * 1024**3
PREFIX = "mainspring-pytest-"
"""How the names of the folders begin."""


class TemporaryServer:
    """One use of a temporary server. It runs from the construction on, until the last use of its key is closed."""

    def __init__(self, key: str) -> None:
        self._folder = Folder(temporary_place() / f"{PREFIX}{key}")
        try:
            self._server = open_server(self._folder.path)
        except BaseException:
            self._delete_if_unused()
            raise

    @property
    def uri(self) -> str:
        return self._server.uri

    def close(self) -> None:
        """Stop using the server. The last user deletes the folder, whereupon the guardian kills mongod at once."""
        self._server.close()
        self._delete_if_unused()

    def _delete_if_unused(self) -> None:
        users = FileLock(self._folder.users_lock)
        if users.try_exclusive():
            self._delete()
        users.close()

    def _delete(self) -> None:
        """Delete the folder under another name: a process that opens a server of this key now makes a new one."""
        doomed = self._folder.path.with_name(f"{self._folder.path.name}-{secrets.token_hex(4)}")
        with suppress(OSError):
            self._folder.path.rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def temporary_place() -> Path:
    """A folder in memory, if there is one with room, so that no write waits for a disk; otherwise the usual one."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _ROOM
    return memory if roomy else Path(tempfile.gettempdir())
