"""Runs that are still going when the next firing comes: each policy, with a real worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from harness.firing import HOUR, T0, document_of, end_run, fire, instants_of, jobs_of, ledger, store_of
from harness.looking import Database
from harness.waiting import eventually
from mainspring import Every, JobContext, Schedule, Scheduler, ScheduleStateError
from mainspring.clock import ManualClock

Make = Callable[..., Scheduler]


class Runs:
    """Runs of a handler that go on until they are let go, one by one."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self.most = 0
        self._let_go: dict[str, asyncio.Event] = {}

        @scheduler.job("work", retry=1)
        async def work(ctx: JobContext) -> None:
            await self._run(ctx.id)

    async def _run(self, job_id: str) -> None:
        self.begun.append(job_id)
        self.most = max(self.most, len(self.begun) - len(self.ended) - len(self.cancelled))
        try:
            await self._let_go.setdefault(job_id, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.cancelled.append(job_id)
            raise
        self.ended.append(job_id)

    def let_go(self, job_id: str) -> None:
        self._let_go.setdefault(job_id, asyncio.Event()).set()


@pytest.fixture
def runs(scheduler: Scheduler) -> Runs:
    return Runs(scheduler)


async def begin(scheduler: Scheduler, **options: Any) -> Schedule:
    """A schedule that fires five times a second, and a worker."""
    await scheduler.start()
    return await scheduler.schedule("work", repeat=Every(0.2), schedule_id="s", **options)


async def fired(schedule: Schedule, outcome: str, count: int) -> list[Any]:
    """Wait until the ledger has so many firings of an outcome."""

    async def enough() -> list[Any]:
        now = schedule.created_at
        entries = await schedule.ledger(now, now + timedelta(minutes=5))
        found = [entry for entry in entries if entry.outcome == outcome]
        return found if len(found) >= count else []

    entries: list[Any] = await eventually(enough)
    return entries


async def test_allow_lets_runs_go_side_by_side(scheduler: Scheduler, runs: Runs) -> None:
    await begin(scheduler)
    await eventually(lambda: len(runs.begun) >= 3)
    assert runs.ended == [] and runs.most >= 3


@pytest.mark.slow
async def test_skip_makes_no_run_while_one_is_going_and_goes_on_when_it_has_ended(
    scheduler: Scheduler, runs: Runs, db: Database
) -> None:
    schedule = await begin(scheduler, overlap="skip")
    skipped = await fired(schedule, "skipped", 3)
    assert len(runs.begun) == 1
    assert {entry.reason for entry in skipped} == {f"overlap: {runs.begun[0]} is still going"}
    assert len(await instants_of(db, "s")) == 1
    runs.let_go(runs.begun[0])
    await eventually(lambda: len(runs.begun) == 2)
    assert runs.most == 1


@pytest.mark.slow
async def test_queue_one_lets_one_run_wait_and_start_when_the_other_has_ended(
    scheduler: Scheduler, runs: Runs, db: Database
) -> None:
    schedule = await begin(scheduler, overlap="queue_one")
    skipped = await fired(schedule, "skipped", 2)
    first, second = await jobs_of(db, "s")
    assert runs.begun == [first["_id"]]
    assert second["waiting_for"]["by"] == "overlap" and first["_id"] in second["waiting_for"]["note"]
    assert {entry.reason for entry in skipped} == {f"overlap: {second['_id']} waits already"}
    await schedule.pause()
    runs.let_go(first["_id"])
    await eventually(lambda: runs.begun == [first["_id"], second["_id"]])
    assert runs.most == 1


@pytest.mark.slow
async def test_queue_all_runs_every_firing_in_order_one_after_the_other(
    scheduler: Scheduler, runs: Runs, db: Database
) -> None:
    schedule = await begin(scheduler, overlap="queue_all")

    async def queued() -> bool:
        return len(await jobs_of(db, "s")) >= 4

    await eventually(queued)
    await schedule.pause()
    order = [job["_id"] for job in await jobs_of(db, "s")]
    for place, job_id in enumerate(order):
        await eventually(lambda place=place: len(runs.begun) == place + 1)  # type: ignore[misc]
        runs.let_go(job_id)
    await eventually(lambda: runs.ended == order)
    assert runs.begun == order and runs.most == 1
    entries = await schedule.ledger(schedule.created_at, schedule.created_at + HOUR)
    assert {entry.outcome for entry in entries if entry.job_id in order} == {"on_time"}


async def test_cancel_running_stops_the_run_that_goes_and_takes_its_place(
    scheduler: Scheduler, runs: Runs, db: Database
) -> None:
    schedule = await scheduler.schedule("work", repeat=Every(3600), schedule_id="s", overlap="cancel_running")
    await scheduler.start()
    first, second = await schedule.trigger(), await schedule.trigger()
    ended = await scheduler.wait(first.id, timeout=60)
    assert ended.state == "cancelled" and ended.error is not None
    assert "the next firing of schedule s takes its place" in ended.error.message
    await eventually(lambda: runs.begun[-1:] == [second.id])
    assert runs.most <= 1


async def test_a_run_that_fails_or_is_cancelled_makes_room_too(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    await timed.schedule("work", repeat=Every("1h"), schedule_id="s", overlap="queue_all")
    for hours in (1, 2, 3):
        clock.advance(T0 + hours * HOUR - clock.now())
        await fire(timed)
    first, second, third = await jobs_of(db, "s")
    await timed.cancel(first["_id"])
    clock.advance(2)
    await fire(timed)
    assert [job.get("ready") for job in await jobs_of(db, "s")] == [None, True, None]
    await end_run(db, second["_id"], "failed", clock.now())
    clock.advance(2)
    await fire(timed)
    assert [job.get("ready") for job in await jobs_of(db, "s")] == [None, None, True]
    await timed.delete(third["_id"])
    clock.advance(HOUR)
    await fire(timed)
    assert (await jobs_of(db, "s"))[-1]["ready"] is True


async def test_a_run_that_waits_can_be_cancelled(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    await timed.schedule("work", repeat=Every("1h"), schedule_id="s", overlap="queue_all")
    for _ in range(3):
        clock.advance(HOUR)
        await fire(timed)
    first, second, _ = await jobs_of(db, "s")
    await timed.cancel(second["_id"])
    await end_run(db, first["_id"], "completed", clock.now())
    clock.advance(2)
    await fire(timed)
    assert [job["state"] for job in await jobs_of(db, "s")] == ["completed", "cancelled", "pending"]
    assert (await jobs_of(db, "s"))[2]["ready"] is True


async def test_a_policy_that_is_changed_to_allow_releases_those_that_wait(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s", overlap="queue_all")
    for _ in range(3):
        clock.advance(HOUR)
        await fire(timed)
    await schedule.edit(overlap="allow")
    await fire(timed)
    assert [job.get("ready") for job in await jobs_of(db, "s")] == [True, True, True]
    document = await document_of(db, "s")
    assert "queued" not in document and "live" not in document


async def test_a_policy_that_is_changed_to_skip_keeps_those_that_wait_in_their_order(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s", overlap="queue_all")
    for _ in range(2):
        clock.advance(HOUR)
        await fire(timed)
    await schedule.edit(overlap="skip")
    clock.advance(HOUR)
    await fire(timed)
    first, second = await jobs_of(db, "s")
    assert (first.get("ready"), second.get("ready")) == (True, None)
    await end_run(db, first["_id"], "completed", clock.now())
    clock.advance(HOUR)
    await fire(timed)
    assert [job.get("ready") for job in await jobs_of(db, "s")] == [None, True]
    waits = f"overlap: {second['_id']}"
    assert await ledger(schedule, 5) == [
        (1, "on_time", ""),
        (2, "on_time", ""),
        (3, "skipped", f"{waits} waits already"),
        (4, "skipped", f"{waits} is still going"),
    ]


async def test_a_deleted_schedule_releases_those_that_wait(timed: Scheduler, clock: ManualClock, db: Database) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s", overlap="queue_all")
    for _ in range(3):
        clock.advance(HOUR)
        await fire(timed)
    await schedule.delete()
    assert [job.get("ready") for job in await jobs_of(db, "s")] == [True, True, True]
    assert all("waiting_for" not in job for job in await jobs_of(db, "s"))


async def test_a_schedule_that_is_deleted_amid_a_decision_leaves_no_job_waiting_for_ever(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    """A process has decided that a run is to wait and has not made it yet; then the schedule is deleted."""
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s", overlap="queue_all")
    clock.advance(HOUR)
    await fire(timed)
    clock.advance(HOUR)
    firing = store_of(timed).firing
    (document,) = await firing.load(["s"])
    step = firing.decide(document, {}, {}, clock.now())
    mine, turn = await firing.store_decisions([step], clock.now())
    await schedule.delete()
    await firing.carry_out(mine, turn, clock.now())  # it wakes up, too late
    assert [job.get("ready") for job in await jobs_of(db, "s")] == [True, True]


async def test_a_trigger_follows_the_overlap_of_its_schedule_or_its_own(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s", overlap="skip")
    first = await schedule.trigger()
    with pytest.raises(
        ScheduleStateError, match=rf"is still going or waits \({first.id}\).*trigger with overlap=\"allow\""
    ):
        await schedule.trigger()
    beside = await schedule.trigger(overlap="allow")
    waiting = await schedule.trigger(overlap="queue_one")
    assert (beside.waiting_for, waiting.waiting_for and waiting.waiting_for.by) == (None, "overlap")
    await end_run(db, first.id, at=clock.now())
    await end_run(db, beside.id, at=clock.now())
    clock.advance(2)
    await fire(timed)
    assert (await timed.get_job(waiting.id)).waiting_for is None


async def test_a_trigger_knows_at_once_that_the_run_before_has_ended(
    timed: Scheduler, clock: ManualClock, db: Database
) -> None:
    schedule = await timed.schedule("work", repeat=Every("1h"), schedule_id="s", overlap="skip")
    first = await schedule.trigger()
    await end_run(db, first.id, at=clock.now())
    assert (await schedule.trigger()).state == "pending"


@pytest.mark.slow
async def test_the_next_run_begins_soon_after_the_end_of_another_workers_run(make_scheduler: Make) -> None:
    """The run ends in a process that is stopping; another one looks after those that wait."""
    one, other = make_scheduler(), make_scheduler()
    mine, others = Runs(one), Runs(other)
    await one.start()
    schedule = await one.schedule("work", repeat=Every("1h"), schedule_id="s", overlap="queue_all")
    first, second = await schedule.trigger(), await schedule.trigger()
    await eventually(lambda: mine.begun == [first.id])
    await other.start()
    stopping = asyncio.create_task(one.stop())
    await asyncio.sleep(0)
    mine.let_go(first.id)
    await stopping
    await eventually(lambda: others.begun == [second.id])
