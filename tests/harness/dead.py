"""Dead letters for tests, stored in bulk past the scheduler, just as a failed job is left."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from mainspring.store.codec import fingerprint_of

Document = dict[str, Any]


def dead_letter(at: datetime, number: int = 0, **fields: Any) -> Document:
    """A job that has failed at an instant."""
    name = fields.get("name", "work")
    error = fields.pop("error", {"type": "ValueError", "message": f"number {number} is bad"})
    attempt = {"n": 1, "token": 1, "outcome": "failed", "worker": "w", "started_at": at, "ended_at": at, "error": error}
    return {
        "_id": ObjectId(),
        "v": 1,
        "name": name,
        "data": {"number": number},
        "queue": "default",
        "priority": 5,
        "state": "failed",
        "run_at": at,
        "created_at": at,
        "finished_at": at,
        "rev": 2,
        "token": 1,
        "tries": 1,
        "error": error,
        "fingerprint": fingerprint_of(name, error),
        "attempts": [attempt],
        **fields,
    }


def dead_letters(count: int, until: datetime, **fields: Any) -> Iterator[Document]:
    """So many, the last of which failed a second before an instant; each hundred of them at the same moment."""
    for number in range(count):
        moments = (count - 1 - number) // 100
        yield dead_letter(until - timedelta(seconds=1, milliseconds=moments), number, **fields)
