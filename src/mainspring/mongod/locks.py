"""Locks on files, which the system releases when their holder dies, kill -9 included.

Both sides use them. Users hold `users.lock` shared, and the guardian tries it exclusively to learn that no user is
left. The guardian holds `guardian.lock` exclusively, and a user that can take it knows that there is no guardian.

A child made by `os.fork` holds no lock: its copies of the files are closed right after the fork. Left open, they would
keep the parent's lock alive after the parent's death; unlocked, they would take it from a living parent.

Standard library only, since the guardian imports this module.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import weakref
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    _RANGE = 1 << 20

    # Windows has no shared lock here: a sharer locks one byte of many, an exclusive holder all of them.
    def _take(fd: int, *, shared: bool) -> bool:
        os.lseek(fd, random.randrange(_RANGE) if shared else 0, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1 if shared else _RANGE)
        except OSError:
            return False
        return True

    def _drop(fd: int, *, shared: bool) -> None:
        try:
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1 if shared else _RANGE)
        except OSError:
            pass
else:
    import fcntl

    def _take(fd: int, *, shared: bool) -> bool:
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _drop(fd: int, *, shared: bool) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


class FileLock:
    """A file, opened when first needed, and at most one lock on it.

    Dropping the object releases nothing; `close()` does, and so does the end of the process.
    """

    def __init__(self, path: Path, fd: int | None = None) -> None:
        """With `fd`, adopt an open file whose lock was taken by the process that handed it over."""
        self.path = path
        self._fd = fd
        self._held = fd is not None
        self._shared = False
        with _opening:
            _all_locks.add(self)

    @property
    def held(self) -> bool:
        """Whether the lock is held, on a file that still has its name."""
        return self._held and not self.orphaned

    @property
    def orphaned(self) -> bool:
        """Whether the open file was removed from its folder, so that no other process can see its lock."""
        return self._fd is not None and os.fstat(self._fd).st_nlink == 0

    def fileno(self) -> int:
        """The number of the open file, to hand the lock over to a child."""
        return self._open()

    def try_shared(self) -> bool:
        """Take the lock together with other sharers; return whether it was taken."""
        return self._try(shared=True)

    def try_exclusive(self) -> bool:
        """Take the lock alone; return whether it was taken."""
        return self._try(shared=False)

    def unlock(self) -> None:
        """Drop the lock and keep the file open."""
        if self._fd is not None and self._held:
            _drop(self._fd, shared=self._shared)
        self._held = False

    def close(self) -> None:
        """Drop the lock and the file. Calling it again does nothing."""
        self.unlock()
        self.forget()

    def forget(self) -> None:
        """Close this process's copy of the file, without touching a lock that another process has through it."""
        fd, self._fd, self._held = self._fd, None, False
        if fd is not None:
            os.close(fd)

    def _open(self) -> int:
        if self._fd is None:
            with _opening:
                self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        return self._fd

    def _try(self, *, shared: bool) -> bool:
        if not _take(self._open(), shared=shared):
            return False
        self._held, self._shared = True, shared
        if self.orphaned:
            self.close()
            return False
        return True


_opening = threading.Lock()
_all_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    _opening.release()
    for lock in list(_all_locks):
        lock.forget()


if hasattr(os, "register_at_fork"):
    # No fork happens between the opening of a file and its registration: the child would keep the file open.
    os.register_at_fork(before=_opening.acquire, after_in_parent=_opening.release, after_in_child=_after_fork_in_child)
