"""Real worker processes: started, told to begin all at once, listened to, and stopped."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import psutil  # type: ignore[import-untyped]

from bench.ground import Place

PATIENCE = 60.0
_HERE = Path(__file__).resolve().parent.parent


class Member:
    """One worker process."""

    def __init__(self, place: Place, concurrency: int, profile: str | None) -> None:
        command = [sys.executable, "-m", "bench.app", place.uri, place.name, str(concurrency)]
        self.process = subprocess.Popen(
            [*command, profile] if profile else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_HERE,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.stdin: IO[str] = self.process.stdin
        self.usage = psutil.Process(self.process.pid)
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()

    def line(self) -> str:
        """The next line that the process says."""
        line = self._lines.get(timeout=PATIENCE)
        if not line:
            raise RuntimeError(f"a worker process ended unexpectedly, with code {self.process.wait(PATIENCE)}")
        return line

    def line_now(self) -> str:
        """The next line, if it has said one already; else nothing."""
        return self.line() if not self._lines.empty() else ""

    def expect(self, word: str) -> None:
        line = self.line()
        if line != word:
            raise RuntimeError(f"a worker process said {line!r} instead of {word!r}")

    def stop(self) -> None:
        self.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _listen(self, stdout: IO[str]) -> None:
        for line in stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put("")
        stdout.close()


class Crew:
    """Worker processes on one database. They are connected but idle until `go()`."""

    def __init__(self, place: Place, size: int, concurrency: int, profile: str | None = None) -> None:
        names = [f"{profile}.{index}" if profile else None for index in range(size)]
        self.members = [Member(place, concurrency, name) for name in names]

    def go(self) -> None:
        """Start all workers; returns when every one is up."""
        for member in self.members:
            member.stdin.write("go\n")
            member.stdin.flush()
        for member in self.members:
            member.expect("started")

    def cpu(self) -> float:
        """The CPU seconds that the processes have used so far."""
        return sum(used(member.usage) for member in self.members)

    def __enter__(self) -> Self:
        try:
            for member in self.members:
                member.expect("ready")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        for member in self.members:
            member.stop()


def used(process: psutil.Process | None) -> float:
    """The CPU seconds of a process so far; nothing for one that is elsewhere."""
    if process is None:
        return 0.0
    times = process.cpu_times()
    return float(times.user + times.system)
