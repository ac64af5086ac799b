"""A module that instruments its Scheduler, and leaves the SDKs to the environment."""

from __future__ import annotations

from mainspring import Scheduler
from mainspring.observability import otel, sentry

scheduler = Scheduler(poll_interval=0.2)
otel.instrument(scheduler)
sentry.instrument(scheduler)


@scheduler.job("work")
async def work() -> None: ...
