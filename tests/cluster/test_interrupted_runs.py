"""A test run that is interrupted or killed leaves no process and no folder behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from harness.commands import alive
from harness.processes import TESTS
from harness.waiting import eventually

RUN = """
import json, os, sys, time
from pathlib import Path
from harness.commands import Command
from harness.processes import start_program
from harness.servers import Servers

def test_that_takes_long():
    here = Path(os.environ["HERE"])
    servers = Servers(0)
    servers.start()
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    command = Command([sys.executable, "-c", child], cwd=here, log=here / "command.log")
    while not command.children():
        time.sleep(0.01)
    started = {
        "server": servers.nodes[0].process.pid,
        "command": command.process.pid,
        "child": command.children()[0].pid,
        "program": start_program("http.server", here / "program.log", {}, "0").pid,
    }
    facts = {"run": os.getpid(), "started": started, "folder": str(servers.folder)}
    (here / "facts.tmp").write_text(json.dumps(facts))
    (here / "facts.tmp").rename(here / "facts.json")
    while True:
        time.sleep(0.05)  # Python notes a signal that arrives just before a sleep only after it
"""


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run of one test that has started processes and does not end."""
    test = folder / "test_long.py"
    test.write_text(RUN)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder), str(test), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "HERE": str(folder)}
    with (folder / "output").open("wb") as output:
        run = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield run
    finally:
        run.kill()
        run.wait()


async def facts_of(folder: Path, run: subprocess.Popen[bytes]) -> dict[str, Any]:
    await eventually(lambda: (folder / "facts.json").exists() or run.poll() is not None)
    assert run.poll() is None, (folder / "output").read_text()
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text())
    return facts


def left_of(facts: dict[str, Any]) -> list[str]:
    """The processes and the folder that are still there."""
    processes = [
        name for name, pid in facts["started"].items() if psutil.pid_exists(pid) and alive(psutil.Process(pid))
    ]
    return processes + (["folder"] if Path(facts["folder"]).exists() else [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
async def test_a_run_that_gets_a_signal_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path) as run:
        facts = await facts_of(tmp_path, run)
        assert left_of(facts) == ["server", "command", "child", "program", "folder"]
        run.send_signal(number)
        await eventually(lambda: not left_of(facts))


@pytest.mark.parametrize("killed", ["the run", "its worker"])
async def test_a_run_with_xdist_that_is_killed_leaves_nothing_behind(tmp_path: Path, killed: str) -> None:
    with running(tmp_path, "-n", "1") as run:
        facts = await facts_of(tmp_path, run)
        assert facts["run"] != run.pid
        os.kill(run.pid if killed == "the run" else facts["run"], signal.SIGKILL)
        await eventually(lambda: not left_of(facts))
