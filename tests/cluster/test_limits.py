"""Limits across many processes, some of which are killed: never one run too many, and no slot is lost.

`MAINSPRING_LIMITS=full` runs it at its full size: sixteen processes and ten thousand jobs.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable

from cluster.asking import Asking
from harness.history import Run
from harness.processes import Fleet, WorkerProcess
from mainspring import Scheduler

FULL = os.environ.get("MAINSPRING_LIMITS") == "full"
PROCESSES, KEYS, KILLS = (16, 500, 12) if FULL else (6, 30, 3)
JOBS = (
    {"one": 300, "two": 700, "fifty": 4000, "keyed": 5000}
    if FULL
    else {"one": 30, "two": 60, "fifty": 400, "keyed": 300}
)
LEASE = 4.0
LIMITS = {"one": 1, "two": 2, "fifty": 50, "keyed": 2}


async def test_no_limit_is_ever_exceeded_while_processes_are_killed_and_every_job_is_done(
    fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    workers = await fleet.start_many(PROCESSES, lease=LEASE)
    names, keys = await _schedule(scheduler)
    killed = await _kill_some(fleet, workers)
    await ask.drained(150)

    states = await ask.states()
    assert states == {"completed": len(names)}
    runs = fleet.history.runs()
    for name, limit in LIMITS.items():
        groups: dict[object, list[Run]] = defaultdict(list)
        for run in runs:
            if names.get(run.job) == name:
                groups[keys.get(run.job)].append(run)
        for key, those in groups.items():
            assert most_at_once(those, killed) <= limit, (name, key)
    assert await _slots_in_use(ask) == 0


async def test_a_rate_is_kept_over_every_window_by_all_processes_together(
    fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    count, a_second, burst = 250, 50, 10
    await fleet.start_many(3, lease=30)
    await scheduler.schedule_bulk([{"name": "rated"}] * count)
    await ask.drained(60)

    starts = sorted(run.started for run in fleet.history.runs())
    assert len(starts) == count
    # A worker writes a start down a little after it has spent the token: a delayed start, followed by one that was not,
    # may seem nearer to it than they were. On a busy machine that is up to 0.8 s. Rates of each process, three times
    # as fast together, would go far beyond it.
    slack = 40
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            allowed = a_second * (starts[last] - starts[first]) + burst + slack
            assert last - first + 1 <= allowed


async def test_jobs_of_a_sequence_run_in_order_and_one_at_a_time_while_processes_are_killed(
    fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    workers = await fleet.start_many(4, lease=LEASE)
    jobs = await scheduler.schedule_bulk(
        [{"name": "ordered", "data": {"key": n % 8, "seconds": 0.02}} for n in range(160)]
    )
    place = {job.id: n for n, job in enumerate(jobs)}
    killed = await _kill_some(fleet, workers, 2)
    await ask.drained(90)

    assert await ask.states() == {"completed": len(jobs)}
    by_key: dict[int, list[Run]] = defaultdict(list)
    for run in fleet.history.runs():
        by_key[place[run.job] % 8].append(run)
    for runs in by_key.values():
        assert most_at_once(runs, killed) == 1
        order = [place[run.job] for run in runs]
        assert order == sorted(order)  # one that was run again after a crash is still before the next


async def _schedule(scheduler: Scheduler) -> tuple[dict[str, str], dict[str, int]]:
    """Jobs of all kinds, mixed; their names, and the keys of those that have one."""
    items: list[dict[str, object]] = []
    for name, count in JOBS.items():
        for n in range(count):
            data: dict[str, object] = {"seconds": random.choice([0.0, 0.01, 0.03])}
            items.append({"name": name, "data": {**data, "key": n % KEYS} if name == "keyed" else data})
    random.shuffle(items)
    jobs = await scheduler.schedule_bulk(items)
    keys = {job.id: job.data["key"] for job in jobs if "key" in job.data}
    return {job.id: job.name for job in jobs}, keys


async def _kill_some(fleet: Fleet, workers: list[WorkerProcess], count: int = KILLS) -> dict[str, float]:
    """Kill a worker now and then, and start another in its place; returns when each died."""
    killed: dict[str, float] = {}
    for _ in range(count):
        await asyncio.sleep(random.uniform(0.4, 1.2))
        victim = workers.pop(random.randrange(len(workers)))
        victim.kill()
        killed[victim.id] = time.monotonic()
        workers.append(fleet.launch(lease=LEASE))
    return killed


def most_at_once(runs: Iterable[Run], killed: dict[str, float]) -> int:
    """How many of these runs went on at the same time, at most."""
    changes: list[tuple[float, int]] = []
    for run in runs:
        ended = run.ended if run.ended is not None else killed[run.worker]
        changes += [(run.started, 1), (ended, -1)]
    going = most = 0
    for _, change in sorted(changes):
        going += change
        most = max(most, going)
    return most


async def _slots_in_use(ask: Asking) -> int:
    """How many slots of limits are taken, once everybody has had time to give them back."""
    for _ in range(100):
        gates = [gate async for gate in ask.db["jobs.gates"].find({"_id": {"$gte": "c:", "$lt": "c;"}}, hint="_id_")]
        counts = Counter({gate["_id"]: sum(grant["n"] for grant in gate["grants"]) for gate in gates})
        if not counts.total():
            return 0
        await asyncio.sleep(0.2)
    return counts.total()
