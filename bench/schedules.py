"""Schedules: many due in the same second among very many, what stored ones cost an idle worker, and long downtimes.

The schedules are made by the product: one through its API, the others copies of it with ids, rules and times of their
own, the rules made and stored by the product's code. Those of the burst are all different, so that nothing is gained
from reading one rule twice, and the worker processes are fresh for each burst, so that they know no zone yet.

How late a job was made is read afterwards from the server's own account of its insert (the change stream), which is
later than what the job says of itself; how late it was run, from the attempt that its worker kept.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from bench import idle
from bench.crew import Crew, used
from bench.ground import CHUNK, Document, Ground, Place
from bench.options import Options
from bench.report import Bar, Row, percentile
from mainspring import Cron, Every, Scheduler
from mainspring.clock import ManualClock, truncate
from mainspring.model.job import COMPLETED
from mainspring.model.rules import Rule
from mainspring.store.collections import BY_ID, FINISHED_INDEX
from mainspring.store.zones import zones_print

_PERCENTS = (50, 95, 99)
_LATEST_MS = 1000.0
_ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Tokyo", "Australia/Sydney", "Africa/Cairo")
_HEAD_START = 2.0
_GIVE_UP = 60.0
_MISFIRES = ("latest", "all", "skip")


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for schedules."""
    return [*_bursts(ground, options), *_idle(ground, options), *_downtimes(ground, options)]


# -- many at once --------------------------------------------------------------------------------------------------


@dataclass
class Burst:
    """What firings in the same second showed, in milliseconds after they were due."""

    made: list[float] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)
    workers_cpu: float = 0.0
    mongod_cpu: float = 0.0


def _bursts(ground: Ground, options: Options) -> list[Row]:
    results: dict[int, list[Burst]] = {1: [], 2: []}
    with ground.place() as place:
        templates = asyncio.run(_templates(place))
        _store(place, _future(place, templates, options.schedules - options.burst))
        for turn in range(options.repeat):
            for processes, bursts in results.items():
                bursts.append(_burst(ground, place, templates, processes, options, f"{turn}-{processes}"))
    return [row for processes, bursts in results.items() for row in _rows(processes, bursts, options)]


def _burst(
    ground: Ground, place: Place, templates: list[Document], processes: int, options: Options, name: str
) -> Burst:
    with Crew(place, processes, options.concurrency, options.profile and f"{options.profile}.{name}") as crew:
        crew.go()
        due = (place.now() + timedelta(seconds=1 + _HEAD_START + options.burst / 2000)).replace(microsecond=0)
        since = ground.client.admin.command("ping")["operationTime"]
        _store(place, [_due_at(templates[n % len(templates)], due, n, name) for n in range(options.burst)])
        ground.settle()
        if place.now() >= due:
            raise RuntimeError("the machine is too busy to measure on: schedules were due before all were stored")
        time.sleep((due - place.now()).total_seconds())
        before = crew.cpu(), used(ground.mongod)
        _wait_completed(place, due, options.burst)
        after = crew.cpu(), used(ground.mongod)
    made = _made(ground, place, since, options.burst)
    begun = _begun(place, due)
    if len(begun) != options.burst:
        raise RuntimeError(f"{options.burst} firings were run {len(begun)} times")
    late = [[(at - due).total_seconds() * 1000 for at in found] for found in (made, begun)]
    return Burst(*late, after[0] - before[0], after[1] - before[1])


def _rows(processes: int, bursts: list[Burst], options: Options) -> list[Row]:
    """Each percentile is taken per burst; the row shows the median of the bursts."""
    where = f"{processes} process{'es' if processes > 1 else ''}"
    rows = []
    for what in ("made", "begun"):
        for percent in _PERCENTS:
            bar = Bar("value", _LATEST_MS, at_most=True) if percent == 99 else None
            samples = [percentile(getattr(burst, what), percent) for burst in bursts]
            rows.append(Row(f"{options.burst:,} firings, {where}: {what} p{percent}", "ms late", samples, bar=bar))
    workers, mongod = (sum(getattr(b, key) for b in bursts) / len(bursts) for key in ("workers_cpu", "mongod_cpu"))
    slowest = max(max(burst.made) for burst in bursts)
    rows[2].note = (
        f"among {options.schedules:,} schedules; the last {slowest:,.0f} ms late; "
        f"{workers:.2f} s of CPU in workers, {mongod:.2f} s in mongod, running the jobs included"
    )
    rows[2].details["bursts"] = [vars(burst) for burst in bursts]
    return rows


