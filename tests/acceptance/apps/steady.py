"""What the acceptance tests run in real worker processes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

from mainspring import Retry, Scheduler, sync

OPTIONS: dict[str, Any] = {"lease": 60, "poll_interval": 0.2, "grace": 20, "operation_timeout": 5}

scheduler = Scheduler(**OPTIONS)
blocking = sync.Scheduler(**OPTIONS)


@scheduler.job("work")
async def work(seconds: float = 0.0) -> int:
    print("work begins", flush=True)
    await asyncio.sleep(seconds)
    return os.getpid()


@scheduler.job("poison", retry=Retry(attempts=3, delay=0.1))
async def poison() -> None:
    await asyncio.sleep(0.5)  # let the neighbours begin
    os.kill(os.getpid(), signal.SIGKILL)


@blocking.job("work")
def blocking_work(ctx: sync.JobContext, seconds: float = 0.0) -> int:
    print("work begins", flush=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until and not ctx.is_cancelled:
        time.sleep(0.02)
    return os.getpid()


@blocking.job("parent")
def parent(ctx: sync.JobContext) -> str:
    """Uses the scheduler itself, from a handler's thread, while it runs there."""
    return blocking.schedule("work", {"seconds": 0}).id
