"""Bounds on how many requests a key, and an address, may make: one that asks too often is told when to come back.

Counted in this process alone, in memory; several processes allow several times as much.
"""

from __future__ import annotations

from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from starlette.requests import HTTPConnection

from limits import RateLimitItemPerMinute
from mainspring.api.problems import Problem

# An address may have several people behind it; who fails to say who he is, or floods, is stopped all the same.
_ADDRESS_FACTOR = 2
_COME_BACK = 5


class RateLimits:
    """Counts requests."""

    def __init__(self, a_minute: int) -> None:
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        self._actor = RateLimitItemPerMinute(a_minute)
        self._address = RateLimitItemPerMinute(a_minute * _ADDRESS_FACTOR)

    def check_address(self, request: HTTPConnection) -> None:
        client = request.client
        self._check(self._address, "address", "unknown" if client is None else client.host)

    def check_actor(self, actor: str) -> None:
        self._check(self._actor, "actor", actor)

    def _check(self, limit: RateLimitItemPerMinute, kind: str, who: str) -> None:
        if not self._limiter.hit(limit, kind, who):
            raise Problem(
                429,
                f"More than {limit.amount:,} requests in a minute; come back in {_COME_BACK} s.",
                headers={"Retry-After": str(_COME_BACK)},
            )
