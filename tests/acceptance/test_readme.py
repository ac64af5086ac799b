"""The README and the tour work as they are written: programs, snippets and commands are run, outputs compared."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer.main

from harness.commands import Command, clean_environment
from harness.pages import README, ROOT, Block
from harness.pages import blocks as blocks_of
from harness.waiting import eventually
from mainspring import Job, Scheduler
from mainspring.cli.app import app

pytestmark = pytest.mark.core

NO_WORKER = "No live worker has a handler for 'send-email'"
REFERENCE = ROOT / "docs" / "reference" / "documents.md"
TOUR = ROOT / "docs" / "tutorial" / "tour.md"
TEXT = README.read_text("utf-8") + TOUR.read_text("utf-8")


def blocks() -> list[Block]:
    """The blocks of the README, and then those of the tour."""
    return [*blocks_of(README), *blocks_of(TOUR)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that the README and the tour say to save."""
    for block in blocks():
        if block.mark == "file":
            (tmp_path / block.argument).write_text(block.text, "utf-8")
    return tmp_path


@pytest.fixture
def importable(folder: Path, uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same folder, with its modules importable here, and the test's database in the environment."""
    monkeypatch.setenv("MAINSPRING_URI", uri)
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("tasks", None)


def run(command: str, folder: Path, uri: str) -> str:
    """What a shell command prints, with the programs of this environment first on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=clean_environment(MAINSPRING_URI=uri, PATH=path, PYTHONWARNINGS="error"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    errors = [line for line in ran.stderr.splitlines() if not line.startswith(NO_WORKER)]
    assert (ran.returncode, errors) == (0, []), ran.stdout + ran.stderr
    return ran.stdout


async def run_snippet(block: Block, names: dict[str, Any]) -> None:
    """Run a snippet, which may await at its top level."""
    code = compile(block.text, str(TOUR), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    outcome = types.FunctionType(code, names)()
    if inspect.isawaitable(outcome):
        await outcome


def commands() -> list[list[str]]:
    """The commands in the shell blocks, as words."""
    return [shlex.split(line) for block in blocks() if block.language == "sh" for line in block.text.splitlines()]


def test_the_programs_of_the_readme_print_what_it_says(folder: Path, uri: str) -> None:
    printed, compared = "", 0
    for block in blocks():
        if block.mark == "run":
            printed = run(block.text, folder, uri)
        elif block.mark == "output":
            assert printed == block.text
            compared += 1
    assert compared >= 2
    assert NO_WORKER in TEXT


async def test_the_snippets_of_the_readme_run_in_their_order(
    importable: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"__name__": "readme"}
    for block in blocks():
        if block.mark == "snippet":
            await run_snippet(block, names)
    printed = capsys.readouterr().out
    assert "completed 'hi' sent to a@b.c ['completed']" in printed
    assert "invoice for A-1" in printed
    assert "April, May, June" in printed


async def test_the_handlers_of_the_readme_end_as_it_says(importable: Path) -> None:
    from tasks import scheduler  # type: ignore[import-not-found]

    async with scheduler:
        jobs = await scheduler.schedule_bulk(
            [
                {"name": "thumbnail", "data": {"path": "a.png"}},
                {"name": "count-primes", "data": {"below": 100}},
                *({"name": "import-feed", "data": {"status": status}} for status in (200, 404, 403)),
            ]
        )
        ended = [await scheduler.wait(job.id, timeout=60) for job in jobs]
        jobs = [await scheduler.schedule("import-feed", {"status": status}) for status in (202, 429, 500)]
        again = [await eventually(partial(back_in_the_queue, scheduler, job.id)) for job in jobs]
    assert [(job.state, job.result or str(job.error)) for job in ended] == [
        ("completed", "a.png at 200"),
        ("completed", 25),
        ("completed", "None"),
        ("cancelled", "Cancelled: the feed is gone"),
        ("failed", "Fail: the key was revoked"),
    ]
    assert [job.tries for job in again] == [0, 1, 1]


async def back_in_the_queue(scheduler: Scheduler, job_id: str) -> Job | None:
    """The job, when it has been tried and waits again."""
    job = await scheduler.get_job(job_id)
    return job if job.state == "pending" and job.token else None


async def test_the_worker_command_of_the_readme_runs_its_handlers(
    start: Callable[..., Command], folder: Path, uri: str, client: Scheduler
) -> None:
    command = next(words for words in commands() if words[:2] == ["mainspring", "worker"])
    worker = start(*command[1:], cwd=folder, MAINSPRING_URI=uri)
    job = await client.schedule("send-email", {"to": "a@b.c", "subject": "hi"}, queue="mail")
    assert (await client.wait(job.id, timeout=60)).result == "'hi' sent to a@b.c"
    worker.signal(signal.SIGTERM)
    assert worker.wait(60) == 0, worker.output


def test_the_commands_that_the_readme_names_exist() -> None:
    targets = re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.M)
    group: Any = typer.main.get_command(app)
    named = [*commands(), *map(str.split, re.findall(r"`((?:make|mainspring) [a-z][^`]*)`", TEXT))]
    for program, *words in named:
        if program == "make":
            assert words[0] in targets
        elif program == "mainspring":
            known = {option for parameter in group.commands[words[0]].params for option in parameter.opts}
            assert {word for word in words if word.startswith("-")} <= known


def test_the_options_that_the_readme_explains_exist() -> None:
    group: Any = typer.main.get_command(app)
    known = {option for command in group.commands.values() for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"`(--[a-z]+)`", TEXT)) <= known


async def test_the_insert_of_the_reference_makes_a_job(importable: Path, uri: str) -> None:
    from tasks import scheduler

    names: dict[str, Any] = {"uri": uri}
    (insert,) = (block for block in blocks_of(REFERENCE) if block.mark == "insert")
    exec(insert.text, names)
    async with scheduler:
        done = await scheduler.wait(names["job_id"], timeout=60)
    assert (done.state, done.result, done.priority) == ("completed", "'hi' sent to a@b.c", 1)
