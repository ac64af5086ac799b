"""The meaning of a response's status for a job: done, try again, or give up; and when to try again. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

Status = int | str
NETWORK = "network"
"""In `retry_on`, every failure without a response: no connection, a broken one, no response in time."""
ALL = "all"
"""In `retry_on`, every failure, with and without a response."""
DEFAULT_SUCCESS: tuple[Status, ...] = ("2xx",)
DEFAULT_RETRY_ON: tuple[Status, ...] = (408, 425, 429, "5xx", NETWORK)
LONGEST_RETRY_AFTER = 86400.0
_GONE = 410
_OVERLOADED = (408, 425, 429)
_CLASS = re.compile(r"[1-5]xx")
_SECONDS = re.compile(r"[0-9]{1,10}")


def check_statuses(statuses: tuple[Status, ...]) -> tuple[Status, ...]:
    """Check statuses as users give them: numbers, classes such as "5xx", "network", and "all"."""
    for status in statuses:
        known = isinstance(status, str) and (status in (NETWORK, ALL) or _CLASS.fullmatch(status))
        if not (known or (isinstance(status, int) and 100 <= status <= 599)):
            raise ValueError(f'must hold statuses from 100 to 599, classes such as "5xx", "{NETWORK}" or "{ALL}".')
    return statuses


def read_statuses(text: str) -> tuple[Status, ...]:
    """Statuses as a setting has them: separated by commas."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    return check_statuses(tuple(int(word) if word.isdecimal() and word.isascii() else word for word in words))


def is_among(status: int, statuses: tuple[Status, ...]) -> bool:
    """Whether a status is in a list, by itself or by its class. 410 means that the target is gone for good: its class
    does not include it, only its own number or "all".
    """
    return status in statuses or ALL in statuses or (status != _GONE and f"{status // 100}xx" in statuses)


def is_outage(status: int) -> bool:
    """Whether a status means that the target as a whole is down or overloaded, and not that this request is wrong."""
    return status >= 500 or status in _OVERLOADED


def retry_after(value: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks to wait, in either of its forms, at most a day; None if invalid."""
    if value is None:
        return None
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), LONGEST_RETRY_AFTER)
    try:
        until = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    aware = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return min(max((aware - now).total_seconds(), 0.0), LONGEST_RETRY_AFTER)
