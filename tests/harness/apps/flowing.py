"""Handlers of a flow that can be imported by other processes."""

from __future__ import annotations

from typing import Any

from mainspring import JobContext


async def first() -> dict[str, int]:
    return {"value": 7}


async def second(ctx: JobContext, value: int) -> list[Any]:
    return [value, ctx.before.result, ctx.before["first"].state]
