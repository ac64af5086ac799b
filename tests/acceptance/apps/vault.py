"""A scheduler whose handlers let their data slip wherever they can."""

from __future__ import annotations

import logging
import os
import signal

from mainspring import JobContext, Retry, Scheduler

scheduler = Scheduler(poll_interval=0.2, redact=["password"])
logger = logging.getLogger("vault")


@scheduler.job("pay", encrypt=["card"], retry=1)
async def pay(ctx: JobContext, card: str) -> str:
    ctx.log(f"card {card}")
    await ctx.progress(50, f"with {card}")
    raise ValueError(f"refused: {card}")


@scheduler.job("again", encrypt=True, retry=Retry(attempts=2, delay=0))
async def again(ctx: JobContext, card: str) -> None:
    if ctx.attempt == 1:
        raise KeyError(card)


@scheduler.job("crash", encrypt=True, isolation="process", retry=1)
def crash(card: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@scheduler.job("keep", encrypt=True)
async def keep(card: str) -> str:
    return card


@scheduler.job("login", retry=1)
async def login(ctx: JobContext, user: str, password: str) -> None:
    ctx.log(f"{user} with {password}")
    raise ValueError(f"no such password: {password}")


@scheduler.job("fetch", retry=1)
async def fetch(ctx: JobContext, name: str) -> int:
    return len(await scheduler.secrets.value(name))


@scheduler.job("shout")
async def shout(note: str) -> str:
    """What a search must find."""
    logger.error("note: %s", note)
    return note
