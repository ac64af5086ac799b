"""What is set in one process is in force in all others within about two seconds, whether they are busy or at rest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

import pytest

from cluster.asking import Asking
from harness.history import Run
from harness.processes import Fleet
from harness.waiting import eventually
from mainspring import Scheduler

SOON = 6.0
"""About two seconds, on a machine that has other things to do; without listening it would be ten."""
JOBS, SECONDS = 500, 0.15
"""Enough to keep three processes busy for longer than that."""
Verb = Callable[[Scheduler], Awaitable[Any]]

HALTS: dict[str, tuple[Verb, Verb]] = {
    "queue paused": (lambda face: face.queues.pause("default"), lambda face: face.queues.resume("default")),
    "name paused": (lambda face: face.limits.pause("work"), lambda face: face.limits.resume("work")),
    "breaker opened": (
        lambda face: face.limits.open_breaker(name="work"),
        lambda face: face.limits.close_breaker(name="work"),
    ),
}


def starts(fleet: Fleet) -> list[float]:
    return [event["at"] for event in fleet.history.events("start")]


async def all_at_work(fleet: Fleet, workers: int) -> None:
    await eventually(lambda: len({event["worker"] for event in fleet.history.events("start")}) == workers)


async def quiet(fleet: Fleet) -> float:
    """Wait until nothing has been started for a while; when the last job was."""
    await eventually(lambda: time.monotonic() - max(starts(fleet)) > 2.0, timeout=60, every=0.2)
    return max(starts(fleet))


@pytest.mark.parametrize("halt", HALTS)
async def test_busy_processes_halt_and_go_on_soon(fleet: Fleet, scheduler: Scheduler, ask: Asking, halt: str) -> None:
    stop, go_on = HALTS[halt]
    await fleet.start_many(3, concurrency=4)
    await scheduler.schedule_bulk([{"name": "work", "data": {"seconds": SECONDS}}] * JOBS)
    await all_at_work(fleet, 3)
    await stop(scheduler)
    halted = time.monotonic()
    last = await quiet(fleet)
    assert await ask.live() > 0
    assert last - halted < SOON
    resumed = time.monotonic()
    await go_on(scheduler)
    await ask.drained(90)
    first = min(at for at in starts(fleet) if at > resumed)
    assert first - resumed < SOON
    assert await ask.states() == {"completed": JOBS}


@pytest.mark.parametrize("halt", HALTS)
async def test_processes_at_rest_halt_soon(fleet: Fleet, scheduler: Scheduler, ask: Asking, halt: str) -> None:
    """They listen for changes, and look by themselves only every ten seconds."""
    stop, go_on = HALTS[halt]
    await fleet.start_many(3, poll_interval=0.5)
    while len({event["worker"] for event in fleet.history.events("start")}) < 3:
        await scheduler.schedule("work")
        await asyncio.sleep(0.05)
    await stop(scheduler)
    halted = time.monotonic()
    while time.monotonic() - max(halted, *starts(fleet)) < 2.0:
        await scheduler.schedule("work")
        await asyncio.sleep(0.05)
    assert await ask.live() > 0
    assert max(starts(fleet)) - halted < SOON
    await go_on(scheduler)
    await ask.drained(30)


async def test_a_limit_set_or_changed_here_counts_in_all_processes(
    fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    await fleet.start_many(3, concurrency=4)
    await scheduler.schedule_bulk([{"name": "work", "data": {"seconds": SECONDS}}] * 2 * JOBS)
    await all_at_work(fleet, 3)
    await scheduler.limits.set(name="work", concurrency=1)
    await eventually(lambda: most_at_once(fleet, time.monotonic() - 1.5) == 1, 60, every=0.1)
    lowered = time.monotonic()
    await eventually(lambda: sum(run.started > lowered for run in fleet.history.runs()) > 3, 60, every=0.1)
    await scheduler.limits.set(name="work", concurrency=6)
    raised = time.monotonic()
    assert most_at_once(fleet, lowered, raised) == 1
    await eventually(lambda: most_at_once(fleet, raised) > 1, 60, every=0.1)
    await asyncio.sleep(1)
    await scheduler.limits.remove(name="work")
    removed = time.monotonic()
    assert 1 < most_at_once(fleet, raised, removed) <= 6
    await eventually(lambda: most_at_once(fleet, removed) > 6, 60, every=0.1)
    await ask.drained(90)
    assert await ask.states() == {"completed": 2 * JOBS}


def most_at_once(fleet: Fleet, since: float, until: float = inf) -> int:
    """How many of the runs that were started in a stretch of time went on at once."""
    runs: list[Run] = [run for run in fleet.history.runs() if since <= run.started < until]
    moves = [(run.started, 1) for run in runs] + [(run.ended or run.started, -1) for run in runs]
    most = now = 0
    for _, move in sorted(moves):
        now += move
        most = max(most, now)
    return most
