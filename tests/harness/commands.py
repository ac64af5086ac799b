"""Real commands in processes of their own: started, signalled, read and waited for."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from signal import Signals

import psutil  # type: ignore[import-untyped]

from harness import reaper

MAINSPRING = (str(Path(sys.executable).with_name("mainspring")),)
OURS = (
    *("MAINSPRING_URI", "MONGODB_URI", "MONGO_URI", "MAINSPRING_DEBUG", "MAINSPRING_WORKER_ID"),
    *("MAINSPRING_FIELD_MAP", "MAINSPRING_LEASE", "MAINSPRING_START_WITHIN", "MAINSPRING_POLL_INTERVAL_MS"),
    *("MAINSPRING_HOST", "MAINSPRING_PORT", "PORT", "MAINSPRING_SESSION_SECRET"),
)


def clean_environment(**changes: str) -> dict[str, str]:
    """This process's environment without Mainspring's own variables, and with these."""
    return {name: value for name, value in os.environ.items() if name not in OURS} | changes


class Command:
    """A command that runs; its stdout and stderr go into one file."""

    def __init__(self, command: Sequence[str], *, cwd: Path, log: Path, **environment: str) -> None:
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=cwd,
                env=clean_environment(**environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        reaper.watch(self.process.pid, group=True)

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._log.read_text()

    def children(self) -> list[psutil.Process]:
        """Its direct children."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [child for child in psutil.Process(self.process.pid).children() if alive(child)]
        return []

    def signal(self, number: Signals) -> None:
        self.process.send_signal(number)

    def signal_group(self, number: Signals) -> None:
        """As a terminal does it on Ctrl-C."""
        os.killpg(self.process.pid, number)

    def wait(self, timeout: float = 120) -> int:
        """Wait for its end; the exit code."""
        return self.process.wait(timeout)

    def stop(self) -> None:
        """End it and all it has started, whatever they do."""
        family = [] if self.process.poll() is not None else psutil.Process(self.process.pid).children(recursive=True)
        for process in (self.process, *family):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        reaper.forget(self.process.pid)


def alive(process: psutil.Process) -> bool:
    """Whether a process runs; one that is dead and not reaped yet does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False
