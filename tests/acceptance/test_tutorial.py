"""The tutorial works as it is written: its files are saved, its commands run, and what they print is compared."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from harness.commands import Command, clean_environment
from harness.pages import ROOT, blocks
from harness.waiting import eventually

TUTORIAL = ROOT / "docs" / "tutorial" / "index-a-site.md"
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
