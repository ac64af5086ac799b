"""The tutorials work as they are written: files are saved, commands run, and what they print is compared."""

from __future__ import annotations

import asyncio
import os
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from harness.commands import Command, clean_environment
from harness.pages import ROOT, blocks
from harness.waiting import eventually

TUTORIAL = ROOT / "docs" / "tutorial" / "index-a-site.md"
FIRST_DAY = ROOT / "docs" / "tutorial" / "first-day.md"
Start = Callable[..., Command]


def run(command: str, folder: Path, uri: str) -> str:
    """What a shell command prints, with the programs of this environment first on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = clean_environment(MAINSPRING_URI=uri, PATH=path, PYTHONWARNINGS="error")
    return subprocess.check_output(["bash", "-ec", command], cwd=folder, env=environment, text=True, timeout=90)


def prints(text: str, command: str, folder: Path, uri: str) -> bool:
    return run(command, folder, uri) == text


async def start_worker(start: Start, command: str, folder: Path, uri: str) -> Command:
    worker = start(*shlex.split(command)[1:], cwd=folder, MAINSPRING_URI=uri)
    await eventually(lambda: " is up (pid " in worker.output or worker.process.poll() is not None)
    assert worker.process.poll() is None, worker.output
    return worker


async def test_the_tutorial_does_what_it_says_and_survives_a_restart_of_its_worker(
    start: Start, tmp_path: Path, uri: str
) -> None:
    folder = tmp_path / "tutorial"
    folder.mkdir()
    command, again, printed, compared, worker = "", "", "", 0, None
    for block in blocks(TUTORIAL):
        match block.mark:
            case "file":
                (folder / block.argument).write_text(block.text, "utf-8")
            case "worker":
                command, worker = block.text, await start_worker(start, block.text, folder, uri)
            case "run":
                printed = run(block.text, folder, uri)
            case "again":
                again, printed = block.text, ""
            case "output" if printed:
                assert printed == block.text
                compared += 1
            case "output":
                await eventually(partial(prints, block.text, again, folder, uri))
                compared += 1
                assert worker is not None
                worker.signal(signal.SIGTERM)
                assert worker.wait(60) == 0, worker.output
                worker = await start_worker(start, command, folder, uri)
    assert compared == 4


class Day:
    """The first day: each step is run in this process, as its program or its tests would run; workers are real."""

    def __init__(self, folder: Path, uri: str, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._uri, self._start, self._monkeypatch = folder, uri, start, monkeypatch
        self._worker: Command | None = None
        for name, value in {"MAINSPRING_URI": uri, "TARGET": uri.replace("?", "-target?", 1)}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))

    def save(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text, "utf-8")

    def run(self, command: str) -> None:
        """`python FILE ARGUMENTS`, in this process."""
        program, name, *arguments = shlex.split(command)
        assert program == "python"
        self._monkeypatch.setattr(sys, "argv", [name, *arguments])
        sys.modules.pop("shop", None)
        runpy.run_path(str(self._folder / name), run_name="__main__")

    def test(self, command: str) -> None:
        """Call the tests of the file, which `pytest -q FILE` would run."""
        sys.modules.pop("shop", None)
        found = runpy.run_path(str(self._folder / shlex.split(command)[-1]))
        tests = [value for name, value in found.items() if name.startswith("test_")]
        assert len(tests) == 2
        for test in tests:
            test()

    def work(self, command: str) -> None:
        self._worker = asyncio.run(start_worker(self._start, command, self._folder, self._uri))

    def move(self, commands: str) -> None:
        assert self._worker is not None
        self._worker.signal(signal.SIGTERM)
        assert self._worker.wait(60) == 0, self._worker.output
        (self._folder / ".mainspring").mkdir()
        self.save(".mainspring/uri", self._uri)
        self.run(commands.splitlines()[-1])

    def look_there(self, commands: str) -> None:
        assert 'export MAINSPRING_AUDIT_KEYS_FILE="$PWD/.mainspring/audit.key"' in commands, "changes need it there"
        self._monkeypatch.setenv("MAINSPRING_URI", os.environ["TARGET"])
        self.run(commands.splitlines()[-1])


def test_the_first_day_goes_as_it_is_written(
    start: Start, tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    day, compared = Day(tmp_path, uri, start, monkeypatch), 0
    steps = {"run": day.run, "tests": day.test, "worker": day.work, "move": day.move, "there": day.look_there}
    for block in blocks(FIRST_DAY):
        if block.mark == "file":
            day.save(block.argument, block.text)
        elif block.mark == "output":
            assert capsys.readouterr().out == block.text
            compared += 1
        elif block.mark:
            steps[block.mark](block.text)
    assert "nightly_report - at 02:30, every day, in Europe/Berlin" in capsys.readouterr().out
    assert compared == 5
    sys.modules.pop("shop")
