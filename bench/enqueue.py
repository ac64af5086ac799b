"""Storing jobs: in bulk, one after the other, and a hundred at once."""

from __future__ import annotations

import asyncio
import time

from bench import floor
from bench.ground import Ground, Place
from bench.options import Options
from bench.report import Bar, Row
from mainspring import Scheduler

AT_ONCE = 100


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for storing jobs."""
    bulk = Row("bulk enqueue", "jobs/s", [], "raw insert_many of 1,000", bar=Bar("ratio", 0.7))
    single = Row("enqueue, one after another", "jobs/s", [], "raw insert_one")
    together = Row(f"enqueue, {AT_ONCE} at once", "jobs/s", [], "one after another", bar=Bar("ratio", 5.0))
    for _ in range(options.repeat):
        with ground.place() as place:
            bulk.floor_samples.append(floor.insert_rate(place, place.documents(options.bulk_jobs)))
        with ground.place() as place:
            bulk.samples.append(asyncio.run(_bulk(place, options.bulk_jobs)))
        with ground.place() as place:
            single.floor_samples.append(floor.insert_one_rate(place, place.documents(options.single_jobs)))
            one, many = asyncio.run(_singles(place, options.single_jobs))
            single.samples.append(one)
            together.samples.append(many)
            together.floor_samples.append(one)
    return [bulk, single, together]


async def _bulk(place: Place, count: int) -> float:
    items = [{"name": "noop", "data": {"n": n}} for n in range(count)]
    scheduler = await Scheduler(place.uri, database=place.name).connect()
    try:
        started = time.perf_counter()
        await scheduler.schedule_bulk(items)
        return count / (time.perf_counter() - started)
    finally:
        await scheduler.stop()


async def _singles(place: Place, count: int) -> tuple[float, float]:
    """The rates of calls that wait for one another, and of calls that are made a hundred at a time."""
    scheduler = await Scheduler(place.uri, database=place.name).connect()
    try:
        await scheduler.schedule("noop", {"n": 0})
        started = time.perf_counter()
        for n in range(count):
            await scheduler.schedule("noop", {"n": n})
        one = count / (time.perf_counter() - started)
        rounds = max(10, count // 10)
        started = time.perf_counter()
        for _ in range(rounds):
            await asyncio.gather(*(scheduler.schedule("noop", {"n": n}) for n in range(AT_ONCE)))
        return one, rounds * AT_ONCE / (time.perf_counter() - started)
    finally:
        await scheduler.stop()
