"""Watch a crash and its recovery: two worker processes run a job each, one worker is killed with SIGKILL in the middle
of its job, and the other one takes that job over when the lease has run out.

    python examples/crash_recovery.py
"""

import asyncio
import os
import signal
import sys
import time

from mainspring import JobContext, Scheduler

# A short lease, so that the takeover can be watched; the default is a minute.
scheduler = Scheduler(lease=3, poll_interval=0.2, concurrency=1)


@scheduler.job("import-orders")
async def import_orders(ctx: JobContext, shop: str) -> str:
    for percent in range(0, 100, 10):
        ctx.progress(percent)
        await asyncio.sleep(0.2)
    return f"{shop} was imported at attempt {ctx.attempt}"


async def main() -> None:
    workers = [await start_worker(), await start_worker()]
    jobs = [await scheduler.schedule("import-orders", {"shop": shop}) for shop in ("north", "south")]
    victim, _ = [await holder_of(job.id) for job in jobs]
    print("two workers run a job each")
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    print("one worker is killed in the middle of its job")
    done = [await scheduler.wait(job.id, timeout=60) for job in jobs]
    for job in done:
        print(job.state, job.result, [attempt.outcome for attempt in job.attempts])
    print(f"recovered {time.monotonic() - killed:.1f} s after the kill", file=sys.stderr)
    for worker in workers:
        if worker.returncode is None and worker.pid != victim:
            worker.terminate()
        await worker.wait()
    await scheduler.stop()


async def start_worker() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, __file__, "worker")


async def holder_of(job_id: str) -> int:
    """The process that runs a job, once one does."""
    while True:
        job = await scheduler.get_job(job_id)
        if job.worker is not None:
            return int(job.worker.split(":")[1])  # host:process:random
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(scheduler.run() if sys.argv[1:] == ["worker"] else main())
