"""Log lines of the commands: the options that every command has, and the two formats."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import pytest
import typer.main

from mainspring.cli.app import app
from mainspring.cli.support.logs import FORMAT, LEVEL, set_up_logs
from mainspring.engine.job_log import write
from mainspring.errors import ConfigurationError

FORGED = "boom\n2026-01-01 00:00:00,000 1 ERROR forged\x1b[31m"


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands, with the words that call them."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = dict(commands(typer.main.get_command(app)))


@pytest.fixture(autouse=True)
def _no_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (LEVEL, FORMAT):
        monkeypatch.setenv(variable, "")


@contextmanager
def new_process() -> Iterator[None]:
    """Without handlers for logs, as when a process begins."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.getLogger("mainspring").setLevel(logging.NOTSET)


def test_every_command_has_the_options_of_logs() -> None:
    assert {"up", "serve", "worker", "version"} <= {words[0] for words in ALL}
    for words, command in ALL.items():
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--log-level", "--log-format"} <= options, words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--log-level", "wanring"], "--log-level must be one of .*, not 'wanring'. Did you mean 'warning'"),
        (["--log-format", "xml"], "--log-format must be one of text, json, not 'xml'"),
    ],
)
def test_an_unknown_choice_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        app(["version", *arguments], standalone_mode=False)


def test_an_unknown_choice_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LEVEL, "loud")
    with pytest.raises(ConfigurationError, match="MAINSPRING_LOG_LEVEL must be one of"):
        app(["version"], standalone_mode=False)


def test_the_option_counts_more_than_the_environment_and_reaches_worker_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(LEVEL, "debug")
    app(["version", "--log-level", "ERROR"], standalone_mode=False)
    with new_process():
        set_up_logs()
        logging.getLogger("mainspring").warning("quiet")
        logging.getLogger("mainspring").error("loud")
        told = capsys.readouterr().err
        assert "loud" in told and "quiet" not in told


def test_a_line_as_text_cannot_be_forged(capsys: pytest.CaptureFixture[str]) -> None:
    with new_process():
        set_up_logs()
        logging.getLogger("mainspring").warning("Job %s failed", FORGED)
        try:
            raise ValueError(FORGED)
        except ValueError:
            logging.getLogger("mainspring").exception("It raised")
        told = capsys.readouterr().err.splitlines()
        assert "WARNING Job boom\\n2026-01-01" in told[0] and "\x1b" not in "".join(told)
        (raised,) = [place for place, line in enumerate(told) if line.endswith("ERROR It raised")]
    assert raised == 1 and all(line.startswith("    ") for line in told[2:])


def test_a_line_as_json_is_one_object_with_the_ids(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FORMAT, "json")
    with new_process():
        set_up_logs()
        write(
            logging.ERROR, f"Job failed: {FORGED}", {"job_id": "7", "attempt": 2, "worker": "w"}, f"Traceback\n{FORGED}"
        )
        (line,) = capsys.readouterr().err.splitlines()
        told = json.loads(line)
        assert {
            "level": "error",
            "logger": "mainspring.jobs",
            "job_id": "7",
            "attempt": 2,
            "worker": "w",
        }.items() <= told.items()
        assert told["message"] == f"Job failed: {FORGED}" and told["traceback"].startswith("    Traceback\n    boom")
        assert told["time"].endswith("+00:00")


def test_a_module_that_has_set_up_logs_keeps_its_choice_until_another_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with new_process():
        logging.basicConfig(level=logging.ERROR, format="mine %(message)s")
        set_up_logs()
        logging.getLogger("mainspring").warning("hidden")
        assert capsys.readouterr().err == ""
        monkeypatch.setenv(LEVEL, "info")
        set_up_logs()
        logging.getLogger("mainspring").info("shown")
        assert capsys.readouterr().err == "mine shown\n"
        monkeypatch.setenv(FORMAT, "json")
        set_up_logs()
        logging.getLogger("mainspring").info("shown")
        assert json.loads(capsys.readouterr().err)["message"] == "shown"


def test_an_error_of_the_drivers_own_tasks_is_one_line_unless_tracebacks_are_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> str:
        with new_process():
            set_up_logs()
            try:
                raise TimeoutError("no server, Topology Description: <many words>")
            except TimeoutError:
                logging.getLogger("pymongo.client").exception("MongoClient background task encountered an error:")
            return capsys.readouterr().err

    monkeypatch.delenv("MAINSPRING_DEBUG", raising=False)
    told = fail()
    assert told.endswith("WARNING MongoClient background task encountered an error: TimeoutError: no server\n")
    assert len(told.splitlines()) == 1
    monkeypatch.setenv("MAINSPRING_DEBUG", "1")
    assert "Traceback" in fail()
