"""The record of a request with an idempotency key: its hash, the id of the thing it makes, and its answer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

REQUESTS_KEPT = 20


@dataclass(frozen=True, slots=True)
class Reply:
    """What is known of a request that came with a key. Without a status, no answer is stored yet."""

    print: str
    """A hash of what was asked for."""
    seed: str
    """The id of what the request makes, 24 hexadecimal digits: the same however often it comes."""
    status: int | None = None
    body: str | None = None
    fresh: bool = False
    """Whether it came just now for the first time: nothing can have been made of it."""

    def is_for(self, print: str) -> bool:
        """Whether this very thing was asked for."""
        return self.print == print


def remembered(requests: Sequence[str], request_id: str | None) -> list[str]:
    """The last requests that were carried out on a thing, with one more."""
    return [*requests, *([] if request_id is None else [request_id])][-REQUESTS_KEPT:]
