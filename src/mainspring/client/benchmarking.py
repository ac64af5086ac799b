"""A short measurement on the user's own MongoDB, for `mainspring bench`: enqueue, drain and latency beside raw inserts.

It works in a database of its own, which is dropped at the end. Ratios to the floor of the same run can be compared
between machines; rates cannot.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from statistics import median

from mainspring.client.scheduler import Scheduler, core_of
from mainspring.clock import monotonic
from mainspring.store.scratch.floor import Floor

PREFIX = "mainspring_bench_"
_BATCH = 1000
_PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure. `ratio` is the share of the raw floor's rate, or of a latency how many times the floor."""

    name: str
    value: float
    unit: str
    ratio: float | None = None


async def measure(
    uri: str | None, *, jobs: int = 5000, probes: int = 30, tell: Callable[[str], None] | None = None
) -> list[Figure]:
    """Measure with this many jobs, and this many single calls; `tell` is called before each part."""
    database = f"{PREFIX}{secrets.token_hex(4)}"
    bench = _Bench(Scheduler(uri, database=database), Scheduler(uri, database=database, concurrency=100))
    say = tell or (lambda part: None)
    try:
        return [figure async for figure in bench.figures(jobs, probes, say)]
    finally:
        await bench.close(database)


class _Bench:
    """A program that schedules, and a worker, with a connection each."""

    def __init__(self, program: Scheduler, worker: Scheduler) -> None:
        self._program = program
        self._worker = worker
        self._ran = 0
        self._wanted = 0
        self._all_ran = asyncio.Event()
        worker.job("bench")(self._handle)

    async def figures(self, jobs: int, probes: int, say: Callable[[str], None]) -> AsyncGenerator[Figure]:
        """The figures, one after another."""
        floor = Floor((await core_of(self._program).store()).connection)
        await floor.insert(_BATCH, _BATCH)  # the first write creates the collection
        say(f"raw: insert {jobs:,} documents in batches of {_BATCH:,}, then {probes} single ones")
        rate = jobs / await floor.insert(jobs, _BATCH)
        yield Figure("raw insert in batches", rate, "documents/s")
        single = await floor.insert(probes, 1) / probes
        yield Figure("raw insert of one", single * 1000, "ms")
        say(f"enqueue: schedule_bulk of {jobs:,} jobs, then {probes} times schedule()")
        bulk = await self._enqueue(jobs)
        yield Figure("schedule_bulk", bulk, "jobs/s", bulk / rate)
        alone = median([await self._time_one() for _ in range(probes)])
        yield Figure("schedule() of one", alone * 1000, "ms", alone / single)
        say(f"drain: run {jobs + probes:,} jobs that do nothing")
        drained = await self._drain(jobs + probes)
        yield Figure("drain, one worker", drained, "jobs/s", drained / rate)
        say(f"latency: {probes} jobs, one by one, from schedule() on another connection to the handler")
        times = sorted([await self._latency() for _ in range(probes)])
        for name, value in (("median", median(times)), ("worst", times[-1])):
            yield Figure(f"schedule() to handler, {name}", value * 1000, "ms", value / single)

    async def _handle(self, n: int) -> None:
        self._ran += 1
        if self._ran >= self._wanted:
            self._all_ran.set()

    async def _enqueue(self, jobs: int) -> float:
        began = monotonic()
        for start in range(0, jobs, _BATCH):
            items = [{"name": "bench", "data": {"n": n}} for n in range(start, min(start + _BATCH, jobs))]
            await self._program.schedule_bulk(items)
        return jobs / (monotonic() - began)

    async def _time_one(self) -> float:
        began = monotonic()
        await self._program.schedule("bench", {"n": 0})
        return monotonic() - began

    async def _drain(self, jobs: int) -> float:
        self._wanted = jobs
        began = monotonic()
        await self._worker.start()
        await asyncio.wait_for(self._all_ran.wait(), _PATIENCE)
        return jobs / (monotonic() - began)

    async def _latency(self) -> float:
        self._wanted, self._all_ran = self._ran + 1, asyncio.Event()
        began = monotonic()
        await self._program.schedule("bench", {"n": 0})
        await asyncio.wait_for(self._all_ran.wait(), _PATIENCE)
        return monotonic() - began

    async def close(self, database: str) -> None:
        """Stop both, and drop the database."""
        try:
            await self._worker.stop(graceful=False)
            await Floor((await core_of(self._program).store()).connection).drop_database(database)
        finally:
            await self._program.stop()
