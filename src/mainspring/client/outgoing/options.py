"""The options of `scheduler.outgoing()`, and the error for a missing extra.

Every Scheduler has that verb, so that this module imports nothing large; `settings.py`, which reads the options, does.
"""

from __future__ import annotations

from typing import TypedDict

from mainspring.errors import ConfigurationError

_EXTRAS = ("aiohttp", "yarl", "aiosmtplib")


class OutgoingOptions(TypedDict, total=False):
    """The settings as a program gives them; the environment has the others."""

    http_allow: str
    target_concurrency: int
    target_rate: str
    target_breaker: bool
    smtp_url: str
    smtp_from: str
    smtp_senders: str


def missing_extra(error: ModuleNotFoundError) -> Exception:
    """The error for a missing module, with the extras that install it, if it is theirs."""
    if error.name is None or error.name.partition(".")[0] not in _EXTRAS:
        return error
    return ConfigurationError(
        "Webhooks and mail need the extras 'http' and 'email': pip install \"mainspring[http,email]\""
    )
