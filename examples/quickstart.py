"""The shortest way in: register a function, schedule a job, wait for its result.

    python examples/quickstart.py

With no MAINSPRING_URI in the environment it starts a MongoDB of its own in ./.mainspring.
"""

import asyncio

from mainspring import JobContext, Retry, Scheduler

scheduler = Scheduler()


@scheduler.job("send-email", retry=Retry(attempts=3, delay=5, backoff="exponential"), timeout=30)
async def send_email(ctx: JobContext, to: str, subject: str) -> str:
    ctx.log(f"attempt {ctx.attempt} for {to}")
    return f"sent {subject!r} to {to}"


async def main() -> None:
    async with scheduler:
        job = await scheduler.schedule("send-email", {"to": "a@example.com", "subject": "hi"})
        later = await scheduler.schedule("send-email", {"to": "b@example.com", "subject": "later"}, delay=0.5)
        for job_id in (job.id, later.id):
            done = await scheduler.wait(job_id, timeout=30)
            print(done.state, done.result)


if __name__ == "__main__":
    asyncio.run(main())
