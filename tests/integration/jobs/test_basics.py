"""One job from schedule() to its end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from harness.waiting import eventually
from mainspring import Every, JobContext, Retry, RetryAfter, Scheduler, WaitTimeout


async def test_a_job_runs_and_keeps_its_result(scheduler: Scheduler) -> None:
    @scheduler.job("greet")
    async def greet(ctx: JobContext, who: str) -> str:
        return f"hello {who}"

    await scheduler.start()
    job = await scheduler.schedule("greet", {"who": "you"})
    done = await scheduler.wait(job.id, timeout=60)
    assert (done.state, done.result, done.token, len(done.attempts)) == ("completed", "hello you", 1, 1)


async def test_a_failing_job_is_retried_and_then_a_dead_letter(scheduler: Scheduler) -> None:
    @scheduler.job("fail", retry=Retry(attempts=2, delay=0.01))
    def fail() -> None:
        raise ValueError("no")

    await scheduler.start()
    job = await scheduler.schedule("fail")
    done = await scheduler.wait(job.id, timeout=60)
    assert done.state == "failed"
    assert [attempt.outcome for attempt in done.attempts] == ["retried", "failed"]
    assert done.error is not None and done.error.type == "ValueError" and "no" in (done.error.stack or "")


async def test_a_decorated_function_names_its_job(scheduler: Scheduler) -> None:
    @scheduler.job("send-greeting")
    async def greet(ctx: JobContext, who: str) -> str:
        if who == "all":
            return (await ctx.schedule(greet, {"who": "you"})).name
        return f"hello {who}"

    await scheduler.start()
    jobs = [
        await scheduler.schedule(greet, {"who": "you"}),
        *await scheduler.schedule_bulk([{"name": greet, "data": {"who": "all"}}]),
    ]
    assert {job.name for job in jobs} == {"send-greeting"}
    assert [(await scheduler.wait(job.id, 60)).result for job in jobs] == ["hello you", "send-greeting"]
    schedule = await scheduler.schedule(greet, {"who": "you"}, repeat=Every("1h"))
    assert (schedule.name, schedule.id.startswith("send-greeting")) == ("send-greeting", True)


async def test_a_duration_may_be_text_wherever_one_is_taken(make_scheduler: Callable[..., Scheduler]) -> None:
    scheduler = make_scheduler(lease="1m", keep_finished="2d", timeout="90s")
    settings = scheduler.settings
    assert (settings.lease, settings.keep_finished, settings.timeout) == (60.0, 172_800.0, 90.0)

    @scheduler.job("wait", retry=Retry(delay="250ms"), timeout="1m")
    async def wait() -> None:
        raise RetryAfter("2h")

    await scheduler.start()
    job = await scheduler.schedule("wait", start_within="1d")

    async def is_put_off() -> bool:
        return len((await scheduler.get_job(job.id)).attempts) == 1

    await eventually(is_put_off)
    later = await scheduler.get_job(job.id)
    assert later.run_at - job.run_at >= timedelta(hours=2)
    assert later.start_within == timedelta(days=1)
    delayed = await scheduler.schedule("wait", delay="1h30m")
    assert timedelta(hours=1.4) < delayed.run_at - scheduler.now() < timedelta(hours=1.6)
    with pytest.raises(WaitTimeout):
        await scheduler.wait(delayed.id, "10ms")


async def test_a_scheduler_tells_whether_it_runs_and_by_which_id_its_jobs_name_it(scheduler: Scheduler) -> None:
    @scheduler.job("x")
    async def x() -> None:
        pass

    assert (scheduler.running, scheduler.workers.own_id) == (False, None)
    await scheduler.start()
    done = await scheduler.wait((await scheduler.schedule("x")).id, timeout=60)
    assert scheduler.running
    assert done.attempts[0].worker == scheduler.workers.own_id
    await scheduler.stop()
    assert (scheduler.running, scheduler.workers.own_id) == (False, None)
