"""Starts the flows of a seed, keeps workers alive while they are killed, and judges the ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pymongo.errors import PyMongoError

from harness.checker import Reasons, check_runs
from harness.flows.plans import MENDED, Item, Maker, Plan, after_retry, signals_of
from harness.flows.replay import Recording, Replay
from harness.history import History
from harness.processes import APP_VARIABLE, Fleet, WorkerProcess
from harness.waiting import eventually
from mainspring import JobStateError, Scheduler, Unavailable

PATIENCE = 180.0
OPTIONS: dict[str, Any] = {"lease": 3.0, "concurrency": 8, "operation_timeout": 5}
APP = {APP_VARIABLE: "harness.apps.flows"}
Document = Mapping[str, Any]
_ROUND = re.compile(r"~r\d+")


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is in each seed."""

    flows: int
    workers: int
    largest: int
    """How many children a map has at most."""


_ASKED = os.environ.get("MAINSPRING_FLOWS", "")
FULL = _ASKED == "full"
SIZE = Size(21, 3, 1_200) if FULL else Size(8, 2, 60)


def seeds(usual: range, full: range) -> range:
    """The seeds of a file: `MAINSPRING_FLOWS` may name some of the full ones, as in 40-59, at the usual size."""
    if FULL:
        return full
    first, dash, last = _ASKED.partition("-")
    return range(max(full[0], int(first)), min(full[-1], int(last)) + 1) if dash else usual


