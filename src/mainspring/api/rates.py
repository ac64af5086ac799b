"""Bounds on how many requests a key, and an address, may make: one that asks too often is told when to come back.

Keys that are not right are counted by themselves, so that nobody can try many. Counted in this process alone, in
memory; several processes allow several times as much.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable
from math import ceil

from starlette.requests import HTTPConnection

from mainspring.api.problems import Problem
from mainspring.clock import monotonic

# An address may have several people behind it; who fails to say who he is, or floods, is stopped all the same.
_ADDRESS_FACTOR = 2
_WRONG_KEYS = 30
_IPV6_SITE = 64
_MINUTE = 60.0


class Window:
    """So many a minute for each: a window that slides. What came in the calendar minute before counts by how much of it
    is still within the last sixty seconds, as if it had come evenly, so that two numbers for each are all it keeps.

    Every request is counted three times: this takes a microsecond and no thread of its own (decision 24).
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

    def __init__(self, a_minute: int) -> None:
        self._actor = Window(a_minute)
        self._address = Window(a_minute * _ADDRESS_FACTOR)
        self._wrong = Window(min(a_minute, _WRONG_KEYS))

    def check_address(self, request: HTTPConnection, with_key: bool) -> None:
        """Count a request of an address; one with a key is refused while there were too many wrong ones from there."""
        who = _address_of(request)
        _refuse(self._address.hit(who), f"More than {self._address.most:,} requests in a minute from this address")
        if with_key:
            _refuse(self._wrong.wait(who), f"{self._wrong.most:,} wrong keys in a minute from this address")

    def count_wrong_key(self, request: HTTPConnection) -> None:
        """Note that a key was not right."""
        self._wrong.hit(_address_of(request))

    def check_actor(self, actor: str) -> None:
        """Count a request of whoever was recognised."""
        more = f"More than {self._actor.most:,} requests in a minute; MAINSPRING_REQUESTS_A_MINUTE sets it"
        _refuse(self._actor.hit(actor), more)


def _refuse(wait: float, what: str) -> None:
    if wait:
        seconds = max(1, ceil(wait))
        raise Problem(429, f"{what}; come back in {seconds} s.", headers={"Retry-After": str(seconds)})


def _address_of(request: HTTPConnection) -> str:
    """The address; of IPv6 the network, since everybody has as many addresses there as he likes."""
    if request.client is None:
        return "unknown"
    try:
        address = ipaddress.ip_address(request.client.host)
    except ValueError:
        return request.client.host
    return str(address) if address.version == 4 else str(ipaddress.ip_network((int(address), _IPV6_SITE), strict=False))
