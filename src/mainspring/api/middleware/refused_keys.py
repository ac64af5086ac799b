"""Keys that were refused a moment ago: the same text is refused again without asking the database.

A secret is random and is never given out twice, so that a text which is no key does not become one; a refusal is
remembered for a short time all the same, in case a key is put back by hand. Hashes are kept, never texts, and of the
last refusals only: texts that all differ are read in company (`store/group_commit.py`), one read at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from mainspring.clock import monotonic

_MOST = 1000
_REMEMBERED = 10.0


class UnknownKeys:
    """The last texts that were no key."""

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
