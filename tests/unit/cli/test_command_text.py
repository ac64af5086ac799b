"""What the command line prints is safe for a terminal, whatever a job carries."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.text import Text

from harness.inside import inside
from mainspring import Job, JobError, Scheduler
from mainspring.cli.support.exit_codes import say
from mainspring.cli.support.live import Live
from mainspring.cli.support.logs import set_up_logs
from mainspring.cli.support.service_options import name_database
from mainspring.model.printable import printable, shortened

NASTY = "\x1b[2J\x9b31m\u202ereversed\rover\nnext\x07"
HARMLESS = r"\x1b[2J\x9b31m\u202ereversed\rover\nnext\x07"


def test_what_does_not_print_is_shown_as_its_escape() -> None:
    assert printable(NASTY) == HARMLESS
    assert printable("naïve ✓ 日本") == "naïve ✓ 日本"
    assert printable("a\n\x1bb", keep="\n") == "a\n\\x1bb"


def test_long_text_is_shortened() -> None:
    assert shortened("a" * 10, 10) == "a" * 10
    assert shortened("a" * 11, 10) == "a" * 9 + "…"


def test_an_event_with_a_nasty_job_is_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:9")
    live = Live(scheduler, lambda: None)
    now = datetime.now(UTC)
    job = Job("id" + NASTY[:4], NASTY[:16], {}, "failed", NASTY[:8], 5, now, now, error=JobError("E", NASTY * 99))
    inside(scheduler).events.emit("job:fail", job)
    line = capsys.readouterr().out
    assert line.count("\n") == 1 and line.rstrip("\n").isprintable()
    assert "failed" in line and r"\x1b[2J" in line and len(line) < 300
    assert live.summary() == "1 failed"


def test_muted_events_are_neither_shown_nor_counted(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:9")
    live, now = Live(scheduler, lambda: None), datetime.now(UTC)
    job = Job("a" * 24, "work", {}, "completed", "default", 5, now, now)
    with live.muted():
        inside(scheduler).events.emit("job:success", job)
    assert capsys.readouterr().out == "" and live.summary() == "no job ended"
    inside(scheduler).events.emit("job:success", job)
    assert live.summary() == "1 completed"


@pytest.mark.parametrize(("columns", "shows_queue"), [("80", False), ("110", True)])
def test_the_line_of_an_event_has_the_whole_id_of_its_job(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str, shows_queue: bool
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", columns)
    scheduler = Scheduler("mongodb://127.0.0.1:9")
    Live(scheduler, lambda: None)
    now = datetime.now(UTC)
    inside(scheduler).events.emit("job:start", Job("b" * 24, "work" * 9, {}, "running", "letters", 5, now, now))
    line = Text.from_ansi(capsys.readouterr().out).plain.rstrip()
    assert "b" * 24 in line and ("letters" in line) is shows_queue
    assert len(line) <= int(columns)


def test_markup_in_a_job_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:9")
    Live(scheduler, lambda: None).say("[red]not red[/red]")
    assert capsys.readouterr().out == "[red]not red[/red]\n"


def test_log_lines_are_harmless_and_keep_their_stack(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    set_up_logs()
    try:
        raise ValueError("\x1b[31m")
    except ValueError:
        logging.getLogger("mainspring").exception("job %s", "\x1b]0;title\x07")
    shown = capsys.readouterr().err
    assert "\x1b" not in shown and r"\x1b]0;title\x07" in shown
    assert "\n    Traceback" in shown


@pytest.mark.parametrize(
    ("data", "uri", "options"),
    [
        (Path("my data"), None, " --folder 'my data'"),
        (None, "mongodb://localhost/?replicaSet=rs0", " --uri 'mongodb://localhost/?replicaSet=rs0'"),
        (None, "mongodb://user:secret@localhost", ""),
        (None, None, ""),
    ],
)
def test_a_command_that_is_printed_names_the_database_without_a_password(
    data: Path | None, uri: str | None, options: str
) -> None:
    assert name_database(data, uri) == options


def test_no_text_begins_a_line_of_its_own_among_the_sentences_of_commands(capsys: pytest.CaptureFixture[str]) -> None:
    say("It is wrong:\n    61 * *\n    ^\nmainspring: done\x1b[2J")
    assert capsys.readouterr().err == ("mainspring: It is wrong:\n    61 * *\n    ^\n    mainspring: done\\x1b[2J\n")
