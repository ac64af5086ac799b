"""Real worker processes: started from `harness.apps`, killed, stopped, continued and told to go, by their pids."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import reaper
from harness.history import WORKER_VARIABLE, History
from harness.preloaded import Preloaded, Process
from harness.waiting import eventually

TESTS = Path(__file__).resolve().parents[1]
HISTORY_VARIABLE = "TEST_HISTORY"
OPTIONS_VARIABLE = "TEST_OPTIONS"
SKEW_VARIABLE = "TEST_SKEW"
APP_VARIABLE = "TEST_APP"
SAFETY_NET_VARIABLE = "TEST_SAFETY_NET"
"""The seconds after which a timekeeper looks at the schedules in any case."""


def start_program(
    module: str, log: Path, environment: Mapping[str, str], *arguments: str, through: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """Start a module of the tests as a program, with what it prints going to a file.

    `through` is a command that becomes the program, such as nsenter.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*through, sys.executable, "-m", module, *arguments],
            env={**os.environ, "PYTHONPATH": _path(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    reaper.watch(process.pid)
    return process


def _path() -> str:
    return os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))


@functools.cache
def _preloaded() -> Preloaded:
    preloaded = Preloaded(_path())
    atexit.register(preloaded.close)
    return preloaded


def _start_worker(log: Path, environment: Mapping[str, str], through: Sequence[str]) -> Process:
    """Start a worker process: forked from one that has imported the product, where nothing else has to come first."""
    if through or "LD_PRELOAD" in environment or not sys.platform.startswith("linux"):
        return start_program("harness.apps.worker", log, environment, through=through)
    return _preloaded().start("harness.apps.worker", log, {**os.environ, "PYTHONPATH": _path(), **environment})


class WorkerProcess:
    """One worker process."""

    def __init__(self, id: str, process: Process, log: Path) -> None:
        self.id = id
        self.process = process
        self.pid = process.pid
        self.log = log

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """kill -9"""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def terminate(self) -> None:
        self.process.terminate()

    async def gone(self, timeout: float = 120) -> int:
        """Wait until it has ended by itself, and return its exit code."""
        await eventually(lambda: not self.alive, timeout)
        return self.process.wait()

    def stop(self) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                self.resume()
            self.kill()
        reaper.forget(self.pid)


class Fleet:
    """The worker processes of one test, with one history."""

    def __init__(self, uri: str, folder: Path) -> None:
        self._uri = uri
        self._folder = folder
        self.history = History(folder / "history.jsonl")
        self.workers: list[WorkerProcess] = []

    def launch(
        self,
        *,
        uri: str | None = None,
        environment: Mapping[str, str] | None = None,
        through: Sequence[str] = (),
        **options: Any,
    ) -> Any:
        """Start a worker with these options of the Scheduler, and do not wait for it."""
        id = f"worker-{len(self.workers) + 1}"
        log = self._folder / f"{id}.log"
        log.touch()
        variables = {
            "MAINSPRING_URI": uri or self._uri,
            WORKER_VARIABLE: id,
            HISTORY_VARIABLE: str(self.history.path),
            OPTIONS_VARIABLE: json.dumps({"poll_interval": 0.2, **options}),
            **(environment or {}),
        }
        worker = WorkerProcess(id, _start_worker(log, variables, through), log)
        self.workers.append(worker)
        return worker

    async def start(self, *, uri: str | None = None, **options: Any) -> WorkerProcess:
        """Start a worker and wait until it is up."""
        (worker,) = await self.start_many(1, uri=uri, **options)
        return worker

    async def start_many(self, count: int, **options: Any) -> list[WorkerProcess]:
        workers: list[WorkerProcess] = [self.launch(**options) for _ in range(count)]
        await self.up(workers)
        return workers

    async def up(self, workers: list[WorkerProcess]) -> None:
        """Wait until these workers run."""

        def all_up() -> bool:
            for worker in workers:
                assert worker.alive, f"{worker.id} ended at once:\n{worker.log.read_text()}"
            return {worker.id for worker in workers} <= {event["worker"] for event in self.history.events("up")}

        await eventually(all_up, timeout=180, every=0.05)

    def complaints(self) -> list[str]:
        """What workers printed that no worker should ever print."""
        bad = ("never retrieved", "was destroyed", "never awaited", "Fatal Python error")
        return [
            f"{worker.id}: {line}"
            for worker in self.workers
            for line in worker.log.read_text(errors="replace").splitlines()
            if any(words in line for words in bad)
        ]

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()
