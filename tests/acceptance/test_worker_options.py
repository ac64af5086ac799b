"""The options of `mainspring worker` for its life, `mainspring top` at a terminal, and the switches of telemetry."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from harness.commands import MAINSPRING, Command, clean_environment
from harness.waiting import eventually
from mainspring import Job, Scheduler

Start = Callable[..., Command]
StartWorker = Callable[..., Awaitable[Command]]
APP = """
from mainspring import Scheduler

scheduler = Scheduler(poll_interval=0.2)


@scheduler.job("say")
async def say() -> str:
    return {word!r}
"""


async def say(client: Scheduler) -> Job:
    return await client.wait((await client.schedule("say")).id, timeout=60)


async def test_a_worker_ends_after_its_last_job_and_no_other_takes_its_place(
    start_worker: StartWorker, client: Scheduler
) -> None:
    worker = await start_worker("--max-jobs", "2", "--concurrency", "1")
    jobs = [await client.schedule("work", {"seconds": 0.5}) for _ in range(8)]
    assert await asyncio.to_thread(worker.wait, 60) == 0
    states = [(await client.get_job(job.id)).state for job in jobs]
    assert states.count("completed") >= 2 and "pending" in states and "running" not in states, states
    assert "was drained and is not replaced" in worker.output
    assert worker.output.count(" is up ") == 1 and "Traceback" not in worker.output


async def test_a_changed_file_restarts_the_workers_and_a_broken_one_waits_for_its_repair(
    start: Start, client: Scheduler, uri: str, tmp_path: Path
) -> None:
    app = tmp_path / "edited.py"
    app.write_text(APP.format(word="old"))
    worker = start("worker", "edited:scheduler", "--reload", cwd=tmp_path, MAINSPRING_URI=uri)
    await eventually(lambda: " is up " in worker.output)
    assert (await say(client)).result == "old"
    app.write_text(APP.format(word="new"))
    await eventually(lambda: worker.output.count(" is up ") == 2)
    assert (await say(client)).result == "new"
    app.write_text("this is no Python")
    await eventually(lambda: "The worker cannot start" in worker.output)
    app.write_text(APP.format(word="mended"))
    await eventually(lambda: worker.output.count(" is up ") == 3)
    assert (await say(client)).result == "mended"
    worker.signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait) == 0


class Terminal:
    """A command at a terminal of its own, and what it has shown."""

    def __init__(self, process: subprocess.Popen[bytes], end: int) -> None:
        self.process = process
        self._end = end
        self._shown = b""

    def shown(self) -> str:
        with suppress(BlockingIOError, OSError):  # nothing now; or the command has ended
            while part := os.read(self._end, 65536):
                self._shown += part
        return self._shown.decode(errors="replace")


@contextmanager
def at_terminal(*arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    process = subprocess.Popen(
        (*MAINSPRING, *arguments),
        env=clean_environment(TERM="xterm", COLUMNS="120", LINES="40"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


async def test_top_shows_a_new_job_without_being_asked_again_and_ends_with_an_interrupt(
    start_worker: StartWorker, client: Scheduler, uri: str
) -> None:
    await start_worker()
    with at_terminal("top", "--every", "200ms", "--uri", uri) as terminal:
        await eventually(lambda: "RUNNING JOB" in terminal.shown())
        assert "\x1b[?1049h" in terminal.shown()  # the screen of its own, as editors have it
        job = await client.schedule("work", {"seconds": 60})
        await eventually(lambda: job.id in terminal.shown())
        terminal.process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(terminal.process.wait, 60) == 0
        assert "\x1b[?1049l" in terminal.shown() and "Traceback" not in terminal.shown()
    await client.cancel(job.id)


@pytest.mark.parametrize(
    "command",
    [["worker", "steady:scheduler"], ["up", "steady:scheduler", "--no-api"], ["worker", "instrumented:scheduler"]],
)
async def test_a_worker_traces_its_jobs_where_the_environment_asks_for_it(
    start: Start, client: Scheduler, uri: str, command: list[str]
) -> None:
    pytest.importorskip("opentelemetry.sdk")
    exporters = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none", "OTEL_SERVICE_NAME": "shop"}
    worker = start(*command, MAINSPRING_URI=uri, MAINSPRING_OTEL="1", **exporters)
    await eventually(lambda: " is up" in worker.output)
    await client.wait((await client.schedule("work")).id, timeout=60)
    worker.signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait) == 0
    assert '"name": "process default"' in worker.output and '"service.name": "shop"' in worker.output


@pytest.mark.parametrize(
    ("command", "environment", "sentence"),
    [
        (
            "worker steady",
            {"MAINSPRING_OTEL": "maybe"},
            "MAINSPRING_OTEL must be one of 1, 0, same-trace, not 'maybe'.",
        ),
        (
            "serve steady",
            {"MAINSPRING_OTEL": "1", "OTEL_TRACES_EXPORTER": "carrier"},
            "No package has the exporter 'carrier'",
        ),
        ("worker steady", {"MAINSPRING_SENTRY": "1"}, "MAINSPRING_SENTRY needs SENTRY_DSN"),
        ("worker instrumented", {"MAINSPRING_SENTRY": "1"}, "MAINSPRING_SENTRY needs SENTRY_DSN"),
        ("up steady", {"MAINSPRING_SENTRY": "1"}, "MAINSPRING_SENTRY needs SENTRY_DSN"),
    ],
)
async def test_a_wrong_switch_ends_the_command_with_a_sentence(
    start: Start, uri: str, command: str, environment: dict[str, str], sentence: str
) -> None:
    worker = start(*f"{command}:scheduler".split(), MAINSPRING_URI=uri, **environment)
    assert await asyncio.to_thread(worker.wait, 60) == 2
    assert sentence in worker.output and "Traceback" not in worker.output
