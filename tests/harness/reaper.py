"""Ends what a test run has started and cannot end any more, because the run was killed, or interrupted at a bad moment.

Each process of pytest has one reaper, a small process in a session of its own. It is told of every process and folder,
and when one of them is done with. When its input ends, or its parent is gone, it kills the remaining processes and
removes the remaining folders. A signal of the kernel at the death of the parent (PR_SET_PDEATHSIG) would come too soon:
when the thread ends that started the process. Standard library only, since this file runs as a program too.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import select
import shutil
import signal
import subprocess
import sys
import threading

_LOOK_EVERY = 0.5


class Reaper:
    """The reaper of this process of pytest, as the tests see it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-S", __file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def tell(self, what: str, which: str) -> None:
        assert self._process.stdin is not None
        with self._lock, contextlib.suppress(OSError):
            self._process.stdin.write(f"{what} {which}\n".encode())
            self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


@functools.cache
def _reaper(pid: int) -> Reaper:
    """The reaper of the process with this id: a forked process has its own."""
    reaper = Reaper()
    atexit.register(reaper.close)
    return reaper


def watch(process: int, *, group: bool = False) -> None:
    """End a process with this test run; with `group`, all processes of the group that it leads."""
    _reaper(os.getpid()).tell("group" if group else "process", str(process))


def watch_folder(folder: str) -> None:
    """Remove a folder with this test run."""
    _reaper(os.getpid()).tell("folder", folder)


def forget(which: int | str) -> None:
    """Leave a process alone that has ended, or a folder that is removed."""
    _reaper(os.getpid()).tell("forget", str(which))


def _listen(parent: int) -> dict[str, str]:
    """What is left when the parent has ended."""
    left: dict[str, str] = {}
    lines = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], _LOOK_EVERY)[0]:
            continue
        received = os.read(0, 65536)
        if not received:
            break
        *whole, lines = (lines + received).split(b"\n")
        for line in whole:
            what, _, which = line.decode().partition(" ")
            if what == "forget":
                left.pop(which, None)
            else:
                left[which] = what
    return left


def _main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    left = _listen(int(sys.argv[1]))
    for which, what in left.items():
        with contextlib.suppress(OSError):
            if what == "group":
                os.killpg(int(which), signal.SIGKILL)
            elif what == "process":
                os.kill(int(which), signal.SIGKILL)
    for which, what in left.items():
        if what == "folder":
            shutil.rmtree(which, ignore_errors=True)


if __name__ == "__main__":
    _main()
