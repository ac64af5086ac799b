"""Errors of the commands: one sentence on stderr, and an exit code. Tracebacks are for bugs, and for
MAINSPRING_DEBUG=1."""

from __future__ import annotations

import os
import sys
import traceback

from mainspring.errors import (
    CalendarNotFound,
    ConfigurationError,
    EmbeddedError,
    FlowNotFound,
    JobNotFound,
    KeyNotFound,
    MainspringError,
    OperationNotFound,
    RedriveNotFound,
    ScheduleNotFound,
    SecretNotFound,
    UnsupportedServer,
    WorkerNotFound,
)
from mainspring.model.printable import printable

RUNTIME_FAILURE, TO_BE_CHANGED, NOT_FOUND, INTERRUPTED = 1, 2, 3, 130
EXIT_CODES = {
    0: "done",
    RUNTIME_FAILURE: "a runtime failure: the server cannot be reached, the job's state does not allow the command, the "
    "installation is unhealthy, or the awaited job did not complete",
    TO_BE_CHANGED: "a usage or configuration error: an argument, a setting, the API key or the MongoDB "
    "server is wrong; nothing was done",
    NOT_FOUND: "there is no such job, schedule, queue, worker, flow, key, secret, alert rule or operation",
    INTERRUPTED: "interrupted by Ctrl-C",
}
"""The exit codes of all commands, with their meanings."""
_TO_BE_CHANGED = (ConfigurationError, EmbeddedError, UnsupportedServer)
_NOT_FOUND = (
    *(CalendarNotFound, FlowNotFound, JobNotFound, KeyNotFound, OperationNotFound, RedriveNotFound),
    *(ScheduleNotFound, SecretNotFound, WorkerNotFound),
)


class CommandFailed(MainspringError):
    """The end of a command, with its exit code."""

    def __init__(self, sentence: str, code: int = RUNTIME_FAILURE) -> None:
        super().__init__(sentence)
        self.code = code


def exit_code(error: BaseException) -> int:
    """The exit code for an error that ends a command."""
    if isinstance(error, CommandFailed):
        return error.code
    if isinstance(error, _NOT_FOUND):
        return NOT_FOUND
    return TO_BE_CHANGED if isinstance(error, _TO_BE_CHANGED) else RUNTIME_FAILURE


def report(error: BaseException) -> None:
    """Write an error to stderr."""
    expected = isinstance(error, MainspringError)
    if not expected or debugging():
        traceback.print_exception(error)
    if expected:
        say(str(error))


def say(sentence: str) -> None:
    """Write a sentence to stderr, after all that was printed before. All lines after the first, such as that of a
    caret, are indented: no text of a job can begin a line."""
    first, *rest = printable(sentence, keep="\n").split("\n")
    lines = [line if line.startswith("    ") else f"    {line}" for line in rest]
    sys.stdout.flush()  # a pipe that gets both streams has them in their order
    sys.stderr.write("\n".join([f"mainspring: {first}", *lines]) + "\n")


def debugging() -> bool:
    """Whether tracebacks are wanted."""
    return os.environ.get("MAINSPRING_DEBUG", "") not in ("", "0")
