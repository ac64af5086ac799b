"""How soon a job is picked up by an idle worker in another process, and how late a job that was due later starts.

Method: both processes run on one machine and read the same wall clock. The job carries the instant to measure from
(when `schedule()` was called, or its `run_at`) as its argument; the handler reads the clock first thing and tells both.
With a server on another machine, lateness includes the difference between the two machines' clocks.

The floor is the raw writes that cannot be avoided, one after the other from one client: insert, find and claim for a
pickup; find and claim for lateness.
"""

from __future__ import annotations

import asyncio
import random
import time
from datetime import timedelta

from bench import floor
from bench.crew import Crew, Member
from bench.ground import Ground, Place
from bench.options import Options
from bench.report import Bar, Row, percentile
from mainspring import Scheduler
from mainspring.clock import truncate

_PERCENTS = (50, 95, 99)
_LIMIT_MS = 25.0
_AHEAD = (0.5, 3.0)
_PAUSE = (0.02, 0.15)
_ROUND = 50


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for pickup and lateness."""
    with ground.place() as place:
        inserting, claiming = _floor(place, options.pickups)
    with ground.place() as place, Crew(place, 1, options.concurrency) as crew:
        crew.go()
        time.sleep(0.5)
        pickups, lateness = asyncio.run(_samples(place, crew.members[0], options.pickups))
    whole = [insert + claim for insert, claim in zip(inserting, claiming, strict=True)]
    return [
        *_rows("pickup", pickups, "raw insert, find, claim", whole),
        *_rows("lateness", lateness, "raw find, claim", claiming),
    ]


def _rows(name: str, samples: list[float], floor_name: str, floors: list[float]) -> list[Row]:
    rows = []
    for percent in _PERCENTS:
        bar = Bar("value", _LIMIT_MS, at_most=True) if percent == 99 else None
        figures = [percentile(samples, percent)], floor_name, [percentile(floors, percent)]
        rows.append(Row(f"{name} p{percent}", "ms", *figures, bar))
    rows[-1].note = f"{len(samples)} jobs; the slowest {max(samples):.1f} ms, the fastest {min(samples):.1f} ms"
    rows[-1].details["samples"] = samples
    return rows


def _floor(place: Place, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds of a raw insert, and of a raw find and claim, for each of so many jobs."""
    inserting, claiming = [], []
    for document in place.documents(count):
        started = time.perf_counter()
        place.jobs.insert_one(document)
        stored = time.perf_counter()
        floor.take(place, 1)
        inserting.append((stored - started) * 1000)
        claiming.append((time.perf_counter() - stored) * 1000)
    return inserting, claiming


async def _samples(place: Place, worker: Member, count: int) -> tuple[list[float], list[float]]:
    scheduler = await Scheduler(place.uri, database=place.name).connect()
    try:
        return await _pickups(scheduler, worker, count), await _lateness(scheduler, place, worker, count)
    finally:
        await scheduler.stop()


async def _pickups(scheduler: Scheduler, worker: Member, count: int) -> list[float]:
    """Milliseconds from the call of schedule() to the start of the handler; one job at a time, with random pauses."""
    samples = []
    for _ in range(count):
        await scheduler.schedule("stamp", {"since": time.time()})
        samples.append(await _stamp(worker))
        await asyncio.sleep(random.uniform(*_PAUSE))
    return samples


async def _lateness(scheduler: Scheduler, place: Place, worker: Member, count: int) -> list[float]:
    """Milliseconds from a job's run_at to the start of its handler."""
    samples: list[float] = []
    while len(samples) < count:
        size = min(_ROUND, count - len(samples))
        for _ in range(size):
            run_at = truncate(place.now() + timedelta(seconds=random.uniform(*_AHEAD)))
            await scheduler.schedule("stamp", {"since": run_at.timestamp()}, run_at=run_at)
        samples += [await _stamp(worker) for _ in range(size)]
    return samples


async def _stamp(worker: Member) -> float:
    since, started = map(float, (await asyncio.to_thread(worker.line)).split())
    return (started - since) * 1000
