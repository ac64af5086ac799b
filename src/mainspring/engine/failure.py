"""What went wrong in a handler, in the form in which it is kept with its job."""

from __future__ import annotations

import traceback

from mainspring.handlers import BadArguments
from mainspring.model.job import JobError


class HandlerTimeout(Exception):
    """The attempt took longer than its timeout."""


class RemoteError(Exception):
    """What a handler raised in its process. `cause` is the exception itself where it could be sent over."""

    def __init__(self, type: str, message: str, stack: str | None, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.type = type
        self.message = message
        self.stack = stack
        self.cause = cause


def describe(error: BaseException) -> JobError:
    """An exception as it is kept with the job."""
    if isinstance(error, RemoteError):
        return JobError(error.type, error.message, error.stack)
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(error, HandlerTimeout):
        name = "Timeout"
    elif isinstance(error, BadArguments):
        name = "InvalidJob"
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    stack = "".join(traceback.format_exception(error, limit=-30))
    return JobError(name, message, stack)
