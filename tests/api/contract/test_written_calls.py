"""Every `curl` in the documentation is sent to a service, as it is written but for the address, the key and the ids."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from api.conftest import Api, Make, serving
from harness.pages import ROOT, blocks, commands, pages

NIGHTLY = (
    '{"name": "nightly", "nodes": [{"name": "extract", "job": "extract"}, {"name": "load", "job": "load", '
    '"after": ["extract"]}]}'
)
FILES = {
    "nightly.json": NIGHTLY,
    "mails.ndjson": '{"name": "mails"}\n{"job": "send-email", "data": {"to": "a@b.c"}}\n',
    "holidays.ics": "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:1\r\n"
    "DTSTART;VALUE=DATE:20261225\r\nSUMMARY:Christmas\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
}
NOT_SENT = {
    "curl -N": "a stream without an end; tests/api/views read it",
    "$(mainspring": "a key of the reader's; tests/acceptance/test_first_key.py runs it",
    "/trigger/": "the example's own endpoints; tests/acceptance/test_seeds.py calls them",
    "localhost:3000/jobs/": "the same",
}

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")


def written() -> list[tuple[str, str]]:
    """The calls that are sent, with their pages."""
    return [
        (str(page.relative_to(ROOT)), command)
        for page in pages()
        for block in blocks(page)
        if block.language == "sh"
        for command in commands(block)
        if command.startswith("curl ") and not any(part in command for part in NOT_SENT)
    ]


@pytest.mark.slow
async def test_every_call_of_the_documentation_is_answered(make_scheduler: Make, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    calls = written()
    assert len(calls) > 15
    refused = []
    async with serving(make_scheduler(keys={"a": b"k" * 32})) as api:
        await api.scheduler.secrets.put("billing-token", "x", origins=["https://api.example.com"])
        await api.scheduler.secrets.put("chat", "services/T0/B0/x", origins=["https://hooks.slack.com"])
        await api.scheduler.secrets.put("orders", "whsec_" + "a" * 32, origins=["https://api.example.com"])
        for page, command in calls:
            status, text = await send(api, command, tmp_path)
            refused += [f"{page}: {command}: {status} {text}"] if not 200 <= status < 300 else []
    assert refused == []


async def send(api: Api, command: str, folder: Path) -> tuple[int, str]:
    """The answer to a call whose ids are those of a job that waits, and of a flow that has failed nowhere."""
    job = await api.scheduler.schedule("send-email", {"to": "a@b.c"})
    flow = api.scheduler.flow("nightly")
    flow.add("transform", {"n": 1}, name="transform")
    started = await flow.start()
    ready = re.sub(r"(?:http://)?(?:localhost|127\.0\.0\.1):\d+", api.url, command).replace("$KEY", "")
    ready = re.sub(r"/flows/ID|flowId=ID", lambda found: found[0].replace("ID", started.id), ready)
    ready = re.sub(r"/jobs/(?:ID|[0-9a-f]{24})", f"/jobs/{job.id}", ready).replace("timeout=30s", "timeout=1ms")
    ready = re.sub(r" -H \"Authorization: Bearer [^\"]*\"", "", ready)
    ready = ready.replace("curl ", "curl -sS -w '\\n%{http_code}' ", 1)
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", ready, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    text, _, code = output.decode().rstrip().rpartition("\n")
    return int(code), text
