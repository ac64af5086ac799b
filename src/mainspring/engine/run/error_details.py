"""The errors of handlers, in the form in which they are stored with their jobs."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from mainspring.errors import BadArguments
from mainspring.model.jobs.job import JobError
from mainspring.model.jobs.payload_versions import PayloadUpgradeFailed
from mainspring.store.bounded_values import plain_details
from mainspring.store.privacy.cipher import Undecryptable

_CALLS = 30
_UNTOLD = "(its message cannot be shown)"


class HandlerTimeout(Exception):
    """The attempt took longer than its timeout."""


class RemoteError(Exception):
    """An error of a handler in its own process. `cause` is the exception itself, if it could be sent to the worker."""

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
    """An exception as it is stored with the job. Never raises, even if code of the exception itself does."""
    try:
        return _described(error)
    except BaseException:
        return JobError(type(error).__qualname__, _UNTOLD)


def told(error: BaseException) -> str:
    """An exception as text for the log. Never raises."""
    try:
        return repr(error)
    except BaseException:
        return f"{type(error).__qualname__} {_UNTOLD}"


def _described(error: BaseException) -> JobError:
    if isinstance(error, RemoteError):
        return JobError(error.type, error.message, error.stack, error.details)
    name = _name_of(type(error))
    if isinstance(error, HandlerTimeout):
        name = "Timeout"
    elif isinstance(error, BadArguments):
        name = "InvalidJob"
    elif isinstance(error, PayloadUpgradeFailed):
        name = "PayloadUpgradeFailed"
    elif isinstance(error, Undecryptable):
        return JobError("Undecodable", str(error))
    try:
        message = str(error)
    except Exception:
        message = _UNTOLD
    return JobError(name, message, _stack(error), details_of(error))


def _name_of(kind: type[BaseException]) -> str:
    """The name of an error's type as jobs show it: of Python's own and Mainspring's types without the module."""
    ours = kind.__module__ == "builtins" or kind.__module__.partition(".")[0] == "mainspring"
    return kind.__qualname__ if ours else f"{kind.__module__}.{kind.__qualname__}"


def details_of(error: BaseException) -> Mapping[str, Any] | None:
    """The details of an exception beside its message: its attribute `details`, if it is a mapping, in plain values."""
    try:
        details = getattr(error, "details", None)
        return plain_details(details) if isinstance(details, Mapping) and details else None
    except Exception:
        return None


def _stack(error: BaseException) -> str:
    """The last calls that led to an error and to the errors behind it; the text says so if there were more."""
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
