"""A change stream that breaks: it only ever gave hints."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cluster.asking import Asking
from harness.processes import Fleet
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import Scheduler

pytestmark = pytest.mark.core

NEVER = 60.0
"""A poll interval so long that only a hint can wake a worker in this test."""
READING = ["aggregate", "getMore"]


async def test_jobs_start_by_polling_while_no_change_stream_can_be_opened(
    servers: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    worker = await fleet.start(poll_interval=0.3)
    for error in ({"errorCode": 286}, {"closeConnection": True}):
        with servers.fail_point("failCommand", "alwaysOn", appName="mainspring", failCommands=READING, **error):
            await asyncio.sleep(0.5)
            jobs = [await scheduler.schedule("work") for _ in range(20)]
            await ask.drained(60)
            assert await ask.states([job.id for job in jobs]) == {"completed": 20}
    assert worker.alive


@pytest.mark.parametrize("how", ["sessions killed", "history lost", "connections closed"])
async def test_a_broken_change_stream_is_opened_again(
    servers: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking, how: str
) -> None:
    worker = await fleet.start(poll_interval=NEVER)
    await _hints_arrive(fleet, scheduler)
    with _broken(servers, how) as again:

        async def broke() -> bool:
            # The await under way is over with the next insert; the one after it meets the fault.
            again()
            await scheduler.schedule("work")
            return "The change stream broke" in worker.log.read_text()

        await eventually(broke, every=0.2)
    await _hints_arrive(fleet, scheduler)
    # What was scheduled while the stream was away may wait for the poll; nothing of it is lost.
    await eventually(lambda: _at_rest(ask))


async def _at_rest(ask: Asking) -> bool:
    return set(await ask.states()) <= {"pending", "completed"}


@contextmanager
def _broken(servers: Servers, how: str) -> Iterator[Callable[[], object]]:
    """Break change streams; gives what is to be done again until one of them is seen to have broken."""
    if how == "sessions killed":
        with servers.primary().client() as client:
            # One that is between two awaits at that moment is resumed by the driver, and nothing is seen of it.
            yield lambda: client.admin.command("killAllSessions", [])
    else:
        error = {"errorCode": 286} if how == "history lost" else {"closeConnection": True}
        with servers.fail_point("failCommand", "alwaysOn", appName="mainspring", failCommands=READING, **error):
            yield lambda: None


async def _hints_arrive(fleet: Fleet, scheduler: Scheduler) -> None:
    """Schedule a job now and then until one is started at once, long before the next poll."""
    until = time.monotonic() + NEVER / 3
    while time.monotonic() < until:
        job = await scheduler.schedule("work")
        started = time.monotonic() + 1
        while time.monotonic() < started:
            if fleet.history.events("start", job=job.id):
                return
            await asyncio.sleep(0.02)
    raise AssertionError("no hint arrives")


async def test_a_dropped_collection_costs_its_jobs_but_not_the_worker(
    fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    worker = await fleet.start(poll_interval=0.3)
    await scheduler.schedule("work")
    await ask.drained(60)
    await ask.jobs.drop()
    job = await scheduler.schedule("work")
    await eventually(lambda: fleet.history.events("start", job=job.id), timeout=60)
    assert worker.alive
