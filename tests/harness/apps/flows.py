"""Handlers that carry out plans of `harness.flows.plans`: children that wait, fail, grow, and kill their worker."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.apps.recording import record, recorded, scheduler
from harness.flows.plans import MENDED, items_of
from harness.processes import HISTORY_VARIABLE
from mainspring import ChildrenFailed, Continue, Fail, JobContext, Suspension

__all__ = ["scheduler"]

FOLDER = Path(os.environ[HISTORY_VARIABLE]).parent


def die_once(job: str, point: str) -> None:
    """Kill this worker, the first time that the job gets to this point."""
    try:
        os.close(os.open(FOLDER / f"died-{job}-{point}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


async def run_leaf(ctx: JobContext, v: int, how: Mapping[str, Any]) -> dict[str, Any]:
    with recorded(ctx):
        if how.get("seconds"):
            await asyncio.sleep(how["seconds"])
        for number in range(how.get("grow", 0)):
            await ctx.grow("leaf", {"v": v, "how": {"grown": number}})
        record("effect", job=ctx.id, v=v)
        if how.get("die"):
            die_once(ctx.id, "effect")
        if how.get("fail") == "always" or (how.get("fail") == MENDED and not (FOLDER / MENDED).exists()):
            raise Fail("as planned")
        if how.get("fail") == "first" and ctx.attempt == 1:
            raise RuntimeError("as planned, at first")
    return {"v": v, "saw": (how.get("before") or {}).get("v")}


def register() -> None:
    """The handlers. They are no functions of the module: a job that ran when its worker was killed would be run in a
    new process else, which takes longer than all the rest."""

    @scheduler.job("leaf")
    async def leaf(ctx: JobContext, v: int, how: dict[str, Any]) -> dict[str, Any]:
        return await run_leaf(ctx, v, how)

    @scheduler.job("gated", concurrency=3)
    async def gated(ctx: JobContext, v: int, how: dict[str, Any]) -> dict[str, Any]:
        """Three at a time."""
        return await run_leaf(ctx, v, how)

    @scheduler.job("tree")
    async def tree(ctx: JobContext, v: int, how: dict[str, Any]) -> dict[str, Any]:
        return await run_tree(ctx, v, how)

    @scheduler.job("narrow", concurrency=1)
    async def narrow(ctx: JobContext, v: int, how: dict[str, Any]) -> dict[str, Any]:
        """One at a time, and it waits for its own kind: it never ends if it keeps its slot while it waits."""
        return await run_tree(ctx, v, how)


async def run_tree(ctx: JobContext, v: int, how: Mapping[str, Any]) -> dict[str, Any]:
    total = v
    with recorded(ctx):
        try:
            for operation in how["ops"]:
                total += await _carry_out(ctx, operation)
        except Suspension:
            if how.get("die"):
                die_once(ctx.id, "suspend")
            raise
        except ChildrenFailed as failed:
            raise Fail(str(failed)) from None
        done = how.get("done", 1)
        if done < how.get("rounds", 1):
            raise Continue(v=v, how={**how, "done": done + 1})
    return {"v": total}


async def _carry_out(ctx: JobContext, operation: Mapping[str, Any]) -> int:
    """What an operation adds to the result of its job."""
    try:
        if operation["op"] == "step":
            return int(await ctx.step(operation["name"], lambda: operation["v"]))
        if operation["op"] == "sleep":
            return await _sleep(ctx, operation["name"], operation["seconds"])
        if operation["op"] == "signal":
            return sum([_payload(await one) for one in _signals(ctx, operation)])
        if operation["op"] == "gather":
            parts = operation["parts"]
            results = await ctx.gather(*(_wait(ctx, part) for part in parts))
            return sum([await _sum(part, result) for part, result in zip(parts, results, strict=True)])
        return await _sum(operation, await _wait(ctx, operation))
    except ChildrenFailed as failed:
        if not operation.get("catch"):
            raise
        return 0 if operation.get("fail_fast") else sum([child.result["v"] async for child in failed.completed()])


async def _sleep(ctx: JobContext, name: str, seconds: float) -> int:
    began = await ctx.step(f"{name}-began", time.time)
    await ctx.sleep(name, seconds)
    if time.time() < began + seconds - 0.01:
        raise Fail("it was woken early")
    return 0


def _signals(ctx: JobContext, operation: Mapping[str, Any]) -> list[Any]:
    """One wait for each signal, all for the same name; or one for a signal that never comes, until its time is over."""
    name, signal = operation["name"], operation["signal"]
    places = range(len(operation["values"]))
    return [ctx.wait_for(signal, name=f"{name}.{place}") for place in places] or [ctx.wait_for(signal, 0.3, name=name)]


def _payload(payload: Any) -> int:
    return 0 if payload is None else int(payload)


def _wait(ctx: JobContext, operation: Mapping[str, Any]) -> Any:
    if operation["op"] == "signal":
        return _signals(ctx, operation)[0]
    if operation["op"] == "call":
        return ctx.call(operation["name"], operation["job"], operation["item"])
    return ctx.map(
        operation["name"],
        operation["job"],
        _items(ctx, operation),
        key="v" if operation.get("keyed") else None,
        tolerate=operation.get("tolerate", 0),
        fail_fast=operation.get("fail_fast", False),
    )


def _items(ctx: JobContext, operation: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for place, item in enumerate(items_of(operation)):
        if place == operation.get("die_at"):
            die_once(ctx.id, f"spawn-{operation['name']}")
        yield item


async def _sum(operation: Mapping[str, Any], result: Any) -> int:
    if operation["op"] == "signal":
        return _payload(result)
    if operation["op"] == "call":
        return int(result["v"])
    values = [child.result["v"] async for child in result if child.state == "completed"]
    return sum(values)


register()
