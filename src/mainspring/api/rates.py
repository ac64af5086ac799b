"""Bounds on how many requests a key, and an address, may make: one that asks too often is told when to come back.

Keys that are not right are counted by themselves, so that nobody can try many. Counted in this process alone, in
memory; several processes allow several times as much.
"""

from __future__ import annotations

import ipaddress

from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.requests import HTTPConnection

from limits import RateLimitItemPerMinute
from mainspring.api.problems import Problem

# An address may have several people behind it; who fails to say who he is, or floods, is stopped all the same.
_ADDRESS_FACTOR = 2
_WRONG_KEYS = 30
_COME_BACK = 5
_IPV6_SITE = 64


class RateLimits:
    """Counts requests."""

    def __init__(self, a_minute: int) -> None:
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._actor = RateLimitItemPerMinute(a_minute)
        self._address = RateLimitItemPerMinute(a_minute * _ADDRESS_FACTOR)
        self._wrong = RateLimitItemPerMinute(min(a_minute, _WRONG_KEYS))

    def check_address(self, request: HTTPConnection, with_key: bool) -> None:
        """Count a request of an address; one with a key is refused while there were too many wrong ones from there."""
        who = _address_of(request)
        if not self._limiter.hit(self._address, "address", who):
            raise _too_many(f"More than {self._address.amount:,} requests in a minute from this address")
        if with_key and not self._limiter.test(self._wrong, "wrong", who):
            raise _too_many(f"{self._wrong.amount:,} wrong keys in a minute from this address")

    def count_wrong_key(self, request: HTTPConnection) -> None:
        """Note that a key was not right."""
        self._limiter.hit(self._wrong, "wrong", _address_of(request))

    def check_actor(self, actor: str) -> None:
        """Count a request of whoever was recognised."""
        if not self._limiter.hit(self._actor, "actor", actor):
            raise _too_many(
                f"More than {self._actor.amount:,} requests in a minute; MAINSPRING_REQUESTS_A_MINUTE sets it"
            )


def _too_many(what: str) -> Problem:
    return Problem(429, f"{what}; come back in {_COME_BACK} s.", headers={"Retry-After": str(_COME_BACK)})


def _address_of(request: HTTPConnection) -> str:
    """The address; of IPv6 the network, since everybody has as many addresses there as he likes."""
    if request.client is None:
        return "unknown"
    try:
        address = ipaddress.ip_address(request.client.host)
    except ValueError:
        return request.client.host
    return str(address) if address.version == 4 else str(ipaddress.ip_network((int(address), _IPV6_SITE), strict=False))
