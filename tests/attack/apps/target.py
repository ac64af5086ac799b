"""The application under attack: a few handlers, in a process that looks names up at the attack's DNS server."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from typing import Any

from mainspring import JobContext, Scheduler

logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(name)s %(levelname)s %(message)s")
scheduler: Scheduler = importlib.import_module("resolving").scheduler


async def plain(**data: Any) -> dict[str, Any]:
    """Succeeds, and returns its data."""
    return {"did": data}


async def boom(**data: Any) -> None:
    """Fails, and says with what."""
    raise RuntimeError(f"boom with {data}")


async def slow(seconds: float = 60, **data: Any) -> None:
    """Takes its time, one at a time."""
    await asyncio.sleep(seconds)


async def delegate(ctx: JobContext, abroad: bool) -> None:
    """Waits for a job of the same tenant, or of another one. The queue is not in the data, where the tenant sees it."""
    await ctx.call("part", "plain", queue="zqforeign-queue" if abroad else "qa", delay=36_000)


scheduler.job("delegate")(delegate)
for _prefix in ("", "p.", "pq.", "zqforeign."):
    scheduler.job(f"{_prefix}plain")(plain)
    scheduler.job(f"{_prefix}boom", retry=1)(boom)
    scheduler.job(f"{_prefix}slow", concurrency=1)(slow)
