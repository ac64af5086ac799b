"""The user's side of the embedded server: `open_server` and the `EmbeddedServer` that it returns.

A user takes a shared lock on the folder, starts a guardian if there is none, and waits until the server takes
writes. Only the lock ties users and server together: it is released when the user closes the server or dies.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from mainspring.errors import EmbeddedError
from mainspring.mongod.binary import find_mongod
from mainspring.mongod.folder import Folder, State, folder_error
from mainspring.mongod.launch import start_guardian
from mainspring.mongod.locks import FileLock
from mainspring.mongod.replica_set import make_writable

logger = logging.getLogger("mainspring")

Progress = Callable[[str], None]

_POLL_INTERVAL = 0.02
_QUIET_TIME = 1.5
_PRIMARY_PATIENCE = 2.0
_MOST_GUARDIANS = 3


def open_server(
    folder: Path, *, progress: Progress | None = None, binary: str | None = None, start_timeout: float = 60
) -> EmbeddedServer:
    """Join the embedded server of `folder`, and start it if it is not running. Blocks until it takes writes.

    The folder is made if it does not exist. `progress` receives a line now and then if this takes more than a moment.
    `binary` is the mongod to start, if one must be started. Raises EmbeddedError, whose message states the cure.
    """
    server = EmbeddedServer(folder, binary=binary, progress=progress)
    try:
        server.ensure(start_timeout)
    except BaseException:
        server.close()
        raise
    return server


class EmbeddedServer:
    """One use of an embedded server. Each `open_server` makes one, also twice in the same process.

    It keeps the server running until `close()` or the end of the process, even a kill. A child made by `os.fork` does
    not keep it running: there, `close()` does nothing to the parent's use, and `ensure()` joins the server for the
    child itself. A child that only connects to `uri` loses the server when all its users are gone.
    """

    def __init__(self, folder: Path, *, binary: str | None = None, progress: Progress | None = None) -> None:
        """Use `open_server`, which also joins."""
        self._folder = Folder(Path(folder).expanduser().absolute())
        self._binary = binary
        self._progress = progress
        self._lock = FileLock(self._folder.users_lock)
        self._state = State()
        self._uri = ""
        self._closed = False
        self._process = os.getpid()
        self._mutex = threading.Lock()

    @property
    def folder(self) -> Path:
        """The folder in which the server keeps its data."""
        return self._folder.path

    @property
    def uri(self) -> str:
        """The URI to connect to, password included. It stays the same while the server has a user, and mostly also
        later."""
        return self._uri

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return self._state.port or 0

    @property
    def pid(self) -> int:
        """The process id of mongod, as of the last `ensure()`."""
        return self._state.mongod or 0

    @property
    def guardian_pid(self) -> int:
        """The process id of the guardian, as of the last `ensure()`."""
        return self._state.guardian or 0

    def ensure(self, timeout: float = 60) -> bool:
        """Make sure that the server runs; return whether this call had to wait for it.

        The guardian restarts a dead mongod; this method restarts a dead guardian. It costs next to nothing when the
        server runs, so call it whenever MongoDB does not answer. Raises EmbeddedError.
        """
        if self._process != os.getpid():
            self._process, self._mutex = os.getpid(), threading.Lock()
        with self._mutex:
            if self._closed:
                raise EmbeddedError("This embedded server was closed; open it again with open_server().")
            try:
                return self._ensure(timeout)
            except OSError as error:
                raise folder_error(self.folder, error) from error
            finally:
                if self._closed:  # another thread has closed it meanwhile
                    self._lock.close()

    def close(self) -> None:
        """Stop using the server; it ends when it has no user left. Calling it again does nothing."""
        self._closed = True
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ensure(self, timeout: float) -> bool:
        self._folder.prepare()
        if self._lock.held and _guardian_lives(self._folder) and self._folder.read_state() == self._state:
            return False
        if warning := self._folder.close_to_others():
            logger.warning("%s", warning)
        wait = _Wait(self._folder, timeout, self._progress)
        before = self._folder.read_state()
        stale = before.run if before.phase == "failed" else None
        self._join(wait)
        self._state, self._uri = self._bring_up(wait, stale)
        return True

    def _join(self, wait: _Wait) -> None:
        """Take the shared lock for this user; wait while a guardian is stopping."""
        if self._lock.held:
            return
        self._lock.close()
        while not self._lock.try_shared():
            wait.pause("the previous server is still stopping")

    def _bring_up(self, wait: _Wait, stale: str | None) -> tuple[State, str]:
        """Start the guardian if none runs, and wait until mongod takes writes; return its state and URI. `stale` is a
        failed run of before, which is not an error of this one."""
        guardians = 0
        while True:
            if self._start_guardian():
                guardians += 1
                _check_guardians(self._folder, guardians)
            state = self._folder.read_state()
            if state.phase in ("failed", "failing") and state.run != stale:
                raise EmbeddedError(state.detail)
            if state.phase == "running" and state.port and state.mongod:
                uri = make_writable(self._folder, state.port, state.mongod, _PRIMARY_PATIENCE)
                if uri is not None:
                    return state, uri
                wait.pause("it becomes ready for writes")
            else:
                wait.pause(state.detail)

    def _start_guardian(self) -> bool:
        """Start a guardian unless there is one; return whether this call has started it."""
        lock = FileLock(self._folder.guardian_lock)
        try:
            if not lock.try_exclusive():
                return False
            start_guardian(self._folder, find_mongod(self._binary), lock)
            return True
        finally:
            lock.close()


class _Wait:
    """The wait of one user: the time that is left, and the reason that was reported last."""

    def __init__(self, folder: Folder, timeout: float, progress: Progress | None) -> None:
        self._folder = folder
        self._timeout = timeout
        self._progress = progress
        self._began = time.monotonic()
        self._said: str | None = None

    def pause(self, reason: str) -> None:
        """Sleep a little; report the reason after a while, and raise after the timeout."""
        waited = time.monotonic() - self._began
        if waited >= self._timeout:
            raise EmbeddedError(
                f"The embedded MongoDB in {self._folder.path} was not ready within {self._timeout:g} s"
                f"{f' ({reason})' if reason else ''}; see {self._folder.log}, or allow it more time."
            )
        if waited >= _QUIET_TIME and self._progress and reason != self._said:
            self._said = reason
            self._progress(f"Starting the embedded MongoDB … {f'({reason})' if reason else ''}".rstrip())
        time.sleep(_POLL_INTERVAL)


def _guardian_lives(folder: Folder) -> bool:
    lock = FileLock(folder.guardian_lock)
    try:
        return not lock.try_exclusive()
    finally:
        lock.close()


def _check_guardians(folder: Folder, started: int) -> None:
    """Raise when several guardians in a row have ended without an explanation."""
    if started > _MOST_GUARDIANS:
        raise EmbeddedError(
            f"The guardian of the embedded MongoDB in {folder.path} ended {_MOST_GUARDIANS} times without a reason; "
            f"see {folder.guardian_log} and {folder.log}, or choose another folder."
        )
