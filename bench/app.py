"""The worker process that is measured: `python -m bench.app URI DATABASE CONCURRENCY [PROFILE]`.

It speaks with `crew.py` over its standard input and output: it says "ready" when it is connected, starts its worker
on the first line it reads, says "started", and stops at the end of its input, so that it never outlives the bench.
"""

from __future__ import annotations

import asyncio
import cProfile
import os
import sys
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

from mainspring import JobContext, Limit, Scheduler
from mainspring.cli.support.collector import spare_collector

LIMITED = "BENCH_LIMITED"
WEBHOOKS = "BENCH_WEBHOOKS"
"""Set where webhooks are measured, to the addresses that may be called."""
FLOWS = "BENCH_FLOWS"


def make_scheduler(uri: str, database: str, concurrency: int) -> Scheduler:
    """A scheduler with the two handlers that the measurements need."""
    scheduler = Scheduler(uri, database=database, concurrency=concurrency)

    @scheduler.job("noop")
    async def noop(n: int) -> None:
        """Do nothing: what is measured is the scheduler."""

    @scheduler.job("stamp")
    async def stamp(since: float) -> None:
        """Tell when the handler was started, beside the instant it is measured from."""
        started = time.time()
        say(f"{since!r} {started!r}")

    if os.environ.get(LIMITED):
        add_limited(scheduler)
    if os.environ.get(FLOWS):
        add_flows(scheduler)
    if allowed := os.environ.get(WEBHOOKS):
        add_webhooks(scheduler, allowed)
    return scheduler


def add_flows(scheduler: Scheduler) -> None:
    """Handlers that wait for children."""

    @scheduler.job("fan")
    async def fan(ctx: JobContext, children: int, due: float) -> int:
        """Wait for many children that are all due at one instant."""
        run_at = datetime.fromtimestamp(due, UTC)
        return len(await ctx.map("all", "noop", ({"n": n} for n in range(children)), run_at=run_at))

    @scheduler.job("clock")
    async def clock(n: int) -> float:
        return time.time()

    @scheduler.job("few")
    async def few(ctx: JobContext, children: int) -> None:
        """Tell when the last child ended, and when this handler was started after that."""
        started = time.time()
        ends = [child.result async for child in await ctx.map("all", "clock", ({"n": n} for n in range(children)))]
        say(f"{max(ends)!r} {started!r}")

    @scheduler.job("held")
    async def held(ctx: JobContext) -> None:
        """Wait for a child that does not come to its turn."""
        await ctx.call("later", "noop", {"n": 1}, delay=86_400)


def add_webhooks(scheduler: Scheduler, allowed: str) -> None:
    """The product's own handler of webhooks, with its usual limits."""
    from mainspring.api.settings import service_settings
    from mainspring.client.outgoing.builtin_jobs import add_builtin_handlers

    add_builtin_handlers(scheduler, service_settings(http_allow=allowed))


def add_limited(scheduler: Scheduler) -> None:
    """The handlers with limits; only where these are measured, since a worker that has limits looks after them."""

    @scheduler.job("by-name", concurrency=10_000)
    @scheduler.job("by-key", concurrency=Limit(1000, key="k"))
    @scheduler.job("by-rate", rate="1000000/second")
    @scheduler.job("in-turns", fair="k")
    async def limited(n: int, k: int) -> None:
        """The same, under limits that never stop it."""

    @scheduler.job("stuck", concurrency=1)
    async def stuck(n: int) -> None:
        """Wait in line, while another worker has the only slot."""


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def work(scheduler: Scheduler) -> None:
    await scheduler.connect()
    say("ready")
    if await asyncio.to_thread(sys.stdin.readline):
        await scheduler.start()
        say("started")
        await asyncio.to_thread(sys.stdin.read)
    await scheduler.stop()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed, as a worker in production would."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


def main(uri: str, database: str, concurrency: str, profile: str | None = None) -> None:
    profiler = cProfile.Profile()
    if profile is not None:
        profiler.enable()
    scheduler = make_scheduler(uri, database, int(concurrency))
    spare_collector()  # as `mainspring worker` does
    run(work(scheduler))
    if profile is not None:
        profiler.disable()
        profiler.dump_stats(profile)


if __name__ == "__main__":
    main(*sys.argv[1:])
