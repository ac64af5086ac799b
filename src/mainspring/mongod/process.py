"""One mongod: its command line, its start as a child of the guardian, its output and its end.

mongod does not outlive the guardian: on Linux the kernel sends it SIGTERM when its parent dies; on other POSIX systems
a shell waits on a pipe that closes with the guardian, and then sends the same signal. (On Windows it may: the next
guardian finds the data in use.) Standard library only, since the guardian imports this module.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from mainspring.config.private_files import owner_only
from mainspring.mongod import ports
from mainspring.mongod.credentials import ensure_key
from mainspring.mongod.failures import Outcome
from mainspring.mongod.folder import Folder

SET_NAME = "mainspring"
OPLOG_MB = 512
LOG_LIMIT = 16 << 20
STOP_PATIENCE = 30.0
_WORDS_KEPT = 64 << 10
_PR_SET_PDEATHSIG = 1


def command_line(folder: Folder, binary: str, port: int, cache_gb: str) -> list[str]:
    """The command that runs mongod on the folder's data, on loopback only and with a password."""
    return [
        *(binary, "--dbpath", str(folder.data), "--replSet", SET_NAME),
        *("--bind_ip", ports.HOST, "--port", str(port)),
        # Every user of the machine can reach loopback: mongod requires a password from its first moment on.
        *("--keyFile", str(folder.key), "--setParameter", "enableLocalhostAuthBypass=false"),
        "--noscripting",
        # Its network compressors had a vulnerability (CVE-2025-14847), and loopback needs none.
        *("--networkMessageCompressors", "disabled"),
        *("--oplogSize", str(OPLOG_MB), "--wiredTigerCacheSizeGB", cache_gb),
        # Journal files of 32 MB: the usual three of 100 MB take a third of a second to make at every start.
        *("--wiredTigerEngineConfigString", "log=(file_max=32MB)"),
        *("--logpath", str(folder.log), "--logappend", "--logRotate", "reopen", "--quiet", "--slowms", "1000"),
        *("--setParameter", "diagnosticDataCollectionEnabled=false"),
        # A single node has no other node to hand over to, so waiting 15 s before it stops would be of no use.
        *("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=0"),
        *(() if sys.platform == "win32" else ("--nounixsocket",)),
    ]


class Mongod:
    """A mongod process, running or ended."""

    def __init__(self, folder: Folder, binary: str, port: int, cache_gb: str) -> None:
        """Start mongod. Raises OSError if the system cannot run the program or write its output."""
        self.port = port
        self._folder = folder
        self._binary = binary
        ensure_key(folder.key)
        limit_log(folder)
        self._log_start = folder.log.stat().st_size if folder.log.exists() else 0
        tie = _tie_to_this_process()
        with open(folder.output, "wb", opener=owner_only) as output:
            self._process = subprocess.Popen(
                command_line(folder, binary, port, cache_gb),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder.path,
                preexec_fn=tie,  # noqa: PLW1509 - the guardian has no threads
            )
        self._leash = None if tie else _leash(self.pid)

    @property
    def pid(self) -> int:
        """The process id of mongod."""
        return self._process.pid

    def ended(self) -> bool:
        """Whether mongod has ended."""
        return self._process.poll() is not None

    def ending(self) -> Outcome:
        """Wait for the end of mongod; return its exit code and output."""
        code = self._process.wait()
        self._unleash()
        words = _tail(self._folder.output, 0) + "\n" + _tail(self._folder.log, self._log_start)
        return Outcome(self._binary, self._folder.data, self._folder.log, code, words)

    def stop(self) -> None:
        """Stop mongod cleanly, or by force if that takes too long."""
        if not self.ended():
            self._process.terminate()
        try:
            self._process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._unleash()

    def kill(self) -> None:
        """Kill mongod at once; its folder is gone, so there is no data to save."""
        self._process.kill()
        self._process.wait()
        self._unleash()

    def keep_log_small(self) -> None:
        """Set a large log aside and have mongod begin a new one."""
        if sys.platform != "win32" and limit_log(self._folder):
            self._process.send_signal(signal.SIGUSR1)

    def _unleash(self) -> None:
        leash, self._leash = self._leash, None
        if leash is not None:
            try:
                leash.communicate(b"\n", timeout=5)
            except (OSError, subprocess.TimeoutExpired):
                leash.kill()
                leash.wait()


def limit_log(folder: Folder) -> bool:
    """Set the log aside if it has grown large; return whether it had."""
    try:
        if folder.log.stat().st_size < LOG_LIMIT:
            return False
        folder.log.replace(folder.log.with_name("mongod.log.1"))
    except OSError:
        return False
    return True


def _tail(path: Path, start: int) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(min(start, size), size - _WORDS_KEPT))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _tie_to_this_process() -> Callable[[], None] | None:
    """The function that a child runs before it becomes mongod, so that the kernel ends it with its parent; None if that
    is not possible."""
    if sys.platform != "linux":
        return None
    try:
        import ctypes

        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (ImportError, OSError, AttributeError):
        return None
    parent = os.getpid()

    def tie() -> None:
        if prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0 or os.getppid() != parent:
            os._exit(1)

    return tie


def _leash(pid: int) -> subprocess.Popen[bytes] | None:
    """A shell that ends mongod when this process dies, which closes the shell's input."""
    if sys.platform == "win32":
        return None
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read -r _ || kill -TERM "$0"', str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
