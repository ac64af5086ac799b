"""`mainspring up`: the embedded server, a worker, and what they do, live."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from harness.commands import Command
from harness.waiting import eventually
from mainspring import Scheduler

Start = Callable[..., Command]


def servers_in(folder: Path) -> list[psutil.Process]:
    """The processes that have to do with a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in argument for argument in process.info["cmdline"] or ()):
            found.append(process)
    return found


async def test_up_shows_where_to_look_runs_the_demonstration_and_leaves_nothing_behind(
    start: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    up = start("up", "--data", str(folder), "--for", "6", "--port", "0", cwd=tmp_path)
    await eventually(lambda: "in another terminal" in up.output)
    uri = re.search(r"MongoDB +(mongodb://127\.0\.0\.1:\d+/\S*)", up.output)
    assert uri is not None and str(folder) in up.output and "Ctrl-C" in up.output
    (snippet,) = re.findall(r"^  (\S+ -c .*)$", up.output, re.MULTILINE)
    scheduled = subprocess.run(snippet, shell=True, capture_output=True, text=True, timeout=20)
    assert re.fullmatch(r"[0-9a-f]{24}\n", scheduled.stdout), scheduled.stderr
    await eventually(lambda: re.search(rf"completed +send-email +…{scheduled.stdout.strip()[-6:]}", up.output))
    assert up.wait() == 0
    for line in ("started +send-email", "completed +send-email", "progress +generate-report", "retrying +retry-demo"):
        assert re.search(line, up.output), line
    assert "\x1b" not in up.output and "Traceback" not in up.output
    await eventually(lambda: not servers_in(folder))


async def test_up_runs_an_application_of_ones_own_until_ctrl_c(start: Start, uri: str, client: Scheduler) -> None:
    up = start("up", "steady:blocking", "--uri", uri, "--port", "0")
    await eventually(lambda: "in another terminal" in up.output)
    job = await client.wait((await client.schedule("work")).id, timeout=20)
    assert job.state == "completed"
    await eventually(lambda: f"…{job.id[-6:]}  default       attempt 1  0." in up.output)
    up.signal_group(signal.SIGINT)
    assert up.wait() == 0
    assert up.output.endswith("Stopped: 1 completed.\n")


def test_up_takes_one_place_only(start: Start) -> None:
    up = start("up", "--data", "here", "--uri", "mongodb://there")
    assert up.wait() == 2
    assert up.output == "mainspring: Give --data or --uri, not both.\n"
