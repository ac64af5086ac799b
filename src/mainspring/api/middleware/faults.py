"""Log lines about unforeseen errors of the service: their places in the code, without any data.

The message of an exception may quote a request or a document, so that only its type and its traceback are logged, under
a number that the answer names too.
"""

from __future__ import annotations

import logging
import secrets
from traceback import extract_tb, format_list

from starlette.types import Scope

from mainspring.engine.job_log import write


def log_fault(what: str, error: BaseException) -> str:
    """Log an error and return its number."""
    number = secrets.token_hex(4)
    kind = type(error).__name__
    places = "".join(format_list(extract_tb(error.__traceback__)))
    write(logging.ERROR, f"{what} failed with {kind}, fault {number}", {"fault": number, "error_type": kind}, places)
    return number


def route_of(scope: Scope) -> str:
    """The requested endpoint, by its path template: the path itself may contain anything."""
    path = getattr(scope.get("route"), "path", None) or "a path that no endpoint has"
    return f"{scope['method']} {path}"
