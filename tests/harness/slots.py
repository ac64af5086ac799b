"""Limiters without a worker around them, and leases that run out when a test says so."""

from __future__ import annotations

from collections.abc import Callable

from harness.inside import inside
from mainspring import Scheduler
from mainspring.clock import monotonic
from mainspring.engine.limits.limiter import Limiter
from mainspring.engine.run.claimed_jobs import ClaimedJob


class Nowhere:
    """No worker around a limiter."""

    def wake(self) -> None:
        pass

    def start(self, claimed_jobs: list[ClaimedJob]) -> None:
        pass

    def release_parked(self) -> None:
        pass

    def round_trip(self) -> float:
        return 0.0


async def limiter_of(scheduler: Scheduler, worker: str = "w1") -> Limiter:
    """A limiter with a scheduler's limits and a lease that has just begun; nothing else uses it."""
    limiter = Limiter(await inside(scheduler).store(), scheduler.settings, inside(scheduler).limits, worker, Nowhere())
    limiter.extend(monotonic())
    return limiter


def lapse(limiter: Limiter, extend: Callable[[float], None] | None = None) -> None:
    """Let the lease of a worker's slots run out: the last renewal was long ago."""
    (extend or limiter.extend)(monotonic() - 10_000)
