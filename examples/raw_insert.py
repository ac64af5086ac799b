"""A job from a program that knows nothing of Mainspring, in whatever language: it inserts a document.

    python examples/raw_insert.py

A `name` is all that is needed. `data`, `queue`, `priority`, `run_at`, `tags` and the others may be given; what is left
out has its default. A document that is no valid job is not lost: it becomes a failed job that says why.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import MongoClient

from mainspring import Scheduler

scheduler = Scheduler()


@scheduler.job("greet")
async def greet(who: str = "you") -> str:
    return f"hello {who}"


def insert_elsewhere(uri: str) -> list[str]:
    """The other program."""
    with MongoClient[dict[str, Any]](uri) as client:
        jobs = client.get_default_database("mainspring")["jobs"]
        soon = datetime.now(UTC) + timedelta(seconds=0.5)
        return [
            str(jobs.insert_one(document).inserted_id)
            for document in (
                {"name": "greet"},
                {"name": "greet", "data": {"who": "world"}, "priority": 1, "run_at": soon},
                {"name": "greet", "priority": "very high"},
            )
        ]


async def main() -> None:
    async with scheduler:
        for job_id in await asyncio.to_thread(insert_elsewhere, str(scheduler.uri)):
            done = await scheduler.wait(job_id, timeout=30)
            print(done.state, done.result or done.error)


if __name__ == "__main__":
    asyncio.run(main())
