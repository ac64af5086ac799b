"""Bounds on how many requests a key may make, and on how many of an address are refused: a client beyond them is told
when to come back.

A request is recognised before it is counted by its address, so that nothing that others send from the same address, as
through a proxy, keeps out a request with a key that counts. Counted in this process alone, in memory; several processes
allow several times as much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Network
from math import ceil

from starlette.requests import HTTPConnection

from mainspring.api.problems import Problem
from mainspring.clock import monotonic
from mainspring.model.networks import parse_host

# An address may have several clients behind it.
_ADDRESS_FACTOR = 2
_WRONG_KEYS = 30
_IPV6_SITE = 64
_MINUTE = 60.0


class Window:
    """A sliding window of one minute for each key. Requests of the calendar minute before count by how much of it
    is still within the last sixty seconds, as if it had come evenly, so that two numbers for each are all it keeps.

    Every request is counted: this takes a microsecond and no thread of its own (decision 24).
    """

    def __init__(self, most: int, clock: Callable[[], float] = monotonic) -> None:
        self.most = most
        self._clock = clock
        self._minute = 0
        self._now: Counter[str] = Counter()
        self._before: Counter[str] = Counter()

    def hit(self, who: str) -> float:
        """Count one, if it may be; returns for how many seconds there is no room for it, 0 where there is."""
        wait = self.wait(who)
        if not wait:
            self._now[who] += 1
        return wait

    def wait(self, who: str) -> float:
        """For how many seconds there is no room for one more."""
        passed = self._turn()
        now, before = self._now[who], self._before[who]
        if now + before * (1 - passed) + 1 <= self.most:
            return 0.0
        if now + 1 <= self.most:
            return (1 - passed - (self.most - now - 1) / before) * _MINUTE
        return (1 - passed + max(0.0, 1 - (self.most - 1) / now)) * _MINUTE

    def _turn(self) -> float:
        """Begin a new minute if it has begun; returns how much of it has passed."""
        minute, passed = divmod(self._clock() / _MINUTE, 1)
        if minute != self._minute:
            self._before = self._now if minute == self._minute + 1 else Counter()
            self._now, self._minute = Counter(), int(minute)
        return passed


class RateLimits:
    """Counts requests."""

    def __init__(self, per_minute: int) -> None:
        self._actor = Window(per_minute)
        self._refused = Window(per_minute * _ADDRESS_FACTOR)
        self._wrong = Window(min(per_minute, _WRONG_KEYS))

    def count_refused(self, request: HTTPConnection, with_key: bool) -> None:
        """Count a request without a recognised caller; beyond the limit it is told to come back later."""
        address = address_of(request)
        _refuse(
            self._refused.hit(address), f"{self._refused.most:,} requests in a minute from this address were refused"
        )
        if with_key:
            _refuse(self._wrong.hit(address), f"{self._wrong.most:,} wrong keys in a minute from this address")

    def check_actor(self, actor: str) -> None:
        """Count a request of a caller that was recognised."""
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
    """An address, as it is counted: of IPv6 the network, since every site has as many addresses as it likes."""
    address = parse_host(host)
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address), _IPV6_SITE), strict=False))
    return host if address is None else str(address)
