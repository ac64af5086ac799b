"""A schedule through anything that may happen to it, in any order: its ledger and its jobs always agree.

Whatever is done, and wherever a process dies, each firing that the ledger calls made has its one job, each job is named
by the ledger, no firing has two, and nothing that its rule called for is left out.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

import pytest

from harness.firing import DAY, HOUR, MINUTE, T0, document_of, end_run, fire, jobs_of, store_of
from harness.looking import Database
from mainspring import AnyOf, Calendar, Cron, Every, Except, Rule, Schedule, Scheduler, ScheduleStateError
from mainspring.clock import ManualClock

Make = Callable[..., Scheduler]
Step = Callable[[], Awaitable[object]]
MADE = ("on_time", "late", "backfilled", "triggered")
RULES: list[Rule] = [
    Every("7m", anchor=T0),
    Every("20m", after="end"),
    Cron("*/10 * * * *", "Europe/Berlin"),
    Cron("H/15 * * * *"),
    Except(Every("30m", anchor=T0), "h"),
    AnyOf(Cron("5 * * * *"), Every("25m", anchor=T0)),
]
CALENDARS = [Calendar(["2030-01-01"]), Calendar(["2030-01-02"]), Calendar(weekdays=["WED"])]


class Life:
    """One schedule, and what may happen to it."""

    def __init__(self, scheduler: Scheduler, clock: ManualClock, db: Database, seed: random.Random, name: str) -> None:
        self.scheduler, self.clock, self.db, self.chance, self.name = scheduler, clock, db, seed, name
        self.begun_at = clock.now()
        self.told: list[str] = []
        self.schedule: Schedule

    async def begin(self) -> None:
        chance = self.chance
        rule = chance.choice(RULES)
        ends = isinstance(rule, Every) and rule.after == "end"
        self.schedule = await self.scheduler.schedule(
            "work",
            repeat=rule,
            schedule_id=self.name,
            jitter=chance.choice([0, 0, 90, 1200]),
            misfire=chance.choice(["skip", "latest", "all"]),
            misfire_limit=chance.choice([2, 100]),
            overlap="allow" if ends else chance.choice(["allow", "skip", "queue_one", "queue_all", "cancel_running"]),
            max_runs=chance.choice([None, None, 25]),
        )

    async def step(self) -> None:
        steps: list[Step] = [
            *[self.pass_time] * 8,
            self.fire,
            self.die,
            self.end_runs,
            self.pause,
            self.resume,
            self.resume,
            self.skip,
            self.trigger,
            self.change_rule,
            self.change_bounds,
            self.change_calendar,
            self.backfill,
        ]
        chosen = self.chance.choice(steps)
        self.told.append(chosen.__name__)
        await chosen()

    async def pass_time(self) -> None:
        self.clock.advance(self.chance.choice([MINUTE / 7, 3 * MINUTE, 11 * MINUTE, HOUR]))
        await self.fire()

    async def fire(self) -> None:
        await fire(self.scheduler)
        await self.end_runs(0.7)

    async def die(self) -> None:
        """A process stores its decision, makes some of what follows from it, and dies."""
        self.clock.advance(self.chance.choice([MINUTE, 20 * MINUTE]))
        firing, now = store_of(self.scheduler).firing, self.clock.now()
        documents = await firing.load([self.name])
        calendars = await store_of(self.scheduler).calendars.in_force(
            {(entry["name"], entry["rev"]) for entry in documents[0].get("calendars", ())}
        )
        ends = await firing.ends(documents)
        mine, _ = await firing.store_decisions(
            [firing.decide(document, calendars, ends, now) for document in documents], now
        )
        if self.chance.random() < 0.5:
            await firing.carry_out(mine, "dead", now)

    async def end_runs(self, share: float = 1.0) -> None:
        for job in await jobs_of(self.db, self.name):
            if job["state"] == "pending" and job.get("ready") and self.chance.random() < share:
                await end_run(self.db, job["_id"], self.chance.choice(["completed", "failed"]), self.clock.now())

    async def pause(self) -> None:
        await self.schedule.pause("why")

    async def resume(self) -> None:
        await self.schedule.resume()

    async def skip(self) -> None:
        with suppress(ScheduleStateError):  # there is none
            await self.schedule.skip_next()

    async def trigger(self) -> None:
        with suppress(ScheduleStateError):  # a run is still going
            await self.schedule.trigger()

    async def change_rule(self) -> None:
        await self.schedule.edit(repeat=self.chance.choice(RULES), overlap="allow")

    async def change_bounds(self) -> None:
        change = self.chance.choice(["end_at", "jitter", "max_runs", "misfire"])
        if change == "end_at":
            await self.schedule.edit(end_at=self.clock.now() + 3 * DAY)
        elif change == "jitter":
            await self.schedule.edit(jitter=self.chance.choice([5, 300]))
        elif change == "max_runs":
            await self.schedule.edit(max_runs=self.chance.choice([25, 60]))
        else:
            await self.schedule.edit(misfire=self.chance.choice(["skip", "latest", "all"]))

    async def change_calendar(self) -> None:
        await self.scheduler.calendars.put("h", self.chance.choice(CALENDARS))

    async def backfill(self) -> None:
        now = self.clock.now()
        await self.schedule.backfill(now - 3 * HOUR, now - HOUR)

    async def is_sound(self) -> None:
        """The ledger and the jobs agree."""
        self.clock.advance(2)
        await fire(self.scheduler)
        entries = await self.schedule.ledger(self.begun_at, self.clock.now() + timedelta(milliseconds=1), limit=5000)
        jobs = await jobs_of(self.db, self.name)
        named = [entry.job_id for entry in entries if entry.outcome in MADE]
        assert sorted(map(str, named)) == sorted(job["_id"] for job in jobs)
        assert len(set(named)) == len(named)
        instants = [entry.at for entry in entries]
        assert instants == sorted(instants)
        firings = [entry.at for entry in entries if entry.outcome != "triggered"]
        assert len(set(firings)) == len(firings)
        assert {entry.outcome for entry in entries} <= {*MADE, "skipped", "missed", "expected"}
        document = await document_of(self.db, self.name)
        assert "making" not in document
        held = [job["_id"] for job in jobs if "waiting_for" in job]
        assert held == [entry["job"] for entry in document.get("queued", ())]
        standing = {entry.job_id for entry in entries if entry.outcome == "missed"} - {None}
        assert standing <= {job["_id"] for job in jobs}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
async def test_whatever_happens_the_ledger_and_the_jobs_agree(
    timed: Scheduler, clock: ManualClock, db: Database, seed: int
) -> None:
    chance = random.Random(seed)
    await timed.calendars.put("h", CALENDARS[0])
    for number in range(3):
        life = Life(timed, clock, db, chance, f"s{number}")
        await life.begin()
        try:
            for _ in range(25):
                await life.step()
            await life.is_sound()
        except Exception as error:
            error.add_note(f"seed {seed}, schedule {number}: {', '.join(life.told)}")
            raise
        await timed.schedules.pause(life.name)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
async def test_whatever_several_processes_do_at_once_the_ledger_and_the_jobs_agree(
    make_scheduler: Make, clock: ManualClock, db: Database, seed: int
) -> None:
    chance = random.Random(seed)
    schedulers = [await make_scheduler(clock=clock).connect() for _ in range(3)]
    await schedulers[0].calendars.put("h", CALENDARS[0])
    lives = [Life(scheduler, clock, db, chance, "s") for scheduler in schedulers]
    await lives[0].begin()
    for life in lives:
        life.schedule = await life.scheduler.schedules.get("s")
    for _ in range(20):
        await asyncio.gather(*(life.step() for life in lives))
    await lives[0].is_sound()
