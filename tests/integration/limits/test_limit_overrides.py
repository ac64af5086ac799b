"""Limits set at run time: they win over the declared ones until they are removed, in every process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.inside import inside
from harness.looking import Database, count_jobs
from harness.waiting import eventually
from mainspring import ConfigurationError, Job, Limit, Rate, Scheduler, Unavailable
from mainspring.model.limits.controls import Target
from mainspring.model.limits.limits import JobLimits

Make = Callable[..., Scheduler]


class Crowd:
    """Jobs that run until they are let go, one by one; knows how many there are at once."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.done = 0
        self._go_on = asyncio.Semaphore(0)

    def let_go(self, number: int) -> None:
        for _ in range(number):
            self._go_on.release()

    async def stay(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self._go_on.acquire()
        finally:
            self.running -= 1
        self.done += 1

    def handle(self, *schedulers: Scheduler, name: str = "x", **options: Any) -> None:
        for scheduler in schedulers:

            @scheduler.job(name, **options)
            async def x(tenant: str = "") -> None:
                await self.stay()


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


async def schedule(scheduler: Scheduler, number: int, **data: Any) -> list[Job]:
    return [await scheduler.schedule("x", data) for _ in range(number)]


def knows(*schedulers: Scheduler) -> Callable[[], bool]:
    return lambda: all(inside(scheduler).limits.overrides for scheduler in schedulers)


def forgot(*schedulers: Scheduler) -> Callable[[], bool]:
    return lambda: not any(inside(scheduler).limits.overrides for scheduler in schedulers)


def without_chore(scheduler: Scheduler, name: str) -> None:
    """Let nothing but what is tested see to it."""
    inside(scheduler).worker.chores = [chore for chore in inside(scheduler).worker.chores if chore.name != name]


async def all_done(scheduler: Scheduler, jobs: list[Job], crowd: Crowd) -> None:
    crowd.let_go(len(jobs))
    for job in jobs:
        assert (await scheduler.wait(job.id, 60)).state == "completed"


@pytest.mark.slow
async def test_a_raised_limit_lets_more_jobs_run_in_all_processes(make_scheduler: Make, crowd: Crowd) -> None:
    one, two, other = make_scheduler(), make_scheduler(), make_scheduler()
    crowd.handle(one, two, concurrency=1)
    await asyncio.gather(one.start(), two.start())
    jobs = await schedule(other, 6)
    await eventually(lambda: crowd.running == 1)
    override = await other.limits.set(name="x", concurrency=4, reason="month's end", actor="anna")
    assert (override.concurrency, override.rate, override.reason, override.actor) == (
        Limit(4),
        None,
        "month's end",
        "anna",
    )
    await eventually(lambda: crowd.running == 4)
    await all_done(other, jobs, crowd)
    assert crowd.most == 4


@pytest.mark.slow
async def test_a_lowered_limit_counts_as_soon_as_there_are_fewer_again(make_scheduler: Make, crowd: Crowd) -> None:
    one, two, other = make_scheduler(), make_scheduler(), make_scheduler()
    crowd.handle(one, two, concurrency=6)
    await asyncio.gather(one.start(), two.start())
    jobs = await schedule(other, 12)
    await eventually(lambda: crowd.running == 6)
    await other.limits.set(name="x", concurrency=2)
    await eventually(knows(one, two))
    crowd.let_go(6)
    await eventually(lambda: crowd.done == 6 and crowd.running == 2)
    crowd.most = 0
    await all_done(other, jobs, crowd)
    assert crowd.most <= 2


@pytest.mark.slow
async def test_the_declared_limit_counts_again_when_the_override_is_removed(make_scheduler: Make, crowd: Crowd) -> None:
    one, two, other = make_scheduler(), make_scheduler(), make_scheduler()
    crowd.handle(one, two, concurrency=1)
    await other.limits.set(name="x", concurrency=3)
    await asyncio.gather(one.start(), two.start())
    jobs = await schedule(other, 8)
    await eventually(lambda: crowd.running == 3)
    removed = await other.limits.remove(name="x")
    assert removed is not None and removed.concurrency == Limit(3)
    assert await other.limits.remove(name="x") is None
    await eventually(forgot(one, two))
    crowd.let_go(3)
    await eventually(lambda: crowd.done == 3 and crowd.running == 1)
    crowd.most = 0
    await all_done(other, jobs, crowd)
    assert crowd.most == 1


async def test_a_limit_raised_by_somebody_who_died_then_counts_too(make_scheduler: Make, crowd: Crowd) -> None:
    """He could not let the others look whether there is room now."""
    worker, other = make_scheduler(), make_scheduler()
    crowd.handle(worker, concurrency=1)
    await worker.start()
    jobs = await schedule(other, 3)
    await eventually(lambda: crowd.running == 1)
    store = await inside(other).store()
    await store.controls.put_limit(Target("name", "x"), JobLimits(Limit(3)), "", None)
    await eventually(lambda: crowd.running == 3)
    await all_done(other, jobs, crowd)


@pytest.mark.parametrize("remover", ["a process with the handler", "one without", "nobody"])
async def test_when_a_limit_is_gone_altogether_those_in_its_line_go_on(
    make_scheduler: Make, crowd: Crowd, db: Database, remover: str
) -> None:
    worker, other = make_scheduler(), make_scheduler()
    crowd.handle(worker)
    if remover == "a process with the handler":
        crowd.handle(other)
    await other.limits.set(name="x", concurrency=Limit(1, key="tenant"))
    await worker.start()
    without_chore(worker, "dissolve_wait_lists")
    jobs = await schedule(other, 3, tenant="acme") + await schedule(other, 3, tenant="bravo")
    await eventually(lambda: crowd.running == 2)
    await eventually(lambda: count_jobs(db, line="c:name:x:tenant=acme"))
    if remover == "nobody":
        await db["jobs.controls"].delete_one({"_id": "limit:name:x"})
    else:
        await other.limits.remove(name="x")
    await eventually(lambda: crowd.running == 6)
    await all_done(other, jobs, crowd)


@pytest.mark.slow
async def test_a_limit_by_another_key_dissolves_the_lines_of_the_first(
    make_scheduler: Make, crowd: Crowd, db: Database
) -> None:
    """What runs already was let through by the other gates, and is not counted at the new ones."""
    worker, other = make_scheduler(), make_scheduler()
    crowd.handle(worker, concurrency=1)
    await worker.start()
    jobs = await schedule(other, 4, tenant="acme") + await schedule(other, 4, tenant="bravo")
    await eventually(lambda: count_jobs(db, line="c:name:x"))
    await other.limits.set(name="x", concurrency=Limit(2, key="tenant"))
    await eventually(lambda: crowd.running == 5)
    assert await count_jobs(db, line="c:name:x") == 0
    await eventually(lambda: count_jobs(db, line="c:name:x:tenant=bravo"))
    await other.limits.remove(name="x")
    await eventually(lambda: count_jobs(db, line="c:name:x"))
    await all_done(other, jobs, crowd)


async def test_the_limit_of_a_queue_can_be_set_at_run_time(make_scheduler: Make, crowd: Crowd) -> None:
    worker, other = make_scheduler(), make_scheduler()
    crowd.handle(worker)
    await worker.start()
    await other.limits.set(queue="default", concurrency=2)
    await eventually(knows(worker))
    jobs = await schedule(other, 5)
    await eventually(lambda: crowd.running == 2)
    await other.limits.remove(queue="default")
    await eventually(lambda: crowd.running == 5)
    await all_done(other, jobs, crowd)
    assert crowd.most == 5


async def test_a_higher_rate_lets_those_start_that_would_have_waited_for_an_hour(
    make_scheduler: Make, crowd: Crowd
) -> None:
    worker, other = make_scheduler(), make_scheduler()
    crowd.handle(worker, rate="1/hour")
    await worker.start()
    jobs = await schedule(other, 5)
    await eventually(lambda: crowd.running == 1)
    await other.limits.set(name="x", rate="1000/second")
    await eventually(lambda: crowd.running == 5)
    await all_done(other, jobs, crowd)


async def test_what_an_override_does_not_give_stays_as_declared(make_scheduler: Make, crowd: Crowd) -> None:
    worker, other = make_scheduler(), make_scheduler()
    crowd.handle(worker, concurrency=2, rate="1000/second")
    await other.limits.set(name="x", rate="500/second")
    await worker.start()
    jobs = await schedule(other, 5)
    await eventually(lambda: crowd.running == 2)
    await all_done(other, jobs, crowd)
    assert crowd.most == 2


async def test_a_job_in_the_line_of_an_override_can_be_cancelled_at_once(make_scheduler: Make, crowd: Crowd) -> None:
    worker, other = make_scheduler(), make_scheduler()
    crowd.handle(worker)
    await other.limits.set(name="x", concurrency=1)
    await worker.start()
    jobs = await schedule(other, 2)

    async def in_line() -> Job | None:
        found = [await other.get_job(job.id) for job in jobs]
        return next((job for job in found if job.waiting_for is not None), None)

    waiting: Job = await eventually(in_line)
    assert (await other.cancel(waiting.id)).state == "cancelled"
    crowd.let_go(2)
    await eventually(lambda: crowd.done == 1)


async def test_a_limit_that_is_raised_while_jobs_are_put_in_line_lets_them_run(
    make_scheduler: Make, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, other = make_scheduler(), make_scheduler()
    crowd.handle(worker, concurrency=1)
    gates = (await inside(worker).store()).gates
    add_to_wait_lists, raised = gates.add_to_wait_lists, asyncio.Event()

    async def raise_and_put_in_line(*args: Any) -> Any:
        if not raised.is_set():
            raised.set()
            await other.limits.set(name="x", concurrency=2)
            await eventually(knows(worker))
        return await add_to_wait_lists(*args)

    monkeypatch.setattr(gates, "add_to_wait_lists", raise_and_put_in_line)
    jobs = await schedule(other, 3)
    await worker.start()
    await eventually(lambda: crowd.running == 2)
    assert raised.is_set()
    await all_done(other, jobs, crowd)


async def test_limits_tells_what_is_declared_what_overrides_it_and_what_is_used(
    make_scheduler: Make, crowd: Crowd
) -> None:
    worker, other = make_scheduler(), make_scheduler()
    crowd.handle(worker, concurrency=1)
    worker.queues.limit("mail", rate="5/s")
    worker.job("free")(lambda: None)
    await worker.start()
    jobs = await schedule(other, 5)
    await eventually(lambda: crowd.running == 1)
    override = await other.limits.set(name="x", concurrency=2, actor="anna")
    await eventually(lambda: crowd.running == 2)

    async def settled() -> Any:
        status = (await worker.limits.all())[0]
        return status if [(use.taken, use.waiting) for use in status.uses] == [(2, 3)] else None

    status = await eventually(settled)
    assert (status.scope, status.target, status.concurrency, status.rate) == ("name", "x", Limit(2), None)
    assert (status.declared.concurrency, status.override) == (Limit(1), override)
    assert [use.gate for use in status.uses] == ["c:name:x"]
    assert [(one.scope, one.target, one.rate) for one in await worker.limits.all()][1:] == [
        ("queue", "mail", Rate("5/s"))
    ]
    assert (
        await other.limits.all() == await worker.limits.all()
    )  # which has no handlers: the worker tells what it declares
    await all_done(other, jobs, crowd)


async def test_where_workers_declare_different_limits_the_widest_is_told_and_none_of_the_dead(
    make_scheduler: Make, crowd: Crowd
) -> None:
    first, second, other = make_scheduler(), make_scheduler(), make_scheduler()
    crowd.handle(first, concurrency=1, rate="5/s")
    crowd.handle(second, concurrency=3)
    await first.start()
    await second.start()
    (told,) = await other.limits.all()
    assert (told.concurrency, told.rate) == (Limit(3), Rate("5/s"))
    await second.stop()
    (told,) = await other.limits.all()
    assert (told.concurrency, told.rate) == (Limit(1), Rate("5/s"))
    await first.stop()
    assert await other.limits.all() == []


async def test_limits_by_key_tell_how_each_value_uses_them(make_scheduler: Make, crowd: Crowd) -> None:
    worker, other = make_scheduler(), make_scheduler()
    crowd.handle(worker, concurrency=Limit(1, key="tenant"))
    await worker.start()
    jobs = await schedule(other, 2, tenant="acme") + await schedule(other, 1, tenant="bravo")
    await eventually(lambda: crowd.running == 2)

    async def settled() -> bool:
        (status,) = await worker.limits.all()
        found = {use.gate: (use.taken, use.waiting) for use in status.uses}
        return found == {"c:name:x:tenant=acme": (1, 1), "c:name:x:tenant=bravo": (1, 0)}

    await eventually(settled)
    await all_done(other, jobs, crowd)


async def test_a_limit_that_was_taken_out_of_the_code_leaves_nobody_behind(
    make_scheduler: Make, crowd: Crowd, db: Database
) -> None:
    before, after = make_scheduler(), make_scheduler()
    crowd.handle(before, concurrency=Limit(1, key="tenant"))
    await before.start()
    jobs = await schedule(before, 4, tenant="acme")
    await eventually(lambda: crowd.running == 1)
    await eventually(lambda: count_jobs(db, line="c:name:x:tenant=acme"))
    await before.stop(graceful=False)
    crowd.handle(after)
    await after.start()
    await eventually(lambda: crowd.running == 4)
    await all_done(after, jobs, crowd)


@pytest.mark.slow
async def test_a_worker_without_the_handler_leaves_a_limits_line_alone(
    make_scheduler: Make, crowd: Crowd, db: Database
) -> None:
    worker, stranger = make_scheduler(), make_scheduler()
    crowd.handle(worker, concurrency=1)
    await worker.start()
    jobs = await schedule(worker, 3)
    await eventually(lambda: crowd.running == 1)
    await eventually(lambda: count_jobs(db, line="c:name:x"))
    crowd.handle(stranger, name="y")
    await stranger.start()
    (chore,) = [one for one in inside(stranger).worker.chores if one.name == "dissolve_wait_lists"]
    await chore.run_once()
    assert await count_jobs(db, line="c:name:x") > 0
    await all_done(worker, jobs, crowd)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"concurrency": 1}, "either name=… .* or queue=…"),
        ({"name": "x"}, "Give the new limit"),
        ({"name": "x", "concurrency": 0}, "A limit must be a whole number from 1"),
        ({"name": "x", "concurrency": "2"}, "concurrency must be a number or a Limit"),
        ({"name": "x", "rate": "often"}, "A rate is text such as"),
        ({"name": "x", "concurrency": 1, "reason": None}, "A reason is a text"),
        ({"name": "x", "concurrency": 1, "actor": 5}, "an actor must be printable text"),
    ],
    ids=str,
)
async def test_an_override_that_makes_no_sense_is_refused_and_changes_nothing(
    scheduler: Scheduler, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        await scheduler.limits.set(**arguments)
    assert await scheduler.limits.all() == []


async def test_waiting_jobs_are_told_of_a_changed_limit_after_all_when_the_first_try_fails(
    make_scheduler: Make, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, admin = make_scheduler(), make_scheduler()
    crowd.handle(worker, concurrency=1)
    await worker.start()
    gates, asked = (await inside(worker).store()).gates, list[str]()
    open_all = gates.open_all

    async def fail_first(form: str) -> None:
        asked.append(form)
        if len(asked) == 1:
            raise Unavailable("The primary stepped down.")
        await open_all(form)

    monkeypatch.setattr(gates, "open_all", fail_first)
    await admin.limits.set(name="x", concurrency=3)
    await eventually(lambda: asked == ["c:name:x", "c:name:x"])
