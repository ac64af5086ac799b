"""Logs of the commands: to stderr, as text or as one JSON object per line, from the chosen level on.

Every command has `--log-level` and `--log-format`; their defaults are MAINSPRING_LOG_LEVEL and MAINSPRING_LOG_FORMAT,
which the options also set for worker processes. A user's module that has set up logging itself keeps its choice, except
for a level or format that is given explicitly.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from textwrap import indent
from typing import Annotated, Any

from mainspring.cli.support.exit_codes import debugging
from mainspring.errors import ConfigurationError
from mainspring.model.fields import Fields
from mainspring.model.printable import printable
from mainspring.spelling import did_you_mean

LEVEL, FORMAT = "MAINSPRING_LOG_LEVEL", "MAINSPRING_LOG_FORMAT"
LEVELS = ("debug", "info", "warning", "error", "critical")
FORMATS = ("text", "json")
_INDENTED = re.compile(r" {4}|$")
_TEXT = "%(asctime)s %(process)d %(levelname)s %(message)s"
_DRIVER = "pymongo.client"
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def set_up_logs(level: str = "info", *, informing: str | None = None) -> None:
    """Show log lines from a level on, unless the user chose another; called once the user's module is imported. The
    logger `informing` also shows lines of the level info."""
    root = logging.getLogger()
    chosen = os.environ.get(LEVEL, "").lower()
    if root.handlers:
        if chosen:
            logging.getLogger("mainspring").setLevel(chosen.upper())
        if os.environ.get(FORMAT):
            for existing in root.handlers:
                existing.setFormatter(_formatter())
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter())
    root.addHandler(handler)
    logging.getLogger(_DRIVER).addFilter(_in_one_line)
    root.setLevel((chosen or level).upper())
    if informing is not None and not chosen:
        logging.getLogger(informing).setLevel(logging.INFO)


@contextmanager
def without_loggers(*names: str) -> Iterator[None]:
    """Switch loggers off for a command that says the same in its own output."""
    for name in names:
        logging.getLogger(name).disabled = True
    try:
        yield
    finally:
        for name in names:
            logging.getLogger(name).disabled = False


def logged(command: Callable[..., Any], level: str = "warning") -> Callable[..., Any]:
    """Add the options of logs to a command, for `set_up_logs` here and in worker processes. `level` is the command's
    default, for the help text."""
    import typer  # here, since worker processes set up logs too, and do not need the extra `cli`

    options = {
        "log_level": Annotated[
            str | None, typer.Option("--log-level", help=f"{', '.join(LEVELS)} (default: {level}; {LEVEL}).")
        ],
        "log_format": Annotated[
            str | None, typer.Option("--log-format", help=f"text or json (default: text; {FORMAT}).")
        ],
    }

    @wraps(command)
    def run(*args: Any, log_level: str | None = None, log_format: str | None = None, **kwargs: Any) -> Any:
        _choose(LEVEL, "--log-level", log_level, LEVELS)
        _choose(FORMAT, "--log-format", log_format, FORMATS)
        return command(*args, **kwargs)

    signature = inspect.signature(command, eval_str=True)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in options.items()
    ]
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    return run


def _choose(variable: str, option: str, given: str | None, known: Sequence[str]) -> None:
    """Take a choice from the option or the environment, and refuse an unknown one."""
    if given is not None:
        os.environ[variable] = given
    value = os.environ.get(variable, "")
    if value and value.lower() not in known:
        named = option if given is not None else variable
        raise ConfigurationError(
            f"{named} must be one of {', '.join(known)}, not {value!r}.{did_you_mean(value.lower(), known)}"
        )


def _in_one_line(record: logging.LogRecord) -> bool:
    """Shorten an error of the driver's own tasks, such as closing a cursor on a server that is gone. Its traceback
    leads through the driver alone, and would bury the lines about jobs."""
    if record.exc_info and record.exc_info[1] is not None and not debugging():
        error = record.exc_info[1]
        record.msg = (
            f"{record.getMessage().rstrip(':')}: {type(error).__name__}: {str(error).partition(', Topology')[0]}"
        )
        record.args, record.exc_info = (), None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
    return True


def _formatter() -> logging.Formatter:
    return _Json() if os.environ.get(FORMAT, "").lower() == "json" else _Text(_TEXT)


class _Text(logging.Formatter):
    """Log lines as text. Texts of jobs cannot begin a line: all lines after the first one are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        first, _, rest = printable(super().format(record), keep="\n\t").partition("\n")
        if not rest:
            return first
        return f"{first}\n{rest if all(map(_INDENTED.match, rest.splitlines())) else indent(rest, '    ')}"


class _Json(logging.Formatter):
    """One JSON object per line, with all extra fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        told: Fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        told |= {key: value for key, value in vars(record).items() if key not in _STANDARD and value is not None}
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            told["traceback"] = record.exc_text
        return json.dumps(told, default=str)
