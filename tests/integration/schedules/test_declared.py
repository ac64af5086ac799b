"""Schedules that are declared in code, beside their handlers: stored at the start, and watched over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.looking import Database
from harness.waiting import eventually
from mainspring import ConfigurationError, Cron, Every, InvalidCron, InvalidSchedule, Schedule, Scheduler

Make = Callable[..., Scheduler]


async def stored(scheduler: Scheduler) -> list[Schedule]:
    return [schedule async for schedule in scheduler.schedules.find()]


async def restarted(scheduler: Scheduler) -> None:
    """Start, and stop again, as a deploy does."""
    await scheduler.start()
    await scheduler.stop()


async def test_a_decorated_function_is_run_by_its_schedule(scheduler: Scheduler) -> None:
    ran = asyncio.Event()

    @scheduler.every(0.2)
    async def tick() -> None:
        ran.set()

    assert scheduler.workers.handler_names == ["tick"]
    await scheduler.start()
    await asyncio.wait_for(ran.wait(), 60)
    (schedule,) = await stored(scheduler)
    assert (schedule.id, schedule.name, schedule.declared_by) == ("tick", "tick", "default")
    assert [job.name async for job in scheduler.jobs(schedule_id="tick")]


async def test_a_declaration_says_all_that_schedule_takes(scheduler: Scheduler) -> None:
    @scheduler.cron(
        "0 9 * * MON-FRI",
        timezone="Asia/Kolkata",
        gap="skip",
        fold="both",
        name="report",
        data={"to": "a"},
        schedule_id="weekdays",
        queue="slow",
        priority=3,
        tags=["t"],
        timeout=60,
        overlap="skip",
        misfire="skip",
        jitter=60,
        pause_after=5,
        start_at=datetime(2020, 1, 1, tzinfo=UTC),
    )
    async def make_report(to: str) -> None: ...

    await restarted(scheduler)
    (schedule,) = await stored(scheduler)
    assert (schedule.id, schedule.name, schedule.data) == ("weekdays", "report", {"to": "a"})
    assert schedule.rule == Cron("0 9 * * MON-FRI", "Asia/Kolkata", gap="skip", fold="both")
    assert (schedule.queue, schedule.priority, schedule.tags, schedule.pause_after) == ("slow", 3, ("t",), 5)
    assert (schedule.policy.overlap, schedule.policy.misfire) == ("skip", "skip")


async def test_the_decorators_may_stand_in_either_order(scheduler: Scheduler) -> None:
    @scheduler.job("inner", queue="q", priority=2)
    @scheduler.every("5m")
    async def one() -> None: ...

    @scheduler.cron("0 9 * * *")
    @scheduler.job("outer", retry=5)
    async def other() -> None: ...

    @scheduler.every("1h", schedule_id="also")
    @scheduler.every("2h")
    async def twice() -> None: ...

    assert sorted(scheduler.workers.handler_names or []) == ["inner", "outer", "twice"]
    await restarted(scheduler)
    found = {schedule.id: schedule for schedule in await stored(scheduler)}
    assert {key: schedule.name for key, schedule in found.items()} == {
        "also": "twice",
        "inner": "inner",
        "outer": "outer",
        "twice": "twice",
    }
    assert (found["inner"].queue, found["inner"].priority) == ("q", 2)


async def test_the_function_stays_callable_as_it_is(scheduler: Scheduler) -> None:
    @scheduler.every("5m")
    def double(n: int = 2) -> int:
        return 2 * n

    assert double(4) == 8


async def test_what_is_wrong_is_refused_where_it_is_written(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidCron):
        scheduler.cron("99 * * * *")
    with pytest.raises(InvalidSchedule, match="period"):
        scheduler.every("5 parsecs")

    @scheduler.every("5m")
    async def work() -> None: ...

    with pytest.raises(
        ConfigurationError, match="There is already a schedule 'work'; give this one another schedule_id"
    ):
        scheduler.cron("0 9 * * *")(work)
    with pytest.raises(ConfigurationError, match="is already the handler of 'work'; leave out name"):
        scheduler.cron("0 9 * * *", name="other")(work)


def test_an_option_that_does_not_exist_is_refused_where_it_is_written(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidSchedule, match=r"A schedule has no option 'overlp'\. Did you mean 'overlap'"):
        scheduler.every("5m", overlp="skip")  # type: ignore[call-arg]
    with pytest.raises(InvalidSchedule, match="Did you mean 'overlap'"):
        scheduler.cron("0 9 * * *", max_instances=1)  # type: ignore[call-arg]


async def test_a_wrong_option_is_refused_at_the_start(scheduler: Scheduler, db: Database) -> None:
    @scheduler.every("5m")
    async def right() -> None: ...

    @scheduler.every("5m", overlap="skipp")  # type: ignore[arg-type]
    async def work() -> None: ...

    with pytest.raises(InvalidSchedule, match="The declared schedule 'work': overlap must be one of"):
        await scheduler.start()
    assert await db["jobs.schedules"].count_documents({}, hint="_id_") == 0


async def test_a_restart_with_the_same_code_changes_nothing(make_scheduler: Make) -> None:
    def program() -> Scheduler:
        scheduler = make_scheduler()

        @scheduler.every("5m", jitter=3)
        async def work(n: int = 1) -> None: ...

        return scheduler

    await restarted(program())
    (before,) = await stored(program())
    await restarted(program())
    (after,) = await stored(program())
    assert (after.rev, after.next_at, after.rule) == (before.rev, before.next_at, before.rule)


async def test_an_operators_edit_counts_until_the_code_changes(make_scheduler: Make) -> None:
    def program(expression: str) -> Scheduler:
        scheduler = make_scheduler()

        @scheduler.cron(expression)
        async def work() -> None: ...

        return scheduler

    await restarted(program("0 9 * * *"))
    operator = make_scheduler()
    await operator.schedules.edit("work", repeat=Cron("0 11 * * *"), priority=2)
    await operator.schedules.pause("work", "not now")
    await restarted(program("0 9 * * *"))
    (kept,) = await stored(operator)
    assert (kept.rule, kept.priority, kept.state) == (Cron("0 11 * * *"), 2, "paused")
    await restarted(program("0 10 * * *"))
    (changed,) = await stored(operator)
    assert (changed.rule, changed.priority, changed.state) == (Cron("0 10 * * *"), 5, "paused")
    await restarted(program("0 9 * * *"))
    (back,) = await stored(operator)
    assert back.rule == Cron("0 9 * * *")


async def test_a_declared_schedule_that_disappeared_is_reported_and_kept(
    make_scheduler: Make, caplog: pytest.LogCaptureFixture
) -> None:
    first = make_scheduler()
    first.every("5m", schedule_id="gone")(lambda: None)
    first.every("5m", schedule_id="kept")(_work)
    await restarted(first)
    await first.schedule("work", repeat=Every("5m"), schedule_id="by-hand")
    second = make_scheduler()
    second.every("5m", schedule_id="kept")(_work)
    heard: list[str] = []
    second.on("schedule:undeclared", heard.append)
    with caplog.at_level(logging.WARNING, logger="mainspring"):
        await restarted(second)
    assert heard == ["gone"]
    assert "Schedule gone was declared by app 'default' and is no longer in its code; it is kept" in caplog.text
    assert "delete it with `mainspring schedules delete`, or give each program" in caplog.text
    assert [schedule.id for schedule in await stored(second)] == ["by-hand", "gone", "kept"]


async def test_a_declared_schedule_that_disappeared_is_removed_if_asked(
    make_scheduler: Make, caplog: pytest.LogCaptureFixture
) -> None:
    first = make_scheduler(app="shop", undeclared="remove")
    first.every("5m", schedule_id="gone")(_work)
    await restarted(first)
    await first.schedule("work", repeat=Every("5m"), schedule_id="by-hand")
    others = [make_scheduler(app="shop", undeclared="remove") for _ in range(3)]
    heard: list[str] = []
    for scheduler in others:
        scheduler.on("schedule:undeclared", heard.append)
    with caplog.at_level(logging.WARNING, logger="mainspring"):
        await asyncio.gather(*(restarted(scheduler) for scheduler in others))
    assert "gone" in heard and "it is deleted" in caplog.text
    assert [schedule.id for schedule in await stored(first)] == ["by-hand"]


async def test_two_apps_do_not_disturb_each_other(make_scheduler: Make) -> None:
    def program(app: str, *names: str) -> Scheduler:
        scheduler = make_scheduler(app=app, undeclared="remove")
        for name in names:
            scheduler.every("5m", name=name)(_named(name))
        return scheduler

    await restarted(program("shop", "a", "b"))
    await restarted(program("mail", "c"))
    assert [schedule.id for schedule in await stored(program("shop"))] == ["a", "b", "c"]
    await restarted(program("mail"))
    assert [schedule.id for schedule in await stored(program("shop"))] == ["a", "b"]
    await restarted(program("shop", "a"))
    (left,) = await stored(program("shop"))
    assert (left.id, left.declared_by) == ("a", "shop")


async def test_removing_needs_the_name_of_the_app() -> None:
    with pytest.raises(ConfigurationError, match='say which app this is with app="…"'):
        Scheduler("mongodb://127.0.0.1:1/x", undeclared="remove")


async def test_a_declared_schedule_can_be_stored_by_hand_too(make_scheduler: Make) -> None:
    scheduler = make_scheduler()
    scheduler.every("5m", schedule_id="s")(_work)
    await restarted(scheduler)
    await scheduler.schedule("_work", repeat=Every("10m"), schedule_id="s")
    await restarted(scheduler)
    (schedule,) = await stored(scheduler)
    assert schedule.declared_by == "default"
    assert schedule.rule.describe().startswith("every 10 minutes")


async def test_a_worker_that_starts_fires_what_was_declared_before_and_missed(make_scheduler: Make) -> None:
    first = make_scheduler()
    first.every(0.5, name="tick")(_work)
    await restarted(first)
    second = make_scheduler()
    ran = asyncio.Event()

    @second.every(0.5, name="tick")
    async def tick() -> None:
        ran.set()

    await second.start()
    await eventually(ran.is_set)


async def _work() -> None: ...


def _named(name: str) -> Any:
    async def work() -> None: ...

    work.__name__ = name
    return work
