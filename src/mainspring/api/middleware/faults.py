"""Log lines about unforeseen errors of the service: where they happened, and nothing of the data they happened with.

The message of an exception may quote what a request or a document says, so that only its type and its places in code
are logged, under a number that the answer names too.
"""

from __future__ import annotations

import logging
import secrets
from traceback import extract_tb, format_list

from starlette.types import Scope

from mainspring.engine.job_log import write


def log_fault(what: str, error: BaseException) -> str:
    """Log an error; returns its number."""
    number = secrets.token_hex(4)
    kind = type(error).__name__
    places = "".join(format_list(extract_tb(error.__traceback__)))
    write(logging.ERROR, f"{what} failed with {kind}, fault {number}", {"fault": number, "error_type": kind}, places)
    return number


def route_of(scope: Scope) -> str:
    """The requested endpoint, by its path template: the path itself may contain anything."""
    path = getattr(scope.get("route"), "path", None) or "a path that no endpoint has"
    return f"{scope['method']} {path}"
