"""Handlers for processes of their own: they must be importable, so they live here."""

from __future__ import annotations

import asyncio
import contextlib
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


def stop_iterating() -> None:
    next(iter(()))


def schedule_unpicklable(ctx: BlockingJobContext) -> None:
    ctx.schedule("add", {"error": Unpicklable("a", "b")})


def babble(ctx: BlockingJobContext) -> None:
    """Sends its worker what cannot be read there, and goes on."""
    ctx._agent.send("log", Unpicklable("a", "b"))  # type: ignore[attr-defined]
    time.sleep(600)


def begin_only() -> Any:
    return add_async(1, 2)


def add(a: int, b: int) -> int:
    return a + b


async def add_async(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


def where() -> int:
    return os.getpid()


def measure(text: str) -> int:
    return len(text)


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


def _note(file: str, number: int) -> tuple[int, int]:
    with Path(file).open("a") as ran:
        ran.write(f"{number}\n")
    return (1, number)


def step(ctx: BlockingJobContext, file: str) -> list[Any]:
    """Two steps, after which its process dies the first time."""
    found = [ctx.step("one", _note, file, 1), ctx.step("two", _note, file, number=2)]
    if ctx.attempt == 1:
        os._exit(3)
    return found


async def step_async(ctx: JobContext, file: str) -> list[Any]:
    """The same, both at once."""
    found = await asyncio.gather(ctx.step("one", _note, file, 1), ctx.step("two", _note, file, number=2))
    if ctx.attempt == 1:
        os._exit(3)
    return list(found)


async def step_and_count(ctx: JobContext, key: str, file: str) -> None:
    """A step, and a transaction that meets a conflict the first time."""
    number = (await ctx.step("number", _note, file, 5))[1]
    _note(file, 0)
    async with ctx.transaction() as tx:
        counters = tx.db["counters"]
        await counters.find_one({"_id": key}, session=tx.session)
        if Path(file).read_text().count("0") == 1:
            await counters.update_one({"_id": key}, {"$inc": {"n": 1}}, upsert=True)
        await counters.update_one({"_id": key}, {"$inc": {"n": number}}, upsert=True, session=tx.session)
        tx.result = number


async def step_badly(ctx: JobContext, how: str) -> Any:
    """A step that does not go well."""
    if how == "unstorable":
        return await ctx.step("bad", object)
    if how == "transaction":
        async with ctx.transaction():
            return await ctx.step("bad", int)
    for request in (ctx.step("bad", int), ctx.schedule("add", {"a": 1, "b": 1}, delay=3600)):
        task = asyncio.create_task(request)
        await asyncio.sleep(0.001)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return await ctx.step("good", lambda: "after")
