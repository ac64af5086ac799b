"""Work that computes, in processes of its own: the worker goes on, and a job that computes too long is killed.

    python examples/cpu_bound.py

A handler with `isolation="process"` is defined at the top level of a module, because its process imports that module.
Jobs that compute get a limit of one per core, across all workers of the machine's queue.
"""

import asyncio
import os

from mainspring import Scheduler

scheduler = Scheduler(concurrency=10)
CORES = os.cpu_count() or 1


@scheduler.job("count-primes", isolation="process", concurrency=CORES, timeout=60, retry=1)
def count_primes(below: int) -> tuple[int, int]:
    """The number of primes, and the process that has counted them."""
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(2, below)), os.getpid()


@scheduler.job("spin", isolation="process", timeout=1, retry=1)
def spin() -> None:
    """Compute without an end. No thread could be stopped here; the process is."""
    while True:
        pass


@scheduler.job("ping")
async def ping() -> str:
    """Something small that must not wait for the others."""
    return "pong"


async def main() -> None:
    async with scheduler:
        endless = await spin.schedule()
        count = await count_primes.schedule(below=20_000)
        print("ping while both compute:", (await (await ping.schedule()).wait(timeout=30)).result)
        primes, process = (await count.wait(timeout=60)).result
        print(primes, "primes, counted in", "this process" if process == os.getpid() else "a process of its own")
        done = await endless.wait(timeout=60)
        print(done.name, done.state, "-", done.error)


if __name__ == "__main__":
    asyncio.run(main())
