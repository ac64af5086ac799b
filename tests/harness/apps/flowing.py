"""Handlers of a flow that can be imported by other processes."""

from __future__ import annotations

from typing import Any

from mainspring import JobContext


async def first() -> dict[str, int]:
    return {"value": 7}


async def second(ctx: JobContext, value: int) -> list[Any]:
    return [value, ctx.before.result, ctx.before["first"].state]


async def waits(ctx: JobContext) -> list[int]:
    """Waits for children, and tries to go on after its Suspension."""
    try:
        results = await ctx.map("m", "leaf", [{"n": n} for n in (10, 11, 12)])
    except BaseException:
        await ctx.step("never", str, "this is not kept")
        raise
    return [child.data["n"] async for child in results]
