"""The examples run, and do what they say."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.commands import Command
from harness.waiting import eventually

Start = Callable[..., Command]
ROOT = Path(__file__).parents[2]
PYTHON = (sys.executable, "-X", "dev", "-W", "error")


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("quickstart", ["completed sent 'hi' to a@example.com", "completed sent 'later' to b@example.com"]),
        ("sync_script", [*(f"{n}.png is 640 pixels wide now" for n in range(3)), "3 completed"]),
        ("web_app", ["202 Accepted", "200 OK", "{'state': 'completed', 'result': {'kind': 'finance', 'pages': 12}}"]),
        (
            "catch_all",
            [
                "job:fail make-coffee",
                "send-email completed email to a@example.com",
                "generate-report completed report on finance",
                "make-coffee failed Fail: nobody knows what to do with 'make-coffee'",
            ],
        ),
        (
            "transactional",
            [
                "completed invoice for A-1 {'_id': 'A-1', 'invoices': 1}",
                "out of stock - order: None",
                "0 jobs left",
            ],
        ),
        (
            "fastapi_shop",
            [
                "202 ordered",
                "200 {'state': 'completed', 'result': 'shipped 2 books'}",
                "409 shoes are out of stock",
                "order: None",
                "0 jobs left",
            ],
        ),
        (
            "beanie_orders",
            [
                "completed text='a book to Main Street 1, Springfield'",
                "shipped to Springfield",
                "no shoes left - order: None",
                "0 jobs left",
            ],
        ),
        ("django_tasks_project", ["READY", "SUCCESSFUL 1 welcome, ann", "FAILED no mailbox: bob"]),
        (
            "raw_insert",
            [
                "completed hello you",
                "completed hello world",
                "failed Undecodable: priority must be a whole number from 1 to 10, not 'very high'.",
            ],
        ),
        (
            "index_site",
            [
                "completed example.com: 5 pages, 526 words, approved by ann",
                "pages 5 completed 1 failed",
                "report 1 completed",
            ],
        ),
        (
            "schedules",
            [
                "at 02:30, every day, in Europe/Berlin",
                "2026-03-28 02:30:00+01:00",
                "2026-03-29 03:00:00+02:00 02:30 does not exist on this night in Europe/Berlin; fires at 03:00 instead",
                "2026-03-30 02:30:00+02:00",
                "a report on sales",
                "triggered - wanted earlier - ann",
                "skipped - by hand: public holiday - ann",
                "heartbeat has fired 3 times",
            ],
        ),
    ],
)
@pytest.mark.core
def test_an_example_runs(start: Start, uri: str, name: str, lines: list[str], tmp_path: Path) -> None:
    if name == "beanie_orders":
        pytest.importorskip("beanie", reason="Beanie 2.2 is not for Python 3.14")
    example = start(str(ROOT / "examples" / f"{name}.py"), command=PYTHON, cwd=tmp_path, MAINSPRING_URI=uri)
    assert example.wait() == 0, example.output
    assert sorted(without_remarks(example.output)) == sorted(lines)


def without_remarks(output: str) -> list[str]:
    """The lines of a program, without its log, and without what asyncio in its debug mode says of steps that took long
    on a busy machine."""
    return [
        line
        for line in output.splitlines()
        if not line.startswith(("Executing <", "Job ", "Attempt ", "Still ", "No live ", "MongoDB is building ", " "))
    ]


def test_a_worker_is_killed_and_its_job_is_taken_over_before_the_eyes_of_the_user(
    start: Start, uri: str, tmp_path: Path
) -> None:
    example = start(str(ROOT / "examples" / "crash_recovery.py"), command=PYTHON, cwd=tmp_path, MAINSPRING_URI=uri)
    assert example.wait(60) == 0, example.output
    lines = example.output.splitlines()
    assert lines.index("two workers run a job each") < lines.index("one worker is killed in the middle of its job")
    assert "completed north was imported at attempt 2 ['lost', 'completed']" in lines
    assert "completed south was imported at attempt 1 ['completed']" in lines


async def test_the_application_for_workers_runs_in_worker_processes(start: Start, uri: str) -> None:
    worker = start("worker", "examples.worker_app", "--processes", "2", cwd=ROOT, MAINSPRING_URI=uri)
    client = start(str(ROOT / "examples" / "worker_app.py"), command=PYTHON, cwd=ROOT, MAINSPRING_URI=uri)
    assert client.wait(60) == 0, client.output
    assert len(without_remarks(client.output)) == 21
    assert "count-primes completed 1229" in client.output
    await eventually(lambda: worker.output.count(" is up ") == 2)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
