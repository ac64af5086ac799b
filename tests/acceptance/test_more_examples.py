"""Examples that run in the process of the test, since a process of their own would show nothing more; one that kills
workers; and one that is a script for the shell."""

from __future__ import annotations

import asyncio
import importlib
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from harness.commands import Command
from harness.sinks import Sink, reply

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
OUTPUTS = {
    "nightly_reports": [
        "nightly-report-berlin: at 02:30, every day, in Europe/Berlin",
        "  Sat 02:30 there, Sat 01:30 UTC",
        "  Sun 03:00 there, Sun 01:00 UTC 02:30 does not exist on this night in Europe/Berlin; fires at 03:00 instead",
        "nightly-report-new-york: at 02:30, every day, in America/New_York",
        "  Sat 02:30 there, Sat 06:30 UTC",
        "  Sun 02:30 there, Sun 06:30 UTC",
        "nightly-report-kolkata: at 02:30, every day, in Asia/Kolkata",
        "  Sun 02:30 there, Sat 21:00 UTC",
        "  Mon 02:30 there, Sun 21:00 UTC",
        "the report of berlin for DAY",
        "the report of new-york for DAY",
        "the report of kolkata for DAY",
    ],
    "cpu_bound": [
        "ping while both compute: pong",
        "2262 primes, counted in a process of its own",
        "spin failed - Timeout: The attempt took longer than its timeout of 1 s.",
    ],
    "agent_approval": [
        "the agent waits, and holds nothing",
        "- the parcel of ann is lost",
        "- bob has approved",
        "- 990 cents were paid back to ann",
    ],
}


@pytest.fixture
def example(uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports an example whose scheduler uses the test's database."""
    monkeypatch.setenv("MAINSPRING_URI", uri)
    yield lambda name: importlib.reload(importlib.import_module(f"examples.{name}"))


@pytest.mark.parametrize("name", OUTPUTS)
async def test_an_example_does_what_it_says(
    example: Callable[[str], Any], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    await example(name).main()
    assert re.sub(r"\d{4}-\d\d-\d\d", "DAY", capsys.readouterr().out).splitlines() == OUTPUTS[name]


async def test_workers_are_killed_and_nothing_is_lost(
    example: Callable[[str], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    await example("kill_workers").main(jobs=30, kills=2)
    lines = capfd.readouterr().out.splitlines()
    assert sum(line.startswith("killed the worker of job ") for line in lines) == 2
    (ended,) = [line for line in lines if "jobs completed" in line]
    assert (found := re.fullmatch(r"30 of 30 jobs completed, (\d+) attempts were lost", ended)) and int(found[1]) > 0
    assert lines[-1] == "nothing was lost, nothing was booked twice"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
async def test_a_webhook_is_called_on_a_timetable_by_three_calls(start: Callable[..., Command], uri: str) -> None:
    async with Sink(answers=[reply(200, b"{}")]) as sink:
        up = start("up", "--port", "0", cwd=ROOT, MAINSPRING_URI=uri, MAINSPRING_HTTP_ALLOW="127.0.0.1")
        while not (address := re.search(r"API +(http://\S+)", up.output)):
            assert up.process.poll() is None, up.output
            await asyncio.sleep(0.05)
        script = start(
            *(str(EXAMPLES / "webhook_cron.sh"), f"{sink.url}/hook", "* * * * * *", address[1]),
            command=("sh",),
            cwd=ROOT,
        )
        assert await asyncio.to_thread(script.wait, 60) == 0, script.output
        (deleted,) = re.findall(r"deleted (\w+)", script.output)
        with pytest.raises(HTTPError, match="404") as missing:
            await asyncio.to_thread(urlopen, f"{address[1]}/api/jobs/{deleted}")
        missing.value.close()
        up.signal(signal.SIGTERM)
    told = r"scheduled (\w+)\nwaiting for the first call [^\n]+/\1/executions\n"
    assert re.fullmatch(told + r"(?:\"status\":\"success\"\n)+deleted \1\n", script.output), script.output
    assert sink.received[0].path == "/hook"


def test_the_list_of_examples_names_every_one() -> None:
    listed = set(re.findall(r"`(\w+\.(?:py|sh))`", (EXAMPLES / "README.md").read_text("utf-8")))
    files = {file.name for file in EXAMPLES.iterdir() if file.suffix in (".py", ".sh")}
    assert files - listed == set()
    assert {name for name in listed if not (EXAMPLES / name).exists()} == set()
