"""Schedules and processes that die, sleep, live in another time, or hear of nothing."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cluster.asking import Asking
from cluster.firings import Firings
from cluster.skew import HOUR, HOW, moved
from harness.changes import Changes
from harness.inside import inside
from harness.processes import SAFETY_NET_VARIABLE, Fleet
from harness.servers import Servers
from harness.waiting import eventually
from mainspring import At, Every, Scheduler
from mainspring.clock import ManualClock
from mainspring.errors import Unavailable

ROUNDS = 3
AHEAD = 8
"""So many seconds are enough to store the schedules of a test before they are due, on a busy machine too."""
EACH = 12
HELD_UP = 5_000
FORGOTTEN = 12.0
"""Longer than a process may take from deciding to making before it leaves the rest to others."""
NEVER_BY_ITSELF = {SAFETY_NET_VARIABLE: "3600"}
"""The timekeeper does not look again for safety's sake while the test runs."""


async def test_what_is_due_when_its_process_is_killed_is_fired_by_another(
    fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    """Killed at the very instant, and a little later: before it decides, while it does, and after."""
    workers = await fleet.start_many(3)
    wanted: set[str] = set()
    for turn in range(ROUNDS):
        due = _soon(AHEAD)
        wanted |= await _fire_at(scheduler, due, EACH, f"turn-{turn}")
        await _sleep_until(due + timedelta(milliseconds=4 * turn))
        workers.pop(0).kill()
        await _made(ask, wanted)
        workers.append(await fleet.start())
    await ask.drained(120)  # a lease of the dead may have to end

    assert set(await ask.documents()) == wanted
    assert {run.job for run in fleet.history.runs()} == wanted


async def test_a_decision_whose_process_dies_before_it_made_the_jobs_is_carried_out_by_another(
    servers: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    decider = await fleet.start()
    wanted = await _fire_at(scheduler, _soon(AHEAD), EACH)
    with _jobs_refused(servers, ask):
        await _decided(ask, len(wanted))
        decider.kill()
    assert await ask.documents() == {}
    await fleet.start()
    await _ended(ask, wanted)
    assert {run.job for run in fleet.history.runs()} == wanted


async def test_a_job_that_is_made_long_after_it_was_decided_is_told_as_late(
    servers: Servers, make_scheduler: Callable[..., Scheduler], ask: Asking
) -> None:
    clock = ManualClock()
    await make_scheduler().connect()  # to make the indexes takes its time
    scheduler = make_scheduler(clock=clock, operation_timeout=5)  # the decision is stored within it on a busy machine
    schedule = await scheduler.schedule("work", repeat=Every("1h"), schedule_id="hourly")
    at, firing = schedule.next_at, (await inside(scheduler).store()).firing
    assert at is not None
    clock.advance(3600)
    with _jobs_refused(servers, ask), pytest.raises(Unavailable):
        await firing.advance(await firing.load(["hourly"]))
    clock.advance(30)
    await firing.advance(await firing.load(["hourly"]))

    (entry,) = await schedule.ledger(at, clock.now())
    assert (entry.outcome, entry.late_by) == ("late", timedelta(seconds=30))


async def test_a_process_that_sleeps_between_deciding_and_making_makes_no_second_job(
    servers: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes
) -> None:
    sleeper = await fleet.start()
    with _held_up(servers, ask, "insert", "jobs"):
        wanted = await _fire_at(scheduler, _soon(AHEAD), EACH)
        await eventually(lambda: _under_way(servers, ask, "insert", "jobs"))
        sleeper.pause()
        await fleet.start()
        await _ended(ask, wanted)
    sleeper.resume()
    wanted |= await _fire_some_more(scheduler, ask)

    inserted = [job for job, seen in changes.read().items() for change in seen if change.kind == "insert"]
    assert sorted(inserted) == sorted(wanted)
    assert sorted(run.job for run in fleet.history.runs()) == sorted(wanted)


async def test_a_process_that_wakes_long_after_its_decision_was_carried_out_makes_nothing_of_it(
    servers: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    """Not even when the jobs are gone, as they may be by then."""
    sleeper = await fleet.start(operation_timeout=60)
    with _held_up(servers, ask, "update", "jobs.schedules"):
        wanted = await _fire_at(scheduler, _soon(AHEAD), EACH)
        await eventually(lambda: _under_way(servers, ask, "update", "jobs.schedules"))
        sleeper.pause()
    await fleet.start()
    await _ended(ask, wanted)
    await ask.jobs.delete_many({"_id": {"$in": list(wanted)}}, hint="_id_")
    await asyncio.sleep(FORGOTTEN)
    sleeper.resume()
    later = await _fire_some_more(scheduler, ask)
    assert set(await ask.documents()) == later


async def test_a_decision_that_was_overtaken_is_not_stored(
    servers: Servers, fleet: Fleet, scheduler: Scheduler, ask: Asking
) -> None:
    """Of the firings that were missed one gets a job. Two who decide at different times would choose different ones."""
    sleeper = await fleet.start()
    firings = Firings(EACH, _soon(AHEAD), _soon(AHEAD + 11))
    with _held_up(servers, ask, "update", "jobs.schedules"):
        await firings.store(scheduler, misfire="latest", misfire_grace=1)
        await eventually(lambda: _under_way(servers, ask, "update", "jobs.schedules"))
        sleeper.pause()
        await fleet.start()
        await eventually(fleet.history.runs)
    sleeper.resume()
    await ask.fired_out(60)
    await ask.drained(60)

    made = set(await ask.documents())
    for one in firings.planned:
        entries = await scheduler.schedules.ledger(one.id, firings.start, firings.end + timedelta(seconds=1))
        assert [entry.at for entry in entries] == list(one.instants)
        told = {job for job, entry in zip(one.jobs, entries, strict=True) if entry.outcome in ("on_time", "late")}
        assert told == made & set(one.jobs)
        assert (await scheduler.schedules.get(one.id)).runs == len(told)


async def test_a_decision_about_a_schedule_that_was_deleted_and_made_again_is_not_stored(
    make_scheduler: Callable[..., Scheduler], ask: Asking
) -> None:
    """It has the same id and has not been changed since: as little as the one that was read had been."""
    clock = ManualClock()
    scheduler = make_scheduler(clock=clock)
    await scheduler.schedule("work", repeat=Every("1h"), schedule_id="again")
    firing = (await inside(scheduler).store()).firing
    read = await firing.load(["again"])
    await scheduler.schedules.delete("again")
    schedule = await scheduler.schedule("work", repeat=Every("2h"), schedule_id="again")
    clock.advance(3600)
    assert await firing.advance(read) == []
    assert await schedule.refresh() == schedule
    assert await ask.documents() == {}


@pytest.mark.parametrize("how", HOW)
async def test_a_process_whose_clock_is_an_hour_off_fires_nothing_early_and_nothing_twice(
    fleet: Fleet, scheduler: Scheduler, ask: Asking, changes: Changes, how: str
) -> None:
    workers = [fleet.launch(environment=moved(how, seconds)) for seconds in (-HOUR, HOUR)]
    await fleet.up(workers)
    firings = Firings(20, _soon(AHEAD), _soon(AHEAD + 5))
    await firings.store(scheduler)
    await _ended(ask, firings.jobs)

    assert firings.check(await ask.documents(), fleet.history) == []
    found, _ = await firings.check_ledgers(scheduler)
    assert found == []
    made = {job: seen[0].at for job, seen in changes.read().items()}
    due = {job: at for one in firings.planned for job, at in zip(one.jobs, one.instants, strict=True)}
    early = {job: made[job] for job, at in due.items() if made[job] < at - timedelta(milliseconds=10)}
    assert early == {}


async def test_without_a_change_stream_a_schedule_of_one_process_is_fired_by_another(
    standalone: Servers, fleet: Fleet, make_scheduler: Callable[..., Scheduler]
) -> None:
    """It is fired soon because the other one polls, and not only at its next look for safety's sake."""
    uri = standalone.uri(f"t_{secrets.token_hex(4)}")
    ask = Asking(uri)
    try:
        await fleet.up([fleet.launch(uri=uri, environment=NEVER_BY_ITSELF)])
        await make_scheduler(uri).schedule("work", repeat=Every("1s"), schedule_id="often", max_runs=2)
        await eventually(fleet.history.runs)
        await ask.fired_out(60)
        await ask.drained(60)
        jobs = await ask.documents()
        assert len(jobs) == 2 and {run.job for run in fleet.history.runs()} == set(jobs)
    finally:
        await ask.client.drop_database(ask.db.name)
        await ask.close()


async def test_a_schedule_is_fired_by_a_process_that_was_asleep_when_it_was_made(
    fleet: Fleet, scheduler: Scheduler
) -> None:
    await fleet.up([fleet.launch(environment=NEVER_BY_ITSELF)])
    await asyncio.sleep(1.5)  # it has seen that there is nothing to do
    await scheduler.schedule("work", repeat=Every("1s"), schedule_id="often", max_runs=1)
    await eventually(fleet.history.runs)


# -- what they do --------------------------------------------------------------------------------------------------


def _soon(seconds: int) -> datetime:
    """A full second, this far ahead at least."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1 + seconds)


async def _sleep_until(instant: datetime) -> None:
    await asyncio.sleep(max(0.0, (instant - datetime.now(UTC)).total_seconds()))


async def _fire_at(scheduler: Scheduler, due: datetime, count: int, name: str = "once") -> set[str]:
    """Schedules that fire at one instant; the ids of the jobs that have to come of them."""
    ids = [f"{name}-{n}" for n in range(count)]
    await asyncio.gather(*(scheduler.schedule("work", repeat=At([due]), schedule_id=id) for id in ids))
    return {f"{id}@{due:%Y-%m-%dT%H:%M:%SZ}" for id in ids}


def _jobs_refused(servers: Servers, ask: Asking) -> AbstractContextManager[None]:
    """While this lasts, no worker can store a job; deciding goes on."""
    return _failing(servers, ask, "alwaysOn", "insert", "jobs", closeConnection=True)


def _held_up(servers: Servers, ask: Asking, command: str, collection: str) -> AbstractContextManager[None]:
    """The next such command of a worker reaches the server, and is not carried out for a while.

    At the latest at the end of the block: the server switches no fail point off that holds an operation up.
    """
    return _failing(servers, ask, {"times": 1}, command, collection, blockConnection=True, blockTimeMS=HELD_UP)


def _failing(
    servers: Servers, ask: Asking, mode: Any, command: str, collection: str, **how: Any
) -> AbstractContextManager[None]:
    what = {"appName": "mainspring", "failCommands": [command], "namespace": f"{ask.db.name}.{collection}"}
    return servers.fail_point("failCommand", mode, **what, **how)


def _under_way(servers: Servers, ask: Asking, command: str, collection: str) -> bool:
    """Whether the server is at such a command, or holds it up."""
    wanted = {f"command.{command}": collection, "command.$db": ask.db.name}
    with servers.primary().client() as client:
        return bool(list(client.admin.aggregate([{"$currentOp": {}}, {"$match": wanted}])))


async def _decided(ask: Asking, count: int) -> None:
    """Wait until so many decisions are stored and not carried out."""

    async def all_decided() -> bool:
        found = ask.db["jobs.schedules"].find({}, {"making": 1}, hint="_id_")
        return len([one async for one in found if "making" in one]) == count

    await eventually(all_decided)


async def _made(ask: Asking, wanted: set[str]) -> None:
    async def all_made() -> bool:
        return await ask.jobs.count_documents({"_id": {"$in": list(wanted)}}, hint="_id_") == len(wanted)

    await eventually(all_made)


async def _ended(ask: Asking, wanted: set[str]) -> None:
    await _made(ask, wanted)
    await ask.drained(60)


async def _fire_some_more(scheduler: Scheduler, ask: Asking) -> set[str]:
    """Firings that need every process; when they are done, a process that was asleep has done what it was about to."""
    wanted = await _fire_at(scheduler, _soon(AHEAD), 3 * EACH, "later")
    await _ended(ask, wanted)
    return wanted
