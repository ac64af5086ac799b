"""`mainspring up`: the embedded server, a worker, and what they do, live."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import aiohttp
import psutil  # type: ignore[import-untyped]
import pytest

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
    folder = tmp_path / ".mainspring"
    up = start("up", "--port", "0", cwd=tmp_path)
    address = await address_of(up)
    assert re.search(r"MongoDB +mongodb://…@127\.0\.0\.1:\d+/", up.output)
    stored = await count_of(address)
    assert stored > 1000 and up.output.count("created") < 20
    assert "access    without a key, only for this user on this machine, until the first key" in up.output
    assert f"data      {folder} (the file uri in it has the password)" in up.output and "Ctrl-C" in up.output
    password = (folder / "uri").read_text().partition("@")[0].rpartition(":")[2]
    (snippet,) = re.findall(r"^  (\S+ -c .*)$", up.output, re.MULTILINE)
    scheduled = subprocess.run(snippet, shell=True, capture_output=True, text=True, timeout=60)
    assert re.fullmatch(r"[0-9a-f]{24}\n", scheduled.stdout), scheduled.stderr
    await eventually(lambda: re.search(rf"completed +send-email +\w+ +{scheduled.stdout.strip()}", up.output), 60)
    lines = ("started +send-email", "completed +send-email", "progress +generate-report", "retrying +retry-demo")
    await eventually(lambda: all(re.search(line, up.output) for line in lines), 60)
    up.signal(signal.SIGTERM)
    assert up.wait() == 0
    assert "\x1b" not in up.output and password not in up.output
    # A dead letter of the demonstration is logged with the stack of its handler; nothing else fails.
    assert "Traceback" not in re.sub(r"ERROR Attempt .* is a dead letter now\n(    .*\n)+", "", up.output)
    await eventually(lambda: not servers_in(folder))


async def test_a_second_start_of_the_demonstration_stores_no_second_day(start: Start, tmp_path: Path) -> None:
    counts = []
    for _ in range(2):
        up = start("up", "--port", "0", cwd=tmp_path)
        counts.append(await count_of(await address_of(up)))
        up.signal(signal.SIGTERM)
        assert up.wait() == 0
    assert 1000 < counts[0] <= counts[1] < counts[0] + 100


async def address_of(up: Command) -> str:
    """The address of the dashboard, once the command has printed it."""
    await eventually(lambda: "in another terminal" in up.output, 60)
    (address,) = re.findall(r"dashboard (http://127\.0\.0\.1:\d+)/$", up.output, re.MULTILINE)
    return str(address)


async def count_of(address: str) -> int:
    """The attempts of the last day, as the service counts them."""
    async with aiohttp.ClientSession() as session, session.get(f"{address}/api/observability/stats") as answer:
        return int((await answer.json())["data"]["executions"]["last24Hours"])


async def test_up_runs_an_application_of_ones_own_until_ctrl_c(start: Start, uri: str, client: Scheduler) -> None:
    up = start("up", "steady:blocking", "--uri", uri, "--port", "0")
    await eventually(lambda: "in another terminal" in up.output)
    job = await client.wait((await client.schedule("work")).id, timeout=60)
    assert job.state == "completed"
    await eventually(lambda: f"default       {job.id}  attempt 1  0." in up.output)
    up.signal_group(signal.SIGINT)
    assert up.wait() == 0
    assert up.output.endswith("Stopped: 1 completed.\n")


def test_up_takes_one_place_only(start: Start) -> None:
    up = start("up", "--data", "here", "--uri", "mongodb://there")
    assert up.wait() == 2
    assert up.output == "mainspring: Give --folder or --uri, not both.\n"


@pytest.mark.parametrize("way", ["option", "environment"])
async def test_up_runs_webhooks_and_email_and_no_demonstration_in_a_database_that_was_named(
    start: Start, uri: str, client: Scheduler, way: str
) -> None:
    if way == "option":
        up = start("up", "--uri", uri, "--for", "1", "--port", "0")
    else:
        up = start("up", "--no-api", "--for", "1", MONGO_URI=uri, MAINSPRING_SMTP_URL="smtp://127.0.0.1:1")
    assert up.wait() == 0, up.output
    names = "mainspring:http" if way == "option" else "mainspring:email, mainspring:http"
    assert f"  jobs      {names}\n" in up.output
    assert [job.name async for job in client.jobs()] == []
