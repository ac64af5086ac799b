"""Handlers that write down when they start and how they end, and a scheduler that writes down what befalls it."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.history import Recorder
from harness.processes import HISTORY_VARIABLE, OPTIONS_VARIABLE, SKEW_VARIABLE
from mainspring import JobContext, Limit, Rate, Retry, Scheduler
from mainspring.clock import ServerClock
from mainspring.model.jobs.job import Job

record = Recorder(os.environ[HISTORY_VARIABLE])


def _clock() -> ServerClock:
    clock = ServerClock()
    # What the clock holds until the server is asked: the process's own wall clock, here a wrong one.
    clock.offset += float(os.environ.get(SKEW_VARIABLE, "0"))
    return clock


scheduler = Scheduler(
    os.environ["MAINSPRING_URI"],
    retry=Retry(attempts=20, delay=0.1),
    clock=_clock(),
    **json.loads(os.environ[OPTIONS_VARIABLE]),
)


@contextmanager
def recorded(ctx: Any) -> Iterator[None]:
    """Write down the start of a handler and how it ends."""
    facts = {"job": ctx.id, "token": ctx.token, "attempt": ctx.attempt}
    record("start", **facts)
    how = "returned"
    try:
        yield
    except BaseException as error:
        how = "cancelled" if isinstance(error, asyncio.CancelledError) else repr(error)
        raise
    finally:
        record("end", **facts, how=how)


@scheduler.job("work")
async def work(ctx: JobContext, seconds: float = 0.0) -> int:
    """Takes its time; returns the token it ran with."""
    with recorded(ctx):
        if seconds:
            await asyncio.sleep(seconds)
    return ctx.token


async def _limited(ctx: JobContext, seconds: float) -> None:
    with recorded(ctx):
        await asyncio.sleep(seconds)


@scheduler.job("one", concurrency=1)
async def one(ctx: JobContext, seconds: float = 0.0) -> None:
    """One at a time, in all processes together."""
    await _limited(ctx, seconds)


@scheduler.job("two", concurrency=2)
async def two(ctx: JobContext, seconds: float = 0.0) -> None:
    """Two at a time."""
    await _limited(ctx, seconds)


@scheduler.job("fifty", concurrency=50)
async def fifty(ctx: JobContext, seconds: float = 0.0) -> None:
    """Fifty at a time."""
    await _limited(ctx, seconds)


@scheduler.job("keyed", concurrency=Limit(2, key="key"))
async def keyed(ctx: JobContext, key: int, seconds: float = 0.0) -> None:
    """Two at a time of each key."""
    await _limited(ctx, seconds)


@scheduler.job("ordered", sequence="key")
async def ordered(ctx: JobContext, key: int, seconds: float = 0.0) -> None:
    """Those of one key in order, one at a time."""
    await _limited(ctx, seconds)


@scheduler.job("rated", rate=Rate("50/second", burst=10))
async def rated(ctx: JobContext) -> None:
    """Fifty starts a second, and ten that were saved."""
    await _limited(ctx, 0.0)


async def _talk(ctx: JobContext, over: Callable[[], bool]) -> int:
    with recorded(ctx):
        while not over():
            ctx.progress(min(99, ctx.token), f"token {ctx.token}")
            ctx.log(f"token {ctx.token}")
            await asyncio.sleep(0.05)
    return ctx.token


@scheduler.job("talk")
async def talk(ctx: JobContext, first: float, later: float) -> int:
    """Speaks of itself all the time; takes `first` seconds under its first claim and `later` under any other."""
    until = time.monotonic() + (first if ctx.token == 1 else later)
    return await _talk(ctx, lambda: time.monotonic() >= until)


@scheduler.job("talk_on")
async def talk_on(ctx: JobContext, folder: str) -> int:
    """Speaks of itself all the time, until there is a file in this folder that is named for its token."""
    return await _talk(ctx, Path(folder, str(ctx.token)).exists)


@scheduler.job("stepped")
async def stepped(ctx: JobContext, steps: int, seconds: float) -> list[str]:
    """Takes steps, each with an effect that is written down under a mark of its own; returns the marks."""

    async def effect(step: str) -> str:
        mark = secrets.token_hex(8)
        record("effect", job=ctx.id, step=step, mark=mark, token=ctx.token)
        await asyncio.sleep(seconds)
        return mark

    marks: list[str] = []
    with recorded(ctx):
        for step in (f"step-{number}" for number in range(steps)):
            marks.append(await ctx.step(step, effect, step))
            record("kept", job=ctx.id, step=step, mark=marks[-1])
    return marks


@scheduler.job("block")
async def block(ctx: JobContext, seconds: float) -> int:
    """Blocks the event loop."""
    with recorded(ctx):
        time.sleep(seconds)
    return ctx.token


@scheduler.job("die")
async def die(ctx: JobContext) -> None:
    """Kills the process that runs it."""
    with recorded(ctx):
        os.kill(os.getpid(), signal.SIGKILL)


@scheduler.on("worker:start")
def up(worker: str) -> None:
    record("up")


@scheduler.on("worker:stop")
def down(worker: str) -> None:
    record("down")


@scheduler.on("job:lost")
def lost(job: Job) -> None:
    record("lost", job=job.id)


@scheduler.on("job:rescue")
def rescued(job: Job) -> None:
    record("rescue", job=job.id)


@scheduler.on("scheduler:error")
def error(error: Exception) -> None:
    record("error", error=type(error).__name__, message=str(error)[:200])
