"""What went wrong in a handler, in the form in which it is kept with its job."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from mainspring.handlers import BadArguments
from mainspring.model.job import JobError
from mainspring.model.versions import LiftFailed
from mainspring.store.sealing import Unopenable

_CALLS = 30


class HandlerTimeout(Exception):
    """The attempt took longer than its timeout."""


class RemoteError(Exception):
    """What a handler raised in its process. `cause` is the exception itself where it could be sent over."""

    def __init__(
        self,
        type: str,
        message: str,
        stack: str | None,
        cause: BaseException | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.type = type
        self.message = message
        self.stack = stack
        self.cause = cause
        self.details = details


def describe(error: BaseException) -> JobError:
    """An exception as it is kept with the job."""
    if isinstance(error, RemoteError):
        return JobError(error.type, error.message, error.stack, error.details)
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(error, HandlerTimeout):
        name = "Timeout"
    elif isinstance(error, BadArguments):
        name = "InvalidJob"
    elif isinstance(error, LiftFailed):
        name = "LiftFailed"
    elif isinstance(error, Unopenable):
        return JobError("Undecodable", str(error))
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    return JobError(name, message, _stack(error), details_of(error))


def details_of(error: BaseException) -> Mapping[str, Any] | None:
    """What an exception tells beside its message: a mapping that it carries as `details`."""
    try:
        details = getattr(error, "details", None)
    except Exception:
        return None
    return details if isinstance(details, Mapping) and details else None


def _stack(error: BaseException) -> str:
    """The last calls that led to an error and to those behind it; it says so where there were more."""
    text = "".join(traceback.format_exception(error, limit=-_CALLS))
    deepest = max(len(list(traceback.walk_tb(one.__traceback__))) for one in _chain(error))
    return f"… (cut: the last {_CALLS} of {deepest:,} calls)\n{text}" if deepest > _CALLS else text


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and the errors behind it."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__
