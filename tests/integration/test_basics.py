"""One job from schedule() to its end."""

from __future__ import annotations

from mainspring import JobContext, Retry, Scheduler


async def test_a_job_runs_and_keeps_its_result(scheduler: Scheduler) -> None:
    @scheduler.job("greet")
    async def greet(ctx: JobContext, who: str) -> str:
        return f"hello {who}"

    await scheduler.start()
    job = await scheduler.schedule("greet", {"who": "you"})
    done = await scheduler.wait(job.id, timeout=10)
    assert (done.state, done.result, done.token, len(done.attempts)) == ("completed", "hello you", 1, 1)


async def test_a_failing_job_is_retried_and_then_a_dead_letter(scheduler: Scheduler) -> None:
    @scheduler.job("fail", retry=Retry(attempts=2, delay=0.01))
    def fail() -> None:
        raise ValueError("no")

    await scheduler.start()
    job = await scheduler.schedule("fail")
    done = await scheduler.wait(job.id, timeout=10)
    assert done.state == "failed"
    assert [attempt.outcome for attempt in done.attempts] == ["retried", "failed"]
    assert done.error is not None and done.error.type == "ValueError" and "no" in (done.error.stack or "")