class Crew:
    """Workers that are replaced when they die."""

    def __init__(self, fleet: Fleet, size: int, **options: Any) -> None:
        self._fleet = fleet
        self._size = size
        self._options = options
        self._workers: list[WorkerProcess] = []
        self.reasons = Reasons(outage=True)

    def start(self) -> None:
        self._workers = [self._launch() for _ in range(self._size)]

    def _launch(self) -> WorkerProcess:
        worker: WorkerProcess = self._fleet.launch(environment=APP, **self._options)
        return worker

    def kill_one(self, dice: random.Random) -> None:
        dice.choice(self._workers).kill()
        self.look()

    def look(self) -> None:
        """Note which workers have died, and start others."""
        for worker in list(self._workers):
            if not worker.alive:
                self.reasons.killed[worker.id] = time.monotonic()
                self._workers.remove(worker)
                self._workers.append(self._launch())

    async def keep(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(0.05)


class Rampage:
    """One seed: its flows, its workers, and the harm that is done to them."""

    def __init__(
        self, seed: int, fleet: Fleet, scheduler: Scheduler, uri: str, size: Size, through: str | None = None
    ) -> None:
        """`through` is the way of the workers to the server, if it is another one."""
        self.dice = random.Random(seed)
        self.crew = Crew(fleet, size.workers, uri=through or uri, **OPTIONS)
        self.plans: dict[str, Plan] = {}
        self._planned = Maker(seed).plans(size.flows, size.largest)
        self._fleet = fleet
        self._scheduler = scheduler
        self._recording = Recording(uri)

    async def run(self, harm: Callable[[], Awaitable[None]]) -> None:
        """Start everything, do harm, and wait until all flows have ended; those that failed for want of a file are
        retried when it is there."""
        for plan in self._planned:
            id = await start(self._scheduler, plan)
            self.plans[id] = plan
            if plan.kind in ("tree", "narrow"):
                await send(self._scheduler, id, plan.what, early=True)
        self.crew.start()
        tasks = [asyncio.create_task(self.crew.keep()), asyncio.create_task(self._send_late())]
        try:
            await eventually(lambda: self._fleet.history.events("start"))
            await asyncio.gather(steer(self._scheduler, self.plans), harm())
            await self._all_ended()
            await self._retry()
            await self._all_ended()
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if not isinstance(ended, asyncio.CancelledError):
                    raise AssertionError("the workers or the signals were given up") from ended

    async def _send_late(self) -> None:
        """Send the signals of jobs that wait for them, some of them once more."""
        while True:
            await asyncio.sleep(0.3)
            with contextlib.suppress(PyMongoError):
                for job in await asyncio.to_thread(self._recording.listening):
                    await send(self._scheduler, str(job["_id"]), job["data"], round=job.get("round", 1))

    async def kill_some(self, times: int) -> None:
        for _ in range(times):
            await asyncio.sleep(self.dice.uniform(0.1, 1.2))
            self.crew.kill_one(self.dice)

    async def _retry(self) -> None:
        (self._fleet.history.path.parent / MENDED).touch()
        for id, plan in self.plans.items():
            if plan.retried:
                await insist(lambda id=id: self._scheduler.flows.retry(id))
        if any(plan.retried for plan in self.plans.values()):
            self.crew.kill_one(self.dice)

    async def _all_ended(self) -> None:
        """Wait until no job is live, and fail with those that are."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(PyMongoError):
                if not await asyncio.to_thread(self._recording.live):
                    return
            await asyncio.sleep(0.1)
        raise AssertionError("\n".join([*self.broken(None), *self._recording.left()]))

    def broken(self, documents: Mapping[str, Document] | None) -> list[str]:
        """All that contradicts the promises."""
        replay = Replay()
        replay.run(self._recording.events())
        found = [*replay.broken, *replay.at_the_end()]
        if documents is not None:
            found += [*judge(self.plans, documents, self._fleet.history)]
            found += check_runs(self._fleet.history, self.crew.reasons)
        return found

    def close(self) -> None:
        self._recording.close()


async def start(scheduler: Scheduler, plan: Plan) -> str:
    """Start the flow of a plan; returns the id of its root."""
    what = plan.what
    if plan.kind in ("tree", "narrow"):
        return (await scheduler.schedule(plan.kind, what)).id
    if plan.kind == "chain":
        return (await scheduler.chain(*(("leaf", item) for item in what))).id
    if plan.kind == "batch":
        items = ({"name": "leaf", "data": item} for item in what["items"])
        callbacks: dict[str, Any] = {name: ("leaf", item) for name, item in what["callbacks"].items()}
        return (await scheduler.batch(items, tolerate=what["tolerate"], **callbacks)).id
    flow = scheduler.flow("planned")
    handles: dict[str, Any] = {}
    for node in what:
        options = {"name": node["name"], "after": [handles[name] for name in node["after"]], "when": node["when"]}
        if "over" in node:
            handles[node["name"]] = flow.map(node["job"], node["over"], tolerate=node["tolerate"], **options)
            continue
        data = dict(node["item"])
        if node.get("refers"):
            data["how"] = {**data["how"], "before": handles[node["after"][0]].result}
        handles[node["name"]] = flow.add(node["job"], data, **options)
    return (await flow.start()).id


async def send(scheduler: Scheduler, job_id: str, item: Item, *, round: int = 1, early: bool = False) -> None:
    """Send the signals that a job waits for in a round; with `early`, those that come before it waits. A signal that is
    sent again has the same id."""
    for name, value, comes_early in signals_of(item):
        if comes_early or not early:
            sent = {"payload": value, "id": f"{value}-{round}"}
            await insist(lambda name=name, sent=sent: scheduler.signal(job_id, name, **sent))


async def insist(verb: Any) -> bool:
    """Carry out a verb that may be repeated, however often it takes; returns False where the state forbids it."""
    while True:
        try:
            await verb()
            return True
        except JobStateError:
            return False
        except (Unavailable, PyMongoError):
            await asyncio.sleep(0.1)


async def steer(scheduler: Scheduler, plans: Mapping[str, Plan]) -> None:
    """Cancel the flows that are to be cancelled, each at its time."""
    started = time.monotonic()
    for id, plan in sorted(plans.items(), key=lambda one: one[1].cancel_after or 0):
        if plan.cancel_after is not None:
            await asyncio.sleep(max(0.0, started + plan.cancel_after - time.monotonic()))
            await insist(lambda id=id: scheduler.cancel(id, "as planned"))


def judge(plans: Mapping[str, Plan], documents: Mapping[str, Document], history: History) -> Iterator[str]:
    """The promises about the outcomes: each flow ended as it must, and each of its jobs exists once and took effect."""
    effects = Counter(event["job"] for event in history.events("effect"))
    values: Counter[tuple[int, tuple[tuple[int, str], ...]]] = Counter()
    for job, document in documents.items():
        data = document.get("data") or {}
        # A batch that failed and was retried runs its callbacks for both ends.
        if "v" in data and "grown" not in data["how"] and not job.endswith("-after-failure"):
            values[data["v"], _rounds(job)] += 1
        if document["name"] in ("leaf", "gated") and document["state"] == "completed" and not effects[job]:
            yield f"{job} is completed and had no effect"
    yield from (f"{times} jobs have the number {v} in one round" for (v, _), times in values.items() if times > 1)
    for id, plan in plans.items():
        if plan.state is not None:
            yield from _judge_flow(id, plan, documents)


def _rounds(job: str) -> tuple[tuple[int, str], ...]:
    """The rounds of the jobs above a job, as its id has them: each round makes its children anew."""
    return tuple((place, part) for place, part in enumerate(job.split(".")) if _ROUND.fullmatch(part))


def _judge_flow(id: str, plan: Plan, documents: Mapping[str, Document]) -> Iterator[str]:
    root = documents[id]
    wanted = after_retry(plan) if plan.retried else plan.state
    if root["state"] != wanted:
        yield f"{id}, a {plan.kind}, is {root['state']} and not {wanted}: {root.get('error')}"
    elif plan.value is not None and wanted == "completed" and not plan.retried and root["result"]["v"] != plan.value:
        yield f"{id}, a {plan.kind}, returned {root['result']['v']} and not {plan.value}"
    if plan.retried:
        return
    for name, end in plan.nodes.items():
        node = documents[f"{id}.{name}"]
        skipped = (node.get("error") or {}).get("type") == "Skipped"
        if (node["state"], skipped) != ({"skipped": "cancelled"}.get(end, end), end == "skipped"):
            yield f"{id}.{name} is {node['state']} and not {end}: {node.get('error')}"
    for node in plan.what if plan.kind == "graph" else ():
        told, first = documents[f"{id}.{node['name']}"], documents.get(f"{id}.{(node['after'] or [''])[0]}")
        if not node.get("refers") or told["state"] != "completed" or first is None:
            continue
        if told["result"]["saw"] != first["result"].get("v"):
            yield f"{told['_id']} saw {told['result']['saw']} and not {first['result']}"
    if plan.kind == "batch":
        run = {name for name in plan.what["callbacks"] if f"{id}.{name}" in documents}
        run |= {"on_done"} if f"{id}.on_done-after-failure" in documents else set()
        if run != {"on_done", "on_success" if plan.state == "completed" else "on_failure"}:
            yield f"{id}, a batch that is {root['state']}, has run the callbacks {sorted(run)}"
