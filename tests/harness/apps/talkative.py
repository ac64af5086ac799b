"""A handler that logs more than is kept and ends in its own transaction; at the top of a module, for a process."""

from __future__ import annotations

from mainspring import JobContext


async def talk(ctx: JobContext, lines: int) -> None:
    for number in range(lines):
        ctx.log(f"line {number}")
    async with ctx.transaction() as tx:
        tx.result = "x" * 100_000
