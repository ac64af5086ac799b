"""An application for worker processes.

    mainspring worker examples.worker_app:scheduler --processes 2

and, in another terminal, to give it something to do:

    python examples/worker_app.py
"""

import asyncio
import time

from mainspring import JobContext, Retry, Scheduler

scheduler = Scheduler(concurrency=20)


@scheduler.job("send-email", queue="mail", retry=Retry(attempts=5, delay=10, backoff="exponential"), timeout=30)
async def send_email(ctx: JobContext, to: str) -> str:
    await asyncio.sleep(0.05)
    return f"sent to {to}"


@scheduler.job("thumbnail")
def thumbnail(picture: str) -> str:
    """A sync function runs in a thread and may block."""
    time.sleep(0.05)
    return f"thumbnail of {picture}"


@scheduler.job("count-primes", isolation="process", timeout=60)
def count_primes(below: int) -> int:
    """Heavy work, or work that may crash, gets a process of its own."""
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, below))


@scheduler.on_start
async def warm_up() -> None:
    """Called in each worker process before its first job; open your connections here."""


async def main() -> None:
    jobs = await scheduler.schedule_bulk(
        [
            *({"name": "send-email", "data": {"to": f"user{n}@example.com"}} for n in range(10)),
            *({"name": "thumbnail", "data": {"picture": f"{n}.png"}} for n in range(10)),
            {"name": "count-primes", "data": {"below": 10_000}},
        ]
    )
    for job in jobs:
        done = await scheduler.wait(job.id, timeout=60)
        print(done.name, done.state, done.result)
    await scheduler.stop()


if __name__ == "__main__":
    asyncio.run(main())
