"""Circuit breakers: they open by error rate, let single probes through, and close again; or by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database, count_jobs
from harness.waiting import eventually
from mainspring import Breaker, BreakerStatus, Cancel, ConfigurationError, Job, Retry, Scheduler, Snooze
from mainspring.clock import ManualClock
from mainspring.model.limits.controls import Target

Make = Callable[..., Scheduler]
LONG = Breaker(errors=0.5, window=60, minimum=4, open_for=600)
SHORT = Breaker(errors=0.5, window=60, minimum=4, open_for=0.3)


class Service:
    """What the jobs need, and what may be down. Knows what it was called for, and how many calls there were at once."""

    def __init__(self) -> None:
        self.up = True
        self.calls: list[int] = []
        self.at_once = 0
        self.most = 0
        self.pause = 0.0

    def handle(self, *schedulers: Scheduler, name: str = "x", retry: Any = 1, **options: Any) -> None:
        for scheduler in schedulers:

            @scheduler.job(name, retry=retry, **options)
            async def x(i: int = 0) -> None:
                await self.call(i)

    async def call(self, i: int) -> None:
        self.calls.append(i)
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await asyncio.sleep(self.pause)
            if not self.up:
                raise ConnectionError("down")
        finally:
            self.at_once -= 1


@pytest.fixture
def service() -> Service:
    return Service()


async def fail(scheduler: Scheduler, service: Service, number: int) -> None:
    """Let so many jobs fail."""
    service.up = False
    jobs = [await scheduler.schedule("x", {"i": -1}) for _ in range(number)]
    for job in jobs:
        await scheduler.wait(job.id, 60)


async def status(scheduler: Scheduler) -> BreakerStatus:
    (found,) = await scheduler.limits.breakers()
    return found


async def becomes(scheduler: Scheduler, *states: str) -> BreakerStatus:
    async def look() -> BreakerStatus | None:
        return next((found for found in await scheduler.limits.breakers() if found.state in states), None)

    found: BreakerStatus = await eventually(look)
    return found


def listen(*schedulers: Scheduler) -> list[tuple[str, BreakerStatus]]:
    heard: list[tuple[str, BreakerStatus]] = []
    for scheduler in schedulers:
        for event in ("breaker:open", "breaker:probe", "breaker:close"):
            scheduler.on(event, lambda status, event=event: heard.append((event, status)))
    return heard


async def in_line(scheduler: Scheduler, *jobs: Job) -> Job:
    async def look() -> Job | None:
        found = [await scheduler.get_job(job.id) for job in jobs]
        return found[0] if all(job.waiting_for for job in found) else None

    found: Job = await eventually(look)
    return found


@pytest.mark.slow
async def test_a_breaker_opens_by_error_rate_and_holds_its_jobs_back_everywhere(
    make_scheduler: Make, service: Service
) -> None:
    one, two, other = make_scheduler(), make_scheduler(), make_scheduler()
    service.handle(one, two, breaker=LONG)
    heard = listen(one, two)
    for worker in (one, two):
        worker.job("y")(lambda: None)
        await worker.start()
    await fail(other, service, 4)
    opened = await becomes(other, "open")
    assert (opened.scope, opened.target, opened.good, opened.bad, opened.actor) == ("name", "x", 0, 4, None)
    assert opened.reason == "4 of the 4 attempts of the last 60 s failed."
    assert opened.open_until is not None and opened.since is not None and opened.rule == LONG
    assert (opened.open_until - opened.since).total_seconds() == 600
    await eventually(lambda: inside(one).limits.closures and inside(two).limits.closures)
    calls = len(service.calls)
    jobs = [await other.schedule("x") for _ in range(5)]
    waiting = await in_line(other, *jobs)
    assert waiting.waiting_for is not None
    assert (
        waiting.waiting_for.note == "The breaker of the job 'x' is open: 4 of the 4 attempts of the last 60 s failed."
    )
    await other.wait((await other.schedule("y")).id, 60)
    assert len(service.calls) == calls
    assert [(event, now.state) for event, now in heard] == [("breaker:open", "open")]


@pytest.mark.slow
async def test_after_a_while_one_probe_is_let_through_and_closes_the_breaker(
    make_scheduler: Make, service: Service, db: Database
) -> None:
    one, two, other = make_scheduler(), make_scheduler(), make_scheduler()
    service.handle(one, two, breaker=SHORT)
    heard = listen(one, two)
    await asyncio.gather(one.start(), two.start())
    await fail(other, service, 4)
    await becomes(other, "open", "half_open")
    service.up = True
    jobs = [await other.schedule("x", {"i": i}) for i in range(20)]
    for job in jobs:
        assert (await other.wait(job.id, 60)).state == "completed"
    closed = await status(other)
    assert (closed.state, closed.reason, closed.open_until) == ("closed", "", None)
    assert closed.bad == 0
    assert [event for event, _ in heard] == ["breaker:open", "breaker:probe", "breaker:close"]
    assert await count_jobs(db, line={"$exists": True}) == 0


@pytest.mark.slow
async def test_probes_run_one_at_a_time_in_all_processes_together_and_a_bad_one_opens_the_breaker_again(
    make_scheduler: Make, service: Service
) -> None:
    one, two, other = make_scheduler(), make_scheduler(), make_scheduler()
    service.handle(one, two, breaker=SHORT)
    heard = listen(one, two)
    await asyncio.gather(one.start(), two.start())
    await fail(other, service, 4)
    await becomes(other, "open", "half_open")
    service.most, service.pause = 0, 0.2
    before = len(service.calls)
    jobs = [await other.schedule("x", {"i": i}) for i in range(12)]
    await eventually(lambda: len(service.calls) >= before + 3)
    assert service.most == 1
    assert len([event for event, _ in heard if event == "breaker:open"]) >= 3
    assert "A probe has failed." in {now.reason for event, now in heard if event == "breaker:open"}
    service.up = True
    for job in jobs:
        await other.wait(job.id, 60)
    assert (await becomes(other, "closed")).good >= 0
    states = [now.state for _, now in heard]
    assert all((states[i], states[i + 1]) != ("half_open", "half_open") for i in range(len(states) - 1))


@pytest.mark.slow
async def test_a_breaker_stays_closed_below_its_error_rate_and_below_its_minimum(
    scheduler: Scheduler, service: Service
) -> None:
    service.handle(scheduler, breaker=Breaker(errors=0.6, minimum=4))
    await scheduler.start()
    await fail(scheduler, service, 3)

    async def counted(good: int, bad: int) -> bool:
        now = await status(scheduler)
        return (now.good, now.bad, now.state) == (good, bad, "closed")

    await eventually(lambda: counted(0, 3))
    service.up = True
    for _ in range(3):
        await scheduler.wait((await scheduler.schedule("x")).id, 60)
    await eventually(lambda: counted(3, 3))
    await fail(scheduler, service, 2)
    assert (await becomes(scheduler, "open")).bad == 5


async def test_only_ends_that_tell_of_success_or_failure_count(scheduler: Scheduler) -> None:
    ends: list[Exception] = [Snooze(0), Snooze(0), ValueError("again"), Cancel("no")]

    @scheduler.job("x", retry=Retry(attempts=9, delay=0), breaker=LONG)
    async def x() -> None:
        if ends:
            raise ends.pop(0)

    await scheduler.start()
    await scheduler.wait((await scheduler.schedule("x")).id, 60)
    await scheduler.wait((await scheduler.schedule("x")).id, 60)

    async def counted() -> bool:
        now = await status(scheduler)
        return (now.good, now.bad) == (1, 1)

    await eventually(counted)


@pytest.mark.slow
async def test_the_counts_of_all_workers_together_open_a_breaker(make_scheduler: Make, service: Service) -> None:
    one, two = make_scheduler(queues=["one"]), make_scheduler(queues=["two"])
    service.up = False
    service.handle(one, two, breaker=LONG)
    await asyncio.gather(one.start(), two.start())
    for queue in ("one", "two") * 2:
        await one.wait((await one.schedule("x", queue=queue)).id, 60)
    assert (await becomes(one, "open")).bad == 4


@pytest.mark.slow
async def test_a_queues_breaker_holds_back_all_its_jobs(scheduler: Scheduler, service: Service) -> None:
    scheduler.queues.limit("default", breaker=SHORT)
    service.handle(scheduler)
    service.handle(scheduler, name="y")
    await scheduler.start()
    await fail(scheduler, service, 4)
    opened = await becomes(scheduler, "open", "half_open")
    assert (opened.scope, opened.target) == ("queue", "default")
    job = await scheduler.schedule("y")
    service.up = True
    assert (await scheduler.wait(job.id, 60)).state == "completed"
    await becomes(scheduler, "closed")


@pytest.mark.slow
async def test_a_probe_without_a_word_makes_way_for_the_next(scheduler: Scheduler) -> None:
    """A snooze tells neither of success nor of failure."""
    ends: list[Exception | None] = [ValueError()] * 4 + [Snooze(60), Cancel("no")]

    @scheduler.job("x", retry=1, breaker=SHORT)
    async def x() -> None:
        if ends:
            end = ends.pop(0)
            if end is not None:
                raise end

    await scheduler.start()
    for _ in range(4):
        await scheduler.wait((await scheduler.schedule("x")).id, 60)
    await becomes(scheduler, "open", "half_open")
    jobs = [await scheduler.schedule("x") for _ in range(3)]
    await becomes(scheduler, "closed")
    await eventually(lambda: not ends)
    assert (await scheduler.wait(jobs[2].id, 60)).state == "completed"


@pytest.mark.slow
async def test_a_probe_whose_worker_stops_makes_way_for_the_next(make_scheduler: Make, service: Service) -> None:
    one, other = make_scheduler(), make_scheduler()
    service.handle(one, breaker=SHORT)
    await one.start()
    await fail(other, service, 4)
    await becomes(other, "open", "half_open")
    service.pause = 60
    job = await other.schedule("x", {"i": 7})
    await eventually(lambda: service.calls[-1] == 7)
    await one.stop(graceful=False)
    service.pause, service.up = 0.0, True
    two = make_scheduler()
    service.handle(two, breaker=SHORT)
    await two.start()
    assert (await other.wait(job.id, 60)).state == "completed"
    await becomes(other, "closed")


@pytest.mark.slow
async def test_a_breaker_is_worked_by_hand_also_where_none_is_declared(
    make_scheduler: Make, service: Service, db: Database
) -> None:
    worker, other = make_scheduler(), make_scheduler()
    service.handle(worker)
    heard = listen(other)
    await worker.start()
    opened = await other.limits.open_breaker(name="x", reason="they asked us to", actor="anna")
    assert (opened.state, opened.open_until, opened.reason, opened.actor) == ("open", None, "they asked us to", "anna")
    await eventually(lambda: inside(worker).limits.closures)
    job = await other.schedule("x")
    await in_line(other, job)
    assert (await other.limits.close_breaker(name="x", actor="bert")).actor == "bert"
    assert (await other.wait(job.id, 60)).state == "completed"
    assert (await other.limits.close_breaker(name="x")).state == "closed"
    assert (await other.limits.close_breaker(name="never-heard-of")).state == "closed"
    assert [event for event, _ in heard] == ["breaker:open", "breaker:close"]
    assert await count_jobs(db, line={"$exists": True}) == 0


@pytest.mark.slow
async def test_a_breaker_opened_by_hand_for_a_time_lets_probes_through_then(
    scheduler: Scheduler, service: Service
) -> None:
    service.handle(scheduler)
    await scheduler.start()
    service.up = False
    await scheduler.limits.open_breaker(name="x", open_for=0.3)
    await eventually(lambda: inside(scheduler).limits.closures)
    probe = await scheduler.schedule("x")
    assert (await scheduler.wait(probe.id, 60)).state == "failed"
    service.up = True
    job = await scheduler.schedule("x")
    assert (await scheduler.wait(job.id, 60)).state == "completed"
    assert (await becomes(scheduler, "closed")).rule is None


async def test_a_job_behind_an_open_breaker_can_be_cancelled_at_once(scheduler: Scheduler, service: Service) -> None:
    service.handle(scheduler)
    await scheduler.start()
    await scheduler.limits.open_breaker(name="x")
    await eventually(lambda: inside(scheduler).limits.closures)
    job = await scheduler.schedule("x")
    await in_line(scheduler, job)
    assert (await scheduler.cancel(job.id)).state == "cancelled"
    await scheduler.limits.close_breaker(name="x")
    other = await scheduler.schedule("x", {"i": 2})
    await scheduler.wait(other.id, 60)
    assert service.calls == [2]


async def test_a_breaker_that_was_closed_by_somebody_who_died_then_leaves_nobody_behind(
    make_scheduler: Make, service: Service, db: Database
) -> None:
    worker, other = make_scheduler(), make_scheduler()
    service.handle(worker)
    await worker.start()
    await other.limits.open_breaker(name="x")
    await eventually(lambda: inside(worker).limits.closures)
    job = await other.schedule("x")
    await in_line(other, job)
    store = await inside(other).store()
    await store.controls.close_breaker(Target("name", "x"), "", None)  # and nothing else
    assert (await other.wait(job.id, 60)).state == "completed"


async def test_what_is_declared_is_shown_before_anything_was_counted(make_scheduler: Make, service: Service) -> None:
    scheduler, other = make_scheduler(), make_scheduler()
    service.handle(scheduler, breaker=LONG)
    scheduler.queues.limit("mail", breaker=SHORT)
    declared = [("name", "x", "closed", LONG), ("queue", "mail", "closed", SHORT)]

    async def told(to: Scheduler) -> list[tuple[str, str, str, Breaker | None]]:
        return [(one.scope, one.target, one.state, one.rule) for one in await to.limits.breakers()]

    assert (await told(scheduler), await told(other)) == (declared, [])
    await scheduler.start()
    assert await told(other) == declared  # the worker tells what its code declares


async def test_attempts_are_forgotten_when_the_window_has_passed(make_scheduler: Make) -> None:
    clock = ManualClock()
    store = await inside(make_scheduler(clock=clock)).store()
    target, rule = Target("name", "x"), Breaker(errors=0.5, window=60, minimum=10, open_for=30)
    for good, bad in ((0, 9), (0, 0)):
        moved = await store.controls.count(target, rule, good, bad)
        assert (moved.status.bad, moved.moved, moved.status.state) == (9, False, "closed")
        clock.advance(30)
    clock.advance(6)
    moved = await store.controls.count(target, rule, 0, 9)
    assert (moved.status.bad, moved.status.state) == (9, "closed")
    clock.advance(6)
    moved = await store.controls.count(target, rule, 0, 1)
    assert (moved.status.bad, moved.moved, moved.status.state) == (10, True, "open")
    again = await store.controls.count(target, rule, 5, 5)
    assert (again.status.bad, again.status.good, again.moved) == (10, 0, False)  # these were started before it opened


async def test_a_breaker_moves_by_the_servers_clock_and_each_move_is_made_once(make_scheduler: Make) -> None:
    clock = ManualClock()
    store = await inside(make_scheduler(clock=clock)).store()
    target, rule = Target("queue", "mail"), Breaker(minimum=1, open_for=30)
    moves = await asyncio.gather(*(store.controls.count(target, rule, 0, 1) for _ in range(8)))
    assert [one.moved for one in moves].count(True) == 1
    clock.advance(29.9)
    assert not (await store.controls.half_open(target)).moved
    assert not (await store.controls.judge(target, good=True)).moved  # the word of no probe
    clock.advance(0.1)
    moves = await asyncio.gather(*(store.controls.half_open(target) for _ in range(8)))
    assert [one.moved for one in moves].count(True) == 1
    moves = await asyncio.gather(*(store.controls.judge(target, good=False) for _ in range(8)))
    assert [one.moved for one in moves].count(True) == 1
    clock.advance(30)
    assert (await store.controls.half_open(target)).moved
    closed = await store.controls.judge(target, good=True)
    assert (closed.moved, closed.status.state, closed.status.bad, closed.status.reason) == (True, "closed", 0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either name=… .* or queue=…"),
        ({"name": "x", "open_for": 0}, "open_for must be from 0.1 seconds"),
        ({"name": "x", "open_for": "long"}, "open_for=.long. is not a duration"),
        ({"name": "x", "reason": 1}, "A reason is a text"),
        ({"name": "x", "actor": ""}, "an actor must be printable text"),
    ],
    ids=str,
)
async def test_opening_a_breaker_in_a_way_that_makes_no_sense_is_refused_and_changes_nothing(
    scheduler: Scheduler, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        await scheduler.limits.open_breaker(**arguments)
    assert await scheduler.limits.breakers() == []
