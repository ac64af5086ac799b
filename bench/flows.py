"""Flows: many children before one job, small fan-ins, chains and graphs, and handlers that wait for a long time.

Method of the fan-in: a handler stores its children, which are all due at one instant, and is suspended before that; the
server writes out what it holds back of them, and the clock runs from that instant to the last child's end, both as for
plain jobs (`drain.py`). The wait of small fan-ins is from the return of the last child's handler to the start of the
waiting one, on one clock, one fan-in at a time.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

import psutil  # type: ignore[import-untyped]

from bench.app import FLOWS
from bench.crew import Crew, Member
from bench.drain import drain
from bench.ground import Document, Ground, Place
from bench.idle import watch
from bench.options import Options
from bench.report import Bar, Row, percentile
from mainspring import Scheduler
from mainspring.clock import truncate
from mainspring.model.jobs.job import BLOCKED, COMPLETED, PENDING, RUNNING
from mainspring.store.codec import document_id
from mainspring.store.schema import BEFORE, BY_ID, CHECK, FLOW_ENDED

T = TypeVar("T")
_SPAWNED_A_SECOND = 4_000
_HEAD_STARTS = (4.0, 20.0, 60.0)
_GIVE_UP = 900.0
_CHILDREN = 3
_LAYER = 20
_MOST_BYTES = 100.0


def measure(ground: Ground, options: Options) -> list[Row]:
    """The rows for flows."""
    with _handlers():
        rows = [*_fan_in(ground, options), *_small(ground, options), *_declared(ground, options)]
        rows.append(_suspended(ground, options))
        if options.largest_map:
            rows.append(_memory(ground, options))
    return rows


@contextmanager
def _handlers() -> Iterator[None]:
    """The workers have the handlers that wait."""
    os.environ[FLOWS] = "1"
    try:
        yield
    finally:
        del os.environ[FLOWS]


# -- many before one ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Joined:
    """What one fan-in showed."""

    rate: float
    lag_ms: float
    """From the last child's end to the waiting handler's end, both as stored."""
    keys: int
    writes: int


def _fan_in(ground: Ground, options: Options) -> list[Row]:
    plain, joined = [], []
    for _ in range(options.repeat):
        with ground.place() as place:
            plain.append(drain(ground, place, 1, replace(options, drain_jobs=options.fan_in)).rate)
        joined.append(_join(ground, options))
    name = f"{options.fan_in:,} → 1"
    rates = Row(name, "jobs/s", [one.rate for one in joined], "plain jobs", plain, Bar("ratio", 0.9))
    rates.note = f"the waiting job ended {max(one.lag_ms for one in joined):.0f} ms after the last child at the latest"
    keys = Row(f"{name}: keys of a look", "keys", [one.keys for one in joined], bar=Bar("value", 1_000, at_most=True))
    writes = Row(
        f"{name}: writes to a document", "writes", [one.writes for one in joined], bar=Bar("value", 200, at_most=True)
    )
    return [rates, keys, writes]


def _join(ground: Ground, options: Options) -> _Joined:
    for head_start in _HEAD_STARTS:
        with ground.place() as place, Crew(place, 1, options.concurrency) as crew:
            crew.go()
            joined = asyncio.run(_with(place, partial(_run_fan, ground, place, options, head_start)))
            if joined is not None:
                return joined
    raise RuntimeError("the machine is too busy to measure on: children were due before all were stored")


async def _run_fan(
    ground: Ground, place: Place, options: Options, head_start: float, scheduler: Scheduler
) -> _Joined | None:
    """One fan-in; None when children were due before all were stored."""
    since = place.jobs.database.client.admin.command("ping")["operationTime"]
    due = truncate(place.now() + timedelta(seconds=options.fan_in / _SPAWNED_A_SECOND + head_start))
    root = await scheduler.schedule("fan", {"children": options.fan_in, "due": due.timestamp()})
    await asyncio.to_thread(_wait_until, lambda: place.jobs.find_one({"_id": document_id(root.id), "state": BLOCKED}))
    await asyncio.to_thread(ground.settle)
    if place.now() > due:
        return None
    done = await scheduler.wait(root.id, timeout=_GIVE_UP)
    if done.result != options.fan_in or done.finished_at is None:
        raise RuntimeError(f"the fan-in is {done.state}: {done.error}")
    children = {"flow": root.id, "state": COMPLETED}
    ends: Document = {"_id": None, "n": {"$sum": 1}, "at": {"$max": "$finished_at"}}
    (last,) = place.jobs.aggregate([{"$match": children}, {"$group": ends}], hint=FLOW_ENDED)
    if last["n"] != options.fan_in:
        raise RuntimeError(f"{last['n']} of {options.fan_in} children are completed")
    rate = options.fan_in / (last["at"].replace(tzinfo=due.tzinfo) - due).total_seconds()
    lag = (done.finished_at - last["at"].replace(tzinfo=due.tzinfo)).total_seconds() * 1000
    return _Joined(rate, lag, _keys_of_a_look(place, f"{root.id}#all"), _most_writes(place, since))


def _keys_of_a_look(place: Place, wait: str) -> int:
    """How many keys the look for a live child examines, right after the last one has ended."""
    live = {"before": wait, "state": {"$in": [BLOCKED, PENDING, RUNNING]}}
    find = {"find": "jobs", "filter": live, "projection": {"_id": 1}, "hint": BEFORE, "limit": 1}
    explained = place.jobs.database.command("explain", find, verbosity="executionStats")
    return int(explained["executionStats"]["totalKeysExamined"])


def _most_writes(place: Place, since: object) -> int:
    """The writes to the document that was written most often."""
    database = place.jobs.database
    writes: Counter[object] = Counter()
    database["marks"].insert_one({"_id": "last"})
    stages = [{"$project": {"documentKey": 1, "ns": 1}}]
    with database.watch(stages, start_at_operation_time=since, batch_size=10_000) as stream:  # type: ignore[arg-type]
        for event in stream:
            if event["ns"]["coll"] == "marks":
                return max(writes.values())
            if event["ns"]["coll"] == "jobs":
                writes[event["documentKey"]["_id"]] += 1
    raise RuntimeError("the change stream ended before its end")


# -- small ones --------------------------------------------------------------------------------------------------------


def _small(ground: Ground, options: Options) -> list[Row]:
    with ground.place() as place, Crew(place, 1, options.concurrency) as crew:
        crew.go()
        time.sleep(0.5)
        samples = asyncio.run(_with(place, lambda one: _fan_ins(one, crew.members[0], options.small_fan_ins)))
    rows = []
    for percent in (50, 99):
        bar = Bar("value", 50.0, at_most=True) if percent == 99 else None
        rows.append(Row(f"last child's end to the waiter's start, p{percent}", "ms", [percentile(samples, percent)]))
        rows[-1].bar = bar
    rows[-1].note = f"{len(samples)} fan-ins of {_CHILDREN} children; the slowest {max(samples):.1f} ms"
    rows[-1].details["samples"] = samples
    return rows


async def _fan_ins(scheduler: Scheduler, worker: Member, count: int) -> list[float]:
    samples = []
    for _ in range(count):
        await scheduler.schedule("few", {"children": _CHILDREN})
        last, started = map(float, (await asyncio.to_thread(worker.line)).split())
        samples.append((started - last) * 1000)
        await asyncio.sleep(random.uniform(0.02, 0.1))
    return samples


# -- chains and graphs -------------------------------------------------------------------------------------------------


def _declared(ground: Ground, options: Options) -> list[Row]:
    chained = options.chains * options.chain_steps
    in_graphs = options.graphs * options.graph_nodes
    plain, chains, graphs = [], [], []
    for _ in range(options.repeat):
        with ground.place() as place:
            plain.append(drain(ground, place, 1, options).rate)
        chains.append(chained / _timed(ground, options, lambda one: _start_chains(one, options)))
        graphs.append(in_graphs / _timed(ground, options, lambda one: _start_graphs(one, options)))
    name = f"{options.chains:,} chains of {options.chain_steps:,}"
    return [
        Row(name, "jobs/s", chains, "plain jobs", plain),
        Row(f"{options.graphs:,} graphs of {options.graph_nodes:,} nodes", "jobs/s", graphs, "plain jobs", plain),
    ]


def _timed(ground: Ground, options: Options, start: Callable[[Scheduler], Awaitable[list[str]]]) -> float:
    """Seconds from the start of the workers to the end of the last of the flows, which are stored before."""
    with ground.place() as place, Crew(place, 1, options.concurrency) as crew:
        roots = asyncio.run(_with(place, start))
        ground.settle()
        started = time.perf_counter()
        crew.go()
        # One that has not ended is enough: a count would read a thousand roots with all their nodes each time.
        others = {"_id": {"$in": [document_id(root) for root in roots]}, "state": {"$ne": COMPLETED}}
        _wait_until(lambda: place.jobs.find_one(others, {"_id": 1}, hint=BY_ID) is None)
        return time.perf_counter() - started


async def _start_chains(scheduler: Scheduler, options: Options) -> list[str]:
    steps = [("noop", {"n": n}) for n in range(options.chain_steps)]
    return [(await scheduler.chain(*steps)).id for _ in range(options.chains)]


async def _start_graphs(scheduler: Scheduler, options: Options) -> list[str]:
    """Graphs in layers, whose nodes come after two of the layer before."""
    roots = []
    for _ in range(options.graphs):
        flow = scheduler.flow("graph")
        nodes = [flow.add("noop", {"n": n}) for n in range(_LAYER)]
        for n in range(_LAYER, options.graph_nodes):
            above = nodes[(n // _LAYER - 1) * _LAYER : n // _LAYER * _LAYER]
            nodes.append(flow.add("noop", {"n": n}, after=[above[n % _LAYER], above[(n + 7) % _LAYER]]))
        roots.append((await flow.start()).id)
    return roots


# -- waiting for a long time -------------------------------------------------------------------------------------------


def _suspended(ground: Ground, options: Options) -> Row:
    """The operations of an idle worker beside suspended handlers, less those of one beside a single future job.

    Both are taken over the same time, a minute in a full run: chores that a worker has once a minute are in both, and a
    future job is polled for in both, as the children of the handlers are.
    """
    name = f"{options.suspended:,} suspended handlers"
    with ground.place() as place, Crew(place, 1, options.concurrency) as crew:
        place.load(place.documents(1, run_at=place.now() + timedelta(days=1)))
        crew.go()
        time.sleep(2 * options.idle_settle)
        alone = watch(ground, crew, options.suspended_seconds)
        place.load([{**one, "data": {}, "name": "held"} for one in place.documents(options.suspended)])
        blocked = {"state": BLOCKED, "check_at": {"$exists": True}}
        _wait_until(lambda: place.jobs.count_documents(blocked, hint=CHECK) == options.suspended)
        # The seconds in which the sweep looks at each of them most often: in the first minute.
        time.sleep(2 * options.idle_settle)
        among = watch(ground, crew, options.suspended_seconds)
        memory = crew.members[0].usage.memory_info().rss / 1e6
    more = Counter(among.commands)
    more.subtract(alone.commands)
    row = Row(name, "ops/s", [more.total()], bar=Bar("value", 1.0, at_most=True))
    told = [f"{command} {rate:.2f}" for command, rate in more.most_common() if abs(rate) > 0.005]
    row.note = f"more than an idle worker: {', '.join(told)} a second; the worker has {memory:.0f} MB"
    return row


def _memory(ground: Ground, options: Options) -> Row:
    """By how much the worker grows that stores the children of one map."""
    with ground.place() as place, Crew(place, 1, options.concurrency) as crew:
        crew.go()
        before = most = _megabytes(crew.members[0].usage)
        root = place.documents(1)[0]
        due = time.time() + 30 * 86_400
        place.load([{**root, "name": "fan", "data": {"children": options.largest_map, "due": due}}])
        until = time.monotonic() + _GIVE_UP
        while not place.jobs.find_one({"_id": root["_id"], "state": BLOCKED}):
            most = max(most, _megabytes(crew.members[0].usage))
            if time.monotonic() > until:
                raise RuntimeError("the children were not stored in time")
            time.sleep(0.5)
        (waiter,) = place.jobs.aggregate(
            [{"$match": {"_id": root["_id"]}}, {"$project": {"n": {"$bsonSize": "$$ROOT"}}}]
        )
    row = Row(f"{options.largest_map:,} children: growth of the worker", "MB", [most - before])
    row.bar, row.note = Bar("value", _MOST_BYTES, at_most=True), f"the waiting job's document has {waiter['n']:,} bytes"
    return row


# -- parts -------------------------------------------------------------------------------------------------------------


async def _with(place: Place, work: Callable[[Scheduler], Awaitable[T]]) -> T:
    scheduler = await Scheduler(place.uri, database=place.name).connect()
    try:
        return await work(scheduler)
    finally:
        await scheduler.stop()


def _wait_until(fact: Callable[[], Document | bool | None]) -> None:
    until = time.monotonic() + _GIVE_UP
    while not fact():
        if time.monotonic() > until:
            raise RuntimeError(f"did not happen within {_GIVE_UP:g} s: {fact}")
        time.sleep(0.05)


def _megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 1e6
