"""A scheduler whose one handler takes jobs of any name."""

from __future__ import annotations

from mainspring import JobContext, Scheduler


async def process(ctx: JobContext) -> str:
    return ctx.name


scheduler = Scheduler(handler=process)
