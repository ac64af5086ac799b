"""Handlers as objects that schedule their own jobs."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.inside import inside
from mainspring import BadArguments, Job, JobContext, Scheduler
from mainspring.sync import Scheduler as BlockingScheduler

Make = Callable[..., Scheduler]
scheduler_of_module = Scheduler("mongodb://127.0.0.1:1/x")


@scheduler_of_module.job("double")
def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


async def test_a_job_function_schedules_jobs_of_its_handler(scheduler: Scheduler) -> None:
    @scheduler.job("add")
    async def add(ctx: JobContext, a: int, b: int = 1) -> list[Any]:
        return [ctx.name, a + b]

    await scheduler.start()
    jobs: list[Job] = [await add.schedule(a=1, b=2), await add.schedule(1, 2), await add.schedule(1)]
    assert [(await job.wait(60)).result for job in jobs] == [["add", 3], ["add", 3], ["add", 2]]


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated when a function is defined")
async def test_arguments_are_given_by_their_place_where_annotations_are_imported_for_type_checkers_alone(
    scheduler: Scheduler,
) -> None:
    names: dict[str, Any] = {}
    exec(compile("async def x(ctx: JobContext, to: Address): ...", "app.py", "exec", dont_inherit=True), names)
    x = scheduler.job("x")(names["x"])
    assert (await x.schedule("ann@example.com")).data == {"to": "ann@example.com"}


async def test_options_are_added_up_and_leave_the_job_function_as_it_is(scheduler: Scheduler) -> None:
    @scheduler.job("x")
    def x(n: int) -> None: ...

    urgent = x.options(priority=1, delay=60)
    job = await urgent.options(queue="mail").schedule(n=1)
    assert (job.priority, job.queue, job.data) == (1, "mail", {"n": 1})
    assert (await urgent.schedule(n=2)).queue == "default" and (await x.schedule(3)).priority == 5


async def test_arguments_that_do_not_fit_are_refused(scheduler: Scheduler) -> None:
    @scheduler.job("x")
    def x(n: int) -> None: ...

    for args, kwargs in (((1, 2), {}), ((1,), {"n": 1}), ((), {}), ((), {"m": 1}), (("one",), {})):
        with pytest.raises(BadArguments):
            await x.schedule(*args, **kwargs)


async def test_a_job_function_names_its_jobs_and_can_be_declared_and_named_again(scheduler: Scheduler) -> None:
    @scheduler.every("1h", schedule_id="hourly")
    @scheduler.job("b")
    @scheduler.job("a")
    async def work() -> None: ...

    assert sorted(inside(scheduler).handlers.own_names) == ["a", "b"]
    assert (await scheduler.schedule(work)).name in ("a", "b")
    await work()


def test_calling_it_runs_the_function_and_it_looks_like_the_function() -> None:
    assert double(3) == 6
    assert (double.__name__, double.__doc__) == ("double", "Twice the number.")
    assert list(inspect.signature(double).parameters) == ["number"]


def test_it_is_pickled_by_its_name_as_functions_are() -> None:
    assert pickle.loads(pickle.dumps(double)) is double


async def test_a_job_function_has_the_verbs_of_celery(scheduler: Scheduler) -> None:
    @scheduler.job("x")
    def x(n: int, m: int = 0) -> None: ...

    eta = datetime(2030, 1, 1, tzinfo=UTC)
    job = await x.delay(1, m=2)
    assert (job.name, job.data, job.priority) == ("x", {"n": 1, "m": 2}, 5)
    job = await x.apply_async([1], {"m": 2}, eta=eta, priority=9, queue="mail")
    assert (job.data, job.run_at, job.priority, job.queue) == ({"n": 1, "m": 2}, eta, 1, "mail")
    job = await x.options(tags=["a"]).apply_async(kwargs={"n": 1}, countdown=60, expires=90)
    assert (job.tags, job.start_within) == (("a",), timedelta(seconds=30))
    assert job.run_at - job.created_at == timedelta(seconds=60)
    with pytest.raises(BadArguments):
        await x.apply_async([1, 2, 3])


def test_the_verbs_of_celery_block_on_the_blocking_face(uri: str) -> None:
    scheduler = BlockingScheduler(uri)

    @scheduler.job("x")
    def x(n: int) -> None: ...

    try:
        assert [x.delay(1).state, x.apply_async([2], countdown=60).data["n"]] == ["pending", 2]
    finally:
        scheduler.stop()
