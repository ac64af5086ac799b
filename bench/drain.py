"""Draining a queue with one, two and eight worker processes.

The workers are up and know each other, and the jobs are stored, before the instant from which the jobs are due. From
that instant on the clock runs: until the last job is seen completed, which is never shorter than what the stored times
of the attempts say, and includes the lateness of the start. That every job was run once is checked afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bench import floor
from bench.crew import Crew, used
from bench.ground import Document, Ground, Place
from bench.options import Options
from bench.report import Bar, Row
from mainspring.clock import truncate
from mainspring.model.jobs.job import COMPLETED, DEFAULT_PRIORITY, DEFAULT_QUEUE, RUNNING
from mainspring.store.schema import CLAIM, FINISHED_INDEX, LEASE, LINE

_LOOK_EVERY = 0.02
_LOADS_A_SECOND = 25_000
_HEAD_STARTS = (1.2, 4.0, 12.0)
_GIVE_UP = 300.0


@dataclass(frozen=True)
class Drained:
    """What one drain showed. `wall` runs from the due instant, `stored` from the first attempt to the last end."""

    jobs: int
    wall: float
    stored: float
    workers_cpu: float
    mongod_cpu: float
    claimed_again: int
    metered: float = 0.0
    """By how much a meter has risen meanwhile."""

    @property
    def rate(self) -> float:
        return self.jobs / max(self.wall, self.stored)


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for draining."""
    floors: dict[int, list[float]] = {batch: [] for batch in floor.BATCHES}
    drained: dict[int, list[Drained]] = {1: [], 2: [], 8: []}
    for _ in range(options.repeat):
        for batch in floor.BATCHES:
            floors[batch].append(_floor(ground, options.floor_jobs, batch))
        for processes, results in drained.items():
            with ground.place() as place:
                results.append(drain(ground, place, processes, options))
    best = max(floors.values(), key=lambda rates: sorted(rates)[len(rates) // 2])
    one = [result.rate for result in drained[1]]
    rows = [_row(processes, results, "raw life in batches", best) for processes, results in drained.items()]
    rows[0].bar = Bar("ratio", 0.6)
    rows[0].details["floors"] = {str(batch): rates for batch, rates in floors.items()}
    rows[2].floor_name, rows[2].floor_samples, rows[2].bar = "drain, 1 process", one, Bar("ratio", 0.8)
    return rows


def _floor(ground: Ground, jobs: int, batch: int) -> float:
    with ground.place() as place:
        place.load(place.documents(jobs))
        ground.settle()
        return floor.life_rate(place, jobs, batch)


def _row(processes: int, results: list[Drained], floor_name: str, floors: list[float]) -> Row:
    name = f"drain, {processes} process{'es' if processes > 1 else ''}"
    row = Row(name, "jobs/s", [result.rate for result in results], floor_name, list(floors))
    row.note = describe(results)
    row.details["runs"] = [vars(result) for result in results]
    return row


def describe(results: list[Drained]) -> str:
    """Where the time went."""
    wall = sum(result.wall for result in results)
    workers = sum(result.workers_cpu for result in results) / wall
    mongod = sum(result.mongod_cpu for result in results) / wall
    text = f"{workers:.0%} of a core in workers, {mongod:.0%} in mongod"
    again = sum(result.claimed_again for result in results)
    return f"{text}; {again} jobs claimed more than once" if again else text


def drain(
    ground: Ground,
    place: Place,
    processes: int,
    options: Options,
    name: str = "noop",
    meter: Callable[[], float] = lambda: 0.0,
) -> Drained:
    """Drain a fresh load of jobs of this name with so many worker processes."""
    for head_start in _HEAD_STARTS:
        drained = _drain(ground, place, processes, options, head_start, name, meter)
        if drained is not None:
            return drained
    raise RuntimeError("the machine is too busy to measure on: jobs were due before the workers were up")


def _drain(
    ground: Ground,
    place: Place,
    processes: int,
    options: Options,
    head_start: float,
    name: str,
    meter: Callable[[], float],
) -> Drained | None:
    """One try; None when the jobs were due before all workers were up."""
    jobs = options.drain_jobs
    with Crew(place, processes, options.concurrency, _profile(options, processes)) as crew:
        due = _load(ground, place, jobs, head_start, name)
        crew.go()
        left = (due - place.now()).total_seconds()
        time.sleep(max(0.0, left))
        before = crew.cpu(), used(ground.mongod), meter()
        wall = _wait_drained(place, due, jobs)
        if left < 0:
            return None
        metered = meter() - before[2]
        drained = _drained(place, due, wall, crew.cpu() - before[0], used(ground.mongod) - before[1], jobs)
        return replace(drained, metered=metered)


def _profile(options: Options, processes: int) -> str | None:
    return f"{options.profile}.{processes}" if options.profile else None


def _load(ground: Ground, place: Place, jobs: int, head_start: float, name: str) -> datetime:
    """Store jobs that are all due at one instant, which leaves time to store them and to start the workers."""
    due = truncate(place.now() + timedelta(seconds=jobs / _LOADS_A_SECOND + head_start))
    place.load(place.documents(jobs, due, name))
    ground.settle()
    soonest = truncate(place.now() + timedelta(seconds=head_start))
    if due >= soonest:
        return due
    # Storing took long; no worker is up yet, so the jobs can be put off.
    place.jobs.update_many({"ready": True, "run_at": due}, {"$set": {"run_at": soonest}})
    return soonest


def _wait_drained(place: Place, due: datetime, jobs: int) -> float:
    """Seconds from the due instant until none of the jobs is waiting or running.

    Both looks begin at the far end of their index: at the near end lie the remains of what was just claimed, and
    walking over them many times a second would take from the server what is being measured.
    """
    waiting = {"ready": True, "queue": DEFAULT_QUEUE, "priority": DEFAULT_PRIORITY, "run_at": due}
    in_line = {"line": {"$gt": "f:", "$lt": "f;"}}
    while (
        place.jobs.find_one(waiting, {"_id": 1}, sort=[("run_at", -1)], hint=CLAIM)
        or place.jobs.find_one({"state": RUNNING}, {"_id": 1}, sort=[("lease_until", -1)], hint=LEASE)
        or place.jobs.find_one(in_line, {"_id": 1}, sort=[("line", -1)], hint=LINE)
    ):
        if (place.now() - due).total_seconds() > _GIVE_UP:
            raise RuntimeError(f"{jobs} jobs were not drained within {_GIVE_UP:g} s")
        time.sleep(_LOOK_EVERY)
    return (place.now() - due).total_seconds()


def _drained(place: Place, due: datetime, wall: float, workers_cpu: float, mongod_cpu: float, jobs: int) -> Drained:
    ended = {"state": COMPLETED, "finished_at": {"$gte": due}}
    first = {"$min": {"$first": "$attempts.started_at"}}
    again = {"$sum": {"$cond": [{"$gt": ["$token", 1]}, 1, 0]}}
    group: Document = {"_id": None, "count": {"$sum": 1}, "first": first, "again": again}
    group["last"] = {"$max": "$finished_at"}
    (totals,) = place.jobs.aggregate([{"$match": ended}, {"$group": group}], hint=FINISHED_INDEX)
    if totals["count"] != jobs:
        raise RuntimeError(f"{totals['count']} of {jobs} jobs are completed")
    stored = (totals["last"] - totals["first"]).total_seconds()
    return Drained(jobs, wall, stored, workers_cpu, mongod_cpu, totals["again"])
