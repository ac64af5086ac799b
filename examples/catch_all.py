"""One handler for everything, which routes by the job's name itself.

    python examples/catch_all.py

Use it to move over an application that is written that way. Handlers of their own (`@scheduler.job`) come first, and
have their arguments checked; the catch-all takes what is left.
"""

import asyncio
from typing import Any

from mainspring import Fail, JobContext, Scheduler


async def handle(ctx: JobContext) -> Any:
    match ctx.name:
        case "send-email":
            return await send_email(ctx)
        case "generate-report":
            return await generate_report(ctx)
        case _:
            raise Fail(f"nobody knows what to do with {ctx.name!r}")


async def send_email(ctx: JobContext) -> str:
    return f"email to {ctx.data['to']}"


async def generate_report(ctx: JobContext) -> str:
    ctx.progress(50, "half way")
    return f"report on {ctx.data['kind']}"


scheduler = Scheduler(handler=handle)


async def main() -> None:
    async with scheduler:
        scheduler.on("job:fail", lambda job: print("job:fail", job.name))
        jobs = await scheduler.schedule_bulk(
            [
                {"name": "send-email", "data": {"to": "a@example.com"}, "priority": 1},
                {"name": "generate-report", "data": {"kind": "finance"}},
                {"name": "make-coffee"},
            ]
        )
        for job in jobs:
            done = await scheduler.wait(job.id, timeout=30)
            print(done.name, done.state, done.result or done.error)


if __name__ == "__main__":
    asyncio.run(main())
