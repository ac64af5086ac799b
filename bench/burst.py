"""Very many schedules stored, and a few thousand of them due in the same second: how late are they?

The worker processes are fresh for each burst, so that they know no rule and no zone yet. When a job was made is read
afterwards from the server's own account of its insert (the change stream): what the job says of itself is earlier, by
the time from deciding to storing. When it was begun is told by its handler.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.crew import Crew, used
from bench.ground import Document, Ground, Place
from bench.options import Options
from bench.report import Bar, Row, percentile
from bench.shelf import due_at, future, store, templates
from mainspring.store.schema import BY_ID

_PERCENTS = (50, 95, 99)
_LIMIT_MS = 1000.0
_PROCESSES = (1, 2)
_HEAD_STARTS = (2.0, 6.0, 15.0)


@dataclass
class Burst:
    """What one burst showed: milliseconds after the firings were due, and CPU seconds until all had run."""

    made: list[float]
    begun: list[float]
    workers_cpu: float
    mongod_cpu: float


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for bursts."""
    results: dict[int, list[Burst]] = {processes: [] for processes in _PROCESSES}
    with ground.place() as place:
        kinds = asyncio.run(templates(place, "stamp", {"since": 0.0}))
        store(place, future(place, kinds, options.schedules - options.burst))
        for turn in range(options.repeat):
            for processes, bursts in results.items():
                bursts.append(_burst(ground, place, kinds, processes, options, f"{turn}-{processes}"))
    return [row for processes, bursts in results.items() for row in _rows(processes, bursts, options)]


def _rows(processes: int, bursts: list[Burst], options: Options) -> list[Row]:
    """Each percentile is taken of every burst; the row shows the median of the bursts."""
    name = f"{options.burst:,} firings at once, {processes} process{'es' if processes > 1 else ''}"
    rows = []
    for what in ("made", "begun"):
        for percent in _PERCENTS:
            bar = Bar("value", _LIMIT_MS, at_most=True) if (what, percent) == ("made", 99) else None
            samples = [percentile(getattr(burst, what), percent) for burst in bursts]
            rows.append(Row(f"{name}: {what} p{percent}", "ms late", samples, bar=bar))
    last = rows[len(_PERCENTS) - 1]
    workers = sum(burst.workers_cpu for burst in bursts) / len(bursts)
    mongod = sum(burst.mongod_cpu for burst in bursts) / len(bursts)
    last.note = f"among {options.schedules:,} schedules; the last one {max(max(b.made) for b in bursts):,.0f} ms late; "
    last.note += f"CPU until all had run: {workers:.2f} s in workers, {mongod:.2f} s in mongod"
    last.details["bursts"] = [vars(burst) for burst in bursts]
    return rows


def _burst(
    ground: Ground, place: Place, kinds: Sequence[Document], processes: int, options: Options, name: str
) -> Burst:
    """One burst, with a longer head start when everything was not in its place in time."""
    for turn, head_start in enumerate(_HEAD_STARTS):
        profile = f"{options.profile}.burst-{name}" if options.profile else None
        with Crew(place, processes, options.concurrency, profile) as crew:
            crew.go()
            due = (place.now() + timedelta(seconds=head_start)).replace(microsecond=0)
            since = ground.client.admin.command("ping")["operationTime"]
            store(place, (due_at(kinds[n % len(kinds)], due, n, f"{name}-{turn}") for n in range(options.burst)))
            ground.settle()
            if place.now() + timedelta(seconds=0.5) < due:
                return _watch(ground, place, crew, due, since, options.burst)
            _listen(crew, options.burst)
    raise RuntimeError("the machine is too busy to measure on: schedules were due before all were stored")


def _watch(ground: Ground, place: Place, crew: Crew, due: datetime, since: Any, count: int) -> Burst:
    time.sleep((due - place.now()).total_seconds())
    workers, mongod = crew.cpu(), used(ground.mongod)
    begun = _listen(crew, count)
    workers, mongod = crew.cpu() - workers, used(ground.mongod) - mongod
    made = [(at - due).total_seconds() * 1000 for at in _made(place, since, count)]
    if place.jobs.count_documents({"scheduled_for": due}, hint=BY_ID) != count:
        raise RuntimeError(f"{count} firings have made another number of jobs")
    return Burst(made, begun, workers, mongod)


def _listen(crew: Crew, count: int) -> list[float]:
    """How late each handler was, as they tell; in milliseconds."""
    late: list[float] = []
    until = time.monotonic() + 60
    while len(late) < count:
        if time.monotonic() > until:
            raise RuntimeError(f"{len(late)} of {count} firings were run within a minute")
        for member in crew.members:
            while line := member.line_now():
                since, started = map(float, line.split())
                late.append((started - since) * 1000)
        time.sleep(0.05)
    return late


def _made(place: Place, since: Any, count: int) -> list[datetime]:
    """When the server took in each job."""
    stages: list[Document] = [{"$match": {"operationType": "insert"}}, {"$project": {"wallTime": 1}}]
    made: list[datetime] = []
    until = time.monotonic() + 60
    with place.jobs.watch(stages, start_at_operation_time=since, max_await_time_ms=100) as stream:
        while len(made) < count and time.monotonic() < until:
            change = stream.try_next()
            if change is not None:
                made.append(change["wallTime"].replace(tzinfo=UTC))
    if len(made) != count:
        raise RuntimeError(f"the server tells of {len(made)} inserts, not of {count}")
    return made
