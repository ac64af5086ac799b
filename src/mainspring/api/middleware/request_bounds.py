"""Bounds on requests: how many a key may send in a minute, how many from an address are refused in a minute, and how
many requests and streams are open at the same time. The answer to a client beyond a bound says when to try again.

Only refused requests are counted by address, so that other clients with the same address, as behind a proxy, cannot
lock out a request with a valid key. Without the bounds on open ones, one caller could take every stream, or every
connection, of a process. Each process counts in its own memory; several processes allow several times as much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv6Address, IPv6Network
from math import ceil

from starlette.requests import HTTPConnection

from mainspring.api.problems import Problem
from mainspring.api.settings import ServiceSettings
from mainspring.clock import monotonic
from mainspring.model.networks import parse_host

# Several clients may share an address.
_ADDRESS_FACTOR = 2
_WRONG_KEYS = 30
_IPV6_SITE = 64
_MINUTE = 60.0
_COME_BACK = {"Retry-After": "5"}
_ALL = ""


class Window:
    """A sliding window of one minute for each key. Requests of the previous minute count by the part of it that is
    within the last sixty seconds, as if they had come evenly, so that it keeps only two numbers per key.

    Every request is counted: this takes a microsecond and no thread of its own (decision 24).
    """

    def __init__(self, most: int, clock: Callable[[], float] = monotonic) -> None:
        self.most = most
        self._clock = clock
        self._minute = 0
        self._now: Counter[str] = Counter()
        self._before: Counter[str] = Counter()

    def hit(self, who: str) -> float:
        """Count a request if it is within the limit. Return 0, or the seconds until it would be."""
        wait = self.wait(who)
        if not wait:
            self._now[who] += 1
        return wait

    def wait(self, who: str) -> float:
        """The seconds until one more request is within the limit; 0 if it is now."""
        passed = self._turn()
        now, before = self._now[who], self._before[who]
        if now + before * (1 - passed) + 1 <= self.most:
            return 0.0
        if now + 1 <= self.most:
            return (1 - passed - (self.most - now - 1) / before) * _MINUTE
        return (1 - passed + max(0.0, 1 - (self.most - 1) / now)) * _MINUTE

    def _turn(self) -> float:
        """Roll over the counts if a new minute has begun. Return the part of the minute that has passed."""
        minute, passed = divmod(self._clock() / _MINUTE, 1)
        if minute != self._minute:
            self._before = self._now if minute == self._minute + 1 else Counter()
            self._now, self._minute = Counter(), int(minute)
        return passed


class RateLimits:
    """The rate limits of one service."""

    def __init__(self, per_minute: int) -> None:
        self._actor = Window(per_minute)
        self._refused = Window(per_minute * _ADDRESS_FACTOR)
        self._wrong = Window(min(per_minute, _WRONG_KEYS))

    def count_refused(self, request: HTTPConnection, with_key: bool) -> None:
        """Count a request without an authenticated caller; raise a Problem of 429 beyond the limit."""
        address = address_of(request)
        _refuse(
            self._refused.hit(address), f"{self._refused.most:,} requests in a minute from this address were refused"
        )
        if with_key:
            _refuse(self._wrong.hit(address), f"{self._wrong.most:,} wrong keys in a minute from this address")

    def check_actor(self, actor: str) -> None:
        """Count a request of an authenticated caller; raise a Problem of 429 beyond the limit."""
        more = f"More than {self._actor.most:,} requests in a minute; MAINSPRING_REQUESTS_PER_MINUTE sets it"
        _refuse(self._actor.hit(actor), more)


def _refuse(wait: float, what: str) -> None:
    if wait:
        seconds = max(1, ceil(wait))
        raise Problem(429, f"{what}; come back in {seconds} s.", headers={"Retry-After": str(seconds)})


def address_of(request: HTTPConnection) -> str:
    """The key by which requests of an address are counted."""
    return "unknown" if request.client is None else counted_as(request.client.host)


def counted_as(host: str) -> str:
    """The text under which an address is counted: for IPv6 its /64 network, since a site can use any address in it."""
    address = parse_host(host)
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address), _IPV6_SITE), strict=False))
    return host if address is None else str(address)


# -- requests at the same time ---------------------------------------------------------------------------------------


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
