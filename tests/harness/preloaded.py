"""A process that has imported the product already, and forks the worker processes of tests from itself.

To import the product takes as long as many a worker of a test works, and the tests start hundreds. A forked process is
one of its own all the same: with its own pid, environment, folder, output, connections and end, and kill -9 takes
nothing else along. Nothing runs in the process that it is forked from, neither a thread nor an event loop.

`Preloaded` is the side of the tests, and `_serve` what runs when this module is started. They talk in lines of JSON
over a socket: a request is answered with the pid, and the end of each process is told with its exit code.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, Protocol

# What workers import later than `mainspring`, when they start or run their first job.
_AHEAD = (
    "mainspring",
    "mainspring.engine.worker",
    "asyncio",
    "logging",
    "harness.history",
    "harness.processes",
    "concurrent.futures.thread",
)


class Process(Protocol):
    """A process that the test has started; `subprocess.Popen` is one too."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self) -> int: ...
    def kill(self) -> None: ...
    def terminate(self) -> None: ...


class Forked:
    """A process that was forked."""

    def __init__(self, origin: Preloaded, pid: int) -> None:
        self._origin = origin
        self.pid = pid

    def poll(self) -> int | None:
        return self._origin.code_of(self.pid, wait=False)

    def wait(self) -> int:
        code = self._origin.code_of(self.pid, wait=True)
        assert code is not None
        return code

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Preloaded:
    """The process that forks, as the tests see it. It ends, and with it all that it has forked, with the test run."""

    def __init__(self, path: str) -> None:
        self._codes: dict[int, int] = {}
        self._lines = b""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.preloaded", str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        self._socket = ours

    def start(self, module: str, log: Path, environment: Mapping[str, str]) -> Forked:
        """Run a module as a program, with what it prints going to a file."""
        request = {"module": module, "log": str(log), "environment": dict(environment), "folder": str(Path.cwd())}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while (told := self._read()) is None or "code" in told:
            pass
        self._codes.pop(told["pid"], None)  # of an earlier process: pids are given again
        return Forked(self, told["pid"])

    def code_of(self, pid: int, *, wait: bool) -> int | None:
        """The exit code of a process that has ended: negative, a signal."""
        while pid not in self._codes and (wait or self._is_readable()):
            self._read()
        return self._codes.get(pid)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def _is_readable(self) -> bool:
        return b"\n" in self._lines or bool(select.select([self._socket], [], [], 0)[0])

    def _read(self) -> dict[str, int] | None:
        """The next thing told, if it has come as a whole; an exit code is kept."""
        if b"\n" not in self._lines:
            received = self._socket.recv(65536)
            assert received, "the process that forks the workers has ended"
            self._lines += received
        line, end, rest = self._lines.partition(b"\n")
        if not end:
            return None
        self._lines = rest
        told: dict[str, int] = json.loads(line)
        if "code" in told:
            self._codes[told["pid"]] = told["code"]
        return told


class _Fork(Exception):
    """Raised in a process that was just forked, to leave all that belongs to its origin."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__()
        self.request = request


def _serve(way: socket.socket) -> NoReturn:
    """Fork whenever it is asked for, and tell of those that have ended. Raises `_Fork` in the forked process."""
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test run, which ends this process
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    running: set[int] = set()
    lines = b""
    while True:
        readable, _, _ = select.select([way.fileno(), woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
            for pid, code in _ended(running):
                way.sendall(json.dumps({"pid": pid, "code": code}).encode() + b"\n")
        if way.fileno() in readable:
            received = way.recv(65536)
            if not received:
                _end(running)
            *requests, lines = (lines + received).split(b"\n")
            for request in requests:
                if (pid := os.fork()) == 0:
                    signal.set_wakeup_fd(-1)
                    os.close(woken)
                    os.close(wakes)
                    raise _Fork(json.loads(request))
                running.add(pid)
                way.sendall(json.dumps({"pid": pid}).encode() + b"\n")


def _ended(running: set[int]) -> list[tuple[int, int]]:
    ended = []
    for pid in list(running):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            running.discard(pid)
            ended.append((pid, os.waitstatus_to_exitcode(status)))
    return ended


def _end(running: set[int]) -> NoReturn:
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os._exit(0)


def _become(request: dict[str, Any]) -> str:
    """Take on what a process is started with; returns the module to run."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    output = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    module: str = request["module"]
    sys.argv = [module]
    return module


def _main() -> None:
    for name in _AHEAD:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    try:
        with socket.socket(fileno=int(sys.argv[1])) as way:
            _serve(way)
    except _Fork as forked:
        module = _become(forked.request)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
