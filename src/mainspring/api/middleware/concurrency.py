"""Bounds on concurrent requests of a key, and on open streams in all, per key and per address.

Without them one caller could take every stream, or every connection, of a process. Each process counts its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from mainspring.api.problems import Problem
from mainspring.api.settings import ServiceSettings

_COME_BACK = {"Retry-After": "5"}
_ALL = ""


class Places:
    """A number of places for each key; `what` and `cure` are for the answer to a request that gets none."""

    def __init__(self, most: int, what: str, cure: str) -> None:
        self._most = most
        self._what = what
        self._cure = cure
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, by: str) -> Iterator[None]:
        """Take a place for the length of the block, or raise a Problem of 429 if all are taken."""
        if self._taken[by] >= self._most:
            detail = f"{self._most:,} {self._what} in this process already; {self._cure}."
            raise Problem(429, detail, headers=_COME_BACK)
        self._taken[by] += 1
        try:
            yield
        finally:
            self._taken[by] -= 1
            if not self._taken[by]:
                del self._taken[by]


class Crowd:
    """The open requests of a process."""

    def __init__(self, settings: ServiceSettings) -> None:
        fewer = "close some, or let several readers share one"
        self._requests = Places(
            settings.requests_at_once,
            "requests of this key are under way",
            "wait for some to end. MAINSPRING_REQUESTS_AT_ONCE sets the limit",
        )
        self._of_key = Places(
            settings.streams_per_key,
            "streams of this key are open",
            f"{fewer}. MAINSPRING_STREAMS_PER_KEY sets the limit",
        )
        self._of_address = Places(
            settings.streams_per_address,
            "streams from this address are open",
            f"{fewer}. MAINSPRING_STREAMS_PER_ADDRESS sets the limit",
        )
        self._streams = Places(
            settings.streams,
            "streams are open",
            "come back later, or to another one. MAINSPRING_STREAMS sets the limit",
        )

    @contextmanager
    def place(self, actor: str, address: str, stream: bool) -> Iterator[None]:
        """Take a place for a request of a caller while it is answered, or raise a Problem of 429."""
        with ExitStack() as places:
            places.enter_context(self._requests.taken(actor))
            if stream:
                places.enter_context(self._of_key.taken(actor))
                places.enter_context(self._of_address.taken(address))
                places.enter_context(self._streams.taken(_ALL))
            yield
