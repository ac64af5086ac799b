"""One worker process, as the supervisor starts it: `python -m mainspring.cli.supervision.worker_process TARGET OPTIONS
MAX_JOBS`.

It runs the scheduler until its supervisor, SIGTERM, or the supervisor's death stops it, and then drains. It needs
nothing of the extra `cli`. The exit codes are those of the commands, and UNAVAILABLE.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from itertools import count
from typing import TYPE_CHECKING

from mainspring.cli.supervision.channel import GONE, STOP_NOW, TOKEN_OF_WORKER, URI_OF_WORKER, WorkerEnd, worker_id
from mainspring.cli.supervision.metrics_port import close, serve_process
from mainspring.cli.support.builtin_jobs import open_target
from mainspring.cli.support.collector import spare_collector
from mainspring.cli.support.either_scheduler import Face
from mainspring.cli.support.exit_codes import RUNTIME_FAILURE, debugging, exit_code, report
from mainspring.cli.support.logs import set_up_logs
from mainspring.cli.support.telemetry import switch_on
from mainspring.client.scheduler import Scheduler
from mainspring.errors import MainspringError, Unavailable
from mainspring.model.jobs.job import Job

if TYPE_CHECKING:
    from mainspring.observability.metrics.server import MetricsServer

logger = logging.getLogger("mainspring")

UNAVAILABLE = 75
"""The exit code for a database that cannot be reached: the supervisor starts another worker later."""
KILL_MARGIN = 15.0
"""How long after the grace time a worker that has not ended is killed."""


def main(target: str, options: str, max_jobs: str = "") -> int:
    """Run the worker, and return the exit code."""
    wire = WorkerEnd()
    os.environ["MAINSPRING_WORKER_ID"] = worker_id(os.getpid(), os.environ.pop(TOKEN_OF_WORKER))
    try:
        face = open_target(target)
        face.inner.configure(os.environ.pop(URI_OF_WORKER, None), **json.loads(options))
        set_up_logs()
        switch_on(face.inner)
        spare_collector()
        face.inner.on("worker:start", lambda _: _on_ready(wire))
        if max_jobs:
            _drain_after(int(max_jobs), face.inner)
        face.run_to_end(_serve(face, wire))
    except MainspringError as error:
        if debugging():
            report(error)
        wire.failed(str(error))
        return UNAVAILABLE if isinstance(error, Unavailable) else exit_code(error)
    except Exception as error:
        report(error)
        wire.failed(f"{type(error).__name__}: {error}")
        return RUNTIME_FAILURE
    return 0


async def _serve(face: Face, wire: WorkerEnd) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)

    def obey(word: str) -> None:
        told.set()
        if word == STOP_NOW:
            face.stop_now()

    def heard(word: str) -> None:
        try:
            loop.call_soon_threadsafe(obey, word)
        except RuntimeError:
            return  # the loop has ended already
        if word == GONE:
            _outlive_nobody(face.inner.settings.grace)

    def drained(_: str) -> None:
        if not told.is_set():
            wire.drained()
            told.set()

    face.inner.on("worker:stop", lambda worker: loop.call_soon_threadsafe(drained, worker))
    wire.listen(heard)
    metrics: MetricsServer | None = None
    try:
        metrics = await serve_process(face)
        await face.start()
        await told.wait()
    finally:
        await face.stop(face.inner.settings.grace)
        await asyncio.to_thread(close, metrics)


def _drain_after(jobs: int, scheduler: Scheduler) -> None:
    """Drain this worker when it has started so many jobs; those that run by then finish."""
    started = count(1)
    own: list[str] = []
    scheduler.on("worker:start", own.append)

    async def drain(_: Job) -> None:
        if next(started) >= jobs:  # a second request changes nothing; one may fail in an outage
            await scheduler.workers.drain(own[0], reason=f"It has started {jobs} jobs (--max-jobs).")

    scheduler.on("job:start", drain)


def _on_ready(wire: WorkerEnd) -> None:
    # The id belongs to this process; a scheduler in a child process must not take it.
    os.environ.pop("MAINSPRING_WORKER_ID", None)
    wire.ready()


def _outlive_nobody(grace: float) -> None:
    """Kill this process if it does not end after the supervisor's death; runs in the listening thread."""
    logger.warning("The supervisor is gone; this worker stops")
    time.sleep(grace + KILL_MARGIN)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
