"""The record of a request with an idempotency key: its hash, the id of the resource it creates, its answer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

REQUESTS_KEPT = 20


@dataclass(frozen=True, slots=True)
class Reply:
    """The record of a request with an idempotency key. Without a status, no answer is stored yet."""

    print: str
    """A hash of the request."""
    seed: str
    """The id of what the request creates, 24 hexadecimal digits: the same however often it is repeated."""
    status: int | None = None
    body: str | None = None
    fresh: bool = False
    """Whether this is the first request with the key: it cannot have been carried out before."""

    def is_for(self, print: str) -> bool:
        """Whether the record is of a request with this hash."""
        return self.print == print


def remembered(requests: Sequence[str], request_id: str | None) -> list[str]:
    """The last requests that were carried out on a resource, with one more."""
    return [*requests, *([] if request_id is None else [request_id])][-REQUESTS_KEPT:]
