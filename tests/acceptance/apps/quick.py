"""A scheduler that soon says so when the database is away."""

from __future__ import annotations

from mainspring import Scheduler

scheduler = Scheduler(poll_interval=0.2, lease=10, operation_timeout=1)


@scheduler.job("work")
async def work(seconds: float = 0.0) -> None:
    pass
