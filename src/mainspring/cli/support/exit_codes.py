"""Errors of the commands: one sentence on stderr, and an exit code.

0 is a clean end, 1 a failure at run time, 2 something to be changed (arguments, settings, server). Tracebacks are for
bugs, and for MAINSPRING_DEBUG=1.
"""

from __future__ import annotations

import os
import sys
import traceback

from mainspring.errors import ConfigurationError, EmbeddedError, MainspringError, UnsupportedServer
from mainspring.model.printable import printable

RUNTIME_FAILURE, TO_BE_CHANGED = 1, 2


def exit_code(error: BaseException) -> int:
    """The exit code for an error that ends a command."""
    return TO_BE_CHANGED if isinstance(error, ConfigurationError | EmbeddedError | UnsupportedServer) else 1


def report(error: BaseException) -> None:
    """Write an error to stderr."""
    expected = isinstance(error, MainspringError)
    if not expected or debugging():
        traceback.print_exception(error)
    if expected:
        say(str(error))


def say(sentence: str) -> None:
    """Write a sentence to stderr."""
    sys.stderr.write(f"mainspring: {printable(sentence)}\n")


def debugging() -> bool:
    """Whether tracebacks are wanted."""
    return os.environ.get("MAINSPRING_DEBUG", "") not in ("", "0")
