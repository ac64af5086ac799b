"""A cache of keys that were refused a moment ago: the same text is refused again without a read of the database.

A secret is random and never issued twice, so that an unknown text does not become a key; a refusal expires after a
short time all the same, in case an operator restores a key by hand. The cache keeps hashes, never texts, and only of
the last refusals: lookups of texts that all differ are batched by group commit (`store/group_commit.py`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from mainspring.clock import monotonic

_MOST = 1000
_REMEMBERED = 10.0


class UnknownKeys:
    """The last texts that were refused."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def __contains__(self, text: str) -> bool:
        return self._until.get(_digest(text), 0.0) > self._clock()

    def add(self, text: str) -> None:
        digest = _digest(text)
        self._until[digest] = self._clock() + _REMEMBERED
        self._until.move_to_end(digest)
        while len(self._until) > _MOST:
            self._until.popitem(last=False)


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
