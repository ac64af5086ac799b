"""Handlers for processes of their own: they must be importable, so they live here."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

from mainspring import Cancel, Fail, JobContext, RetryAfter, Snooze
from mainspring.sync import JobContext as BlockingJobContext


class Hopeless(Exception):
    """Not worth another try."""


class Unpicklable(Exception):
    """Cannot be sent to another process as it is."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


def add(a: int, b: int) -> int:
    return a + b


async def add_async(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


def where() -> int:
    return os.getpid()


def large(size: int) -> str:
    return "x" * size


def end_hard(ctx: BlockingJobContext, code: int) -> str:
    """Ends its process the first time."""
    if ctx.attempt == 1:
        os._exit(code)
    return f"attempt {ctx.attempt}"


def shoot_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang(pid_file: str) -> None:
    """Says where it runs, and ignores the rest of the world."""
    Path(pid_file).write_text(str(os.getpid()))
    time.sleep(600)


async def hang_async(pid_file: str) -> None:
    hang(pid_file)


def raise_error(kind: str) -> None:
    if kind == "unpicklable":
        raise Unpicklable("this", "that")
    raise {"hopeless": Hopeless, "value": ValueError, "system": SystemExit}[kind](f"it is {kind}")


def signal_end(ctx: BlockingJobContext, kind: str) -> str:
    """Raises a signal under its first claim, and returns under the next."""
    if ctx.token == 1:
        if kind in ("snooze", "retry"):
            raise {"snooze": Snooze, "retry": RetryAfter}[kind](0.01, f"to {kind}")
        raise {"cancel": Cancel, "fail": Fail}[kind](f"to {kind}")
    return f"attempt {ctx.attempt} of token {ctx.token}"


async def report_async(ctx: JobContext) -> dict[str, Any]:
    ctx.progress(40, "on its way")
    ctx.log("first")
    await ctx.log("second")
    child = await ctx.schedule("add", {"a": 1, "b": 1}, delay=3600, tags=["child"])
    return {"id": ctx.id, "child": child.id, "attempt": ctx.attempt, "token": ctx.token, "tags": list(ctx.tags)}


def report(ctx: BlockingJobContext) -> dict[str, Any]:
    ctx.progress(40, "on its way")
    ctx.log("first")
    ctx.log("second")
    child = ctx.schedule("add", {"a": 1, "b": 1}, delay=3600, tags=["child"])
    return {"id": ctx.id, "child": child.id, "attempt": ctx.attempt, "token": ctx.token, "tags": list(ctx.tags)}


async def schedule_nonsense(ctx: JobContext) -> None:
    await ctx.schedule("add", {"a": 1}, priority=99)


async def count_async(ctx: JobContext, key: str, fail: bool = False) -> None:
    """Adds one to a counter that others want too, in the job's own transaction."""
    ctx.log("counting")
    ctx.progress(30, "counting")
    async with ctx.transaction() as tx:
        await tx.db["counters"].update_one({"_id": key}, {"$inc": {"n": 1}}, upsert=True, session=tx.session)
        await asyncio.sleep(0.05)
        if fail:
            raise Hopeless("after all")
        tx.result = os.getpid()


def count(ctx: BlockingJobContext, key: str) -> None:
    with ctx.transaction() as tx:
        tx.db["counters"].update_one({"_id": key}, {"$inc": {"n": 1}}, upsert=True, session=tx.session)
        tx.result = os.getpid()
