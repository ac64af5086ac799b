"""Deadlines of operations, and the meaning of the server's error codes.

Every operation of the store runs under a deadline. An outage of whatever kind leaves it as `Unavailable`, which passes
by itself; any other error of the driver is the server's final answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pymongo
from pymongo.errors import (
    ConnectionFailure,
    ExecutionTimeout,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WriteConcernError,
)

from mainspring.errors import ConfigurationError, IndexesBuilding, Unavailable

_OUTAGE = (
    ConnectionFailure,
    NetworkTimeout,
    NotPrimaryError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    ExecutionTimeout,
    WriteConcernError,
)
# Codes of errors that pass, whatever is written: an unreachable or changing primary, a killed or conflicting operation,
# a full disk, writes that an administrator has blocked.
PASSING = {
    *(6, 7, 24, 50, 89, 91, 112, 117, 133, 134, 175, 189, 202, 239, 246, 262, 371),
    *(9001, 10058, 10107, 11600, 11601, 11602, 13388, 13435, 13436, 14031),
}
DUPLICATE, UNAUTHORIZED = 11000, 13
# A hint that names no index is a bad value; without a hint, a server that refuses table scans has no plan.
NO_SUCH_INDEX = (2, 27, 291)


@contextmanager
def deadline(seconds: float, building: Callable[[], Sequence[str]] = tuple) -> Iterator[None]:
    """Bound every operation inside, turn an outage of whatever kind into `Unavailable`, and lose no cancellation.

    `building` names the indexes that are being built: a query that needs one of them fails as in an outage. 0 seconds
    mean no bound.
    """
    asked = _asked_to_stop()
    try:
        with pymongo.timeout(seconds):
            yield
    except _OUTAGE as error:
        late = f"did not answer within {seconds:g} s or " if seconds else ""
        raise Unavailable(f"MongoDB {late}cannot be reached: {_brief(error)}") from error
    except OperationFailure as error:
        if error.has_error_label("RetryableWriteError") or error.code in PASSING:
            raise Unavailable(f"MongoDB could not carry out the operation now: {error}") from error
        if error.code == UNAUTHORIZED:
            raise ConfigurationError(f"This MongoDB user lacks a right that Mainspring needs: {error}") from error
        if error.code in NO_SUCH_INDEX and (names := building()):
            raise IndexesBuilding(f"MongoDB is still building {', '.join(names)}; try again later.") from error
        raise
    except asyncio.CancelledError as error:
        if _asked_to_stop() > asked:
            raise
        # This task was not cancelled, but the driver's own wait in it was, such as for a connection that is closed.
        raise Unavailable("The connection to MongoDB was closed before the answer came; try again.") from error
    # The driver waits with `asyncio.wait_for`, which in Python 3.11 drops a cancellation that arrives together with the
    # reply. A task that sends operations in a loop would then go on for ever.
    if _asked_to_stop() > asked:
        raise asyncio.CancelledError


def _asked_to_stop() -> int:
    """The number of pending cancellations of this task; the heartbeat's thread has no task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0
    return 0 if task is None else task.cancelling()


_NO_PRIMARY = (
    "The replica set has no primary: it elects one now, has lost its majority, or was never initiated (rs.initiate())."
)


def _brief(error: Exception) -> str:
    """The driver's message without its description of the deployment and its timeouts."""
    text = re.split(r" \(configured timeouts:|, Timeout: ", str(error), maxsplit=1)[0]
    return f"{text}. {_NO_PRIMARY}" if "match selector" in text and "Primary()" in text else text
