"""Kill workers while jobs run, again and again, and count what became of the jobs.

    python examples/kill_workers.py            100 jobs, 3 kills
    python examples/kill_workers.py 1000 20    more of both

`mainspring worker` runs two worker processes. This program kills one of them with SIGKILL, and then the next one that
runs jobs; the supervisor replaces them. In the end every job is completed, and booked exactly once in its transaction,
though some were begun twice.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from mainspring import Job, JobContext, Scheduler

scheduler = Scheduler(poll_interval=0.2, concurrency=2)
HERE = Path(__file__).resolve().parent


@scheduler.job("book", retry=10)
async def book(ctx: JobContext, number: int) -> None:
    """Write a line into the books, in the job's own transaction."""
    await asyncio.sleep(0.2)
    async with ctx.transaction() as tx:
        await tx.db["books"].insert_one({"number": number}, session=tx.session)


async def kill_one(killed: set[str]) -> None:
    """Kill a worker in the middle of its jobs, with SIGKILL."""
    while True:
        processes = {worker.id: worker.pid for worker in await scheduler.workers.all()}
        async for job in scheduler.jobs(state="running", limit=20):
            if job.worker in processes and job.worker not in killed:
                killed.add(job.worker)
                os.kill(processes[job.worker], signal.SIGKILL)
                print("killed the worker of job", job.data["number"], flush=True)
                return
        await asyncio.sleep(0.02)


async def disturb(jobs: int, kills: int) -> list[Job]:
    """Store jobs, kill workers, and wait until all jobs have ended."""
    stored = await scheduler.schedule_bulk({"name": "book", "data": {"number": number}} for number in range(jobs))
    killed: set[str] = set()
    async with asyncio.timeout(300):  # or all jobs have ended before: take more of them
        for _ in range(kills):
            await kill_one(killed)
    return [await scheduler.wait(job.id, timeout=120) for job in stored]


async def main(jobs: int, kills: int) -> None:
    await scheduler.connect()
    books = scheduler.client.get_default_database("mainspring")["books"]
    await books.drop()
    command = Path(sys.executable).with_name("mainspring")
    environment = {**os.environ, "MAINSPRING_URI": str(scheduler.uri)}
    supervisor = await asyncio.create_subprocess_exec(
        command, "worker", "kill_workers:scheduler", "--processes", "2", cwd=HERE, env=environment
    )
    try:
        done = await disturb(jobs, kills)
    finally:
        supervisor.terminate()
        await supervisor.wait()
    lost = sum(attempt.outcome == "lost" for job in done for attempt in job.attempts)
    print(f"{sum(job.state == 'completed' for job in done)} of {jobs} jobs completed, {lost} attempts were lost")
    numbers = sorted([line["number"] async for line in books.find()])
    print("nothing was lost, nothing was booked twice" if numbers == [*range(jobs)] else f"wrong: {numbers}")
    await scheduler.stop()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:3] or (100, 3))))
