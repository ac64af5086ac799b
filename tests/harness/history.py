"""What really happened, as the processes of a test saw it: an append-only file that survives kill -9.

Handlers write to it with `Recorder` (one `write(2)` per line, so that nothing is lost in a buffer and lines of several
processes do not mix); tests read it with `History`. All times are the host's monotonic clock, which all processes of a
test share and which no test moves.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORKER_VARIABLE = "MAINSPRING_WORKER_ID"


class Recorder:
    """Appends to a history."""

    def __init__(self, path: str | Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def __call__(self, kind: str, **facts: Any) -> None:
        worker = os.environ.get(WORKER_VARIABLE, "")
        line = {"kind": kind, "at": time.monotonic(), "pid": os.getpid(), "worker": worker, **facts}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


@dataclass(slots=True)
class Run:
    """One call of a handler. `ended` is None when it never came to an end: its worker was killed."""

    job: str
    token: int
    attempt: int
    worker: str
    pid: int
    started: float
    ended: float | None = None
    how: str | None = None


class History:
    """Reads a history; every call sees what has been written up to now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def events(self, kind: str | None = None, **facts: Any) -> list[dict[str, Any]]:
        """The events of a kind that carry these facts, in the order in which they were written."""
        return [
            event
            for event in self._lines()
            if (kind is None or event["kind"] == kind) and all(event.get(key) == value for key, value in facts.items())
        ]

    def runs(self) -> list[Run]:
        """All calls of handlers, in the order of their starts."""
        runs: list[Run] = []
        running: dict[tuple[str, int, int], Run] = {}
        killed: dict[tuple[str, int, int], Run] = {}
        for event in self.events():
            if event["kind"] == "start":
                run = Run(event["job"], event["token"], event["attempt"], event["worker"], event["pid"], event["at"])
                runs.append(run)
                running[run.job, run.token, run.pid] = run
            elif event["kind"] == "end":
                key = event["job"], event["token"], event["pid"]
                # A run that tells of its end was not killed: its worker had lost an older claim of the same job.
                run = running.pop(key) if key in running else killed.pop(key)
                run.ended, run.how = event["at"], event["how"]
            elif event["kind"] in ("lost", "down"):
                for run in _killed_by(event, running.values()):
                    run.ended, run.how = event["at"], "killed"
                    killed[run.job, run.token, run.pid] = running.pop((run.job, run.token, run.pid))
        return runs

    def runs_by_job(self) -> dict[str, list[Run]]:
        by_job: dict[str, list[Run]] = defaultdict(list)
        for run in self.runs():
            by_job[run.job].append(run)
        return by_job

    def _lines(self) -> Iterator[dict[str, Any]]:
        for line in self.path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):  # else it is just being written
                yield json.loads(line)


def _killed_by(event: dict[str, Any], running: Iterable[Run]) -> list[Run]:
    """The runs in processes of their own that a worker has killed before it told of a lost claim, or of its end."""
    return [
        run
        for run in running
        if run.worker == event["worker"] and run.pid != event["pid"] and event.get("job", run.job) == run.job
    ]
