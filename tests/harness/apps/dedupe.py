"""Schedules one keyed job as soon as it is told to, and prints whether it was the first: one racer of many."""

from __future__ import annotations

import asyncio
import sys

from mainspring import Scheduler


async def race(uri: str, key: str) -> None:
    scheduler = Scheduler(uri)
    await scheduler.connect()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for round_ in range(5):
        job = await scheduler.schedule("once", dedupe_key=f"{key}-{round_}")
        print(job.id, job.deduplicated, flush=True)
    await scheduler.stop()


if __name__ == "__main__":
    asyncio.run(race(*sys.argv[1:]))
