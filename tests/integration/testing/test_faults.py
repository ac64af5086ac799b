"""Faults on request: a job that fails, a worker that crashes, a reply that is lost."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from harness.inside import inside
from mainspring import ConfigurationError, JobContext, Retry, Scheduler, Unavailable
from mainspring.model.privacy.redaction import DEFAULT_REDACT
from mainspring.testing import Injected, bind, crash_worker, drain, fail_job, lose_reply, run_until_idle, travel

RETRY = Retry(attempts=3, delay=10, backoff="fixed", jitter=0)


@pytest.mark.slow
async def test_a_job_fails_as_often_as_asked_with_the_error_of_the_test(timed: Scheduler) -> None:
    done = []

    @timed.job("charge", retry=RETRY)
    async def charge(card: str) -> None:
        done.append(card)

    await timed.schedule("charge", {"card": "A"})
    with fail_job(timed, charge, TimeoutError("no answer"), times=2) as fault:
        runs = await run_until_idle(timed)
    assert [run.outcome for run in runs] == ["retried", "retried", "completed"]
    assert str(runs[0].error) == "TimeoutError: no answer"
    assert (fault.met, done) == (2, ["A"])
    await timed.schedule("charge", {"card": "B"})
    with fail_job(timed, "charge", after=True):
        await run_until_idle(timed)
    assert done == ["A", "B", "B"]


async def test_a_fault_that_nothing_met_fails_the_test_and_names_what_ran(timed: Scheduler) -> None:
    @timed.job("charge")
    async def charge() -> None: ...

    @timed.job("refund")
    async def refund() -> None: ...

    await timed.schedule("refund")
    expected = r"fail_job\('charge'\) was to happen once, and has happened never\. .* the block: 'refund'\."
    with pytest.raises(AssertionError, match=expected), fail_job(timed, "charge"):
        await drain(timed)
    await timed.schedule("charge")
    assert [run.outcome for run in await drain(timed)] == ["completed"], "the fault is off after its block"
    unknown = r"no handler for 'chargee'\. Did you mean 'charge'\?"
    with pytest.raises(ConfigurationError, match=unknown), fail_job(timed, "chargee"):
        pass
    unknown = r"no reply 'finnish' to lose\. Did you mean 'finish'\?"
    with pytest.raises(ConfigurationError, match=unknown), lose_reply(timed, "finnish"):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.slow
async def test_a_job_whose_worker_crashed_is_run_again_when_the_lease_has_run_out(timed: Scheduler, sync: bool) -> None:
    done = []

    async def steps(ctx: JobContext) -> int:
        await ctx.step("charge", lambda: done.append("charge"))
        await ctx.step("ship", lambda: done.append("ship"))
        return ctx.attempt

    def blocking_steps(ctx: JobContext) -> int:
        ctx.step("charge", lambda: done.append("charge"))  # type: ignore[unused-coroutine]
        ctx.step("ship", lambda: done.append("ship"))  # type: ignore[unused-coroutine]
        return ctx.attempt

    timed.job("order")(blocking_steps if sync else steps)
    job = await timed.schedule("order")
    with crash_worker(timed, "order", after_step="charge"):
        runs = await drain(timed)
    assert [run.outcome for run in runs] == ["lost"]
    assert (await job.refresh()).state == "running"
    assert await drain(timed) == ()
    assert not timed.running
    journey = await travel(timed, by="5m")
    assert [run.outcome for run in journey.runs] == ["completed"]
    job = await job.refresh()
    assert (job.result, [one.outcome for one in job.attempts]) == (2, ["lost", "completed"])
    assert done == ["charge", "ship"]


@pytest.mark.slow
async def test_a_worker_that_crashes_at_the_end_of_a_handler_does_its_work_twice(timed: Scheduler) -> None:
    done = []

    @timed.job("mail")
    async def mail(ctx: JobContext) -> None:
        done.append(ctx.attempt)

    await timed.schedule("mail")
    with crash_worker(timed, "mail", at="start"):
        await drain(timed)
    assert done == []
    with crash_worker(timed, "mail"):
        await travel(timed, by="5m")
    assert done == [2]
    await travel(timed, by="5m")
    assert done == [2, 3]


async def test_a_job_whose_worker_crashed_runs_again_in_the_process_of_the_test(timed: Scheduler) -> None:
    timed.job("pid")(os.getpid)  # it can be imported: a worker in production would run it in a process of its own
    job = await timed.schedule("pid")
    with crash_worker(timed, "pid", at="start"):
        await drain(timed)
    await travel(timed, by="5m")
    assert (await job.refresh()).result == os.getpid()


async def test_a_job_is_stored_although_the_reply_to_schedule_was_lost(timed: Scheduler) -> None:
    @timed.job("greet")
    async def greet() -> None: ...

    with lose_reply(timed, "schedule"), pytest.raises(Unavailable, match="as the test has asked"):
        await timed.schedule("greet", dedupe_key="hello")
    assert (await timed.schedule("greet", dedupe_key="hello")).deduplicated
    assert (await drain(timed)).names == ["greet"]


async def test_a_reply_is_lost_for_the_scheduler_of_the_test_alone(
    timed: Scheduler, make_scheduler: Callable[..., Scheduler]
) -> None:
    other = await make_scheduler().connect()
    with lose_reply(timed, "schedule") as fault:
        assert (await other.schedule("greet")).state == "pending"
        with pytest.raises(Unavailable):
            await timed.schedule("greet")
    assert fault.met == 1
    with pytest.raises(AssertionError, match="was to happen once"), lose_reply(timed, "schedule"):
        pass
    assert (await timed.schedule("greet")).state == "pending", "the reply arrives after the block"


async def test_a_bound_scheduler_can_be_disturbed_after_its_start(uri: str) -> None:
    scheduler = Scheduler("mongodb://127.0.0.1:1/production")
    scheduler.job("greet", retry=1)(lambda: None)
    with bind(scheduler, uri, redact=["name"]):
        await scheduler.start()
        await scheduler.schedule("greet")
        with fail_job(scheduler, "greet"):
            (run,) = await drain(scheduler)
        assert (run.outcome, type(run.exception)) == ("failed", Injected)
        assert scheduler.running, "drain() leaves a worker that ran before"
        await scheduler.stop()
    assert scheduler.uri == "mongodb://127.0.0.1:1/production"
    assert set(DEFAULT_REDACT) <= set(inside(scheduler).core.privacy.redaction("greet").patterns)


async def test_lost_replies_of_the_worker_run_no_job_twice(timed: Scheduler) -> None:
    done = []

    @timed.job("greet")
    async def greet(ctx: JobContext) -> None:
        await ctx.step("say", lambda: done.append("hello"))

    await timed.schedule("greet")
    with lose_reply(timed, "claim"), lose_reply(timed, "step"), lose_reply(timed, "finish"):
        runs = await drain(timed)
    assert ([run.outcome for run in runs], done) == (["completed"], ["hello"])
