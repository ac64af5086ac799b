"""What the command line says when it cannot do what it was asked to, and with which exit code it ends."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.commands import Command
from harness.waiting import eventually

Start = Callable[..., Command]
NOWHERE = "mongodb://127.0.0.1:9"


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("steedy:scheduler", "There is no module 'steedy'. Did you mean 'steady'?"),
        ("no.such.module", "There is no module 'no'; run the command in the folder that holds it, or install it."),
        ("steady.py:scheduler", "'steady.py' is a file name; name the module: steady:scheduler"),
        ("faulty", "The module 'faulty' has no 'scheduler'. Did you mean faulty:schedular?"),
        (
            "faulty:nothing",
            "'faulty:nothing' is not a Scheduler but a JobFunction; name the Scheduler that your handlers",
        ),
        ("faulty:empty", "The scheduler 'faulty:empty' has no handlers, so it cannot run any job; register one"),
        ("broken", "The module 'broken' cannot be imported: KeyError: 'SECRET' ("),
    ],
)
def test_a_target_that_cannot_be_used_is_explained(start: Start, target: str, sentence: str) -> None:
    worker = start("worker", target)
    assert worker.wait() == 2
    assert worker.output.startswith(f"mainspring: {sentence}")
    assert worker.output.count("\n") == 1


def test_debugging_shows_the_traceback_too(start: Start) -> None:
    worker = start("worker", "broken", MAINSPRING_DEBUG="1")
    assert worker.wait() == 2
    assert "Traceback" in worker.output and 'raise KeyError("SECRET")' in worker.output


def test_a_setting_that_makes_no_sense_is_refused(start: Start) -> None:
    worker = start("worker", "steady", "--concurrency", "0")
    assert worker.wait() == 2
    assert worker.output == "mainspring: concurrency must be a whole number of at least 1, not 0.\n"


async def test_a_worker_waits_for_a_database_out_of_reach_until_it_is_told_to_stop(start: Start) -> None:
    worker = start("worker", "faulty:hasty", MAINSPRING_URI=NOWHERE)
    await eventually(lambda: "WARNING Waiting for MongoDB at mongodb://127.0.0.1:" in worker.output)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert "MongoDB did not answer" in worker.output and "Traceback" not in worker.output


def test_a_worker_process_that_needs_a_change_is_not_tried_again(start: Start, uri: str) -> None:
    worker = start("worker", "faulty:misconfigured", "--processes", "2", MAINSPRING_URI=uri)
    assert worker.wait() == 2
    assert worker.output.endswith("mainspring: SMTP_HOST is not set; say which mail server to use.\n")


def test_worker_processes_that_fail_to_start_again_and_again_end_the_command(start: Start, uri: str) -> None:
    worker = start("worker", "faulty:hooked", "--processes", "3", MAINSPRING_URI=uri)
    assert worker.wait(60) == 1
    assert worker.output.endswith("RuntimeError: the cache is not there\n")


def test_without_its_extra_the_command_says_how_to_get_it(start: Start) -> None:
    code = "import sys; sys.modules['typer'] = None; from mainspring.cli import main; main()"
    command = start("-c", code, command=(sys.executable,))
    assert command.wait() == 2
    assert command.output == "mainspring: The command line needs the extra 'cli'; pip install 'mainspring[cli]'\n"


def test_a_file_dot_env_counts_unless_the_environment_says_otherwise(start: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "from mainspring import Scheduler\nscheduler = Scheduler(handler=lambda ctx: None)\n"
    )
    (tmp_path / ".env").write_text("MAINSPRING_URI=nonsense\n")
    from_file = start("worker", "app", cwd=tmp_path)
    overridden = start("worker", "app", cwd=tmp_path, MAINSPRING_URI="rubbish")
    assert (from_file.wait(), overridden.wait()) == (2, 2)
    assert "'nonsense' is not a MongoDB URI" in from_file.output
    assert "'rubbish' is not a MongoDB URI" in overridden.output


def test_the_version_can_be_asked_for_in_both_ways(start: Start) -> None:
    command, option = start("version"), start("--version")
    assert (command.wait(), option.wait()) == (0, 0)
    assert command.output == option.output
    assert command.output.startswith("mainspring ")


def test_a_dot_env_beside_the_command_runs_no_program_of_its_own(start: Callable[..., Command], tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch '{ran}'\nexit 1\n")
    evil.chmod(0o755)
    (tmp_path / ".env").write_text(f"MAINSPRING_MONGOD={evil}\n")
    command = start("keys", "create", "ops", cwd=tmp_path)
    assert command.wait(60) == 0, command.output
    assert "MAINSPRING_MONGOD in" in command.output and not ran.exists()


async def test_a_worker_without_an_application_imports_nothing_from_the_current_folder(
    start: Start, tmp_path: Path, uri: str
) -> None:
    for name in ("aiohttp", "pymongo", "uvloop", "mainspring"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    worker = start("worker", "--uri", uri, cwd=tmp_path)
    await eventually(lambda: " is up (pid " in worker.output or (tmp_path / "ran").exists(), 60)
    assert not (tmp_path / "ran").exists()
    worker.signal(signal.SIGTERM)
    assert worker.wait(60) == 0, worker.output
