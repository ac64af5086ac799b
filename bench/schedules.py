"""Schedules: many due in the same second among very many, what stored ones cost an idle worker, and long downtimes."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from bench import burst, idle
from bench.ground import Ground, Place
from bench.options import Options
from bench.report import Bar, Row
from bench.shelf import future, store, templates
from harness.inside import inside
from mainspring import Cron, Scheduler
from mainspring.clock import ManualClock
from mainspring.model.schedules.firing_plan import MISFIRES, Misfire
from mainspring.store.schema import BY_ID

_GROWTH = Bar("ratio", 1.1, at_most=True)
_LIMIT_S = Bar("value", 1.0, at_most=True)
_GRACE = 60
_CAUGHT_UP = 1000


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for schedules."""
    return [*burst.measure(ground, options), *_idling(ground, options), *_downtimes(ground, options)]


def _idling(ground: Ground, options: Options) -> list[Row]:
    """What an idle worker asks of the server with none, some and very many schedules stored; beside none, each."""
    quiet = idle.watch(ground, None, options.idle_seconds)
    rows: list[Row] = []
    for count in (0, 1_000, options.schedules):
        with ground.place() as place:
            if count:
                store(place, future(place, asyncio.run(templates(place, "noop", {"n": 0})), count))
                ground.settle()
            rows += idle.rows(f"idle worker, {count:,} schedules", idle.idle(ground, place, options), quiet)[:1]
    for row in rows[1:]:
        row.floor_name, row.floor_samples, row.bar = "no schedules", rows[0].samples, _GROWTH
    return rows


def _downtimes(ground: Ground, options: Options) -> list[Row]:
    rows = [Row(f"{options.missed:,} missed firings, misfire={policy!r}", "s", [], bar=_LIMIT_S) for policy in MISFIRES]
    for _ in range(options.repeat):
        for policy, row in zip(MISFIRES, rows, strict=True):
            with ground.place() as place:
                took, made = asyncio.run(_missed(place, policy, options.missed))
                row.samples.append(took)
                row.note = f"{made:,} jobs made"
    return rows


async def _missed(place: Place, misfire: Misfire, count: int) -> tuple[float, int]:
    """The seconds that it takes to resolve so many missed firings, and how many jobs were made; each is accounted for.

    The clock is moved by hand. The firings within the grace time, which are late and not missed, come on top.
    """
    clock = ManualClock()
    scheduler = await Scheduler(place.uri, database=place.name, clock=clock).connect()
    try:
        await scheduler.schedule(
            "noop", {"n": 0}, repeat=Cron("* * * * * *"), schedule_id="s", misfire=misfire, misfire_limit=_CAUGHT_UP
        )
        clock.advance(timedelta(seconds=count + _GRACE))
        firing = (await inside(scheduler).store()).firing
        made, started = 0, time.perf_counter()
        while due := await firing.due():
            made += sum(len(fired.jobs) for fired in await firing.advance(await firing.load([due[0][0]])))
        took = time.perf_counter() - started
    finally:
        await scheduler.stop()
    rows = place.jobs.database["jobs.ledger"].find({"outcome": {"$in": ["missed", "skipped"]}}, hint=BY_ID)
    accounted = made + sum(row.get("count", 1) for row in rows)
    if accounted != count + _GRACE:
        raise RuntimeError(f"of {count + _GRACE} firings {accounted} are accounted for")
    return took, made