def _wait_completed(place: Place, due: datetime, count: int) -> None:
    """Look seldom: looking takes from the server what is being measured."""
    ended = {"state": COMPLETED, "finished_at": {"$gte": due}}
    until = time.monotonic() + _GIVE_UP
    time.sleep(1.0)
    while place.jobs.count_documents(ended, hint=FINISHED_INDEX) < count:
        if time.monotonic() > until:
            raise RuntimeError(f"{count} firings were not run within {_GIVE_UP:g} s")
        time.sleep(0.25)


def _made(ground: Ground, place: Place, since: Any, count: int) -> list[datetime]:
    """When the server took in each job."""
    jobs = ground.client[place.name]["jobs"]
    stages: list[Document] = [{"$match": {"operationType": "insert"}}, {"$project": {"wallTime": 1}}]
    made: list[datetime] = []
    with jobs.watch(stages, start_at_operation_time=since, max_await_time_ms=100) as stream:
        while len(made) < count and stream.alive:
            change = stream.try_next()
            if change is not None:
                made.append(change["wallTime"].replace(tzinfo=UTC))
    return made


def _begun(place: Place, due: datetime) -> list[datetime]:
    found = place.jobs.find({"scheduled_for": due}, {"attempts.started_at": 1}, hint=BY_ID)
    return [job["attempts"][0]["started_at"].replace(tzinfo=UTC) for job in found]


# -- stored ones ---------------------------------------------------------------------------------------------------


async def _templates(place: Place) -> list[Document]:
    """A schedule of each kind, as the product stores it."""
    scheduler = await Scheduler(place.uri, database=place.name).connect()
    try:
        for schedule_id, rule in (("cron", Cron("0 9 * * *", timezone="Europe/Berlin")), ("every", Every("1h"))):
            await scheduler.schedule("noop", {"n": 0}, repeat=rule, schedule_id=schedule_id)
    finally:
        await scheduler.stop()
    schedules = place.jobs.database["jobs.schedules"]
    documents = list(schedules.find({}, hint=BY_ID))
    schedules.delete_many({"_id": {"$in": [document["_id"] for document in documents]}})
    return documents


def _due_at(template: Document, at: datetime, n: int, name: str) -> Document:
    """A schedule that fires at an instant, by a rule that few others have."""
    rule: Rule
    if template["rule"]["kind"] == "every":
        rule = Every(timedelta(minutes=5 + n), anchor=at)
    else:
        zone = _ZONES[n % len(_ZONES)]
        wall = at.astimezone(ZoneInfo(zone))
        hours = sorted({wall.hour, (wall.hour + 1 + n % 22) % 24})
        days = f"{wall.day},{1 + n % 28}"
        rule = Cron(f"{wall.second} {wall.minute} {','.join(map(str, hours))} {days} * *", timezone=zone)
    return _copy(template, f"{name}-{n}", rule, at)


def _copy(template: Document, schedule_id: str, rule: Rule, at: datetime) -> Document:
    before = at - timedelta(hours=1)
    document = {**template, "_id": schedule_id, "rule": rule.to_document(), "zones": zones_print(rule.zones)}
    document |= {"next_at": at, "due_at": at, "fire_at": at, "cursor": before, "since": before}
    return {key: value for key, value in document.items() if value is not None}


def _future(place: Place, templates: list[Document], count: int) -> Iterator[Document]:
    """Schedules that fire within the days to come, none of them while the bench lasts."""
    tomorrow = truncate(place.now() + timedelta(days=1)).replace(microsecond=0)
    for n in range(count):
        at = tomorrow + timedelta(seconds=random.randrange(3 * 86_400))
        yield _due_at(templates[n % len(templates)], at, n, "future")


def _store(place: Place, documents: Any) -> None:
    schedules = place.jobs.database["jobs.schedules"]
    chunk: list[Document] = []
    for document in documents:
        chunk.append(document)
        if len(chunk) == CHUNK:
            schedules.insert_many(chunk, ordered=False)
            chunk = []
    if chunk:
        schedules.insert_many(chunk, ordered=False)


# -- idling --------------------------------------------------------------------------------------------------------


def _idle(ground: Ground, options: Options) -> list[Row]:
    return []


# -- downtimes -----------------------------------------------------------------------------------------------------


def _downtimes(ground: Ground, options: Options) -> list[Row]:
    return []
